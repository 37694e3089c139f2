//! Which runs the claims of P2 need.

use nandkit_cleaning::{separation, victim};
use nandkit_stack::format::fat::spec::{FatSpec, WriteBackName};
use nandkit_stack::format::jffs2::spec::Jffs2Spec;
use nandkit_stack::{BlockMapSpec, DeviceSpec, FastSpec, FtlSpec, StackSpec};
use nandkit_workload::WorkloadSpec;

use super::super::check::Judged;
use crate::{Experiment, LabError, SpecError};

/// The chip: 256 blocks of 128 KiB, the one on which Linux's JFFS2 was measured.
pub const DEVICE: &str = "nandsim-32m-128k";

/// The patterns of `overwrite`: 640-116 with whole files, one contiguous piece, or every eighth
/// record hot; random; sequential.
pub const PATTERNS: [&str; 5] = ["hcf", "hcc", "hci", "rnd", "seq"];

/// The layouts of the hot data in 640-116.
pub const LAYOUTS: [&str; 3] = ["hcf", "hcc", "hci"];

/// A fill level: files of 256 KiB, a multiple of eight as `hcf` needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Number of files.
    pub files: u64,
    /// What verdicts call it.
    pub name: &'static str,
}

/// The fill levels, the primary one first.
pub const FILLS: [Fill; 3] = [
    Fill { files: 104, name: "81 % full" },
    Fill { files: 88, name: "69 % full" },
    Fill { files: 72, name: "56 % full" },
];

/// A layout or pattern with a fill level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The pattern.
    pub pattern: &'static str,
    /// The fill level.
    pub fill: Fill,
}

/// The setting from which verdicts on 640-116 are taken: whole files hot, 26 of 32 MiB. There, and
/// with random and sequential writes at the same fill, this JFFS2 was compared with the kernel's
/// own figures; the paper names neither the layout nor the fill. It was chosen before any run of
/// P2.
pub const PRIMARY: Setting = Setting { pattern: "hcf", fill: FILLS[0] };

/// The numbers of regions of DAC; one region is no DAC.
pub const REGIONS: [u8; 5] = [1, 2, 3, 4, 5];

/// The paper's JFFS2.
pub const BASELINE: &str = "p2-baseline";
/// Its victim choice.
pub const CAT: &str = "cat";
/// The same with the clean list open to victims. A clean block counts as one hundredth invalid
/// then: only great age makes up for that, and in short runs no clean block is taken.
pub const CAT_OPEN: &str = "cat:open-clean=yes";
/// The same with a clean block counting as one fifth invalid, so that old ones are taken.
pub const CAT_OPEN_WIDE: &str = "cat:open-clean=yes,invalid-floor=200";
/// JFFS2 as Linux has it.
pub const LINUX: &str = "jffs2-lists";

/// The thresholds of DAC in seconds that are swept; P2 names none, and 60 is the default.
pub const THRESHOLDS: [u32; 4] = [1, 4, 15, 240];

/// The stacks with FAT that JFFS2 is set beside: the layer, and whether 64 sectors are cached and
/// written back later.
pub const LAYERS: [&str; 4] = ["fat | block-map", "fat | fast", "fat | block-map | cached", "fat | fast | cached"];

/// The separation with this number of regions.
pub fn dac(regions: u8) -> String {
    if regions <= 1 { "none".to_string() } else { format!("dac:regions={regions}") }
}

/// DAC with three regions and one threshold for promotion and demotion.
pub fn dac_with_threshold(seconds: u32) -> String {
    format!("dac:regions=3,promote-below={seconds}s,demote-above={seconds}s")
}

/// The setting of a pattern at a fill level, those of 640-116 with the primary one first.
pub fn settings(patterns: &[&'static str]) -> Vec<Setting> {
    FILLS.into_iter().flat_map(|fill| patterns.iter().map(move |pattern| Setting { pattern, fill })).collect()
}

impl Judged for Setting {
    const KIND: &'static str = "setting";

    fn name(&self) -> String {
        format!("{}, {}", self.pattern, self.fill.name)
    }
}

/// How much is run.
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// All of it, or a quick look: two seeds instead of five, 24 MiB overwritten instead of 256,
    /// fewer numbers of regions.
    pub fn new(quick: bool) -> Self {
        Self { quick }
    }

    fn seeds(&self) -> Vec<u64> {
        (1..=if self.quick { 2 } else { 5 }).collect()
    }

    /// The seeds of what is only set beside.
    fn few_seeds(&self) -> Vec<u64> {
        (1..=if self.quick { 1 } else { 2 }).collect()
    }

    fn workload(&self, pattern: &str, fill: Fill) -> Result<WorkloadSpec, LabError> {
        let operations = if self.quick { 6144 } else { 65_536 };
        let text = format!("overwrite:pattern={pattern},files={},operations={operations},start=0", fill.files);
        text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
    }

    fn regions(&self) -> Vec<u8> {
        if self.quick { vec![1, 2, 5] } else { REGIONS.to_vec() }
    }
}

