//! Volumes of every configuration, for the conformance suite and for random operations against the
//! model file system. A remount unmounts, has the image checked, and mounts it again.

#![allow(dead_code, reason = "each user takes its part")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nandkit_block::FileDevice;
use nandkit_f2fs::layout::Features;
use nandkit_f2fs::layout::inode::flag;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::write::ActiveLogs;
use nandkit_f2fs::write::Making;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_testkit::fs_suite::{FsMaker, VolumeSize};
use nandkit_testkit::model_compare::{Disagreement, Plan, Summary, run};
use nandkit_units::{Clock, Payload};
use nandkit_vfs::model::ModelOptions;
use nandkit_vfs::{Changes, FileSystem, NewNode, OpenFiles};

use crate::made::new_image;
use crate::writing::{assert_sound, open_to_write, unmount};

/// 2001-09-09.
const EPOCH_UNIX_NS: u64 = 1_000_000_000_000_000_000;
/// Blocks available to users on a small volume: 3 MiB.
const SMALL_BLOCKS: u64 = 768;
/// Blocks that a full volume leaves for everything but its ballast, when it is made and at least at
/// each mount.
const LEFT: u64 = 110;
const LEFT_AT_A_MOUNT: u64 = 20;
const BALLAST: &[u8] = b"ballast";

/// The limits of the format.
const MODEL: ModelOptions = ModelOptions { xattr_value_max: 1000, ..ModelOptions::POSIX };

/// A configuration: of the volume, of its mounts, and of the operations.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    pub name: &'static str,
    features: &'static str,
    making: Making,
    logs: ActiveLogs,
    lfs: bool,
    /// Directories are casefolded.
    folded: bool,
    /// Nearly all blocks belong to a file without a name, which is rewritten at each mount.
    full: bool,
    /// The number of names in large directories.
    names: u64,
}

const PLAIN: Configuration = Configuration {
    name: "as mkfs makes it",
    features: "",
    making: Making { inline_data: true, inline_entries: true, xattr_words: 50, directory_level: 0 },
    logs: ActiveLogs::Six,
    lfs: false,
    folded: false,
    full: false,
    names: 0,
};
const OUTSIDE: Making = Making { inline_data: false, inline_entries: false, xattr_words: 0, directory_level: 0 };
const LEVELED: Making = Making { directory_level: 2, ..PLAIN.making };
const ALL_EXTRA: &str = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,compression";

/// All configurations. The first four also run the conformance suite.
pub const CONFIGURATIONS: [Configuration; 14] = [
    PLAIN,
    Configuration { name: "extra attributes", features: ALL_EXTRA, ..PLAIN },
    Configuration {
        name: "nothing inline, quotas",
        features: "extra_attr,inode_checksum,quota,project_quota",
        making: OUTSIDE,
        ..PLAIN
    },
    Configuration { name: "leveled directories", features: "extra_attr,inode_crtime", making: LEVELED, ..PLAIN },
    Configuration { name: "lfs", lfs: true, ..PLAIN },
    Configuration { name: "four logs", logs: ActiveLogs::Four, ..PLAIN },
    Configuration { name: "two logs, lfs", logs: ActiveLogs::Two, lfs: true, ..PLAIN },
    Configuration { name: "large directories", names: 4000, ..PLAIN },
    Configuration { name: "large directories, nothing inline", names: 4000, making: OUTSIDE, lfs: true, ..PLAIN },
    Configuration { name: "without case", features: "casefold", folded: true, ..PLAIN },
    Configuration { name: "without case, large directories", features: "casefold", folded: true, names: 4000, ..PLAIN },
    Configuration { name: "nearly full", full: true, ..PLAIN },
    Configuration { name: "nearly full, lfs, nothing inline", full: true, lfs: true, making: OUTSIDE, ..PLAIN },
    Configuration { name: "nearly full, two logs", full: true, logs: ActiveLogs::Two, features: ALL_EXTRA, ..PLAIN },
];

/// Makes volumes of a configuration in image files.
pub struct Maker {
    pub configuration: Configuration,
    folder: tempfile::TempDir,
    image: Mutex<(u32, PathBuf, Clock)>,
    small: Mutex<bool>,
    checked: AtomicU32,
    collected: AtomicU64,
    /// fsck.f2fs and our check look at every `look_every`th remount.
    look_every: u32,
    mounts: AtomicU32,
}

impl Maker {
    pub fn new(configuration: Configuration, look_every: u32) -> Self {
        Self {
            configuration,
            folder: tempfile::tempdir().unwrap(),
            image: Mutex::new((0, PathBuf::new(), Clock::default())),
            small: Mutex::new(false),
            checked: AtomicU32::new(0),
            collected: AtomicU64::new(0),
            look_every,
            mounts: AtomicU32::new(0),
        }
    }

