//! Reading bytes of a PEB: the only module that calls [`Flash`].

use nandkit_flash::{ErrorKind, Flash, FlashError, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Cause, Clock, Context, Done};
use nandkit_vfs::{FsError, Result};

use crate::Peb;

/// Whether the bytes read are reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Soundness {
    /// Reliable, as far as the device can tell.
    Sound,
    /// The device could not correct all bit errors: the bytes are damaged.
    Uncorrectable,
}

impl Soundness {
    /// Whether the bytes are reliable.
    pub fn is_sound(self) -> bool {
        self == Self::Sound
    }
}

/// Whether a PEB took a program or an erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Health {
    /// It did.
    Good,
    /// It failed for good: its content has to move, and it is marked bad.
    Failed,
}

/// A flash device as PEBs with bytes, and the clock that its reads advance.
#[derive(Debug)]
pub(crate) struct Medium<F> {
    pub flash: F,
    pub clock: Clock,
}

impl<F: Flash> Medium<F> {
    /// Number of PEBs, also bad ones.
    pub fn pebs(&self) -> u32 {
        self.flash.geometry().blocks
    }

    /// Bytes per PEB; 0 if it has more than 32 bits can count.
    pub fn peb_size(&self) -> u32 {
        u32::try_from(self.flash.geometry().block_size()).unwrap_or(0)
    }

    /// Whether the block is marked bad.
    pub fn is_bad(&self, peb: Peb) -> bool {
        self.flash.is_bad(BlockIndex(peb.0))
    }

    /// Reads bytes of a PEB from `offset` on. Errors: those of the device, except for uncorrectable
    /// pages, whose damaged bytes are returned. Time: that of the device, page after page.
    pub fn read(&self, peb: Peb, offset: u32, into: &mut [u8], cause: Cause) -> Result<Soundness> {
        let page_size = self.flash.geometry().page_size.max(1);
        let mut soundness = Soundness::Sound;
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let column = at % page_size;
            let length = rest.len().min((page_size - column) as usize);
            let (piece, tail) = rest.split_at_mut(length);
            let context = Context { cause, ..Context::at(self.clock.now()) };
            let page = BlockIndex(peb.0).page(at / page_size);
            match self.flash.read(&context, page, PageRead::bytes(column, piece)) {
                Ok(done) => self.clock.advance_to(done.completed),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    self.clock.advance_to(error.completed.max(context.issued));
                    soundness = Soundness::Uncorrectable;
                }
                Err(error) => return Err(FsError::device(format!("PEB {} cannot be read", peb.0), error)),
            }
            at = at.saturating_add(length as u32);
            rest = tail;
        }
        Ok(soundness)
    }

    /// Bytes in which the flash is written.
    pub fn write_unit(&self) -> u32 {
        self.flash.geometry().write_unit.max(1)
    }

    /// Programs bytes of a PEB from `offset` on, filled up with 0xFF to whole write units. Errors:
    /// those of the device, except that the block failed. Time: as of [`Medium::read`].
    pub fn program(&mut self, peb: Peb, offset: u32, bytes: &[u8], cause: Cause) -> Result<Health> {
        let page_size = self.flash.geometry().page_size.max(1);
        let unit = self.write_unit() as usize;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let column = at % page_size;
            let (piece, tail) = rest.split_at(rest.len().min((page_size - column) as usize));
            let filled;
            let piece = match piece.len().is_multiple_of(unit) {
                true => piece,
                false => {
                    let fill = std::iter::repeat_n(0xFF, piece.len().next_multiple_of(unit) - piece.len());
                    filled = piece.iter().copied().chain(fill).collect::<Vec<u8>>();
                    &filled
                }
            };
            let context = Context { cause, ..Context::at(self.clock.now()) };
            let page = BlockIndex(peb.0).page(at / page_size);
            let done = self.flash.program(&context, page, PageProgram::bytes(column, piece));
            if self.settled(peb, done, &context)? == Health::Failed {
                return Ok(Health::Failed);
            }
            at = at.saturating_add(piece.len() as u32);
            rest = tail;
        }
        Ok(Health::Good)
    }

    /// Erases a PEB. Errors: those of the device, except that the block failed.
    pub fn erase(&mut self, peb: Peb) -> Result<Health> {
        let context = Context { cause: Cause::Mapping, ..Context::at(self.clock.now()) };
        let done = self.flash.erase(&context, BlockIndex(peb.0));
        self.settled(peb, done, &context)
    }

    /// Marks a PEB bad. Errors: those of the device.
    pub fn mark_bad(&mut self, peb: Peb) -> Result<()> {
        let context = Context { cause: Cause::Mapping, ..Context::at(self.clock.now()) };
        let done = self.flash.mark_bad(&context, BlockIndex(peb.0));
        let done = done.map_err(|error| FsError::device(format!("PEB {} cannot be marked bad", peb.0), error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Makes all writes durable. Errors: those of the device.
    pub fn sync(&mut self) -> Result<()> {
        let context = Context::at(self.clock.now());
        let done = self.flash.sync(&context).map_err(|error| FsError::device("the flash cannot be synced", error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Advances the clock to the end of a program or an erase.
    fn settled(&self, peb: Peb, done: nandkit_flash::Result<Done>, context: &Context) -> Result<Health> {
        match done {
            Ok(done) => {
                self.clock.advance_to(done.completed);
                Ok(Health::Good)
            }
            Err(FlashError { kind: ErrorKind::ProgramFailed | ErrorKind::EraseFailed, completed, .. }) => {
                self.clock.advance_to(completed.max(context.issued));
                Ok(Health::Failed)
            }
            Err(error) => Err(FsError::device(format!("PEB {} cannot be written", peb.0), error)),
        }
    }
}
