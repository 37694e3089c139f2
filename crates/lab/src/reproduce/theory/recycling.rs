//! P4's cost functions beside the block-mapped layer on P4's chip.
//!
//! One logical block is overwritten in such a way that the layer's log block holds the number of
//! valid pages that the formula is asked for. What the device did beside programming the host's
//! pages, for each of these pages, is the formula's cost for each writable page. Nothing is drawn:
//! one run is all there is to know.

use nandkit_block::BlockDevice;
use nandkit_cleaning::recycling::Costs;
use nandkit_stack::{Mounted, Stack, StackSpec};
use nandkit_units::{Context, Described, Description, Generator, Lba, Payload};

use super::super::Request;
use super::Row;
use crate::{LabError, SpecError};

/// How the layer recycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cycle {
    /// Always by a merge.
    Merge,
    /// Always by a migration that copies this number of pages.
    Migrate(u32),
    /// By migrations that copy `alpha`, `2 alpha`, ... pages, and by a merge after the best number
    /// of migrations.
    Period(u32),
}

/// A row before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The claim's id.
    pub id: &'static str,
    /// How the layer recycles.
    pub cycle: Cycle,
    /// Pages of the map that each recycling writes.
    pub map_pages: u32,
}

const fn plan(id: &'static str, cycle: Cycle, map_pages: u32) -> Plan {
    Plan { id, cycle, map_pages }
}

/// The row that compares the best number of migrations itself.
const BEST: &str = "theory.best-migrations-2";

/// All rows.
pub const ROWS: [Plan; 9] = [
    plan("theory.merge", Cycle::Merge, 0),
    plan("theory.merge-with-map", Cycle::Merge, 1),
    plan("theory.migrate-16", Cycle::Migrate(16), 0),
    plan("theory.migrate-32", Cycle::Migrate(32), 0),
    plan("theory.migrate-63", Cycle::Migrate(63), 0),
    plan("theory.migrate-32-with-map", Cycle::Migrate(32), 1),
    plan("theory.period-1", Cycle::Period(1), 0),
    plan("theory.period-2", Cycle::Period(2), 0),
    plan(BEST, Cycle::Period(2), 0),
];

const MS: f64 = 1e6;
/// P4's time of a program in milliseconds.
const PROGRAM_MS: f64 = 1.013;
/// Number of measured cycles; further cycles before them are not measured.
const CYCLES: u32 = 40;

/// The costs of P4's chip with `map_pages` pages of the map for each recycling. A page of the map
/// costs its program, and its share of the erase of a block of map pages.
fn costs(map_pages: u32) -> Costs {
    let plain = Costs::P4;
    let page = PROGRAM_MS + plain.erase / f64::from(plain.pages_per_block);
    Costs { map: f64::from(map_pages) * page, ..plain }
}

impl Plan {
    /// Milliseconds for each writable page; for the row `BEST` the best number of migrations.
    pub fn theory(&self) -> f64 {
        let costs = costs(self.map_pages);
        match self.cycle {
            Cycle::Merge => costs.merge_per_page(),
            Cycle::Migrate(pages) => costs.migration_per_page(f64::from(pages)),
            Cycle::Period(alpha) if self.id == BEST => best(&costs, alpha) as f64,
            Cycle::Period(alpha) => costs.period_per_page(f64::from(alpha), best(&costs, alpha) as f64),
        }
    }

    fn title(&self) -> String {
        let map = if self.map_pages > 0 { ", a page of the map each" } else { "" };
        let best = |alpha| best(&costs(self.map_pages), alpha);
        match self.cycle {
            Cycle::Merge => format!("ms for each page won by merges{map}"),
            Cycle::Migrate(pages) => format!("ms for each page won by migrations of {pages} pages{map}"),
            Cycle::Period(alpha) if self.id == BEST => {
                format!("best number of migrations before a merge at alpha {alpha}")
            }
            Cycle::Period(alpha) => {
                format!("ms for each page won by {} migrations at alpha {alpha} and a merge", best(alpha))
            }
        }
    }

    const fn source(&self) -> &'static str {
        match self.cycle {
            Cycle::Merge => "P4: W_merge = (2 C_E + Np C_cp) / Np",
            Cycle::Migrate(_) => "P4: W_mig(p) = (C_E + p C_cp) / (Np - p)",
            Cycle::Period(_) => "P4: W(n) of n migrations with P_n = alpha n and one merge, least at n0",
        }
    }

    fn simulated(&self) -> Result<f64, LabError> {
        let np = Costs::P4.pages_per_block;
        match self.cycle {
            Cycle::Merge => measured("merge", 0, self.map_pages, &[np / 2]),
            Cycle::Migrate(pages) => measured("merge+migration", 0, self.map_pages, &[pages]),
            Cycle::Period(alpha) => {
                let period = |n: u64| {
                    // The last entry is the log block that is merged; its number of valid pages
                    // does not matter.
                    let valid: Vec<u32> = (1..=n as u32 + 1).map(|k| alpha * k).collect();
                    measured("limit", n as u32, self.map_pages, &valid)
                };
                let expected = best(&costs(self.map_pages), alpha);
                if self.id != BEST {
                    return period(expected);
                }
                let mut least = (f64::INFINITY, 0);
                // Every number of migrations that leaves each log block a page to win.
                for n in 1..u64::from(np / alpha.max(1)).saturating_sub(1) {
                    let cost = period(n)?;
                    if cost < least.0 {
                        least = (cost, n);
                    }
                }
                Ok(least.1 as f64)
            }
        }
    }
}

