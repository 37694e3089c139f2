//! The LEBs of a volume in a file of its own, as mkfs.ubifs makes it: block n of the dump is LEB n.

use nandkit_flash::{Flash as _, FlashError, Look as _, PageProgram};
use nandkit_flash_image::DumpFlash;
use nandkit_ubifs::{LebWriter, Lebs};
use nandkit_units::{BlockIndex, Context};
use nandkit_vfs::{FsError, Result};

use crate::format::held_dump::HeldDump;

/// A volume in a file. It has the LEBs of the file and no more: nothing says how large the UBI
/// volume will be for which it was made.
#[derive(Debug)]
pub(super) struct DumpLebs(HeldDump);

impl DumpLebs {
    /// The volume in this dump.
    pub const fn new(dump: HeldDump) -> Self {
        Self(dump)
    }

    /// Returns the dump.
    pub fn into_dump(self) -> DumpFlash {
        self.0.into_dump()
    }

    /// Erases a LEB and programs data from its beginning on.
    fn put(&mut self, leb: u32, data: &[u8]) -> Result<()> {
        self.0.dump_mut().erase(&context(), BlockIndex(leb)).map_err(told)?;
        self.write(leb, 0, data)
    }
}

/// The context of all changes: a dump knows neither time nor cause.
fn context() -> Context {
    Context::default()
}

fn told(error: FlashError) -> FsError {
    FsError::device("the image takes no change", error)
}

impl Lebs for DumpLebs {
    fn leb_size(&self) -> u32 {
        self.0.dump().layout().block_size
    }

    fn leb_count(&self) -> u32 {
        self.0.dump().geometry().blocks
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        into.fill(0xFF);
        let inside = into.len().min(self.leb_size().saturating_sub(offset) as usize);
        if let Some(inside) = into.get_mut(..inside) {
            self.0.dump().look_at(u64::from(leb) * u64::from(self.leb_size()) + u64::from(offset), inside);
        }
        Ok(())
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        Some(self)
    }
}

impl LebWriter for DumpLebs {
    fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Result<()> {
        let page_size = self.0.dump().geometry().page_size.max(1);
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let column = at % page_size;
            let (piece, tail) = rest.split_at(rest.len().min((page_size - column) as usize));
            let page = BlockIndex(leb).page(at / page_size);
            self.0.dump_mut().program(&context(), page, PageProgram::bytes(column, piece)).map_err(told)?;
            at += piece.len() as u32;
            rest = tail;
        }
        self.0.stepped(&context());
        Ok(())
    }

    fn change(&mut self, leb: u32, data: &[u8]) -> Result<()> {
        self.put(leb, data)
    }

    fn map(&mut self, leb: u32) -> Result<()> {
        self.put(leb, &[])
    }

    fn unmap(&mut self, leb: u32) -> Result<()> {
        self.put(leb, &[])
    }

    fn sync(&mut self) -> Result<()> {
        self.0.sync(&context()).map(|_| ()).map_err(told)
    }
}
