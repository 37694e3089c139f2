//! One command on several planes of a die: transfers one after the other, array times together.

use nandkit_flash::{FlashError, MultiPlane, Operation, PageProgram, Result};
use nandkit_units::{BlockIndex, Context, Done, PageAddress};

use crate::chip::{NandChip, misuse};
use crate::die_queues::Work;
use crate::store::Store;

impl<S: Store> MultiPlane for NandChip<S> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        let first = programs.first().map_or(PageAddress::default(), |(at, _)| *at);
        if let Err(rule) = self.rules.check_planes(programs.iter().map(|(at, _)| *at)) {
            return Err(misuse(Operation::Program, first, rule));
        }
        for (at, program) in programs {
            self.admit_program(*at, program)?;
        }
        let transfer =
            programs.iter().map(|(_, program)| self.times.transfer(program.data.len() + program.oob.len())).sum();
        let array = programs.iter().map(|(at, _)| self.times.program(at.page)).max().unwrap_or(0);
        let done = self.schedule_write(context, (Work::Program, first), (transfer, array));
        let mut first_error: Option<FlashError> = None;
        for (at, program) in programs {
            let state = self.state_for_change(at.block);
            self.counters.programs += 1;
            self.put(context, *at, &state, program);
            if let Err(error) = self.settle(Operation::Program, *at, &state, (done.completed, done.busy)) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(done), Err)
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        let first = blocks.first().copied().unwrap_or_default();
        if let Err(rule) = self.rules.check_planes(blocks.iter().map(|block| block.page(0))) {
            return Err(misuse(Operation::Erase, first.page(0), rule));
        }
        for block in blocks {
            self.admit_erase(*block)?;
        }
        let done = self.schedule_write(context, (Work::Erase, first.page(0)), (0, self.times.erase));
        let mut first_error: Option<FlashError> = None;
        for block in blocks {
            let state = self.state_for_change(*block);
            if let Err(error) = self.finish_erase(*block, &state, done) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(done), Err)
    }
}
