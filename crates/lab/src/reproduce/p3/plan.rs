//! Which runs the claims of P3 need.

use nandkit_stack::format::f2fs::spec::{F2fsModeName, F2fsSpec, MoverName, RulesName};
use nandkit_stack::{DeviceSpec, FsSpec, FtlSpec, HostSpec, StackSpec};
use nandkit_workload::{Inputs, WorkloadSpec};

use super::super::check::Judged;
use super::archive::{Archive, REQUEST_NS};
use super::dies::Dies;
use super::files::{Files, LINUX};
use super::fragments::{Fragments, Shape};
use crate::{Experiment, LabError, SpecError};

/// The emulated SSD of the paper.
pub const DEVICE: &str = "p3-ssd";
/// The devices of the matrix.
pub const DEVICES: [&str; 5] = ["card-a", "card-b", "card-c", DEVICE, "nvme-tlc"];

/// The seed of the compared runs.
const SEED: u64 = 1;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What a claim is judged in: with what the host takes for each request, or the device alone; where
/// there is cleaning, whether logs fill gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name in verdicts.
    pub name: &'static str,
    /// Nanoseconds of the host for each request.
    pub request_ns: u64,
    /// Whether logs take empty segments alone (`mode=lfs`).
    pub lfs: bool,
    /// Remapped pages that the device's log has room for; 0: the layer's default, a page in 64.
    pub aliases: u32,
}

impl Judged for Setting {
    const KIND: &'static str = "setting";

    fn name(&self) -> String {
        self.name.into()
    }
}

const fn setting(name: &'static str, request_ns: u64, lfs: bool, aliases: u32) -> Setting {
    Setting { name, request_ns, lfs, aliases }
}

/// Room for more remapped pages than a workload makes: the paper tells of no bound.
const ALIASES: u32 = 200_000;

/// The settings of claims on reading. Verdicts are taken from the first: the paper's gain is the
/// host's.
pub const READING: [Setting; 2] =
    [setting("3,048 ns a request", REQUEST_NS, false, 0), setting("device alone", 0, false, 0)];

/// The settings of claims on cleaning. The paper measures writes while segments are collected, so
/// that in the first no gap is filled.
pub const CLEANING: [Setting; 4] = [
    setting("3,048 ns a request", REQUEST_NS, true, 0),
    setting("device alone", 0, true, 0),
    setting("gaps filled as well, 3,048 ns a request", REQUEST_NS, false, 0),
    setting("room for all remaps in the log, 3,048 ns a request", REQUEST_NS, true, ALIASES),
];

/// How blocks move: Linux, P3 without its order, P3.
pub const MOVERS: [(&str, MoverName); 3] =
    [("copy", MoverName::Copy), ("remap", MoverName::Remap), ("remap-sorted", MoverName::RemapSorted)];

/// A cleaner of the matrix: its name, `reuse` on a card and on a drive, `mover`.
pub struct Cleaner {
    /// Its name.
    pub name: &'static str,
    /// `reuse` where the card's times are known.
    pub on_card: &'static str,
    /// `reuse` on drives.
    pub on_drive: &'static str,
    /// How blocks move.
    pub mover: MoverName,
}

const fn cleaner(name: &'static str, on_card: &'static str, on_drive: &'static str, mover: MoverName) -> Cleaner {
    Cleaner { name, on_card, on_drive, mover }
}

/// The cleaners of the matrix. Drives have no table of times: there P1's rules learn them.
pub const CLEANERS: [Cleaner; 8] = [
    cleaner("ssr", "ssr", "ssr", MoverName::Copy),
    cleaner("gc", "gc", "gc:curve=learned", MoverName::Copy),
    cleaner("pgc", "pgc", "pgc:curve=learned", MoverName::Copy),
    cleaner("pgc-optimal", "pgc-optimal", "pgc-optimal:curve=learned", MoverName::Copy),
    cleaner("atgc", "atgc", "atgc", MoverName::Copy),
    cleaner("remap", "ssr", "ssr", MoverName::Remap),
    cleaner("remap-sorted", "ssr", "ssr", MoverName::RemapSorted),
    cleaner(UNIFIED, "unified", "unified", MoverName::Copy),
];

/// The name of the cleaner that weighs all ways.
pub const UNIFIED: &str = "unified";

