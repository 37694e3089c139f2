//! The journal's heads: where each goes on, and its bytes that are short of a unit of output.
//!
//! Readers look at LEBs through [`Buffers`], so that a node is there as soon as it was written.

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::encode::pad;
use crate::lebs::{LebWriter, Lebs};

/// Journal heads: collection, base (inodes and names), data.
pub(crate) const HEADS: usize = 3;
/// The head of inodes, names and attributes.
pub(crate) const BASE_HEAD: usize = 1;
/// The head of file data.
pub(crate) const DATA_HEAD: usize = 2;

/// Why what goes through a head is written.
const fn cause_of(head: usize) -> Cause {
    match head {
        BASE_HEAD => Cause::Metadata,
        DATA_HEAD => Cause::UserData,
        _ => Cause::Cleaning,
    }
}

/// A head of the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// The LEB that it writes; `None` before its first one.
    pub leb: Option<u32>,
    /// Where the next write to the flash begins.
    offset: u32,
    /// What is to be written there.
    pending: Vec<u8>,
}

impl Head {
    /// Where the next node begins.
    pub fn end(&self) -> u32 {
        self.offset + self.pending.len() as u32
    }
}

/// LEBs with what the heads have not written yet.
pub(crate) struct Buffers {
    lebs: Box<dyn Lebs>,
    heads: [Head; HEADS],
}

impl Buffers {
    /// LEBs with nothing to write.
    pub fn new(lebs: Box<dyn Lebs>) -> Self {
        Self { lebs, heads: Default::default() }
    }

    /// The LEBs.
    pub fn lebs(&self) -> &dyn Lebs {
        &*self.lebs
    }

    /// The LEBs, without what is not written.
    pub fn into_lebs(self) -> Box<dyn Lebs> {
        self.lebs
    }

    /// The side that writes. Errors: `ReadOnly`.
    pub fn writer(&mut self) -> Result<&mut dyn LebWriter> {
        self.lebs.writer().ok_or_else(|| FsError::new(ErrorKind::ReadOnly, "the medium is for reading"))
    }

    /// The side that writes, with the reason for what comes next. Errors: `ReadOnly`.
    pub fn writer_for(&mut self, cause: Cause) -> Result<&mut dyn LebWriter> {
        let writer = self.writer()?;
        writer.set_cause(cause);
        Ok(writer)
    }

    /// A head.
    pub fn head(&self, head: usize) -> &Head {
        const NONE: &Head = &Head { leb: None, offset: 0, pending: Vec::new() };
        self.heads.get(head).unwrap_or(NONE)
    }

    /// Sends a head to an offset of a LEB; it has nothing to write.
    pub fn seek(&mut self, head: usize, leb: Option<u32>, offset: u32) {
        if let Some(head) = self.heads.get_mut(head) {
            *head = Head { leb, offset, pending: Vec::new() };
        }
    }

    /// Appends nodes to a head, whose LEB has room for them. Whole units are written. Errors:
    /// those of the device.
    pub fn append(&mut self, head: usize, unit: u32, bytes: &[u8]) -> Result<()> {
        let Self { lebs, heads } = self;
        let (Some(state), Some(writer)) = (heads.get_mut(head), lebs.writer()) else { return Ok(()) };
        writer.set_cause(cause_of(head));
        state.pending.extend_from_slice(bytes);
        let whole = state.pending.len() - state.pending.len() % unit.max(1) as usize;
        state.write(writer, whole)
    }

    /// Fills the last unit of a head and writes it; returns the padding in bytes. Errors: those of
    /// the device.
    pub fn flush(&mut self, head: usize, unit: u32) -> Result<u32> {
        let Self { lebs, heads } = self;
        let (Some(state), Some(writer)) = (heads.get_mut(head), lebs.writer()) else { return Ok(0) };
        writer.set_cause(cause_of(head));
        let (used, end) = (state.pending.len(), state.pending.len().next_multiple_of(unit.max(1) as usize));
        pad(&mut state.pending, end);
        state.write(writer, end)?;
        Ok((end - used) as u32)
    }
}

impl Head {
    fn write(&mut self, writer: &mut dyn LebWriter, length: usize) -> Result<()> {
        let (Some(leb), true) = (self.leb, length > 0) else { return Ok(()) };
        writer.write(leb, self.offset, self.pending.get(..length).unwrap_or_default())?;
        self.offset += length as u32;
        self.pending.drain(..length);
        Ok(())
    }
}

impl Lebs for Buffers {
    fn leb_size(&self) -> u32 {
        self.lebs.leb_size()
    }

    fn leb_count(&self) -> u32 {
        self.lebs.leb_count()
    }

    fn mapped(&self) -> u32 {
        self.lebs.mapped()
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        let pending = self.heads.iter().find(|head| head.leb == Some(leb) && !head.pending.is_empty());
        let Some(head) = pending.filter(|head| u64::from(offset) + into.len() as u64 > head.offset.into()) else {
            return self.lebs.read(leb, offset, into);
        };
        // What stands before the buffer is on the flash.
        let before = into.len().min(head.offset.saturating_sub(offset) as usize);
        let (written, rest) = into.split_at_mut(before);
        if !written.is_empty() {
            self.lebs.read(leb, offset, written)?;
        }
        rest.fill(0xFF);
        let skipped = offset.saturating_sub(head.offset) as usize;
        rest.iter_mut().zip(head.pending.iter().skip(skipped)).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        self.lebs.writer()
    }
}