fn best(costs: &Costs, alpha: u32) -> u64 {
    costs.best_migrations(f64::from(alpha)).unwrap_or(0)
}

/// Overwrites pages of the first logical block, so that the k-th log block of each cycle ends with
/// `valid[k]` valid pages.
struct Cycles<'a> {
    valid: &'a [u32],
    pages_per_block: u32,
    cycles: u32,
    /// Whether the whole logical block is written first, so that recycling finds all its pages.
    fill: bool,
}

impl Cycles<'_> {
    /// Runs the cycles; returns the number of pages written.
    fn run(&self, device: &mut dyn BlockDevice) -> Result<u64, LabError> {
        let length = device.geometry().sector_size;
        let mut written = 0;
        let mut write = |page: u32| {
            written += 1;
            let description =
                Description { record: u64::from(page), version: 0, offset: 0, generator: Generator::Record };
            let data = Payload::Described(Described { description, length });
            let done = device.write(&Context::default(), Lba(u64::from(page)), data);
            done.map(|_| ()).map_err(|error| LabError::Failed(error.to_string()))
        };
        if self.fill {
            (0..self.pages_per_block).try_for_each(&mut write)?;
        }
        let migrates_for_ever = self.valid.len() == 1;
        for cycle in 0..self.cycles {
            // Valid pages that the migration before left in the log block; a merge leaves none.
            let mut kept = 0;
            for &valid in self.valid {
                // Migrations for ever keep what they had; the log block of a merge begins empty, as
                // that of the first cycle.
                let had = if migrates_for_ever && !(self.fill && cycle == 0) { valid } else { kept };
                let room = self.pages_per_block - if self.keeps() { had } else { 0 };
                // New pages first, the others again and again; from the last on, since a log block
                // in order becomes the data block.
                let pages = (kept..valid).rev().chain((0..valid).rev().cycle());
                pages.take(room as usize).try_for_each(&mut write)?;
                kept = valid;
            }
        }
        Ok(written)
    }

    /// Whether a recycling keeps the log block's valid pages: a migration does.
    const fn keeps(&self) -> bool {
        self.valid.len() > 1 || self.valid[0] * 2 < self.pages_per_block
    }
}

/// Milliseconds that the device was busy beside the programs of the host's pages, for each of them.
fn measured(policy: &str, limit: u32, map_pages: u32, valid: &[u32]) -> Result<f64, LabError> {
    let spec = format!(
        "fs = \"none\"\nftl = {{ kind = \"block-map\", policy = \"{policy}\", limit = {limit}, map_pages = {map_pages} }}\n\
         device = {{ preset = \"k9l8g08u0m\", store = \"shadow\", blocks = 256 }}"
    );
    let spec: StackSpec =
        toml::from_str(&spec).map_err(|error| SpecError::new("stack", error.message().to_string()))?;
    let mut stack = Stack::build(&spec, 1).map_err(|error| LabError::Failed(error.to_string()))?;
    let Stack { mounted: Mounted::Blocks(blocks), watched, .. } = &mut stack else {
        return Err(LabError::Failed("the stack is no block device".to_string()));
    };
    let busy_ms = || watched.flash.as_ref().map_or(0.0, |flash| flash.snapshot().total().busy_ns as f64 / MS);
    let pages_per_block = Costs::P4.pages_per_block;
    let cycles = |cycles, fill| Cycles { valid, pages_per_block, cycles, fill };
    blocks.locked(|device| cycles(2, true).run(device))?;
    let before = busy_ms();
    let written = blocks.locked(|device| cycles(CYCLES, false).run(device))?;
    Ok((busy_ms() - before) / written as f64 - PROGRAM_MS)
}

/// Measures the wanted rows.
pub fn rows(request: &Request<'_>) -> Result<Vec<Row>, LabError> {
    let wanted = ROWS.iter().filter(|plan| (request.wanted)(plan.id));
    wanted
        .map(|plan| {
            Ok(Row {
                id: plan.id,
                name: plan.title(),
                theory: plan.theory(),
                simulation: vec![plan.simulated()?],
                source: plan.source(),
                note: String::new(),
            })
        })
        .collect()
}