impl Cleaner {
    /// `reuse` on this device.
    pub fn reuse(&self, device: &str) -> &'static str {
        if is_card(device) { self.on_card } else { self.on_drive }
    }

    /// Whether the device can run this cleaner.
    pub fn is_possible(&self, device: &str) -> bool {
        self.mover == MoverName::Copy || !is_card(device)
    }
}

/// Whether the device is a memory card, which cannot remap.
pub fn is_card(device: &str) -> bool {
    device.starts_with("card-")
}

/// The extent of the runs.
#[derive(Clone, Copy)]
pub struct Scale {
    quick: bool,
}

/// Sizes of files that are packed.
const SIZES: [u64; 7] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB];
/// Bytes of all files of a size, as in the paper.
const PACKED: u64 = 1024 * MIB;
/// Sizes of pieces that are written in turns.
const PIECES: [u64; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB];

/// Writers in turns of P3.5.
pub const IN_TURNS: u64 = 63;
/// Numbers of writers in turns: with 64 the pages of a writer fall on few of the 64 dies, with 63
/// on all.
pub const WRITERS: [u64; 2] = [64, 63];
/// Pages of the pieces of a read-ahead.
pub const DIE_PAGES: [u64; 4] = [1, 4, 16, 32];

impl Scale {
    /// All of it, or a quick look.
    pub const fn new(quick: bool) -> Self {
        Self { quick }
    }

    const fn of<T: Copy>(self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// Sizes of the files of P3.1.
    pub fn sizes(self) -> &'static [u64] {
        self.of(&SIZES, &[4 * KIB, MIB, 16 * MIB])
    }

    /// Sizes of the pieces of P3.5.
    pub fn pieces(self) -> &'static [u64] {
        self.of(&PIECES, &[4 * KIB, 256 * KIB])
    }

    /// The workloads of P3.3, in the paper's order.
    pub const fn workloads(self) -> [&'static str; 4] {
        self.of(
            [
                "copyfiles:bytes=224M,count=16",
                "tiobench:file_size=48M,operations=32000",
                "varmail:loops=800",
                "dbench:clients=8,data=8M,operations=20000",
            ],
            [
                "copyfiles:bytes=40M,count=4",
                "tiobench:file_size=8M,operations=3000",
                "varmail:loops=50",
                "dbench:clients=2,data=2M,operations=4000",
            ],
        )
    }
}

/// Drives of about a gigabyte: name, number of blocks, pages of a block. The layer keeps six
/// superblocks open or free, so these drives have shorter blocks, and more of them; erases are
/// shorter in the same ratio.
const SMALL: [(&str, u32, u32); 2] = [(DEVICE, 8448, 32), ("nvme-tlc", 8192, 8)];
/// Bytes of a card that are used.
const CARD_CAPACITY: u64 = 512 * MIB;
/// How much of a device is used.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// The whole device.
    Whole,
    /// A gigabyte of a drive, or half a gigabyte of a card.
    Small,
    /// A quarter of [`Self::Small`].
    Least,
}

fn stack(name: &str, size: Size, fs: impl Into<FsSpec>, host: Option<HostSpec>) -> Result<StackSpec, LabError> {
    let mut device = DeviceSpec::preset(name).map_err(|error| SpecError::new("stack.device", error))?;
    let ftl = device.default_layer();
    let parts = if size == Size::Least { 4 } else { 1 };
    match &mut device {
        DeviceSpec::Card { card, .. } => card.geometry.capacity = CARD_CAPACITY / u64::from(parts),
        DeviceSpec::Chip { chip, .. } if size != Size::Whole => {
            if let Some((_, blocks, pages)) = SMALL.iter().find(|(of, ..)| *of == name) {
                let (before, pages) = (chip.geometry.pages_per_block.max(1), pages / parts);
                chip.timing.erase_ns = chip.timing.erase_ns * u64::from(pages) / u64::from(before);
                (chip.geometry.blocks, chip.geometry.pages_per_block) = (*blocks, pages);
            }
        }
        _ => {}
    }
    Ok(StackSpec { ftl, device, fs: fs.into(), host })
}

/// A host with so little memory that what was written long ago is read from the device.
fn host(request_ns: u64, memory: u64) -> Option<HostSpec> {
    Some(HostSpec { cache: memory, dirty: memory, sync_ms: 0, request_ns })
}

/// Least memory of a host.
const LEAST: u64 = 256 * KIB;

