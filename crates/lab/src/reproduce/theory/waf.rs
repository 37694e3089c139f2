//! Write amplification of the page-mapped layer in its steady state.

use nandkit_record::{LayerValue, RunRecord};
use nandkit_stack::StackSpec;
use nandkit_theory::hot_cold::{HotCold, fifo_mixed, mixed, separated};
use nandkit_theory::{Choice, Device, TheoryError, d_choices, fifo, greedy, random};

use super::super::Request;
use super::Row;
use crate::{Experiment, LabError, Precondition, RunSpec, SpecError, SteadyRule};

/// Pages of a block.
pub const PAGES_PER_BLOCK: u32 = 64;

/// Which superblock is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one written longest ago.
    Fifo,
    /// A block at random.
    Random,
    /// The one with the fewest valid pages among this number of drawn superblocks.
    Among(u32),
    /// The one with the fewest valid pages.
    Greedy,
}

/// Which pages are overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrites {
    /// All alike.
    Uniform,
    /// Four fifths of the writes go to a fifth of the pages; nothing tells hot from cold.
    Mixed,
    /// Hot and cold pages as in `Mixed`; they are known beforehand, and have superblocks of their
    /// own.
    Separated,
}

/// The share of the pages that is hot, and the share of the writes that they get.
pub const HOT: (f64, f64) = (0.2, 0.8);

/// A row before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The claim's id.
    pub id: &'static str,
    /// The victim rule.
    pub victim: Victim,
    /// What is overwritten.
    pub overwrites: Overwrites,
    /// (physical - user) / user.
    pub spare: f64,
}

const fn plan(id: &'static str, victim: Victim, overwrites: Overwrites, spare: f64) -> Plan {
    Plan { id, victim, overwrites, spare }
}

use Overwrites::{Mixed, Separated, Uniform};

/// All rows.
pub const ROWS: [Plan; 33] = [
    plan("theory.fifo-0.07", Victim::Fifo, Uniform, 0.07),
    plan("theory.fifo-0.15", Victim::Fifo, Uniform, 0.15),
    plan("theory.fifo-0.28", Victim::Fifo, Uniform, 0.28),
    plan("theory.greedy-0.07", Victim::Greedy, Uniform, 0.07),
    plan("theory.greedy-0.15", Victim::Greedy, Uniform, 0.15),
    plan("theory.greedy-0.28", Victim::Greedy, Uniform, 0.28),
    plan("theory.2-choices-0.07", Victim::Among(2), Uniform, 0.07),
    plan("theory.2-choices-0.15", Victim::Among(2), Uniform, 0.15),
    plan("theory.2-choices-0.28", Victim::Among(2), Uniform, 0.28),
    plan("theory.5-choices-0.07", Victim::Among(5), Uniform, 0.07),
    plan("theory.5-choices-0.15", Victim::Among(5), Uniform, 0.15),
    plan("theory.5-choices-0.28", Victim::Among(5), Uniform, 0.28),
    plan("theory.10-choices-0.07", Victim::Among(10), Uniform, 0.07),
    plan("theory.10-choices-0.15", Victim::Among(10), Uniform, 0.15),
    plan("theory.10-choices-0.28", Victim::Among(10), Uniform, 0.28),
    plan("theory.random-0.07", Victim::Random, Uniform, 0.07),
    plan("theory.random-0.15", Victim::Random, Uniform, 0.15),
    plan("theory.random-0.28", Victim::Random, Uniform, 0.28),
    plan("theory.mixed-fifo-0.07", Victim::Fifo, Mixed, 0.07),
    plan("theory.mixed-fifo-0.15", Victim::Fifo, Mixed, 0.15),
    plan("theory.mixed-fifo-0.28", Victim::Fifo, Mixed, 0.28),
    plan("theory.mixed-greedy-0.07", Victim::Greedy, Mixed, 0.07),
    plan("theory.mixed-greedy-0.15", Victim::Greedy, Mixed, 0.15),
    plan("theory.mixed-greedy-0.28", Victim::Greedy, Mixed, 0.28),
    plan("theory.mixed-10-choices-0.07", Victim::Among(10), Mixed, 0.07),
    plan("theory.mixed-10-choices-0.15", Victim::Among(10), Mixed, 0.15),
    plan("theory.mixed-10-choices-0.28", Victim::Among(10), Mixed, 0.28),
    plan("theory.separated-greedy-0.07", Victim::Greedy, Separated, 0.07),
    plan("theory.separated-greedy-0.15", Victim::Greedy, Separated, 0.15),
    plan("theory.separated-greedy-0.28", Victim::Greedy, Separated, 0.28),
    plan("theory.separated-10-choices-0.07", Victim::Among(10), Separated, 0.07),
    plan("theory.separated-10-choices-0.15", Victim::Among(10), Separated, 0.15),
    plan("theory.separated-10-choices-0.28", Victim::Among(10), Separated, 0.28),
];

