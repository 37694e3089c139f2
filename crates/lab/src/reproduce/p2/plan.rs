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

/// The records of 4 KiB that are overwritten: 128 MiB, four times the device.
const OPERATIONS: u64 = 32_768;

/// A fill level: files of 256 KiB, a multiple of eight as `hcf` needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Number of files.
    pub files: u64,
    /// The fill level's name in verdicts.
    pub name: &'static str,
}

/// The fill levels.
pub const FILLS: [Fill; 3] = [
    Fill { files: 104, name: "81 % full" },
    Fill { files: 96, name: "75 % full" },
    Fill { files: 72, name: "56 % full" },
];

/// What the volume is when the overwrites begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// Just filled: no block holds anything stale.
    Fresh,
    /// Each block holds one stale record, as any used device's blocks do. For Linux that is what
    /// makes a block dirty and its data, never written again, the collector's business.
    Used,
}

/// A layout or pattern, a fill level and a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The pattern.
    pub pattern: &'static str,
    /// The fill level.
    pub fill: Fill,
    /// Fresh or used.
    pub volume: Volume,
}

impl Setting {
    /// Stale records of each block.
    pub const fn stale(&self) -> u64 {
        match self.volume {
            Volume::Fresh => 0,
            Volume::Used => 1,
        }
    }

    /// The same fill level with another pattern, which knows no cold data: a fresh volume.
    pub const fn with(&self, pattern: &'static str) -> Self {
        Self { pattern, fill: self.fill, volume: Volume::Fresh }
    }
}

/// The settings in which only a look is taken at what no claim is judged by: other thresholds,
/// other policies, and other layers. In the first this JFFS2 was compared with the kernel's own
/// figures; the second has the cold data that a baseline moves without end.
pub const LOOKED_AT: [Setting; 2] = [
    Setting { pattern: "hcf", fill: FILLS[0], volume: Volume::Fresh },
    Setting { pattern: "hcc", fill: FILLS[1], volume: Volume::Used },
];

/// The numbers of regions of DAC; one region is no DAC.
pub const REGIONS: [u8; 3] = [1, 2, 5];
/// The numbers of regions of DAC with the clean list open, where two regions are DAC's best.
pub const OPEN_REGIONS: [u8; 2] = [1, 2];

/// The paper's JFFS2.
pub const BASELINE: &str = "p2-baseline";
/// The paper's victim choice.
pub const CAT: &str = "cat";
/// CAT with the clean list open to victims. A clean block counts as one hundredth invalid then:
/// only great age makes up for that, and in short runs no clean block is taken.
pub const CAT_OPEN: &str = "cat:open-clean=yes";
/// CAT with the clean list open, and a clean block counting as one fifth invalid, so that old clean
/// blocks are taken.
pub const CAT_OPEN_WIDE: &str = "cat:open-clean=yes,invalid-floor=200";
/// The collectors that CAT is held against under sequential overwrites.
pub const BASELINES: [&str; 2] = [BASELINE, LINUX];
/// The block with the least valid data.
const GREEDY: &str = "greedy";
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

/// All settings of 640-116, fresh volumes first.
pub fn hot_and_cold() -> Vec<Setting> {
    let of_volume = |volume| {
        let at_fill = move |fill| LAYOUTS.map(|pattern| Setting { pattern, fill, volume });
        FILLS.into_iter().flat_map(at_fill)
    };
    [Volume::Fresh, Volume::Used].into_iter().flat_map(of_volume).collect()
}

/// All settings of a pattern without cold data.
pub fn settings_of(pattern: &'static str) -> Vec<Setting> {
    FILLS.map(|fill| Setting { pattern, fill, volume: Volume::Fresh }).to_vec()
}

impl Judged for Setting {
    const KIND: &'static str = "setting";

    fn name(&self) -> String {
        match self.volume {
            Volume::Fresh => format!("{}, {}", self.pattern, self.fill.name),
            Volume::Used => format!("{}, {}, used", self.pattern, self.fill.name),
        }
    }
}

