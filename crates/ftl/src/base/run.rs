//! Consecutive copies, issued to the chip together: most of a merge's work.
//!
//! The result equals that of [`Base::copy`] for each page, in the same order and with the same
//! sequence numbers.

use nandkit_flash::{ErrorKind, Flash};
use nandkit_units::{BlockIndex, Cause, PageAddress};

use super::{Base, Copied, Label};
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::tag::TAG_BYTES;

/// Pending copies to consecutive pages of one block.
#[derive(Debug, Default)]
pub(crate) struct CopyList {
    to: PageAddress,
    from: Vec<PageAddress>,
    /// The label of each copy, in the form of [`Label::packed`].
    labels: Vec<u64>,
    /// The source blocks whose pages can join without a check: a merge alternates between log block
    /// and data block.
    open: [Option<BlockIndex>; 2],
    /// Buffer, kept to reuse its memory.
    images: Vec<[u8; TAG_BYTES]>,
}

impl CopyList {
    fn clear(&mut self) {
        self.from.clear();
        self.labels.clear();
        self.open = [None; 2];
    }

    /// Adds a copy to the next page if its source block is known to fit the run. Called for each
    /// page of a merge.
    #[inline(always)]
    pub fn join(&mut self, from: PageAddress, label: Label) -> bool {
        let fits = self.open.contains(&Some(from.block));
        if fits {
            self.from.push(from);
            self.labels.push(label.packed());
        }
        fits
    }
}

impl<F: Flash> Base<F> {
    /// Discards what a failed attempt left.
    pub fn begin_copies(&mut self) {
        self.run.clear();
    }

    /// Copies a page under a new tag, now or with the next [`Base::finish_copies`]. Targets are
    /// consecutive pages of one block. Offsets of lost pages are added to `lost`.
    #[inline]
    pub fn copy_later(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        (from, to): (PageAddress, PageAddress),
        label: Label,
        lost: &mut Vec<u32>,
    ) -> LayerResult<()> {
        if self.run.join(from, label) { Ok(()) } else { self.open_run(chain, cause, (from, to), label, lost) }
    }

    /// Copies a page that cannot join the current run: its source block was not checked, or not
    /// recently, or copies are issued one by one.
    #[inline(never)]
    fn open_run(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        (from, to): (PageAddress, PageAddress),
        label: Label,
        lost: &mut Vec<u32>,
    ) -> LayerResult<()> {
        // Pages that wait for a completed program come first (rule 5), and held pages must not be
        // read again (`held`).
        let plain = self.held.is_empty() && self.is_confirmed() && self.use_copyback;
        if !plain || !self.reaches(from.block, to.block) {
            self.finish_copies(chain, cause, lost)?;
            return self.copy_now(chain, cause, (from, to), label, lost);
        }
        if self.run.from.is_empty() {
            self.run.to = to;
        }
        self.run.open = [Some(from.block), self.run.open[0]];
        self.run.join(from, label);
        Ok(())
    }

    /// Copies one page without a run.
    pub fn copy_now(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        (from, to): (PageAddress, PageAddress),
        label: Label,
        lost: &mut Vec<u32>,
    ) -> LayerResult<()> {
        if self.copy(chain, cause, from, to, label)? == Copied::Poisoned {
            lost.push(label.offset);
        }
        Ok(())
    }

    /// Issues the pending copies.
    pub fn finish_copies(&mut self, chain: &mut Chain, cause: Cause, lost: &mut Vec<u32>) -> LayerResult<()> {
        if self.run.from.is_empty() {
            return Ok(());
        }
        let mut list = std::mem::take(&mut self.run);
        let result = self.issue(chain, cause, &mut list, lost);
        list.clear();
        self.run = list;
        result
    }

    fn issue(&mut self, chain: &mut Chain, cause: Cause, list: &mut CopyList, lost: &mut Vec<u32>) -> LayerResult<()> {
        let CopyList { to, from, labels, images, .. } = list;
        let (to, before, format) = (*to, self.sequence, self.shape.tag);
        let Some(copyback) = self.flash.copyback() else { return self.copy_rest(chain, cause, list, 0, lost) };
        images.clear();
        images.extend(labels.iter().zip(before + 1..).map(|(label, sequence)| format.image(*label, sequence)));
        let run = copyback.copy_run(&chain.next(Some(cause)), from, to, images.as_flattened());
        chain.advance(run.done);
        self.sequence += run.copied as u64;
        self.counters.copies += run.copied as u64;
        self.counters.count_copies(run.copied as u64, run.done.busy);
        let Some(error) = run.failed else { return Ok(()) };
        // The failed copy used its sequence number; the copies after it did not.
        self.counters.copies += 1;
        self.sequence += 1;
        if error.kind != ErrorKind::Uncorrectable {
            return Err(self.failed(chain, error));
        }
        chain.advance_to(error.completed);
        if let Some(label) = labels.get(run.copied).map(|packed| Label::unpacked(*packed)) {
            self.poison(chain, cause, to.block.page(to.page + run.copied as u32), label)?;
            lost.push(label.offset);
        }
        self.copy_rest(chain, cause, list, run.copied + 1, lost)
    }

    /// Copies page by page, starting with the list's entry `first`, under new sequence numbers.
    #[cold]
    fn copy_rest(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        list: &CopyList,
        first: usize,
        lost: &mut Vec<u32>,
    ) -> LayerResult<()> {
        for (index, (from, packed)) in list.from.iter().zip(&list.labels).enumerate().skip(first) {
            let to = list.to.block.page(list.to.page + index as u32);
            self.copy_now(chain, cause, (*from, to), Label::unpacked(*packed), lost)?;
        }
        Ok(())
    }
}
