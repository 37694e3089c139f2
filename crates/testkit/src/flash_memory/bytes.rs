//! A flash device over bytes.

use std::sync::Arc;

use nandkit_flash::{ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, FlashKind, PageAddress, ReadInto};

/// A flash device over bytes of any content, such as an image. It checks nothing but ranges.
#[derive(Clone, Debug)]
pub struct RamFlash {
    /// The geometry.
    pub geometry: FlashGeometry,
    /// All pages' data.
    pub data: Arc<Vec<u8>>,
    /// All pages' OOB.
    pub oob: Arc<Vec<u8>>,
}

impl RamFlash {
    /// NOR of whole blocks: what is missing of the last one is erased.
    pub fn nor(mut data: Vec<u8>, erase_size: u32) -> Self {
        let blocks = (data.len() as u32).div_ceil(erase_size);
        data.resize(blocks as usize * erase_size as usize, 0xFF);
        let geometry = FlashGeometry {
            kind: FlashKind::Nor,
            write_unit: 1,
            oob_size: 0,
            ..FlashGeometry::nand(erase_size, 0, 1, blocks)
        };
        Self { geometry, data: Arc::new(data), oob: Arc::default() }
    }

    /// NAND of whole blocks, with an erased OOB: what is missing of the last one is erased.
    pub fn nand(mut data: Vec<u8>, erase_size: u32, page: u32, oob: u32) -> Self {
        let blocks = (data.len() as u32).div_ceil(erase_size);
        data.resize(blocks as usize * erase_size as usize, 0xFF);
        let geometry = FlashGeometry::nand(page, oob, erase_size / page, blocks);
        let oob = vec![0xFF; data.len() / page as usize * oob as usize];
        Self { geometry, data: Arc::new(data), oob: Arc::new(oob) }
    }

    fn start(&self, at: PageAddress) -> usize {
        (at.block.0 as usize * self.geometry.pages_per_block as usize + at.page as usize)
            * self.geometry.page_size as usize
    }
}

impl Flash for RamFlash {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let start = self.start(at) + read.column as usize;
        let Some(bytes) = self.data.get(start..start + read.data.len()) else {
            return Err(FlashError::new(ErrorKind::Misuse, Operation::Read, at, "outside the device"));
        };
        if let ReadInto::Bytes(into) = &mut read.data {
            into.copy_from_slice(bytes);
        }
        let oob = start / self.geometry.page_size as usize * self.geometry.oob_size as usize;
        let length = read.oob.len();
        read.oob.copy_from_slice(&self.oob[oob..oob + length]);
        Ok(Done::immediately(context))
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let start = self.start(at) + program.column as usize;
        program.data.copy_to(&mut Arc::make_mut(&mut self.data)[start..start + program.data.len()]);
        let oob = start / self.geometry.page_size as usize * self.geometry.oob_size as usize;
        Arc::make_mut(&mut self.oob)[oob..oob + program.oob.len()].copy_from_slice(program.oob);
        Ok(Done::immediately(context))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let (size, from) = (self.geometry.block_size() as usize, self.start(block.page(0)));
        Arc::make_mut(&mut self.data)[from..from + size].fill(0xFF);
        let oob = size / self.geometry.page_size as usize * self.geometry.oob_size as usize;
        let from = block.0 as usize * oob;
        Arc::make_mut(&mut self.oob)[from..from + oob].fill(0xFF);
        Ok(Done::immediately(context))
    }

    fn is_bad(&self, _: BlockIndex) -> bool {
        false
    }

    fn mark_bad(&mut self, context: &Context, _: BlockIndex) -> Result<Done> {
        Ok(Done::immediately(context))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}
impl nandkit_flash::Look for RamFlash {}
