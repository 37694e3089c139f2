//! What UBIFS stands on: logical erase blocks with numbers.

use std::any::Any;
use std::sync::Arc;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

/// Logical erase blocks, for reading: a UBI volume, or the file that mkfs.ubifs makes for one.
pub trait Lebs: Any + Send + Sync {
    /// Bytes per LEB.
    fn leb_size(&self) -> u32;

    /// Number of LEBs.
    fn leb_count(&self) -> u32;

    /// Number of LEBs that can hold nodes: a hostile volume may claim billions that are not there.
    fn mapped(&self) -> u32 {
        self.leb_count()
    }

    /// Reads bytes of a LEB; unmapped LEBs, and what lies past the end, read as 0xFF. Damaged bytes
    /// are delivered as they are, since nodes have checksums of their own. Errors: `Device`.
    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()>;

    /// The side that writes; `None` if the medium is for reading.
    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        None
    }
}

/// LEBs that several readers share.
impl Lebs for Arc<dyn Lebs> {
    fn leb_size(&self) -> u32 {
        (**self).leb_size()
    }

    fn leb_count(&self) -> u32 {
        (**self).leb_count()
    }

    fn mapped(&self) -> u32 {
        (**self).mapped()
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        (**self).read(leb, offset, into)
    }
}

impl dyn Lebs {
    /// The LEBs as what they are; `None` if they are of another type.
    pub fn downcast_ref<L: Lebs>(&self) -> Option<&L> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns the LEBs as what they are; `None` if they are of another type.
    pub fn downcast<L: Lebs>(self: Box<Self>) -> Option<Box<L>> {
        (self as Box<dyn Any>).downcast().ok()
    }
}

/// Logical erase blocks, for writing. Changes are durable after [`LebWriter::sync`]; a power cut
/// before that may take back what was written last, in the order in which it was written.
pub trait LebWriter {
    /// Says why what comes next is written, for media that count it.
    fn set_cause(&mut self, _cause: Cause) {}

    /// Writes bytes of a LEB, behind those that were written before; an unmapped LEB is mapped
    /// first. Offset and length are multiples of the volume's smallest unit. Errors: `NoSpace`,
    /// `Device`.
    fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Result<()>;

    /// Replaces the content of a LEB; what is missing of it is erased. After a power cut it is the
    /// old one or the new one. Errors: as [`LebWriter::write`].
    fn change(&mut self, leb: u32, data: &[u8]) -> Result<()>;

    /// Maps a LEB, so that it reads as erased, after a power cut too. Errors: as
    /// [`LebWriter::write`].
    fn map(&mut self, leb: u32) -> Result<()>;

    /// Unmaps a LEB: it reads as erased, or after a power cut as before. Errors: `Device`.
    fn unmap(&mut self, leb: u32) -> Result<()>;

    /// Makes all changes durable. Errors: `Device`.
    fn sync(&mut self) -> Result<()>;
}

/// A volume in memory: LEB after LEB, as mkfs.ubifs writes it.
#[derive(Clone, Debug)]
pub struct LebBytes {
    /// The bytes. What is missing of the last LEB is erased.
    pub bytes: Vec<u8>,
    /// Bytes per LEB.
    pub leb_size: u32,
}

impl Lebs for LebBytes {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn leb_count(&self) -> u32 {
        (self.bytes.len() as u64).div_ceil(u64::from(self.leb_size.max(1))).try_into().unwrap_or(u32::MAX)
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        into.fill(0xFF);
        let at = u64::from(leb) * u64::from(self.leb_size) + u64::from(offset);
        let inside = into.len().min(self.leb_size.saturating_sub(offset) as usize);
        let here = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let length = inside.min(here.len());
        if let (Some(to), Some(from)) = (into.get_mut(..length), here.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(())
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        Some(self)
    }
}

impl LebBytes {
    /// The bytes of a LEB; the last one may have grown to its end. Errors: it is not there.
    fn leb_mut(&mut self, leb: u32) -> Result<&mut [u8]> {
        let (start, size) = (leb as usize * self.leb_size as usize, self.leb_size as usize);
        let missing = || FsError::new(ErrorKind::Device, format!("the volume has no LEB {leb}"));
        if start >= self.bytes.len() {
            return Err(missing());
        }
        let length = self.bytes.len().max(start + size);
        self.bytes.resize(length, 0xFF);
        self.bytes.get_mut(start..start + size).ok_or_else(missing)
    }
}

impl LebWriter for LebBytes {
    fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Result<()> {
        let here = self.leb_mut(leb)?.iter_mut().skip(offset as usize);
        here.zip(data).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn change(&mut self, leb: u32, data: &[u8]) -> Result<()> {
        self.leb_mut(leb)?.fill(0xFF);
        self.write(leb, 0, data)
    }

    fn map(&mut self, leb: u32) -> Result<()> {
        self.unmap(leb)
    }

    fn unmap(&mut self, leb: u32) -> Result<()> {
        self.leb_mut(leb)?.fill(0xFF);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}
