//! Copies that follow one another, handed to the chip together: most of what a merge does.
//!
//! The outcome is that of [`Base::copy`] for each page, in the same order, with the same sequence numbers.

use nandkit_flash::{ErrorKind, Flash};
use nandkit_units::{Cause, PageAddress};

use super::{Base, Copied, Label};
use crate::chain::Chain;
use crate::failure::Outcome;
use crate::tag::{TAG_BYTES, TagRead};

/// Copies that wait to be issued: to consecutive pages of one block.
#[derive(Debug, Default)]
pub(crate) struct CopyList {
    to: PageAddress,
    from: Vec<PageAddress>,
    images: Vec<[u8; TAG_BYTES]>,
    /// The sequence number before that of the first image.
    sequence: u64,
}

impl<F: Flash> Base<F> {
    /// Forgets what an attempt that failed has left.
    pub fn begin_copies(&mut self) {
        self.run.from.clear();
        self.run.images.clear();
    }

    /// Copies a page under a new tag, now or with the next [`Base::finish_copies`]. The targets are the pages of a block one after the other. Offsets of
    /// pages that were found lost are added to `lost`.
    #[inline]
    pub fn copy_later(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        (from, to): (PageAddress, PageAddress),
        label: Label,
        lost: &mut Vec<u32>,
    ) -> Outcome<()> {
        // What waits for a program to complete goes first (rule 5), and what must not be read again is not (`held`).
        let plain = self.held.is_empty() && self.is_confirmed() && self.use_copyback;
        if !plain || !self.reaches(from.block, to.block) {
            self.finish_copies(chain, cause, lost)?;
            return self.copy_now(chain, cause, (from, to), label, lost);
        }
        if self.run.from.is_empty() {
            (self.run.to, self.run.sequence) = (to, self.sequence);
        }
        let image = self.next_oob(label);
        self.run.from.push(from);
        self.run.images.push(image);
        Ok(())
    }

    /// Copies a page by itself.
    pub fn copy_now(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        (from, to): (PageAddress, PageAddress),
        label: Label,
        lost: &mut Vec<u32>,
    ) -> Outcome<()> {
        if self.copy(chain, cause, from, to, label)? == Copied::Poisoned {
            lost.push(label.offset);
        }
        Ok(())
    }

    /// Issues the copies that wait.
    pub fn finish_copies(&mut self, chain: &mut Chain, cause: Cause, lost: &mut Vec<u32>) -> Outcome<()> {
        if self.run.from.is_empty() {
            return Ok(());
        }
        let mut list = std::mem::take(&mut self.run);
        let result = self.issue(chain, cause, &list, lost);
        list.from.clear();
        list.images.clear();
        self.run = list;
        result
    }

    fn issue(&mut self, chain: &mut Chain, cause: Cause, list: &CopyList, lost: &mut Vec<u32>) -> Outcome<()> {
        let CopyList { to, from, images, sequence } = list;
        let Some(copyback) = self.flash.copyback() else {
            self.sequence = *sequence;
            return self.copy_rest(chain, cause, list, 0, lost);
        };
        let run = copyback.copy_run(&chain.next(Some(cause)), from, *to, images.as_flattened());
        chain.advance(run.done);
        self.counters.copies += run.copied as u64;
        self.counters.count_copies(run.copied as u64, run.done.busy);
        let Some(error) = run.failed else { return Ok(()) };
        // The number of the copy that failed is spent, those behind it are not.
        self.counters.copies += 1;
        self.sequence = sequence + run.copied as u64 + 1;
        if error.kind != ErrorKind::Uncorrectable {
            return Err(self.failed(chain, error));
        }
        chain.advance_to(error.completed);
        if let Some(label) = images.get(run.copied).and_then(|image| self.label_of(image)) {
            self.poison(chain, cause, to.block.page(to.page + run.copied as u32), label)?;
            lost.push(label.offset);
        }
        self.copy_rest(chain, cause, list, run.copied + 1, lost)
    }

    /// Copies page by page from the `first` of the list on, under new sequence numbers.
    #[cold]
    fn copy_rest(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        list: &CopyList,
        first: usize,
        lost: &mut Vec<u32>,
    ) -> Outcome<()> {
        for (index, (from, image)) in list.from.iter().zip(&list.images).enumerate().skip(first) {
            if let Some(label) = self.label_of(image) {
                let to = list.to.block.page(list.to.page + index as u32);
                self.copy_now(chain, cause, (*from, to), label, lost)?;
            }
        }
        Ok(())
    }

    /// What the layer wrote into a tag.
    fn label_of(&self, image: &[u8; TAG_BYTES]) -> Option<Label> {
        match self.shape.tag.decode(image) {
            TagRead::Valid(tag) => {
                Some(Label { role: tag.role, flags: tag.flags, block: tag.block, offset: tag.offset })
            }
            TagRead::Blank | TagRead::Bad => None,
        }
    }
}
