//! What UBIFS stands on: logical erase blocks with numbers.

use nandkit_vfs::Result;

/// Logical erase blocks, for reading: a UBI volume, or the file that mkfs.ubifs makes for one.
pub trait Lebs: Send + Sync {
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
}
