//! Which runs the claims of P4 need.

use nandkit_stack::format::fat::spec::{AlignmentName, FatSpec, FatTypeName, WriteBackName};
use nandkit_stack::{AlphaName, BlockMapSpec, DEFAULT_DEVICE, DeviceSpec, FastSpec, FtlSpec, PolicyName, StackSpec};
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

/// How the file system is set up, where the paper says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What verdicts call it.
    pub name: &'static str,
    /// Blocks of the chip that are used.
    pub blocks: u32,
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Where the data area begins.
    pub alignment: AlignmentName,
    /// Bytes of a sector: what FAT addresses, and the least that it writes.
    pub sector_size: u32,
    /// Sectors of the cache; with any, it writes back.
    pub cache_sectors: u32,
}

/// All settings that P4 is measured in. Verdicts are taken from the first.
///
/// The paper tells two things of its set-up. Formatting leaves just under `Np / 2 = 64` pages in
/// the log block of the FAT, and few of them are written again: so a FAT16 of about 27,600 clusters
/// (two FATs of 27 pages, 8 pages of root directory, the boot sector), whose data area begins in a
/// block of its own. With 8 log blocks merges are hardly ever forced. It names no cache, and an
/// MS-DOS compatible FAT has sectors of 512 bytes. Clusters of 32 KiB use the chip as far as such a
/// FAT reaches (864 MiB); clusters of 4 KiB make a volume of 108 MiB, on which fewer merges are
/// forced.
pub const SETTINGS: [Setting; 6] = [
    WHOLE,
    Setting { name: "864 MiB, 64 sectors cached", cache_sectors: 64, ..WHOLE },
    Setting { name: "864 MiB, sectors of 2 KiB", sector_size: 2048, ..WHOLE },
    Setting { name: "864 MiB, sectors of 2 KiB, 64 cached", sector_size: 2048, cache_sectors: 64, ..WHOLE },
    SMALL,
    Setting { name: "108 MiB, files in the FAT's block too", alignment: AlignmentName::Cluster, ..SMALL },
];

const WHOLE: Setting = Setting {
    name: "864 MiB",
    blocks: 3540,
    cluster_size: 32 << 10,
    alignment: AlignmentName::EraseBlock,
    sector_size: 512,
    cache_sectors: 0,
};

const SMALL: Setting = Setting { name: "108 MiB", blocks: 453, cluster_size: 4 << 10, ..WHOLE };

/// How much is run.
pub struct Scale {
    seeds: Vec<u64>,
    quick: bool,
}

/// How long a workload runs.
#[derive(Clone, Copy)]
enum Length {
    /// Long enough that a longer run changes the gains by less than two percentage points:
    /// merge+migration settles only after thousands of recyclings.
    Settled,
    /// For sweeps, which compare a policy with itself.
    Short,
}

impl Scale {
    /// All of it, or a quick look: two seeds instead of five, and short workloads throughout.
    pub fn new(quick: bool) -> Self {
        Self { seeds: (1..=if quick { 2 } else { 5 }).collect(), quick }
    }

    fn workload(&self, name: &str, length: Length) -> Result<WorkloadSpec, LabError> {
        let parameters = match (name, length, self.quick) {
            ("postmark-small", Length::Settled, false) => "transactions=6400",
            ("postmark-small", Length::Short, false) => "transactions=1600",
            ("postmark-small", ..) => "transactions=400",
            ("postmark-large", Length::Settled, false) => "transactions=1500",
            ("postmark-large", ..) => "transactions=150",
            ("fax", Length::Settled, false) => "faxes=1000",
            ("fax", ..) => "faxes=200",
            ("phone", Length::Settled, false) => "days=3650",
            ("phone", ..) => "days=365",
            (_, Length::Settled, false) => "events=200000",
            _ => "events=20000",
        };
        let text = format!("{name}:{parameters}");
        text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
    }