    /// How many volumes the judges saw.
    pub fn checked(&self) -> u32 {
        self.checked.load(Ordering::Relaxed)
    }

    /// How many sections were collected.
    pub fn collected(&self) -> u64 {
        self.collected.load(Ordering::Relaxed)
    }

    fn mount(&self) -> WritableVolume<FileDevice> {
        let (_, path, clock) = self.image.lock().unwrap().clone();
        let Configuration { making, logs, lfs, .. } = self.configuration;
        let options = WriteOptions { making, logs, lfs, ..WriteOptions::default() };
        let mut volume = WritableVolume::mount(vec![open_to_write(&path)], clock, options).unwrap();
        if *self.small.lock().unwrap() {
            let space = &mut volume.segments_mut().space;
            // Counted from an empty volume, not from the current usage.
            space.reserved_blocks = space.user_blocks - SMALL_BLOCKS;
        }
        if self.configuration.full {
            fill(&mut volume);
        }
        volume
    }

    fn make_image(&self) -> (PathBuf, Clock) {
        let mut image = self.image.lock().unwrap();
        let _ = std::fs::remove_file(&image.1);
        image.0 += 1;
        image.1 = self.folder.path().join(format!("{}.img", image.0));
        image.2 = Clock::starting_at(EPOCH_UNIX_NS);
        let features = features_named(self.configuration.features).unwrap();
        let encoding = features.has(Features::CASEFOLD).then_some(false);
        let options = MkfsOptions { features, encoding, ..MkfsOptions::default() };
        let size = if self.configuration.full { 64 << 20 } else { 128 << 20 };
        let mut device = new_image(&image.1, size);
        Mkfs::new(&EmptyTree::new(&options), options).unwrap().write(&mut device, &image.2, &|_| {}).unwrap();
        (image.1.clone(), image.2.clone())
    }
}

/// Makes a file without a name that takes all free blocks except those left for the rest.
fn fill(volume: &mut WritableVolume<FileDevice>) {
    let root = volume.root();
    let space = volume.segments().space;
    let end = (LEFT + space.free_blocks()).saturating_sub(space.user_blocks).max(LEFT_AT_A_MOUNT);
    let ino = volume.create(root, BALLAST, &NewNode::FILE).unwrap();
    let piece = vec![0xBA; 64 * 4096];
    let mut offset = 0;
    loop {
        let free = volume.segments().space.free_blocks();
        // A piece may need up to three nodes.
        let blocks = free.saturating_sub(end + 3).min(64);
        if blocks == 0 {
            break;
        }
        let length = blocks as usize * 4096;
        volume.write(NodeId(ino.0 as u32), offset, Payload::Bytes(&piece[..length])).unwrap();
        offset += length as u64;
    }
    volume.sync().unwrap();
    volume.retain(ino).unwrap();
    volume.remove(root, BALLAST).unwrap();
}

impl FsMaker for Maker {
    type Fs = WritableVolume<FileDevice>;

    fn make(&self, size: VolumeSize) -> Self::Fs {
        *self.small.lock().unwrap() = size == VolumeSize::Small;
        let (path, clock) = self.make_image();
        if self.configuration.folded {
            let mut volume = WritableVolume::mount(vec![open_to_write(&path)], clock, WriteOptions::default()).unwrap();
            let fold = |head: &mut nandkit_f2fs::layout::InodeHead| {
                head.flags = (head.flags.get() | flag::CASEFOLD).into();
            };
            volume.with_inode(NodeId::ROOT, fold).unwrap();
            drop(unmount(volume));
        }
        self.mount()
    }

    fn remount(&self, fs: Self::Fs) -> Self::Fs {
        let counters = fs.counters();
        self.collected.fetch_add(counters.foreground.sections + counters.background.sections, Ordering::Relaxed);
        drop(unmount(fs));
        let path = self.image.lock().unwrap().1.clone();
        if self.mounts.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.look_every) {
            assert_sound(&path, self.configuration.name);
            self.checked.fetch_add(1, Ordering::Relaxed);
        }
        self.mount()
    }

    fn clock(&self, _fs: &Self::Fs) -> Clock {
        self.image.lock().unwrap().2.clone()
    }
}

/// Runs random operations on a volume of the maker's configuration and on the model.
pub fn agree(maker: &Maker, seed: u64, operations: u32) -> Result<Summary, Box<Disagreement>> {
    let Configuration { folded, full, names, .. } = maker.configuration;
    let mut options = MODEL;
    options.features.case_sensitive = !folded;
    options.respells = false;
    let mut plan = Plan::new(seed, operations, options);
    plan.compare_every *= (operations / 10_000).max(1);
    plan.many_names = names;
    plan.foldable_names = folded;
    if full {
        // The volume has no room for larger files.
        plan.file_bytes_max = 600_000;
        plan.space_slack = 128 << 10;
    }
    run(maker, &plan)
}
