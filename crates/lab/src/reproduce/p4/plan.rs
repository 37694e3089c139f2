//! Which runs the claims of P4 need.

use nandkit_stack::format::fat::spec::{AlignmentName, FatSpec, FatTypeName, WriteBackName};
use nandkit_stack::{AlphaName, BlockMapSpec, DEFAULT_DEVICE, DeviceSpec, FastSpec, FtlSpec, PolicyName, StackSpec};
use nandkit_workload::WorkloadSpec;

use crate::{Experiment, LabError, SpecError};

/// The workloads of P4 in the paper's order.
pub const WORKLOADS: [&str; 5] = ["postmark-small", "postmark-large", "fax", "phone", "event-recorder"];

/// `postmark-large` with a file in 256 calls instead of 16: what a program with a small buffer
/// does.
pub const LARGE_IN_PIECES: &str = "postmark-large, 4 KiB a call";
/// Bytes of the calls of [`LARGE_IN_PIECES`].
pub const PIECE: u64 = 4096;

/// The limits that are swept for P4.1; `Np / 2` is 64.
pub const LIMITS: [u32; 8] = [8, 16, 32, 48, 64, 96, 128, 256];

/// The numbers of log blocks that are swept for P4.5.
pub const LOG_BLOCKS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];

/// The logical block that holds the boot sector, the FATs and the root directory's beginning.
pub const FAT_BLOCK: u32 = 0;

/// How the file system is set up, where the paper says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name in verdicts.
    pub name: &'static str,
    /// Blocks of the chip that are used.
    pub blocks: u32,
    /// The type of the FAT.
    pub fat_type: FatTypeName,
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Where the data area begins.
    pub alignment: AlignmentName,
    /// Whether the FAT's block is as a new format leaves it: the FATs and the root directory in its
    /// log block. Else it has been merged since.
    pub just_formatted: bool,
    /// Whether the chip was blank before it was formatted.
    pub is_blank: bool,
    /// Bytes of a sector: what FAT addresses, and the least that it writes.
    pub sector_size: u32,
    /// Sectors of the cache; with any, it writes back.
    pub cache_sectors: u32,
}

/// The settings that count: a claim holds where it holds in all of them.
///
/// The paper tells three things of its set-up. With 8 log blocks merges are hardly ever forced: so
/// FAT16 with clusters of 4 KiB, a volume of 108 MiB, the first two. Formatting leaves just under
/// `Np / 2 = 64` pages in the log block of the FAT (event recorder): so about 27,600 clusters (two
/// FATs of 27 pages, 8 pages of root directory, the boot sector: 63), whose data area begins in a
/// block of its own, and a format of a used chip that leaves the padding before the FATs alone. On
/// the small files p grows from a few pages on (the paper's figure 4): so the same volume whose
/// FAT's block has been merged since, which a format that writes everything in order leaves.
/// Clusters of 32 KiB use the chip as far as such a FAT reaches (864 MiB; the FATs take a page
/// more, 64, which are merged at the first recycling). The last one is what mkfs.vfat makes of the
/// whole chip.
pub const SETTINGS: [Setting; 4] = [
    SMALL,
    Setting { name: "108 MiB, just formatted", just_formatted: true, ..SMALL },
    Setting { name: "864 MiB, just formatted", just_formatted: true, ..WHOLE },
    Setting {
        name: "1 GiB, FAT32",
        blocks: 4096,
        fat_type: FatTypeName::Fat32,
        alignment: AlignmentName::Cluster,
        ..SMALL
    },
];

/// Settings that are run short, to show which way a verdict leans: a chip that was blank, so that
/// merges of the FAT's block have only 63 pages to copy; files in the FAT's block; a cache; larger
/// sectors.
pub const BESIDE: [Setting; 5] = [
    Setting { name: "108 MiB, just formatted, chip blank before", just_formatted: true, is_blank: true, ..SMALL },
    Setting { name: "108 MiB, files in the FAT's block too", alignment: AlignmentName::Cluster, ..SMALL },
    Setting { name: "864 MiB, 64 sectors cached", cache_sectors: 64, ..WHOLE },
    Setting { name: "864 MiB, sectors of 2 KiB", sector_size: 2048, ..WHOLE },
    Setting { name: "864 MiB, sectors of 2 KiB, 64 cached", sector_size: 2048, cache_sectors: 64, ..WHOLE },
];

/// All settings; those that count come first.
pub fn all_settings() -> impl Iterator<Item = &'static Setting> + Clone {
    SETTINGS.iter().chain(&BESIDE)
}

const SMALL: Setting = Setting {
    name: "108 MiB",
    blocks: 453,
    fat_type: FatTypeName::Fat16,
    cluster_size: 4 << 10,
    alignment: AlignmentName::EraseBlock,
    just_formatted: false,
    is_blank: false,
    sector_size: 512,
    cache_sectors: 0,
};