    fn workloads(&self, length: Length) -> Result<Vec<WorkloadSpec>, LabError> {
        WORKLOADS.iter().map(|name| self.workload(name, length)).collect()
    }
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
        fat_type: FatTypeName::Fat16,
        cluster_size: setting.cluster_size,
        alignment: setting.alignment,
        cache_sectors: setting.cache_sectors,
        write_back: if setting.cache_sectors > 0 { WriteBackName::Back } else { WriteBackName::Through },
        ..FatSpec::default()
    };
    Ok(StackSpec { device, ftl, fs: fs.into(), host: None })
}

fn block_map(policy: PolicyName) -> BlockMapSpec {
    BlockMapSpec { policy, ..BlockMapSpec::default() }
}

/// The translation layers that are compared: the paper's four policies, macroscopic with the other
/// estimator too, and FAST.
fn compared() -> Vec<FtlSpec> {
    let mut layers: Vec<FtlSpec> =
        PolicyName::ALL.into_iter().map(|policy| FtlSpec::BlockMap(block_map(policy))).collect();
    let other = BlockMapSpec { alpha: AlphaName::Regression, ..block_map(PolicyName::Macroscopic) };
    layers.push(FtlSpec::BlockMap(other));
    layers.push(FtlSpec::Fast(FastSpec::default()));
    layers
}

/// P4.1 to P4.3: every workload under every policy, in all settings: long and with all seeds in
/// those of [`SWEPT`], short and with two seeds in the others.
pub fn policies(scale: &Scale) -> Result<Vec<Experiment>, LabError> {
    let experiment = |settings: &[&Setting], length: Length, seeds: &[u64]| -> Result<Experiment, LabError> {
        let mut stacks = Vec::new();
        for setting in settings {
            for ftl in compared() {
                stacks.push(stack(setting, ftl)?);
            }
        }
        Ok(Experiment::product(&stacks, &scale.workloads(length)?, seeds)?)
    };
    let others: Vec<&Setting> = SETTINGS.iter().filter(|setting| !SWEPT.contains(setting)).collect();
    Ok(vec![
        experiment(&SWEPT, Length::Settled, &scale.seeds)?,
        experiment(&others, Length::Short, scale.seeds.get(..2).unwrap_or(&scale.seeds))?,
    ])
}

/// The settings in which the number of migrations and of log blocks is swept.
pub const SWEPT: [&Setting; 2] = [&SETTINGS[0], &SETTINGS[4]];

/// P4.1: the limit swept on the small files.
pub fn limits(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for setting in SWEPT {
        for limit in LIMITS {
            let ftl = BlockMapSpec { limit, ..block_map(PolicyName::Limit) };
            stacks.push(stack(setting, FtlSpec::BlockMap(ftl))?);
        }
    }
    Ok(Experiment::product(&stacks, &[scale.workload("postmark-small", Length::Short)?], &scale.seeds)?)
}

/// P4.4: the pages that successive migrations of the block with the FAT and root directory copy,
/// under merge+migration as in the paper.
pub fn growth(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for setting in &SETTINGS {
        let ftl = BlockMapSpec { trace_block: Some(FAT_BLOCK), ..block_map(PolicyName::MergeMigration) };
        stacks.push(stack(setting, FtlSpec::BlockMap(ftl))?);
    }
    Ok(Experiment::product(&stacks, &[scale.workload("postmark-small", Length::Short)?], &scale.seeds)?)
}

/// P4.5: the number of log blocks swept on every workload, under macroscopic.
pub fn log_blocks(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for setting in SWEPT {
        for log_blocks in LOG_BLOCKS {
            let ftl = BlockMapSpec { log_blocks, ..block_map(PolicyName::Macroscopic) };
            stacks.push(stack(setting, FtlSpec::BlockMap(ftl))?);
        }
    }
    Ok(Experiment::product(&stacks, &scale.workloads(Length::Short)?, &scale.seeds)?)
}
