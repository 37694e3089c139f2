//! Trim: kept in memory (rule 8).

use nandkit_flash::Flash;
use nandkit_units::{Described, Description, Payload};

use super::BlockMapFtl;
use crate::chain::Chain;
use crate::failure::Outcome;
use crate::shape::Piece;

impl<F: Flash> BlockMapFtl<F> {
    /// Forgets whole pages; parts of pages are overwritten with zeroes.
    pub(super) fn trim_bytes(&mut self, chain: &mut Chain, first_byte: u64, bytes: u64) -> Outcome<()> {
        let block_bytes = self.base.shape.block.recycling_size;
        let end = first_byte + bytes;
        let mut byte = first_byte;
        while byte < end {
            let left = usize::try_from(end - byte).unwrap_or(usize::MAX);
            let Some(piece) = self.base.shape.piece(byte, left, 0) else { break };
            if self.map.data(piece.lbn).is_none() && self.map.slot_of(piece.lbn).is_none() {
                byte = (u64::from(piece.lbn) + 1) * block_bytes;
                continue;
            }
            self.trim_piece(chain, &piece)?;
            byte += u64::from(piece.length);
        }
        Ok(())
    }

    fn trim_piece(&mut self, chain: &mut Chain, piece: &Piece) -> Outcome<()> {
        if !self.map.is_present(piece.lbn, piece.offset) {
            return Ok(());
        }
        if piece.length == self.base.shape.page_size {
            self.map.set_present(piece.lbn, piece.offset, false);
            self.set_poisoned(piece.lbn, piece.offset, false);
            return Ok(());
        }
        let zeroes = Payload::Described(Described { description: Description::default(), length: piece.length });
        self.write_piece(chain, piece, zeroes)
    }
}
