//! The arguments of a page read and a page program.

use nandkit_units::{Payload, ReadInto};

/// A page read.
#[derive(Debug)]
pub struct PageRead<'a> {
    /// First byte of the page's data.
    pub column: u32,
    /// The target of the data, with their length; may be empty.
    pub data: ReadInto<'a>,
    /// Filled with the OOB from offset 0 on; may be empty.
    pub oob: &'a mut [u8],
}

impl<'a> PageRead<'a> {
    /// Data bytes from `column` on, no OOB.
    #[inline]
    pub fn bytes(column: u32, bytes: &'a mut [u8]) -> Self {
        Self { column, data: ReadInto::Bytes(bytes), oob: &mut [] }
    }

    /// OOB bytes only.
    #[inline]
    pub fn oob(oob: &'a mut [u8]) -> Self {
        Self { column: 0, data: ReadInto::Nothing { length: 0 }, oob }
    }

    /// Passes the same read to a layer below; the caller can examine the result afterwards.
    #[inline]
    pub fn reborrow(&mut self) -> PageRead<'_> {
        PageRead { column: self.column, data: self.data.reborrow(), oob: self.oob }
    }
}

/// A page program.
#[derive(Clone, Copy, Debug)]
pub struct PageProgram<'a> {
    /// First byte of the page's data; a multiple of the write unit.
    pub column: u32,
    /// The data; may be empty (an OOB-only program).
    pub data: Payload<'a>,
    /// OOB bytes from offset 0 on; may be empty.
    pub oob: &'a [u8],
}

impl<'a> PageProgram<'a> {
    /// A program from the page's first byte on.
    #[inline]
    pub const fn new(data: Payload<'a>, oob: &'a [u8]) -> Self {
        Self { column: 0, data, oob }
    }

    /// Data bytes without OOB.
    #[inline]
    pub const fn bytes(column: u32, bytes: &'a [u8]) -> Self {
        Self { column, data: Payload::Bytes(bytes), oob: &[] }
    }
}
