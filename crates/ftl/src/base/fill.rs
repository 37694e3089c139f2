//! Filling a data block with each page at its own offset.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, PageAddress};

use super::{Base, Label};
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::tag::{Role, flag};

/// Which pages a data block is filled with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    pub cause: Cause,
    pub lbn: u32,
    pub target: u32,
    pub first: u32,
    /// One past the last page with content.
    pub end: u32,
    /// Every page of the block has content, and none is lost.
    pub full: bool,
}

impl<F: Flash> Base<F> {
    /// Copies the pages of a logical block into a block and returns the offsets of pages found
    /// lost. Pages without content are filled up to the last page with content, because chips
    /// require a block's pages to be programmed in order. The last page closes the block (rule 6).
    /// `source` returns a page's current address, and whether it is lost.
    pub fn fill_in_place(
        &mut self,
        chain: &mut Chain,
        filling: Filling,
        source: impl Fn(u32) -> Option<(PageAddress, bool)>,
    ) -> LayerResult<Vec<u32>> {
        let Filling { cause, lbn, target, first, full, .. } = filling;
        let last = filling.end.max(first + 1) - 1;
        let label = |flags, offset| Label { role: Role::DataCopy, flags, block: lbn, offset };
        let mut lost = Vec::new();
        self.begin_copies();
        for offset in first..last {
            let from = source(offset);
            if let Some((from, false)) = from
                && self.run.join(from, label(0, offset))
            {
                continue;
            }
            self.place(chain, cause, target, label(0, offset), (from, &mut lost))?;
        }
        // Only when all other pages are in the block is it known whether it is full.
        self.finish_copies(chain, cause, &mut lost)?;
        let flags = if full && lost.is_empty() { flag::LAST | flag::FULL } else { flag::LAST };
        self.place(chain, cause, target, label(flags, last), (source(last), &mut lost))?;
        self.finish_copies(chain, cause, &mut lost)?;
        Ok(lost)
    }

    /// Programs a page, or a marker that it has no content, at its offset.
    #[inline(never)]
    fn place(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        target: u32,
        mut label: Label,
        (from, lost): (Option<(PageAddress, bool)>, &mut Vec<u32>),
    ) -> LayerResult<()> {
        let to = BlockIndex(target).page(label.offset);
        let Some((from, poisoned)) = from else {
            self.finish_copies(chain, cause, lost)?;
            label.flags |= flag::TOMB;
            return self.program(chain, Some(cause), to, label, &self.empty_page());
        };
        if poisoned {
            label.flags |= flag::POISON;
        }
        self.copy_later(chain, cause, (from, to), label, lost)
    }

    /// Tries blocks until one is filled. A target in which a program fails is marked bad at once:
    /// no unfinished target outlives the next program (rule 9).
    pub fn fill_new_block<T>(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        mut fill: impl FnMut(&mut Self, &mut Chain, u32) -> LayerResult<T>,
    ) -> LayerResult<(u32, T)> {
        loop {
            let target = self.allocate(chain, cause)?;
            match fill(self, chain, target) {
                Ok(filled) => return Ok((target, filled)),
                Err(failure) if failure.is_bad_block() => self.mark_bad(chain, target)?,
                Err(failure) => return Err(failure),
            }
        }
    }
}