const WHOLE: Setting = Setting { name: "864 MiB", blocks: 3540, cluster_size: 32 << 10, ..SMALL };

/// The extent of the runs.
pub struct Scale {
    quick: bool,
}

/// How long a workload runs.
#[derive(Clone, Copy)]
enum Length {
    /// As long as P4.3 needs: thousands of recyclings.
    Long,
    /// For sweeps, which compare a policy with itself, and for settings that only lean.
    Short,
}

impl Scale {
    /// The whole extent, or a quick look: one seed, and short workloads throughout.
    pub const fn new(quick: bool) -> Self {
        Self { quick }
    }

    /// Transactions of `postmark-small` from which on its length is doubled until the gain has
    /// settled, and at the most.
    pub const fn settling(&self) -> (u64, u64) {
        if self.quick { (50, 100) } else { (1600, 12_800) }
    }

    /// Transactions of `postmark-small` where limits are swept, and where growth is traced.
    const fn sweep(&self) -> u64 {
        if self.quick { 100 } else { 1600 }
    }

    /// Seeds of the workloads in which more is drawn than the order of deletion.
    const fn seeds(&self) -> &'static [u64] {
        if self.quick { &[1] } else { &[1, 2] }
    }

    fn workload(&self, name: &str, length: Length) -> Result<WorkloadSpec, LabError> {
        let (kind, parameters) = match (name, length, self.quick) {
            ("postmark-small", _, false) => (name, "transactions=400"),
            ("postmark-small", ..) => (name, "transactions=50"),
            ("postmark-large", Length::Long, false) => (name, "transactions=1500,write=65536"),
            ("postmark-large", Length::Short, false) => (name, "transactions=150,write=65536"),
            ("postmark-large", ..) => (name, "transactions=20,write=65536"),
            (LARGE_IN_PIECES, Length::Long, false) => ("postmark-large", "transactions=300,write=4096"),
            (LARGE_IN_PIECES, Length::Short, false) => ("postmark-large", "transactions=50,write=4096"),
            (LARGE_IN_PIECES, ..) => ("postmark-large", "transactions=5,write=4096"),
            ("fax", Length::Long, false) => (name, "faxes=400"),
            ("fax", Length::Short, false) => (name, "faxes=100"),
            ("fax", ..) => (name, "faxes=10"),
            ("phone", Length::Long, false) => (name, "days=3650"),
            ("phone", Length::Short, false) => (name, "days=365"),
            ("phone", ..) => (name, "days=60"),
            (_, Length::Long, false) => (name, "events=100000"),
            (_, Length::Short, false) => (name, "events=20000"),
            _ => (name, "events=3000"),
        };
        parse(&format!("{kind}:{parameters}"))
    }
}

fn parse(text: &str) -> Result<WorkloadSpec, LabError> {
    text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
}

/// A stack of P4: its device, FAT in a setting, and a translation layer.
fn stack(setting: &Setting, mut ftl: FtlSpec) -> Result<StackSpec, LabError> {
    let mut device = DeviceSpec::preset(DEFAULT_DEVICE).map_err(|error| SpecError::new("stack.device", error))?;
    if let DeviceSpec::Chip { chip, .. } = &mut device {
        chip.geometry.blocks = setting.blocks;
    }
    match &mut ftl {
        FtlSpec::BlockMap(spec) => spec.sector_size = setting.sector_size,
        FtlSpec::Fast(spec) => spec.sector_size = setting.sector_size,
        FtlSpec::PageMap(_) | FtlSpec::None => {}
    }
    let fs = FatSpec {
        fat_type: setting.fat_type,
        cluster_size: setting.cluster_size,
        alignment: setting.alignment,
        write_padding: !setting.just_formatted,
        formatted_before: setting.just_formatted && !setting.is_blank,
        cache_sectors: setting.cache_sectors,
        write_back: if setting.cache_sectors > 0 { WriteBackName::Back } else { WriteBackName::Through },
        ..FatSpec::default()
    };
    Ok(StackSpec { device, ftl, fs: fs.into(), host: None })
}

fn block_map(policy: PolicyName) -> BlockMapSpec {
    BlockMapSpec { policy, ..BlockMapSpec::default() }
}

/// The paper's four policies.
fn four() -> Vec<FtlSpec> {
    PolicyName::ALL.into_iter().map(|policy| FtlSpec::BlockMap(block_map(policy))).collect()
}

/// Layers that are told beside the four policies: macroscopic with the other estimator, and FAST.
fn others() -> Vec<FtlSpec> {
    let regression = BlockMapSpec { alpha: AlphaName::Regression, ..block_map(PolicyName::Macroscopic) };
    vec![FtlSpec::BlockMap(regression), FtlSpec::Fast(FastSpec::default())]
}

