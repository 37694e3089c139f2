//! The volumes of the soak: features, logs, modes, inline content, how full they are.

use std::sync::OnceLock;

use nandkit_block::wrap::Survival;
use nandkit_f2fs::write::ActiveLogs;
use nandkit_f2fs::write::Making;
use nandkit_f2fs::write::PageLimits;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_testkit::record::MemoryDisk;
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, FileSystem, NewNode};

use crate::made::clock;
use crate::reusing::Mode;
use crate::writing::oracle::{BLOCK, FILLER, device_of, empty_image, name, page};
use crate::writing::unmount;

/// The kind of operations on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Files,
    Names,
}

/// A kind of volume, its mount options, and the cuts that apply: without flushing data before nodes
/// (`ordered_fsync`), an fsync only holds if writes reach the medium in order.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub work: Work,
    features: &'static str,
    pub options: WriteOptions,
    /// One file takes nearly all blocks and has gaps everywhere.
    full: bool,
    /// Instead, the file's blocks are short runs with larger gaps between.
    sparse: bool,
    /// Gaps are filled whatever is free.
    pub urgent: bool,
    /// Some writes go through drafts that are committed.
    pub drafts: bool,
    /// The most pages per write of the file that fills the volume.
    pub burst: u64,
    /// How segments are treated before their gaps are filled.
    pub mode: Option<Mode>,
    pub survivals: &'static [Survival],
}

const ANY: &[Survival] = &[Survival::Subset, Survival::Subset, Survival::Prefix, Survival::None, Survival::All];
const IN_ORDER: &[Survival] = &[Survival::Prefix, Survival::None, Survival::All];
const QUOTAS: &str = "extra_attr,inode_checksum,quota,project_quota";
const NEWER: &str = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr";

/// All shapes.
pub fn shapes() -> Vec<Shape> {
    let ordered = WriteOptions {
        ordered_fsync: true,
        pages: PageLimits { dirty: 60, ..PageLimits::default() },
        ..WriteOptions::default()
    };
    let outside = Making { inline_data: false, inline_entries: false, xattr_words: 0, ..Making::default() };
    let lfs = WriteOptions { lfs: true, ..ordered };
    let shape = |name, options| Shape {
        name,
        work: Work::Files,
        features: "",
        options,
        full: false,
        sparse: false,
        urgent: false,
        drafts: false,
        burst: 0,
        mode: None,
        survivals: ANY,
    };
    let logs = |logs| WriteOptions { logs, ..ordered };
    let names = |name, options| Shape { work: Work::Names, ..shape(name, options) };
    let full = |name, options| Shape { full: true, ..shape(name, options) };
    vec![
        shape("adaptive", ordered),
        full("adaptive, full", ordered),
        Shape { features: NEWER, ..shape("lfs, newer", lfs) },
        full("lfs, full", lfs),
        names("names", ordered),
        Shape { survivals: IN_ORDER, ..shape("as Linux orders", WriteOptions { ordered_fsync: false, ..ordered }) },
        full("four logs, full", logs(ActiveLogs::Four)),
        shape("two logs", logs(ActiveLogs::Two)),
        Shape { features: NEWER, ..shape("nothing inline", WriteOptions { making: outside, ..ordered }) },
        Shape { urgent: true, ..full("gaps first", WriteOptions { ipu_policy: Some(0), ..ordered }) },
        names("names, nothing inline", WriteOptions { making: outside, strict_fsync: true, ..lfs }),
        Shape { features: NEWER, ..full("four logs, lfs, full", WriteOptions { lfs: true, ..logs(ActiveLogs::Four) }) },
        Shape { features: NEWER, ..names("names, newer, two logs", logs(ActiveLogs::Two)) },
        full("two logs, full", logs(ActiveLogs::Two)),
        Shape { features: QUOTAS, ..names("names, quotas", ordered) },
        Shape { drafts: true, ..shape("drafts", ordered) },
        Shape { features: QUOTAS, drafts: true, ..full("drafts, quotas, full", ordered) },
        Shape { features: QUOTAS, drafts: true, ..shape("drafts, quotas, lfs", lfs) },
    ]
}

/// Blocks that a full volume has free at first.
const LEFT: u64 = 500;
/// Blocks of a run of a sparse volume's file, and of the gap behind it.
const SPARSE: (u64, u64) = (2, 6);
/// The file that takes the gaps of a sparse volume, until it is removed.
const SPACER: u64 = FILLER + 1;

