//! What is different on a NOR part: bits may be cleared at any time, and nothing else of a page
//! counts.

use nandkit_flash::{ErrorKind, FlashError, Operation, PageProgram, Result};
use nandkit_units::random::hash;
use nandkit_units::{PageAddress, Payload, ReadInto};

use crate::blocks::BlockState;
use crate::chip::{NandChip, misuse};
use crate::store::{SlotPage, Store};

const DRAW_NOR: u64 = 0x403_0001;

impl<S: Store> NandChip<S> {
    /// Refuses a program that would set a bit.
    pub(crate) fn check_bits(&self, at: PageAddress, state: &BlockState, program: &PageProgram<'_>) -> Result<()> {
        let Some(slot) = state.slot().filter(|_| at.page < state.next_page) else { return Ok(()) };
        let mut old = vec![0xFF; program.data.len()];
        let place = SlotPage { slot, page: at.page };
        if self.store.read(place, program.column, &mut ReadInto::Bytes(&mut old), &mut []).is_err() {
            let what = "the store keeps no bytes of this page, and a program of NOR must know them";
            return Err(FlashError::new(ErrorKind::NoContent, Operation::Program, at, what));
        }
        if old.iter().all(|byte| *byte == 0xFF) {
            return Ok(());
        }
        let mut new = vec![0; old.len()];
        program.data.copy_to(&mut new);
        match old.iter().zip(&new).any(|(old, new)| new & !old != 0) {
            true => Err(misuse(Operation::Program, at, "a program can clear bits but not set them")),
            false => Ok(()),
        }
    }

    /// What a program leaves of its bytes that was cut off while it cleared bits: by the seed some
    /// of these are cleared already. What else the page holds is as it was.
    pub(crate) fn half_cleared(&self, at: PageAddress, state: &BlockState, data: Payload<'_>) -> Vec<u8> {
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let seed =
            hash(self.seed ^ DRAW_NOR, u64::from(at.block.0) << 32 | u64::from(at.page), u64::from(state.erases));
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte |= hash(seed, place as u64, 0) as u8;
        }
        bytes
    }
}