fn stacks<'s>(settings: impl IntoIterator<Item = &'s Setting>, layers: &[FtlSpec]) -> Result<Vec<StackSpec>, LabError> {
    let mut stacks = Vec::new();
    for setting in settings {
        for ftl in layers {
            stacks.push(stack(setting, ftl.clone())?);
        }
    }
    Ok(stacks)
}

fn small_files(transactions: u64) -> Result<WorkloadSpec, LabError> {
    parse(&format!("postmark-small:transactions={transactions}"))
}

/// One step of the search for the length at which the gain on the small files has settled: merge
/// and merge+migration, which settles last, since its p has to climb to `Np / 2` first. One seed:
/// nothing but the order of deletion is drawn, and seeds differ by less than 0.01 points.
pub fn settling_step(setting: &Setting, transactions: u64) -> Result<Experiment, LabError> {
    let layers = [PolicyName::Merge, PolicyName::MergeMigration].map(|policy| FtlSpec::BlockMap(block_map(policy)));
    Ok(Experiment::product(&stacks([setting], &layers)?, &[small_files(transactions)?], &[1])?)
}

/// The other policies on the small files, with the same number of transactions; in the first
/// setting also the layers that are only told.
pub fn settled(setting: &Setting, transactions: u64) -> Result<Experiment, LabError> {
    let mut layers: Vec<FtlSpec> =
        [PolicyName::Limit, PolicyName::Macroscopic].map(|policy| FtlSpec::BlockMap(block_map(policy))).to_vec();
    if *setting == SETTINGS[0] {
        layers.extend(others());
    }
    Ok(Experiment::product(&stacks([setting], &layers)?, &[small_files(transactions)?], &[1])?)
}

/// P4.2 and P4.3: large files and the embedded workloads under every policy, in all settings that
/// count. Nothing is drawn in the large files.
pub fn policies(scale: &Scale) -> Result<Vec<Experiment>, LabError> {
    let large = ["postmark-large", LARGE_IN_PIECES];
    let workloads = |names: &[&str]| -> Result<Vec<WorkloadSpec>, LabError> {
        names.iter().map(|name| scale.workload(name, Length::Long)).collect()
    };
    let mut stacks_of_all = stacks(&SETTINGS, &four())?;
    stacks_of_all.extend(stacks(&SETTINGS[..1], &others())?);
    Ok(vec![
        Experiment::product(&stacks_of_all, &workloads(&large)?, &[1])?,
        Experiment::product(&stacks_of_all, &workloads(WORKLOADS.get(2..).unwrap_or_default())?, scale.seeds())?,
    ])
}

/// All workloads under every policy in the settings beside, short and with one seed.
pub fn beside(scale: &Scale) -> Result<Experiment, LabError> {
    let names = WORKLOADS.into_iter().chain([LARGE_IN_PIECES]);
    let workloads: Result<Vec<_>, LabError> = names.map(|name| scale.workload(name, Length::Short)).collect();
    Ok(Experiment::product(&stacks(&BESIDE, &four())?, &workloads?, &[1])?)
}

/// P4.1: the limit swept on the small files.
pub fn limits(scale: &Scale) -> Result<Experiment, LabError> {
    let layers = LIMITS.map(|limit| FtlSpec::BlockMap(BlockMapSpec { limit, ..block_map(PolicyName::Limit) }));
    Ok(Experiment::product(&stacks(&SETTINGS, &layers)?, &[small_files(scale.sweep())?], &[1])?)
}

/// P4.4: the pages that successive migrations of the block with the FAT and root directory copy,
/// under merge+migration as in the paper.
pub fn growth(scale: &Scale) -> Result<Experiment, LabError> {
    let ftl = BlockMapSpec { trace_block: Some(FAT_BLOCK), ..block_map(PolicyName::MergeMigration) };
    let stacks = stacks(all_settings(), &[FtlSpec::BlockMap(ftl)])?;
    Ok(Experiment::product(&stacks, &[small_files(scale.sweep())?], &[1])?)
}

/// P4.5: the number of log blocks swept on every workload, under macroscopic.
pub fn log_blocks(scale: &Scale) -> Result<Experiment, LabError> {
    let layer = |log_blocks| FtlSpec::BlockMap(BlockMapSpec { log_blocks, ..block_map(PolicyName::Macroscopic) });
    let workloads: Result<Vec<_>, LabError> =
        WORKLOADS.iter().map(|name| scale.workload(name, Length::Short)).collect();
    Ok(Experiment::product(&stacks(&SETTINGS, &LOG_BLOCKS.map(layer))?, &workloads?, &[1])?)
}
