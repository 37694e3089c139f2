//! Changes kept in memory over a device that is never written.

use std::collections::BTreeMap;

use nandkit_units::{Content, Context, Done, Lba, Payload, Pieces, ReadInto};

use crate::check::{check_range, check_unit, sectors_of};
use crate::{BlockDevice, BlockGeometry, Extent, Operation, RamDevice, Result, Trim};

/// A device that keeps changes in memory: reads return them, and the device below stays unchanged.
/// For repairs and recoveries that must not touch their image, and for experiments.
///
/// Changes take no time. They live as long as this structure: a flush does nothing. Remapping is
/// not offered. Memory: the changed sectors, described ones by their description.
#[derive(Debug)]
pub struct OverlayDevice<D> {
    inner: D,
    changes: RamDevice,
    /// Changed sectors: first and end of each run; runs never touch.
    runs: BTreeMap<u64, u64>,
}

impl<D: BlockDevice> OverlayDevice<D> {
    /// An overlay without changes. Errors: an impossible geometry of the device below.
    pub fn new(inner: D) -> Result<Self> {
        let changes = RamDevice::new(*inner.geometry())?;
        Ok(Self { inner, changes, runs: BTreeMap::new() })
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the device below, without the changes.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Runs of changed sectors in ascending order: first sector and length.
    pub fn changed(&self) -> impl Iterator<Item = (Lba, u64)> + '_ {
        self.runs.iter().map(|(&start, &end)| (Lba(start), end - start))
    }

    /// Records sectors as changed.
    fn note(&mut self, at: Lba, sectors: u64) {
        if sectors == 0 {
            return;
        }
        let (mut start, mut end) = (at.0, at.0 + sectors);
        // The runs that touch it; the first one may start before it.
        if let Some((&before, &stop)) = self.runs.range(..start).next_back()
            && stop >= start
        {
            (start, end) = (before, end.max(stop));
        }
        while let Some((&next, &stop)) = self.runs.range(start..=end).next() {
            self.runs.remove(&next);
            end = end.max(stop);
        }
        self.runs.insert(start, end);
    }

    /// Whether a sector is changed, and where that run or gap ends.
    fn run_at(&self, sector: u64) -> (bool, u64) {
        if let Some((_, &end)) = self.runs.range(..=sector).next_back()
            && end > sector
        {
            return (true, end);
        }
        (false, self.runs.range(sector..).next().map_or(u64::MAX, |(&start, _)| start))
    }

    fn read_mixed(&self, context: &Context, at: Lba, bytes: &mut [u8]) -> Result<Done> {
        let size = u64::from(self.geometry().sector_size);
        let (mut done, mut sector, mut rest) = (Done::immediately(context), at.0, bytes);
        while !rest.is_empty() {
            let (changed, end) = self.run_at(sector);
            let sectors = (end - sector).min(rest.len() as u64 / size);
            let (now, later) = rest.split_at_mut((sectors * size) as usize);
            let into = ReadInto::Bytes(now);
            let device: &dyn BlockDevice = if changed { &self.changes } else { &self.inner };
            done = done.and(device.read(context, Lba(sector), into)?);
            (sector, rest) = (sector + sectors, later);
        }
        Ok(done)
    }
}

impl<D: BlockDevice> BlockDevice for OverlayDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        check_range(self.geometry(), Operation::Read, at, into.len())?;
        let end = at.0 + into.len() as u64 / u64::from(self.geometry().sector_size);
        match self.run_at(at.0) {
            (true, stop) if stop >= end => self.changes.read(context, at, into),
            (false, stop) if stop >= end => self.inner.read(context, at, into),
            _ => match into {
                ReadInto::Bytes(bytes) => self.read_mixed(context, at, bytes),
                ReadInto::Content { content, length } => {
                    self.read_mixed(context, at, content.set_bytes(length as usize))
                }
                ReadInto::Nothing { .. } => self.inner.read(context, at, into),
            },
        }
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        check_unit(self.geometry(), at, unit, into.len())?;
        let sectors = u64::from(unit / self.geometry().sector_size);
        let end = at.0 + sectors * into.len() as u64;
        match self.run_at(at.0) {
            (true, stop) if stop >= end => self.changes.read_parts(context, at, unit, into),
            (false, stop) if stop >= end => self.inner.read_parts(context, at, unit, into),
            _ => {
                let mut done = Done::immediately(context);
                for (content, number) in into.iter_mut().zip(0..) {
                    let part = ReadInto::Content { content, length: unit };
                    done = done.and(self.read(context, Lba(at.0 + number * sectors), part)?);
                }
                Ok(done)
            }
        }
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.write_parts(context, at, &[data])
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let done = self.changes.write_parts(context, at, parts)?;
        self.note(at, Pieces::total(parts) as u64 / u64::from(self.geometry().sector_size));
        Ok(done)
    }

    /// Nothing is held back.
    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        let (changed, end) = self.run_at(at.0);
        let most = most.min(end - at.0);
        if changed { self.changes.extent(at, most) } else { self.inner.extent(at, most) }
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl<D: BlockDevice> Trim for OverlayDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(self.geometry(), Operation::Trim, at, sectors)?;
        let done = Trim::trim(&mut self.changes, context, at, sectors)?;
        self.note(at, sectors);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use super::*;

    #[test]
    fn the_device_below_stays_as_it_is_and_another_takes_the_changes() {
        let context = Context::default();
        let mut base = RamDevice::with_sectors(512, 64).unwrap();
        let mut random = Random::new(5, "overlay");
        let mut model = vec![0; 64 * 512];
        random.fill(&mut model);
        base.write(&context, Lba(0), Payload::Bytes(&model)).unwrap();
        let before = model.clone();
        let mut overlay = OverlayDevice::new(base).unwrap();
        for _ in 0..400 {
            let (at, sectors) = (random.below(60), random.between(1, 4));
            let place = at as usize * 512..(at + sectors) as usize * 512;
            if random.below(3) == 0 {
                Trim::trim(&mut overlay, &context, Lba(at), sectors).unwrap();
                model[place].fill(0);
            } else {
                let mut bytes = vec![0; place.len()];
                random.fill(&mut bytes);
                overlay.write(&context, Lba(at), Payload::Bytes(&bytes)).unwrap();
                model[place].copy_from_slice(&bytes);
            }
            let (at, sectors) = (random.below(50) as usize, random.between(1, 14) as usize);
            let mut found = vec![1; sectors * 512];
            overlay.read(&context, Lba(at as u64), ReadInto::Bytes(&mut found)).unwrap();
            assert_eq!(found, model[at * 512..(at + sectors) * 512]);
            let runs: Vec<_> = overlay.changed().collect();
            assert!(runs.windows(2).all(|pair| pair[0].0.0 + pair[0].1 < pair[1].0.0), "{runs:?}");
        }
        let whole = |device: &dyn BlockDevice| {
            let mut found = vec![1; 64 * 512];
            device.read(&context, Lba(0), ReadInto::Bytes(&mut found)).unwrap();
            found
        };
        assert_eq!(whole(&overlay), model);
        assert_eq!(whole(overlay.inner()), before);
    }
}