/// P3.1 and P3.2. Errors: a directory that cannot be read.
pub fn archives(scale: Scale, directories: &[String], inputs: &dyn Inputs) -> Result<Vec<Archive>, LabError> {
    let total = scale.of(PACKED, 16 * MIB);
    let even = scale.sizes().iter().map(|size| Files::Even { size: *size, total: total.max(*size) });
    let linux = Files::Linux { count: scale.of(LINUX.0, 1000) };
    let size = scale.of(Size::Whole, Size::Least);
    let mut stack = stack(DEVICE, size, F2fsSpec::default(), host(0, 4 * MIB))?;
    if let FtlSpec::PageMap(layer) = &mut stack.ftl {
        // As many as the whole drive has by default.
        layer.aliases = 32_768;
    }
    let given = directories.iter().map(|path| Files::of_directory(path, inputs)).collect::<Result<Vec<_>, _>>()?;
    let all = even.chain([linux]).chain(given);
    Ok(all.map(|files| Archive { stack: stack.clone(), files, seed: SEED }).collect())
}

/// A volume whose files were written in turns.
///
/// Sections are collected by their valid blocks: files that were written within a second have no
/// ages by which Linux would choose in idle times.
fn fragments(shape: Shape, mover: MoverName, gather: u32, request_ns: u64) -> Result<Fragments, LabError> {
    let victim = "greedy".to_string();
    let fs = F2fsSpec { mover, gather, victim, ipu_policy: 0, ..F2fsSpec::default() };
    Ok(Fragments { stack: stack(DEVICE, Size::Small, fs, host(request_ns, LEAST))?, shape, seed: SEED })
}

/// P3.4: eight files written in turns of a page and a ninth that goes, under each mover; and files
/// that were never fragmented (one writer).
pub fn defragmentation(scale: Scale) -> Result<Vec<Fragments>, LabError> {
    let shape = Shape { writers: 9, piece: 4 * KIB, size: scale.of(25 * MIB, MIB), removed: 1, read: 8, rounds: 24 };
    let whole = Shape { writers: 1, size: 8 * shape.size, removed: 0, read: 1, rounds: 0, ..shape };
    let mut all = Vec::new();
    for setting in READING {
        for (_, mover) in MOVERS {
            all.push(fragments(shape, mover, 0, setting.request_ns)?);
        }
        all.push(fragments(whole, MoverName::Copy, 0, setting.request_ns)?);
    }
    Ok(all)
}

/// P3.5: pieces of each size; of those that files of a quarter have several of, also such files.
pub fn pieces(scale: Scale) -> Result<Vec<Fragments>, LabError> {
    let size = scale.of(8 * MIB, MIB);
    let mut all = Vec::new();
    for setting in READING {
        let writers = IN_TURNS;
        let shape = |piece, size| Shape { writers, piece, size, removed: 0, read: writers, rounds: 0 };
        let each = scale.pieces().iter().map(|piece| shape(*piece, size));
        let fewer = scale.pieces().iter().filter(|piece| **piece <= size / 8).map(|piece| shape(*piece, size / 4));
        for shape in each.chain(fewer) {
            all.push(fragments(shape, MoverName::Copy, 0, setting.request_ns)?);
        }
    }
    Ok(all)
}

/// P3.5 on the bare device: what of a read-ahead in pieces is the dies'.
pub fn dies() -> Result<Vec<Dies>, LabError> {
    let mut all = Vec::new();
    for setting in READING {
        let stack = stack(DEVICE, Size::Small, FsSpec::None, host(setting.request_ns, LEAST))?;
        for writers in WRITERS {
            let each = DIE_PAGES.into_iter().map(|pages| Dies { stack: stack.clone(), writers, pages, seed: SEED });
            all.extend(each);
        }
    }
    Ok(all)
}

/// Pages that are gathered for a checkpoint in P3.F.
pub const GATHER: u32 = 4096;

/// P3.F: files with one page in each of many segments; some are read, and gathered or sorted.
pub fn gathering(scale: Scale) -> Result<Vec<Fragments>, LabError> {
    let mut all = Vec::new();
    for setting in READING {
        for writers in [512, 513] {
            let size = scale.of(512 * KIB, 128 * KIB);
            let shape = Shape { writers, piece: 4 * KIB, size, removed: 57, read: 32, rounds: 24 };
            for (mover, gather) in [(MoverName::Copy, 0), (MoverName::RemapSorted, 0), (MoverName::Copy, GATHER)] {
                all.push(fragments(shape, mover, gather, setting.request_ns)?);
            }
        }
    }
    Ok(all)
}

