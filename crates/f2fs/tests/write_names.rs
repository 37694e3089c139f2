//! Names of a volume that is written: the conformance suite of file systems, and random operations against the model, with fsck.f2fs and our own check after each remount.

mod made;
mod writing;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use made::{alone, new_image};
use nandkit_block::FileDevice;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::names::new_inode::Making;
use nandkit_f2fs::{Volume, WriteOptions};
use nandkit_testkit::fs_suite::{self, FsMaker, Volume as Size};
use nandkit_testkit::model_compare::{self, Plan};
use nandkit_units::Clock;
use nandkit_vfs::model::ModelOptions;
use writing::{must_be_sound, open_to_write};

/// 2001-09-09.
const EPOCH_UNIX_NS: u64 = 1_000_000_000_000_000_000;
/// Blocks of a small volume that users can have: 3 MiB.
const SMALL_BLOCKS: u64 = 768;

/// Makes volumes in image files. A remount unmounts, has the image checked, and mounts it again.
struct Maker {
    features: &'static str,
    making: Making,
    folder: tempfile::TempDir,
    image: Mutex<(u32, PathBuf, Clock)>,
    small: Mutex<bool>,
    checked: AtomicU32,
}

impl Maker {
    fn new(features: &'static str, making: Making) -> Self {
        Self {
            features,
            making,
            folder: tempfile::tempdir().unwrap(),
            image: Mutex::new((0, PathBuf::new(), Clock::default())),
            small: Mutex::new(false),
            checked: AtomicU32::new(0),
        }
    }

    fn mount(&self) -> Volume<FileDevice> {
        let (_, path, clock) = self.image.lock().unwrap().clone();
        let options = WriteOptions { making: self.making, ..WriteOptions::default() };
        let mut volume = Volume::mount(vec![open_to_write(&path)], clock, options).unwrap();
        if *self.small.lock().unwrap() {
            let space = &mut volume.segments_mut().space;
            // Counted from an empty volume, not from what is in use now.
            space.reserved_blocks = space.user_blocks - SMALL_BLOCKS;
        }
        volume
    }
}

impl FsMaker for Maker {
    type Fs = Volume<FileDevice>;

    fn make(&self, size: Size) -> Self::Fs {
        {
            let mut image = self.image.lock().unwrap();
            let _ = std::fs::remove_file(&image.1);
            image.0 += 1;
            image.1 = self.folder.path().join(format!("{}.img", image.0));
            image.2 = Clock::starting_at(EPOCH_UNIX_NS);
            *self.small.lock().unwrap() = size == Size::Small;
            let options = MkfsOptions { features: features_named(self.features).unwrap(), ..MkfsOptions::default() };
            let mut device = new_image(&image.1, 128 << 20);
            Mkfs::new(&EmptyTree::new(&options), options).unwrap().write(&mut device, &image.2, &|_| {}).unwrap();
        }
        self.mount()
    }

    fn remount(&self, fs: Self::Fs) -> Self::Fs {
        drop(writing::unmount(fs));
        let path = self.image.lock().unwrap().1.clone();
        must_be_sound(&path, self.features);
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.mount()
    }

    fn clock(&self, _fs: &Self::Fs) -> Clock {
        self.image.lock().unwrap().2.clone()
    }
}

/// What the format holds.
const MODEL: ModelOptions = ModelOptions { xattr_value_max: 1000, ..ModelOptions::POSIX };

/// Features, and how inodes are made.
fn makers() -> Vec<Maker> {
    let all_extra = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,compression";
    let plain = Making { inline_data: false, inline_entries: false, xattr_words: 0, ..Making::default() };
    let leveled = Making { directory_level: 2, ..Making::default() };
    vec![
        Maker::new("", Making::default()),
        Maker::new(all_extra, Making::default()),
        Maker::new("extra_attr,inode_checksum,quota,project_quota", plain),
        Maker::new("extra_attr,inode_crtime", leveled),
    ]
}

fn conforms(number: usize) {
    let _alone = alone();
    let maker = makers().swap_remove(number);
    if let Err(violations) = fs_suite::run(&maker) {
        panic!("{} {:?}:\n{violations}", maker.features, maker.making);
    }
    assert!(maker.checked.into_inner() > 10);
}

#[test]
fn conforms_as_mkfs_makes_it() {
    conforms(0);
}

#[test]
fn conforms_with_extra_attributes() {
    conforms(1);
}

#[test]
fn conforms_without_anything_in_inodes() {
    conforms(2);
}

#[test]
fn conforms_with_several_buckets_at_first() {
    conforms(3);
}

/// Operations for each kind; more by `NANDKIT_OPERATIONS`.
#[test]
fn agrees_with_the_model() {
    let _alone = alone();
    let operations = std::env::var("NANDKIT_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    for (seed, maker) in makers().iter().enumerate() {
        let mut plan = Plan::new(seed as u64 + 1, operations, MODEL);
        plan.compare_every *= (operations / 10_000).max(1);
        match model_compare::run(maker, &plan) {
            Ok(summary) => {
                let checked = maker.checked.load(Ordering::Relaxed);
                assert!(summary.operations == operations && checked > 5, "{summary:?}, {checked} checked");
            }
            Err(disagreement) => panic!("{} {:?}:\n{disagreement}", maker.features, maker.making),
        }
    }
}
