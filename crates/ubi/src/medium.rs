//! Reading bytes of a PEB: the only module that calls [`Flash`].

use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::{BlockIndex, Cause, Clock, Context};
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
}
