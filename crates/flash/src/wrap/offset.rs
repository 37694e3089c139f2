//! A window of another device's blocks.

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, GeometryError, PageAddress};

use super::{no_capability, offer_capabilities};
use crate::{Copyback, ErrorKind, Flash, FlashError, MultiPlane, Operation, PageProgram, PageRead, Result};

/// Blocks `first .. first + blocks` of a flash device as a device of its own: a partition. Errors carry the window's addresses.
#[derive(Clone, Debug)]
pub struct OffsetFlash<F> {
    inner: F,
    first: u32,
    geometry: FlashGeometry,
}

impl<F: Flash> OffsetFlash<F> {
    /// The window. It must lie inside the device, and begin and end at multiples of `planes * dies`, so that each
    /// block keeps its die and plane.
    pub fn new(inner: F, first: BlockIndex, blocks: u32) -> std::result::Result<Self, GeometryError> {
        let whole = *inner.geometry();
        let group = whole.planes.saturating_mul(whole.dies).max(1);
        if !first.0.is_multiple_of(group) || first.0 >= whole.blocks {
            let expected = "a multiple of planes * dies inside the device";
            return Err(GeometryError { field: "first", value: u64::from(first.0), expected });
        }
        if blocks == 0 || !blocks.is_multiple_of(group) || blocks > whole.blocks - first.0 {
            let expected = "a multiple of planes * dies, at least 1, at most the rest of the device";
            return Err(GeometryError { field: "blocks", value: u64::from(blocks), expected });
        }
        Ok(Self { inner, first: first.0, geometry: FlashGeometry { blocks, ..whole } })
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    #[inline]
    fn page(&self, operation: Operation, at: PageAddress) -> Result<PageAddress> {
        if at.block.0 < self.geometry.blocks {
            Ok(PageAddress::new(at.block.0 + self.first, at.page))
        } else {
            Err(outside(operation, at))
        }
    }

    #[inline]
    fn block(&self, operation: Operation, block: BlockIndex) -> Result<BlockIndex> {
        Ok(self.page(operation, block.page(0))?.block)
    }

    #[inline]
    fn translate(&self, result: Result<Done>) -> Result<Done> {
        result.map_err(|mut error| {
            error.at.block.0 = error.at.block.0.saturating_sub(self.first);
            error
        })
    }
}

#[cold]
fn outside(operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::Misuse, operation, at, "the block lies outside the window")
}

impl<F: Flash> Flash for OffsetFlash<F> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        let at = self.page(Operation::Read, at)?;
        self.translate(self.inner.read(context, at, read))
    }

    #[inline]
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let at = self.page(Operation::Program, at)?;
        let result = self.inner.program(context, at, program);
        self.translate(result)
    }

    #[inline]
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let block = self.block(Operation::Erase, block)?;
        let result = self.inner.erase(context, block);
        self.translate(result)
    }

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.block(Operation::MarkBad, block).is_ok_and(|block| self.inner.is_bad(block))
            || block.0 >= self.geometry.blocks
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let block = self.block(Operation::MarkBad, block)?;
        let result = self.inner.mark_bad(context, block);
        self.translate(result)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.sync(context);
        self.translate(result)
    }

    offer_capabilities!();
}

impl<F: Flash> Copyback for OffsetFlash<F> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        let (Ok(from), Ok(to)) = (self.block(Operation::Copy, from), self.block(Operation::Copy, to)) else {
            return false;
        };
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let (from, to) = (self.page(Operation::Copy, from)?, self.page(Operation::Copy, to)?);
        let result = match self.inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        };
        self.translate(result)
    }
}

impl<F: Flash> MultiPlane for OffsetFlash<F> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        let moved: Result<Vec<_>> =
            programs.iter().map(|(at, program)| Ok((self.page(Operation::Program, *at)?, *program))).collect();
        let moved = moved?;
        let result = match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.program_planes(context, &moved),
            None => Err(no_capability(Operation::Program, PageAddress::default())),
        };
        self.translate(result)
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        let moved: Result<Vec<_>> = blocks.iter().map(|&block| self.block(Operation::Erase, block)).collect();
        let moved = moved?;
        let result = match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.erase_planes(context, &moved),
            None => Err(no_capability(Operation::Erase, PageAddress::default())),
        };
        self.translate(result)
    }
}