impl Victim {
    /// The victim rule's name in specs. Theory draws among equal blocks. If all pages are alike, it
    /// does not matter which of the equal blocks goes, and the default rule is judged; if hot and
    /// cold pages share a device, the oldest of equal blocks is more often a cold one.
    fn name(self, overwrites: Overwrites) -> String {
        match self {
            Self::Greedy if overwrites != Uniform => "greedy-by-lot".to_string(),
            Self::Fifo => "fifo".to_string(),
            Self::Random => "random".to_string(),
            Self::Among(d) => format!("d-choices:d={d}"),
            Self::Greedy => "greedy".to_string(),
        }
    }
}

impl Plan {
    /// What is compared, for people.
    fn title(&self) -> String {
        let overwrites = match self.overwrites {
            Uniform => "uniform overwrites".to_string(),
            Mixed => format!("{:.0} % of the writes on {:.0} % of the pages, mixed", HOT.1 * 100.0, HOT.0 * 100.0),
            Separated => format!("{:.0} % of the writes on {:.0} % of the pages, apart", HOT.1 * 100.0, HOT.0 * 100.0),
        };
        format!("WAF of {} at spare {}, {overwrites}", self.victim.name(self.overwrites), self.spare)
    }

    /// What theory says.
    pub fn theory(&self) -> Result<f64, TheoryError> {
        let device = Device::new(PAGES_PER_BLOCK, self.spare)?;
        let hot_cold = HotCold::new(HOT.0, HOT.1)?;
        Ok(match (self.overwrites, self.victim) {
            (Uniform, Victim::Fifo) => fifo(&device),
            (Uniform, Victim::Random) => random(&device),
            (Uniform, Victim::Among(d)) => d_choices(&device, d),
            (Uniform, Victim::Greedy) => greedy(&device),
            (Mixed, Victim::Fifo) => fifo_mixed(&device, &hot_cold),
            (Mixed, Victim::Random) => mixed(&device, &hot_cold, Choice::Among(1)),
            (Mixed, Victim::Among(d)) => mixed(&device, &hot_cold, Choice::Among(d)),
            (Mixed, Victim::Greedy) => mixed(&device, &hot_cold, Choice::Greedy),
            (Separated, Victim::Random) => separated(&device, &hot_cold, Choice::Among(1)),
            (Separated, Victim::Among(d)) => separated(&device, &hot_cold, Choice::Among(d)),
            (Separated, Victim::Greedy) => separated(&device, &hot_cold, Choice::Greedy),
            // No row: the known result for FIFO is about a single frontier.
            (Separated, Victim::Fifo) => f64::NAN,
        })
    }