/// The extent of the runs.
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// The whole extent, or a quick look: two seeds instead of five, an eighth of the overwrites,
    /// two fill levels.
    pub fn new(quick: bool) -> Self {
        Self { quick }
    }

    fn seeds(&self) -> Vec<u64> {
        (1..=if self.quick { 2 } else { 5 }).collect()
    }

    /// The seeds of what is only looked at.
    fn few_seeds(&self) -> Vec<u64> {
        (1..=if self.quick { 1 } else { 2 }).collect()
    }

    fn has(&self, setting: &Setting) -> bool {
        !self.quick || LOOKED_AT.iter().any(|looked_at| looked_at.fill == setting.fill)
    }

    fn workload(&self, setting: &Setting) -> Result<WorkloadSpec, LabError> {
        let operations = if self.quick { OPERATIONS / 8 } else { OPERATIONS };
        let (pattern, files, stale) = (setting.pattern, setting.fill.files, setting.stale());
        let text = format!("overwrite:pattern={pattern},files={files},operations={operations},start=0,stale={stale}");
        text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
    }

    fn workloads(&self, settings: &[Setting]) -> Result<Vec<WorkloadSpec>, LabError> {
        settings.iter().filter(|setting| self.has(setting)).map(|setting| self.workload(setting)).collect()
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

/// Every pattern in every setting: with and without CAT by number of regions, and Linux's
/// collector, which has regions under sequential overwrites only.
pub fn grid(scale: &Scale, patterns: &[&str]) -> Result<Vec<Experiment>, LabError> {
    let with_regions = |collectors: &[&str]| -> Result<Vec<StackSpec>, LabError> {
        let each = collectors.iter().flat_map(|collector| REGIONS.map(|regions| (collector, dac(regions))));
        each.map(|(collector, separation)| jffs2(collector, &separation)).collect()
    };
    let mut stacks = with_regions(&[BASELINE, CAT])?;
    stacks.push(jffs2(LINUX, "none")?);
    let mut settings = hot_and_cold();
    settings.extend(settings_of("rnd"));
    settings.retain(|setting| patterns.contains(&setting.pattern));
    let mut grid = vec![Experiment::product(&stacks, &scale.workloads(&settings)?, &scale.seeds())?];
    if patterns.contains(&"seq") {
        let workloads = scale.workloads(&settings_of("seq"))?;
        grid.push(Experiment::product(&with_regions(&[BASELINE, CAT, LINUX])?, &workloads, &scale.seeds())?);
    }
    Ok(grid)
}

/// P2.2: thresholds of DAC, where a look is taken.
pub fn thresholds(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for collector in [BASELINE, CAT] {
        for seconds in THRESHOLDS {
            stacks.push(jffs2(collector, &dac_with_threshold(seconds))?);
        }
    }
    Ok(Experiment::product(&stacks, &scale.workloads(&LOOKED_AT)?, &scale.few_seeds())?)
}

/// P2.5: CAT with the clean list open to victims, by number of regions.
pub fn open_clean(scale: &Scale) -> Result<Experiment, LabError> {
    let stacks: Result<Vec<StackSpec>, LabError> =
        OPEN_REGIONS.iter().map(|regions| jffs2(CAT_OPEN_WIDE, &dac(*regions))).collect();
    Ok(Experiment::product(&stacks?, &scale.workloads(&hot_and_cold())?, &scale.seeds())?)
}

/// P2.F: FAT on translation layers, in the first setting where a look is taken.
pub fn layers(scale: &Scale) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for cache_sectors in [0, 64] {
        stacks.push(fat(FtlSpec::BlockMap(BlockMapSpec::default()), cache_sectors)?);
        stacks.push(fat(FtlSpec::Fast(FastSpec::default()), cache_sectors)?);
    }
    let workloads = scale.workloads(&["hcf", "rnd", "seq"].map(|pattern| LOOKED_AT[0].with(pattern)))?;
    Ok(Experiment::product(&stacks, &workloads, &scale.few_seeds())?)
}

/// The separations that are tried beside DAC with their defaults; thresholds on the scale of
/// 640-116's own lifetimes, in user writes.
pub fn separations() -> Vec<String> {
    let named = separation::names().map(str::to_string);
    let own =
        ["dac:regions=2,base=writes,promote-below=4000,demote-above=4000", "interval:regions=3,base=writes,first=2000"];
    named.chain(own.map(str::to_string)).collect()
}

/// Every policy of `cleaning` alone, and CAT and greedy with every separation, where a look is
/// taken; quickly, the policies alone.
pub fn beyond(scale: &Scale) -> Result<Experiment, LabError> {
    let policies = victim::names().map(str::to_string).chain(["cat:erase-offset=0".to_string(), CAT_OPEN.to_string()]);
    let mut stacks = Vec::new();
    for policy in policies {
        let is_separated = !scale.quick && [CAT, GREEDY].contains(&policy.as_str());
        for separation in separations() {
            if separation == "none" || is_separated {
                stacks.push(jffs2(&policy, &separation)?);
            }
        }
    }
    Ok(Experiment::product(&stacks, &scale.workloads(&LOOKED_AT)?, &scale.few_seeds())?)
}
