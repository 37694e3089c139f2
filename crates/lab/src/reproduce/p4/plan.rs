//! Which runs the claims of P4 need.

use nandkit_stack::{
    AlphaName, BlockMapSpec, DEFAULT_DEVICE, DeviceSpec, FastSpec, FatSpec, FatTypeName, FsSpec, FtlSpec, PolicyName,
    StackSpec, WriteBackName,
};
use nandkit_workload::WorkloadSpec;

use crate::{Experiment, LabError, SpecError};

/// The workloads of P4 in the paper's order.
pub const WORKLOADS: [&str; 5] = ["postmark-small", "postmark-large", "fax", "phone", "event-recorder"];

/// The limits that are swept for P4.1; `Np / 2` is 64.
pub const LIMITS: [u32; 11] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 256];

/// The numbers of log blocks that are swept for P4.5.
pub const LOG_BLOCKS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];

/// The logical block that holds the boot sector, the FATs and the root directory's beginning.
pub const FAT_BLOCK: u32 = 0;

/// How a FAT file system is set up, where the paper says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What records of this setting are called in verdicts.
    pub name: &'static str,
    /// Bytes of a sector: what FAT addresses, and the least that it writes.
    pub sector_size: u32,
    /// Sectors of the cache.
    pub cache_sectors: u32,
    /// When it writes back.
    pub write_back: WriteBackName,
}

/// All settings that P4 is measured in. Verdicts are taken from the first: the paper speaks of an MS-DOS compatible FAT, whose sectors have 512 bytes, and
/// names no cache.
///
/// All are FAT16 with clusters of 32 KiB. The paper's remark on its event recorder asks for that: formatting leaves just under `Np / 2 = 64` pages in
/// the log block of the FAT, which on 1 GiB is two FATs of 16-bit entries for such clusters (2 x 31 pages); a FAT32 there has 4 MiB of FATs.
pub const SETTINGS: [Setting; 4] = [
    Setting {
        name: "512-byte sectors, no cache",
        sector_size: 512,
        cache_sectors: 0,
        write_back: WriteBackName::Through,
    },
    Setting {
        name: "512-byte sectors, 64 cached",
        sector_size: 512,
        cache_sectors: 64,
        write_back: WriteBackName::Back,
    },
    Setting {
        name: "2 KiB sectors, no cache",
        sector_size: 2048,
        cache_sectors: 0,
        write_back: WriteBackName::Through,
    },
    Setting { name: "2 KiB sectors, 64 cached", sector_size: 2048, cache_sectors: 64, write_back: WriteBackName::Back },
];

/// Bytes of a cluster in all settings.
const CLUSTER_SIZE: u32 = 32 << 10;

/// How much is run.
pub struct Scale {
    seeds: Vec<u64>,
    sweep_seeds: Vec<u64>,
    quick: bool,
}

impl Scale {
    /// All of it, or a quick look: fewer seeds, and workloads a fifth as long.
    pub fn new(quick: bool) -> Self {
        let (seeds, sweep_seeds) = if quick { (1..=2, 1..=1) } else { (1..=5, 1..=5) };
        Self { seeds: seeds.collect(), sweep_seeds: sweep_seeds.collect(), quick }
    }

    fn workload(&self, name: &str) -> Result<WorkloadSpec, LabError> {
        let length = match (name, self.quick) {
            ("postmark-small", false) => "transactions=400",
            ("postmark-small", true) => "transactions=80",
            ("postmark-large", false) => "transactions=300",
            ("postmark-large", true) => "transactions=60",
            ("fax", false) => "faxes=300",
            ("fax", true) => "faxes=60",
            ("phone", false) => "days=365",
            ("phone", true) => "days=73",
            (_, false) => "events=20000",
            (_, true) => "events=4000",
        };
        let text = format!("{name}:{length}");
        text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
    }
}

/// A stack of P4: its device, FAT in a setting, and a translation layer.
fn stack(setting: &Setting, mut ftl: FtlSpec) -> Result<StackSpec, LabError> {
    let device = DeviceSpec::preset(DEFAULT_DEVICE).map_err(|error| SpecError::new("stack.device", error))?;
    match &mut ftl {
        FtlSpec::BlockMap(spec) => spec.sector_size = setting.sector_size,
        FtlSpec::Fast(spec) => spec.sector_size = setting.sector_size,
        FtlSpec::None => {}
    }
    let fs = FsSpec::Fat(FatSpec {
        fat_type: FatTypeName::Fat16,
        cluster_size: CLUSTER_SIZE,
        cache_sectors: setting.cache_sectors,
        write_back: setting.write_back,
        ..FatSpec::default()
    });
    Ok(StackSpec { device, ftl, fs })
}

fn block_map(policy: PolicyName) -> BlockMapSpec {
    BlockMapSpec { policy, ..BlockMapSpec::default() }
}

/// The translation layers that are compared: the paper's four policies, macroscopic with the other estimator too, and FAST.
fn compared() -> Vec<FtlSpec> {
    let mut layers: Vec<FtlSpec> =
        PolicyName::ALL.into_iter().map(|policy| FtlSpec::BlockMap(block_map(policy))).collect();
    let other = BlockMapSpec { alpha: AlphaName::Regression, ..block_map(PolicyName::Macroscopic) };
    layers.push(FtlSpec::BlockMap(other));
    layers.push(FtlSpec::Fast(FastSpec::default()));
    layers
}

/// P4.1 to P4.3: every workload under every policy, in both settings.
pub fn policies(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for setting in &SETTINGS {
        for ftl in compared() {
            stacks.push(stack(setting, ftl)?);
        }
    }
    let workloads = WORKLOADS.iter().map(|name| scale.workload(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Experiment::product(&stacks, &workloads, &scale.seeds)?)
}

/// P4.1: the limit swept on the small files.
pub fn limits(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for limit in LIMITS {
        let ftl = BlockMapSpec { limit, ..block_map(PolicyName::Limit) };
        stacks.push(stack(&SETTINGS[0], FtlSpec::BlockMap(ftl))?);
    }
    Ok(Experiment::product(&stacks, &[scale.workload("postmark-small")?], &scale.sweep_seeds)?)
}

/// P4.4: the pages that successive migrations of the block with the FAT and root directory copy, under merge+migration as in the paper.
pub fn growth(scale: &Scale) -> Result<Experiment, LabError> {
    let ftl = BlockMapSpec { trace_block: Some(FAT_BLOCK), ..block_map(PolicyName::MergeMigration) };
    let stacks = [stack(&SETTINGS[0], FtlSpec::BlockMap(ftl))?];
    Ok(Experiment::product(&stacks, &[scale.workload("postmark-small")?], &scale.seeds)?)
}

/// P4.5: the number of log blocks swept on every workload, under macroscopic.
pub fn log_blocks(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for log_blocks in LOG_BLOCKS {
        let ftl = BlockMapSpec { log_blocks, ..block_map(PolicyName::Macroscopic) };
        stacks.push(stack(&SETTINGS[0], FtlSpec::BlockMap(ftl))?);
    }
    let workloads = WORKLOADS.iter().map(|name| scale.workload(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Experiment::product(&stacks, &workloads, &scale.sweep_seeds)?)
}
