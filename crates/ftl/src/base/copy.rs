//! Copying a page within the flash.

use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Cause, Content, Done, PageAddress, Payload, ReadInto};

use super::{Base, Label};
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{TAG_BYTES, flag};

/// Whether the content was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Whole,
    /// The source was unreadable, and the copy is marked as lost (rule 10).
    Poisoned,
}

impl<F: Flash> Base<F> {
    /// Copies a page under a new tag: with the chip's copyback if possible, else by reading and
    /// programming.
    #[inline]
    pub fn copy(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        from: PageAddress,
        to: PageAddress,
        label: Label,
    ) -> LayerResult<Copied> {
        self.counters.copies += 1;
        if self.held.is_empty() && self.use_copyback && self.reaches(from.block, to.block) {
            let oob = self.next_oob(label);
            if let Some(copyback) = self.flash.copyback() {
                return match copyback.copy(&chain.next(Some(cause)), from, to, Some(&oob)) {
                    Ok(done) => {
                        chain.advance(done);
                        self.counters.count_copy(done.busy);
                        self.confirm(chain)?;
                        Ok(Copied::Whole)
                    }
                    Err(error) if error.kind == ErrorKind::Uncorrectable => {
                        chain.advance_to(error.completed);
                        self.poison(chain, cause, to, label)
                    }
                    Err(error) => Err(self.failed(chain, error)),
                };
            }
        }
        self.copy_through_host(chain, cause, from, to, label)
    }

    /// Whether the chip's copyback works between two blocks; the answer for a pair never changes.
    #[inline]
    pub(super) fn reaches(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        let both = &mut self.reach;
        if let Some((_, _, answer)) = both.iter().find(|(a, b, _)| (*a, *b) == (from, to)) {
            return *answer;
        }
        let answer = self.flash.copyback().is_some_and(|copyback| copyback.can_copy(from, to));
        // A merge alternates between two sources: log block and data block.
        both.swap(0, 1);
        both[0] = (from, to, answer);
        answer
    }

    fn copy_through_host(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        from: PageAddress,
        to: PageAddress,
        label: Label,
    ) -> LayerResult<Copied> {
        let before = chain.done();
        let mut content = std::mem::take(&mut self.scratch);
        let read = self.read_for_copy(chain, cause, from, &mut content);
        let result = match read {
            Ok(()) => self.program(chain, Some(cause), to, label, &self.payload_of(&content)).map(|()| Copied::Whole),
            Err(Failure::Unreadable) => self.poison(chain, cause, to, label),
            Err(failure) => Err(failure),
        };
        self.scratch = content;
        if result.is_ok() {
            self.counters.count_copy(chain.done().busy - before.busy);
        }
        result
    }

    fn payload_of<'a>(&self, content: &'a Content) -> Payload<'a> {
        if content.is_empty() { self.empty_page() } else { content.payload() }
    }

    /// Reads a whole page; the content stays empty on a chip that stores none.
    fn read_for_copy(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        from: PageAddress,
        content: &mut Content,
    ) -> LayerResult<()> {
        if let Some((_, held)) = self.held.iter().find(|(at, _)| *at == from) {
            content.clone_from(held);
            return Ok(());
        }
        self.read_page(chain, cause, from, content).map(|_| ())
    }

    /// Reads a whole page and its OOB. A chip that stores no bytes performs the same operation and
    /// returns empty content and a zeroed OOB, which is no valid tag. Errors: `Unreadable` if the
    /// page is lost.
    pub fn read_page(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        from: PageAddress,
        content: &mut Content,
    ) -> LayerResult<[u8; TAG_BYTES]> {
        let mut oob = [0; TAG_BYTES];
        let data = ReadInto::Content { content, length: self.shape.page_size };
        match self.flash.read(&chain.next(Some(cause)), from, PageRead { column: 0, data, oob: &mut oob }) {
            Ok(done) => {
                chain.advance_read(done);
                Ok(oob)
            }
            Err(error) if error.kind == ErrorKind::NoContent => {
                // The read took place; only its content is missing.
                chain.advance(Done { completed: error.completed, busy: error.busy, corrected_bits: 0 });
                content.set_bytes(0);
                Ok([0; TAG_BYTES])
            }
            Err(error) => Err(self.lost(chain, error)),
        }
    }

    fn lost(&mut self, chain: &mut Chain, error: nandkit_flash::FlashError) -> Failure {
        if error.kind == ErrorKind::Uncorrectable {
            chain.advance_to(error.completed);
            return Failure::Unreadable;
        }
        self.failed(chain, error)
    }

    /// Programs a page that marks its content as lost.
    #[cold]
    pub(super) fn poison(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        to: PageAddress,
        label: Label,
    ) -> LayerResult<Copied> {
        self.counters.poisoned_pages += 1;
        let label = Label { flags: (label.flags | flag::POISON) & !flag::FULL, ..label };
        let oob = self.next_oob(label);
        match self.flash.program(&chain.next(Some(cause)), to, PageProgram::new(self.empty_page(), &oob)) {
            Ok(done) => {
                chain.advance(done);
                self.confirm(chain)?;
                Ok(Copied::Poisoned)
            }
            Err(error) => Err(self.failed(chain, error)),
        }
    }
}