    /// The source of the formula.
    const fn source(&self) -> &'static str {
        match (self.overwrites, self.victim) {
            (Uniform, Victim::Fifo) => {
                "Desnoyers, SYSTOR 2012; Xiang and Kurkoski, ICNC 2012 (closed form by Lambert's W)"
            }
            (Uniform, Victim::Random) => "Van Houdt, SIGMETRICS 2013 (closed form: 1 + 1/spare)",
            (Uniform, Victim::Among(_)) => "Van Houdt, SIGMETRICS 2013 (fixed point of the mean field)",
            (Uniform, Victim::Greedy) => {
                "Bux and Iliadis, Performance Evaluation 2010; Van Houdt, SIGMETRICS 2013 (d to infinity)"
            }
            (Mixed, Victim::Fifo) => "Desnoyers, ACM Transactions on Storage 2014 (LRU, non-uniform traffic)",
            (Mixed, _) => "Van Houdt, Performance Evaluation 2014 (mean field, single write frontier)",
            (Separated, _) => "Van Houdt, Performance Evaluation 2014 (mean field, hot and cold frontiers)",
        }
    }

    fn run(&self, scale: &Scale, seed: u64) -> Result<RunSpec, LabError> {
        let (victim, spare, blocks) = (self.victim.name(self.overwrites), self.spare, scale.blocks(self.spare));
        let pages = u64::from(blocks) * u64::from(PAGES_PER_BLOCK);
        let separation = match self.overwrites {
            Uniform | Mixed => "none".to_string(),
            // The workload's hot pages are the first ones.
            Separated => format!("known:below={}", (((pages as f64 / (1.0 + spare)) as u64) as f64 * HOT.0).round()),
        };
        let stack = format!(
            "fs = \"none\"\n\
             ftl = {{ kind = \"page-map\", spare = {spare}, victim = \"{victim}\", separation = \"{separation}\", allocation = \"fifo\", stripe = 1, journal = false }}\n\
             [device]\nstore = \"address\"\n\
             geometry = {{ page_size = 512, write_unit = 512, oob_size = 16, blocks = {blocks}, pages_per_block = {PAGES_PER_BLOCK} }}\n"
        );
        let stack: StackSpec =
            toml::from_str(&stack).map_err(|error| SpecError::new("stack", error.message().to_string()))?;
        let distribution = match self.overwrites {
            Uniform => "distribution=uniform".to_string(),
            Mixed | Separated => format!("distribution=hotcold,hot_space={},hot_accesses={}", HOT.0, HOT.1),
        };
        let workload = format!("random:block_size=512,footprint=1,fill=false,{distribution}");
        let workload = workload.parse().map_err(|error| SpecError::new("workload", format!("{workload}: {error}")))?;
        let precondition = Precondition::Steady(scale.rule);
        Ok(RunSpec { precondition, verify: false, seed, ..RunSpec::new(stack, workload) })
    }
}

/// The extent of the runs.
pub struct Scale {
    /// Blocks of a device with the least spare, 0.07.
    pub blocks: u32,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The rule by which a device has settled, and by which its figure is known.
    pub rule: SteadyRule,
}

impl Scale {
    /// The whole extent, or a quick look at a device an eighth as large.
    pub fn new(quick: bool) -> Self {
        let rule = SteadyRule { tolerance: if quick { 0.005 } else { 0.002 }, ..SteadyRule::default() };
        Self { blocks: if quick { 8192 } else { 65_536 }, seeds: vec![1, 2, 3], rule }
    }

    /// Blocks of a device with this spare: half as many with twice the spare, so that the reserve
    /// of two free blocks and an open one is the same share of it, 0.05 to 0.1 % on full devices.
    /// By that much theory, which knows no reserve, can differ at the least; a block more or less
    /// is 0.002 to 0.006 % of the flash.
    pub fn blocks(&self, spare: f64) -> u32 {
        match spare {
            less if less < 0.1 => self.blocks,
            less if less < 0.2 => self.blocks / 2,
            _ => self.blocks / 4,
        }
    }
}

/// Measures the wanted rows.
pub fn rows(scale: &Scale, request: &Request<'_>) -> Result<Vec<Row>, LabError> {
    let wanted: Vec<&Plan> = ROWS.iter().filter(|plan| (request.wanted)(plan.id)).collect();
    let mut runs = Vec::new();
    for plan in &wanted {
        for seed in &scale.seeds {
            runs.push(plan.run(scale, *seed)?);
        }
    }
    let records = request.run(&Experiment::new("theory", runs)?)?;
    wanted.iter().zip(records.chunks(scale.seeds.len().max(1))).map(|(plan, records)| row(plan, records)).collect()
}

/// The row of a plan from its records, one for each seed.
pub fn row(plan: &Plan, records: &[RunRecord]) -> Result<Row, LabError> {
    let figure = |record: &RunRecord, name: &str| {
        record.layers.get("steady").and_then(|steady| steady.get(name)).and_then(LayerValue::as_f64)
    };
    let theory = plan.theory().map_err(|error| LabError::Failed(error.to_string()))?;
    let unsettled = records.iter().filter(|record| figure(record, "steady_settled") != Some(1.0)).count();
    let note = match unsettled {
        0 => String::new(),
        some => format!("{some} of {} runs did not settle.", records.len()),
    };
    let simulation = records.iter().filter_map(|record| figure(record, "steady_waf_mean")).collect();
    Ok(Row { id: plan.id, name: plan.title(), theory, simulation, source: plan.source(), note })
}
