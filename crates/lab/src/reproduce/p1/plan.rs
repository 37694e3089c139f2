//! Which runs the claims of P1 need.

use nandkit_stack::format::f2fs::spec::{F2fsModeName, F2fsSpec, RulesName};
use nandkit_stack::{DeviceSpec, FtlSpec, StackSpec};
use nandkit_workload::WorkloadSpec;

use super::super::check::Judged;
use crate::{Experiment, LabError, SpecError};

/// Bytes of each card that are used.
const CAPACITY: u64 = 512 << 20;

/// Valid shares of the warm segments, in per cent.
pub const WARM: [u8; 3] = [30, 50, 70];
/// Valid shares of the cold segments, in per cent; 0: they are free.
pub const COLD: [u8; 2] = [0, 70];

/// Share of cold data in the data written before the measured part, in the cells that have cold
/// data.
const COLD_SHARE: f64 = 0.4;
/// Bytes written before the measured part, divided by the free bytes: they use up the free segments
/// down to those that SSR leaves.
const WRITTEN: f64 = 1.02;

/// P1's modes, and the best choice for a whole segment.
pub const MODES: [&str; 4] = ["ssr", "gc", "pgc", "pgc-optimal"];
/// No gap is filled at all: the collector empties segments when free ones are few (`mode=lfs`).
pub const LFS: &str = "lfs";

/// A card's role in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Role {
    A,
    B,
    C,
}

impl Role {
    /// All of them, by how much their random writes differ.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];
}

/// A cell of the paper's figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The card's role.
    pub role: Role,
    /// Per cent of the cold segments that are valid; 0: they are free.
    pub cold: u8,
    /// Per cent of the warm segments that are valid.
    pub warm: u8,
}

impl Cell {
    /// The 18 cells in the order of the figure.
    pub fn all() -> Vec<Self> {
        let of_role = |role| COLD.into_iter().flat_map(move |cold| WARM.map(|warm| Self { role, cold, warm }));
        Role::ALL.into_iter().flat_map(of_role).collect()
    }

    /// Its name in verdicts: card, cold and warm segments' valid per cent.
    pub fn name(self) -> String {
        format!("{:?} cold {} warm {}", self.role, self.cold, self.warm)
    }
}

/// One way to read what the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The reading's name in verdicts.
    pub name: &'static str,
    /// The cards that play A, B and C.
    pub cards: [&'static str; 3],
    /// Parameters of the workload beside those of the cell.
    pub measured: &'static str,
    /// Segments that are treated before a checkpoint.
    pub batch: u32,
}

impl Judged for Reading {
    const KIND: &'static str = "reading";

    fn name(&self) -> String {
        self.name.into()
    }
}

/// The roles as the card files name them, chosen before any run.
const CARDS: [&str; 3] = ["card-a", "card-b", "card-c"];

/// The readings. Verdicts are taken from the first: "the same amount" is 64 MiB, and each treated
/// segment has its checkpoint (P1, sections 4.2 and 5.2).
///
/// 64 MiB end before the segments that copies go to are missed, so two readings write on: as much
/// as there are holes, and the same files again and again. The paper has each segment that GC frees
/// wait for a checkpoint; the fourth lets eight share one. The fifth takes the cards that the role
/// files name next.
pub const READINGS: [Reading; 5] = [
    Reading { name: "64 MiB", cards: CARDS, measured: "bytes=64M", batch: 1 },
    Reading { name: "as much as nine tenths of the holes", cards: CARDS, measured: "of_holes=0.9", batch: 1 },
    Reading { name: "64 MiB removed and written again, four times", cards: CARDS, measured: "rounds=4", batch: 1 },
    Reading { name: "eight segments for a checkpoint", cards: CARDS, measured: "bytes=64M", batch: 8 },
    Reading {
        name: "other cards",
        cards: ["sd-olpc-high", "sd-amazon-64", "sd-extreme-pro-128"],
        measured: "bytes=64M",
        batch: 1,
    },
];

/// The seed of the compared runs. A run has tens of thousands of holes, so other seeds change
/// little.
const ONE_SEED: [u64; 1] = [1];
/// Further seeds, for comparing PGC's times with the expected times.
const MORE_SEEDS: [u64; 2] = [2, 3];

