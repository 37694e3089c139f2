//! A range of another device's sectors.

use nandkit_units::{Content, Context, Done, Lba, Payload, Pieces, ReadInto};

use super::{no_capability, offer_capabilities, remap_unit};
use crate::check::{check_range, check_unit, sectors_of};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Extent, Operation, Remap, Result, Trim};

/// Sectors `first .. first + sectors` of a device as a device of its own: a partition. Errors carry the window's addresses.
#[derive(Clone, Debug)]
pub struct WindowDevice<D> {
    inner: D,
    first: u64,
    geometry: BlockGeometry,
    remap_unit: u32,
}

impl<D: BlockDevice> WindowDevice<D> {
    /// The window. Errors: `OutOfRange` where it reaches outside the device.
    pub fn new(mut inner: D, first: Lba, sectors: u64) -> Result<Self> {
        let whole = *inner.geometry();
        sectors_of(&whole, Operation::Open, first, sectors)?;
        let remap_unit = remap_unit(&mut inner);
        Ok(Self { inner, first: first.0, geometry: BlockGeometry { sectors, ..whole }, remap_unit })
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below.
    pub fn into_inner(self) -> D {
        self.inner
    }

    #[inline]
    fn below(&self, at: Lba) -> Lba {
        at.plus(self.first)
    }

    #[inline]
    fn translate(&self, result: Result<Done>) -> Result<Done> {
        result.map_err(|mut error| {
            error.at.0 = error.at.0.saturating_sub(self.first);
            error
        })
    }

    fn pairs(&self, pairs: &[(Lba, Lba)]) -> Result<Vec<(Lba, Lba)>> {
        let unit = u64::from((self.remap_unit / self.geometry.sector_size).max(1));
        let inside = |at: Lba| at.0 < self.geometry.sectors && unit <= self.geometry.sectors - at.0;
        let translate = |&(from, to): &(Lba, Lba)| {
            let outside = if inside(from) { to } else { from };
            if inside(from) && inside(to) {
                Ok((self.below(from), self.below(to)))
            } else {
                let detail = format!("the pair {from} to {to} reaches outside the window");
                Err(BlockError::new(ErrorKind::OutOfRange, Operation::Remap, outside, detail))
            }
        };
        pairs.iter().map(translate).collect()
    }
}

impl<D: BlockDevice> BlockDevice for WindowDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    #[inline]
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Read, at, into.len())?;
        self.translate(self.inner.read(context, self.below(at), into))
    }

    #[inline]
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        let at = self.below(at);
        let result = self.inner.write(context, at, data);
        self.translate(result)
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        check_unit(&self.geometry, at, unit, into.len())?;
        self.translate(self.inner.read_parts(context, self.below(at), unit, into))
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, Pieces::total(parts))?;
        let at = self.below(at);
        let result = self.inner.write_parts(context, at, parts);
        self.translate(result)
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        let at = self.below(at);
        let result = self.inner.write_durable(context, at, data);
        self.translate(result)
    }

    #[inline]
    fn expect_write(&mut self, at: Lba) {
        let at = self.below(at);
        self.inner.expect_write(at);
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.flush(context);
        self.translate(result)
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        self.inner.extent(self.below(at), most)
    }

    offer_capabilities!();
}

impl<D: BlockDevice> Trim for WindowDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(&self.geometry, Operation::Trim, at, sectors)?;
        let at = self.below(at);
        let result = match self.inner.trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => Err(no_capability(Operation::Trim)),
        };
        self.translate(result)
    }
}

impl<D: BlockDevice> Remap for WindowDevice<D> {
    fn unit(&self) -> u32 {
        self.remap_unit
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let pairs = self.pairs(pairs)?;
        let result = match self.inner.remap() {
            Some(remap) => remap.share(context, &pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.translate(result)
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let pairs = self.pairs(pairs)?;
        let result = match self.inner.remap() {
            Some(remap) => remap.remap_move(context, &pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.translate(result)
    }
}