fn workload(text: &str) -> Result<WorkloadSpec, LabError> {
    text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
}

/// A workload on a volume full of holes.
fn behind_holes(holes: &str, then: &str) -> String {
    format!("holes:{holes},then={}", then.replace(',', ";"))
}

/// The aged volume of P3.3: segments half valid, hardly any free.
const AGED: &str = "written=0.95,warm_valid=50%";

/// P3.3 and P3.6: the paper's workloads on an aged volume, by each way to move blocks.
pub fn cleaning(scale: Scale) -> Result<Vec<Experiment>, LabError> {
    let mut all = Vec::new();
    for setting in CLEANING {
        let mut stacks = Vec::new();
        for (_, mover) in MOVERS {
            let mode = if setting.lfs { F2fsModeName::Lfs } else { F2fsModeName::Adaptive };
            let fs = F2fsSpec { mover, mode, ipu_policy: 0, ..F2fsSpec::default() };
            let mut stack = stack(DEVICE, scale.of(Size::Small, Size::Least), fs, host(setting.request_ns, 4 * MIB))?;
            if let FtlSpec::PageMap(layer) = &mut stack.ftl {
                // A quarter of the device has room for a quarter of the log.
                layer.aliases = setting.aliases / scale.of(1, 4);
            }
            stacks.push(stack);
        }
        let workloads = scale.workloads().map(|then| workload(&behind_holes(AGED, then)));
        all.push(Experiment::product(&stacks, &workloads.into_iter().collect::<Result<Vec<_>, _>>()?, &[SEED])?);
    }
    Ok(all)
}

/// What stands before the other workloads of the matrix.
const MIXED: &str = "written=1.02,cold_share=0.2";

/// The workloads of the matrix by their names: P1's mixes, and what users do on half valid volumes.
pub fn mixes(scale: Scale) -> Vec<(String, String)> {
    let bytes = scale.of("64M", "2M");
    let mix = |cold: u8, warm: u8| {
        let share = if cold == 0 { "cold_share=0".to_string() } else { format!("cold_share=0.4,cold_valid={cold}%") };
        (format!("cold {cold} warm {warm}"), format!("holes:written=1.02,warm_valid={warm}%,{share},bytes={bytes}"))
    };
    let warm = scale.of(&[30, 50, 70][..], &[50]);
    let mixes = [0, 70].into_iter().flat_map(|cold| warm.iter().map(move |warm| mix(cold, *warm)));
    let users = scale.of(
        [
            "copyfiles:bytes=64M,keep=16,count=16",
            "tiobench:file_size=8M,operations=8000",
            "varmail:loops=120",
            "dbench:clients=4,data=4M,operations=6000",
            "postmark:number=500,transactions=3000,size_high=64K",
        ],
        [
            "copyfiles:bytes=2M,keep=2,count=2",
            "tiobench:file_size=1M,operations=200",
            "varmail:files=200,threads=4,loops=16",
            "dbench:clients=2,data=1M,operations=300",
            "postmark:number=50,transactions=100,size_high=64K",
        ],
    );
    let named = users.map(|user| (user.split(':').next().unwrap_or(user).to_string(), behind_holes(MIXED, user)));
    mixes.chain(named).collect()
}

/// The matrix: each cleaner on each device that can, under each mix.
pub fn matrix(scale: Scale) -> Result<Vec<Experiment>, LabError> {
    let workloads: Vec<WorkloadSpec> =
        mixes(scale).iter().map(|(_, text)| workload(text)).collect::<Result<_, LabError>>()?;
    let devices = DEVICES.iter().skip(scale.of(0, 2)).take(scale.of(DEVICES.len(), 2));
    let mut all = Vec::new();
    for name in devices {
        let mut stacks = Vec::new();
        for cleaner in CLEANERS.iter().filter(|cleaner| cleaner.is_possible(name)) {
            let (reuse, mover) = (cleaner.reuse(name).to_string(), cleaner.mover);
            let fs = F2fsSpec { reuse, mover, ipu_policy: 0, rules: RulesName::Linux38, ..F2fsSpec::default() };
            stacks.push(stack(name, scale.of(Size::Small, Size::Least), fs, host(0, 4 * MIB))?);
        }
        all.push(Experiment::product(&stacks, &workloads, &[SEED])?);
    }
    Ok(all)
}