/// The extent of the runs.
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// The whole extent, or a quick look: one seed, and the first reading alone.
    pub const fn new(quick: bool) -> Self {
        Self { quick }
    }

    /// The readings that are run.
    pub fn readings(&self) -> &'static [Reading] {
        READINGS.get(..if self.quick { 1 } else { READINGS.len() }).unwrap_or(&READINGS)
    }
}

/// F2FS on a card; `mode` is one of [`MODES`], perhaps with options, or [`LFS`].
fn stack(card: &str, mode: &str) -> Result<StackSpec, LabError> {
    let mut device = DeviceSpec::preset(card).map_err(|error| SpecError::new("stack.device", error))?;
    if let DeviceSpec::Card { card, .. } = &mut device {
        card.geometry.capacity = CAPACITY;
    }
    let (reuse, mode) = match mode {
        LFS => ("ssr", F2fsModeName::Lfs),
        reuse => (reuse, F2fsModeName::Adaptive),
    };
    let fs =
        F2fsSpec { ipu_policy: 0, rules: RulesName::Linux38, reuse: reuse.to_string(), mode, ..F2fsSpec::default() };
    Ok(StackSpec { device, ftl: FtlSpec::None, fs: fs.into(), host: None })
}

/// The workload of cells: warm and cold data full of holes, then what is measured.
fn holes(cold: u8, warm: u8, measured: &str) -> Result<WorkloadSpec, LabError> {
    let (share, cold) = if cold == 0 { (0.0, 70) } else { (COLD_SHARE, cold) };
    let text = format!("holes:written={WRITTEN},warm_valid={warm}%,cold_valid={cold}%,cold_share={share},{measured}");
    text.parse().map_err(|error| SpecError::new("workload", format!("{text}: {error}")).into())
}

fn grid(cards: &[&str], modes: &[&str], workloads: &[WorkloadSpec], seeds: &[u64]) -> Result<Experiment, LabError> {
    let mut stacks = Vec::new();
    for card in cards {
        for mode in modes {
            stacks.push(stack(card, mode)?);
        }
    }
    Ok(Experiment::product(&stacks, workloads, seeds)?)
}

/// A mode in which `batch` segments are treated before a checkpoint.
pub fn batched(mode: &str, batch: u32) -> String {
    if batch == 1 || mode == "ssr" || mode == LFS { mode.to_string() } else { format!("{mode}:segments={batch}") }
}

/// The workloads of the cells.
fn workloads(warm: &[u8], measured: &str) -> Result<Vec<WorkloadSpec>, LabError> {
    let each = COLD.into_iter().flat_map(|cold| warm.iter().map(move |warm| (cold, *warm)));
    each.map(|(cold, warm)| holes(cold, warm, measured)).collect()
}

/// The cells of a reading under SSR, GC, PGC. Of the first also under the best choice, without gaps
/// filled, and PGC with more seeds; of the second card A without gaps filled (P1.7).
pub fn cells(scale: &Scale, reading: &Reading) -> Result<Vec<Experiment>, LabError> {
    let workloads = workloads(&WARM, reading.measured)?;
    let place = READINGS.iter().position(|other| other.name == reading.name);
    let compared = if place == Some(0) { &MODES[..] } else { &MODES[..3] };
    let modes: Vec<String> = compared.iter().map(|mode| batched(mode, reading.batch)).collect();
    let modes: Vec<&str> = modes.iter().map(String::as_str).collect();
    let mut experiments = vec![grid(&reading.cards, &modes, &workloads, &ONE_SEED)?];
    match place {
        Some(0) => {
            experiments.push(grid(&reading.cards, &[LFS], &workloads, &ONE_SEED)?);
            if !scale.quick {
                experiments.push(grid(&reading.cards, &["pgc"], &workloads, &MORE_SEEDS)?);
            }
        }
        Some(1) => experiments.push(grid(&reading.cards[..1], &[LFS], &workloads, &ONE_SEED)?),
        _ => {}
    }
    Ok(experiments)
}

/// P1.8: each file of the measured ones written at random places, on half valid segments.
pub fn at_random() -> Result<Experiment, LabError> {
    grid(&CARDS, &MODES[..3], &workloads(&WARM[1..2], "bytes=64M,order=random")?, &ONE_SEED)
}