impl Shape {
    /// The volume at the start of a run, made once, and the number of pages in its filler.
    pub fn base(&self) -> (MemoryDisk, u64) {
        static BASES: OnceLock<Vec<OnceLock<(MemoryDisk, u64)>>> = OnceLock::new();
        let count = shapes().len();
        let bases = BASES.get_or_init(|| (0..2 * count).map(|_| OnceLock::new()).collect());
        let number = shapes().iter().position(|shape| shape.name == self.name).unwrap();
        let made = Self { sparse: self.sparse, ..shapes()[number] };
        bases[number + if self.sparse { count } else { 0 }].get_or_init(|| made.make()).clone()
    }

    pub fn title(&self) -> String {
        let sparse = if self.sparse { ", sparse" } else { "" };
        self.name.to_owned() + sparse + &self.mode.map(|mode| format!(", {}", mode.name)).unwrap_or_default()
    }

    fn make(&self) -> (MemoryDisk, u64) {
        let empty = MemoryDisk::copy_of(&device_of(&empty_image(self.features))).unwrap();
        if !self.full {
            return (empty, 0);
        }
        let mut options = self.options;
        if self.sparse {
            // Each piece is written at once; else the pages of a file would go out together.
            options.pages.dirty = 1;
        }
        let mut volume = WritableVolume::mount(vec![empty], clock(), options).unwrap();
        let blocks = volume.segments().space.free_blocks().saturating_sub(LEFT) / 64 * 64;
        let pages = if self.sparse { fill_sparsely(&mut volume, blocks) } else { fill_whole(&mut volume, blocks) };
        (unmount(volume).settle(), pages)
    }
}

fn create(volume: &mut WritableVolume<MemoryDisk>, file: u64) -> NodeId {
    let root = volume.root();
    NodeId(volume.create(root, &name(file), &NewNode::FILE).unwrap().0 as u32)
}

fn write(volume: &mut WritableVolume<MemoryDisk>, (file, ino): (u64, NodeId), start: u64, count: u64) {
    let bytes: Vec<u8> = (start..start + count).flat_map(|number| page(file, number, 1)).collect();
    assert_eq!(volume.write(ino, start * BLOCK as u64, Payload::Bytes(&bytes)).unwrap(), bytes.len());
}

/// The filler takes `blocks` blocks, and rewriting some of its pages leaves gaps everywhere.
/// Returns the number of its pages.
fn fill_whole(volume: &mut WritableVolume<MemoryDisk>, blocks: u64) -> u64 {
    let filler = (FILLER, create(volume, FILLER));
    (0..blocks / 64).for_each(|piece| write(volume, filler, piece * 64, 64));
    volume.sync().unwrap();
    let mut random = Random::new(1, "gaps");
    for round in 0..2000 {
        write(volume, filler, random.below(blocks), 1);
        if round % 50 == 0 {
            volume.sync().unwrap();
        }
    }
    blocks
}

/// Pieces of the filler and of a second file take `blocks` blocks in turn, and the second file is
/// removed. Returns the number of the filler's pages.
fn fill_sparsely(volume: &mut WritableVolume<MemoryDisk>, blocks: u64) -> u64 {
    let (run, gap) = SPARSE;
    let files = [((FILLER, create(volume, FILLER)), run), ((SPACER, create(volume, SPACER)), gap)];
    let rounds = blocks / (run + gap);
    for round in 0..rounds {
        for (file, count) in files {
            write(volume, file, round * count, count);
        }
    }
    volume.sync().unwrap();
    volume.remove(volume.root(), &name(SPACER)).unwrap();
    rounds * run
}

/// A shape's number in turn.
pub fn shape_of(seed: u64) -> Shape {
    let shapes = shapes();
    shapes[(seed % shapes.len() as u64) as usize]
}

/// The shape for a seed. With modes, only shapes full of gaps that logs fill, each with each mode
/// in turn.
pub fn shape_in(seed: u64, modes: &[Mode]) -> Shape {
    if modes.is_empty() {
        return shape_of(seed);
    }
    let mut shapes = shapes();
    shapes.retain(|shape| shape.full && !shape.options.lfs);
    let (mode, turn) = (modes[(seed % modes.len() as u64) as usize], seed / modes.len() as u64);
    let shape = shapes[(turn % shapes.len() as u64) as usize];
    // Blocks are not overwritten in place, so that logs fill gaps.
    let options = mode.options(WriteOptions { ipu_policy: Some(0), ..shape.options });
    // A segment that was treated has room for hundreds of blocks before the next one is looked at;
    // and gaps are filled whatever is free.
    let burst = if mode.treats_without_time() { 96 } else { 0 };
    // Short runs between large gaps are worth moving; every third volume has the long runs of the
    // others.
    let sparse = mode.treats_without_time() && !turn.is_multiple_of(3);
    Shape { options, mode: Some(mode), burst, sparse, urgent: mode.fills(), ..shape }
}
