//! The time of a read-ahead whose pieces lie apart: how much of it comes from more requests, and
//! how much from pieces on the same dies (FAST 2024: fragments are slow because of their dies).
//!
//! The runs use the bare device, and request the pieces of a read-ahead all at once, as F2FS does.
//! Pages of writers in turns are written at the addresses that a log would give them. With 64
//! writers the pages of a writer fall on the same dies each time, with 63 they do not.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_record::{LayerValue, RunRecord, run_key};
use nandkit_stack::{Mounted, Stack, StackSpec};
use nandkit_units::{Clock, Context, Described, Description, Generator, Lba, Payload, ReadInto};
use serde_json::{Value, json};

use super::archive::failed;
use super::{empty_record, spec_of};
use crate::LabError;
use crate::job::{Inside, Job};
use crate::run_spec::VERSION;

/// The kind of these runs in records.
const KIND: &str = "dies";
/// Pages of a read-ahead, 128 KiB.
const WINDOW: u64 = 32;
/// Read-aheads of each writer's pages.
const WINDOWS: u64 = 4;
const PAGE: u32 = 4096;

/// Writers in turns on a device.
#[derive(Clone, Debug)]
pub struct Dies {
    /// The device, without a file system.
    pub stack: StackSpec,
    /// Number of writers.
    pub writers: u64,
    /// Pages of a piece.
    pub pages: u64,
    /// Seed of faults.
    pub seed: u64,
}

impl Dies {
    pub(super) fn spec(&self) -> Value {
        spec_of(KIND, &json!({"writers": self.writers, "pages": self.pages}), &self.stack, false)
    }

    fn write(&self, device: &mut dyn BlockDevice, clock: &Clock) -> nandkit_block::Result<()> {
        for at in (0..self.writers * WINDOW * WINDOWS).step_by(self.pages as usize) {
            let length = self.pages as u32 * PAGE;
            let description = Description { record: at, version: 0, offset: 0, generator: Generator::Record };
            let data = Payload::Described(Described { description, length });
            clock.advance_to(device.write(&Context::at(clock.now()), Lba(at), data)?.completed);
        }
        clock.advance_to(device.flush(&Context::at(clock.now()))?.completed);
        Ok(())
    }

    /// Reads all pages of each writer, the pieces of a read-ahead at once.
    fn read(&self, device: &dyn BlockDevice, clock: &Clock) -> nandkit_block::Result<()> {
        let pieces = WINDOW / self.pages;
        for writer in 0..self.writers {
            for window in 0..WINDOWS {
                let (issued, mut ended) = (clock.now(), clock.now());
                for piece in window * pieces..(window + 1) * pieces {
                    let at = Lba((piece * self.writers + writer) * self.pages);
                    let into = ReadInto::Nothing { length: self.pages as u32 * PAGE };
                    ended = ended.max(device.read(&Context::at(issued), at, into)?.completed);
                }
                clock.advance_to(ended);
            }
        }
        Ok(())
    }
}

impl Job for Dies {
    fn key(&self) -> String {
        run_key(VERSION, self.seed, &self.spec())
    }

    fn title(&self) -> String {
        format!("{} writers of {} pages in turns on {}", self.writers, self.pages, self.stack.title())
    }

    fn run(&self, _: Inside<'_>) -> Result<RunRecord, LabError> {
        let stack = Stack::build(&self.stack, self.seed).map_err(failed)?;
        let Mounted::Blocks(blocks) = &stack.mounted else { return Err(failed("a file system")) };
        let clock = &stack.clock;
        let read_ns = blocks.locked(|device| {
            self.write(device, clock)?;
            let began = clock.now();
            self.read(device, clock).map(|()| clock.now().since(began).0)
        });
        let window_ns = read_ns.map_err(failed)? / (self.writers * WINDOWS).max(1);
        let counted = BTreeMap::from([("window_ns".to_string(), LayerValue::Count(window_ns))]);
        let layers = BTreeMap::from([(KIND.to_string(), counted)]);
        Ok(RunRecord { layers, ..empty_record(KIND, self.spec(), &self.stack, self.seed) })
    }
}