fn device() -> Result<DeviceSpec, LabError> {
    DeviceSpec::preset(DEVICE).map_err(|error| SpecError::new("stack.device", error).into())
}

fn jffs2(collector: &str, separation: &str) -> Result<StackSpec, LabError> {
    let spec = Jffs2Spec { victim: collector.to_string(), separation: separation.to_string(), ..Jffs2Spec::default() };
    Ok(StackSpec { device: device()?, ftl: FtlSpec::None, fs: spec.into(), host: None })
}

fn fat(ftl: FtlSpec, cache_sectors: u32) -> Result<StackSpec, LabError> {
    let write_back = if cache_sectors > 0 { WriteBackName::Back } else { WriteBackName::Through };
    let fs = FatSpec { cluster_size: 4096, cache_sectors, write_back, ..FatSpec::default() }.into();
    Ok(StackSpec { device: device()?, ftl, fs, host: None })
}

/// Every pattern: with and without CAT by number of regions, and Linux's collector. All seeds at
/// the primary fill level, few at the others.
pub fn grid(scale: &Scale, patterns: &[&str]) -> Result<Vec<Experiment>, LabError> {
    let mut stacks = vec![jffs2(LINUX, "none")?];
    for collector in [BASELINE, CAT] {
        for regions in scale.regions() {
            stacks.push(jffs2(collector, &dac(regions))?);
        }
    }
    let at_fill = |fill: Fill| {
        let seeds = if fill == PRIMARY.fill { scale.seeds() } else { scale.few_seeds() };
        let workloads: Result<Vec<WorkloadSpec>, LabError> =
            patterns.iter().map(|pattern| scale.workload(pattern, fill)).collect();
        Ok(Experiment::product(&stacks, &workloads?, &seeds)?)
    };
    FILLS.into_iter().map(at_fill).collect()
}

/// P2.2: thresholds of DAC, in the primary setting.
pub fn thresholds(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for collector in [BASELINE, CAT] {
        for seconds in THRESHOLDS {
            stacks.push(jffs2(collector, &dac_with_threshold(seconds))?);
        }
    }
    let workload = scale.workload(PRIMARY.pattern, PRIMARY.fill)?;
    Ok(Experiment::product(&stacks, &[workload], &scale.few_seeds())?)
}

/// P2.5: CAT with the clean list open to victims, by number of regions.
pub fn open_clean(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for collector in [CAT_OPEN, CAT_OPEN_WIDE] {
        for regions in scale.regions() {
            stacks.push(jffs2(collector, &dac(regions))?);
        }
    }
    let workloads: Result<Vec<WorkloadSpec>, LabError> =
        LAYOUTS.iter().map(|pattern| scale.workload(pattern, PRIMARY.fill)).collect();
    Ok(Experiment::product(&stacks, &workloads?, &scale.seeds())?)
}

/// P2.F: FAT on translation layers, at the primary fill level.
pub fn layers(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for cache_sectors in [0, 64] {
        stacks.push(fat(FtlSpec::BlockMap(BlockMapSpec::default()), cache_sectors)?);
        stacks.push(fat(FtlSpec::Fast(FastSpec::default()), cache_sectors)?);
    }
    let workloads: Result<Vec<WorkloadSpec>, LabError> =
        ["hcf", "rnd", "seq"].iter().map(|pattern| scale.workload(pattern, PRIMARY.fill)).collect();
    Ok(Experiment::product(&stacks, &workloads?, &scale.few_seeds())?)
}

/// The separations that are tried beside DAC with their defaults; thresholds on the scale of
/// 640-116's own lifetimes, in user writes.
pub fn separations() -> Vec<String> {
    let named = separation::names().map(str::to_string);
    let own =
        ["dac:regions=2,base=writes,promote-below=4000,demote-above=4000", "interval:regions=3,base=writes,first=2000"];
    named.chain(own.map(str::to_string)).collect()
}

/// Every policy of `cleaning` with every separation, in the primary setting; quickly, the policies
/// alone and CAT's separations.
pub fn beyond(scale: &Scale) -> Result<Experiment, LabError> {
    let policies = victim::names().map(str::to_string).chain(["cat:erase-offset=0".to_string(), CAT_OPEN.to_string()]);
    let mut stacks = Vec::new();
    for policy in policies {
        for separation in separations() {
            if scale.quick && separation != "none" && policy != CAT {
                continue;
            }
            stacks.push(jffs2(&policy, &separation)?);
        }
    }
    let workload = scale.workload(PRIMARY.pattern, PRIMARY.fill)?;
    Ok(Experiment::product(&stacks, &[workload], &scale.few_seeds())?)
}
