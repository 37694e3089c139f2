//! Planned power cuts, with a volatile cache that loses unflushed writes.
//!
//! Request 1 is the first write, trim, flush or remap.

use std::collections::BTreeMap;

use nandkit_units::random::Random;
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use super::{no_capability, offer_capabilities, remap_limits};
use crate::check::{check_range, sectors_of};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Remap, RemapLimits, Result, Trim};

/// When the power fails, relative to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceCutMoment {
    /// The request fails before it begins.
    Before,
    /// The request fails; some of its sectors, in any order, reached the cache or the medium. A
    /// remap took effect or did not.
    Inside,
    /// The request succeeds and is acknowledged; everything after it fails.
    After,
}

/// Which writes since the last flush are on the medium after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survival {
    /// No write survives.
    None,
    /// Every write survives.
    All,
    /// The first writes, in order; their number is random.
    Prefix,
    /// For each sector a random version since the last flush, or the one before it.
    Subset,
}

/// A planned cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceCutPlan {
    /// The request number, counted from 1; 0 means no cut.
    pub request: u64,
    /// Before, inside or after the request.
    pub moment: DeviceCutMoment,
    /// Which writes survive.
    pub survival: Survival,
    /// Seed of the random choices.
    pub seed: u64,
}

impl DeviceCutPlan {
    /// No cut.
    pub const NONE: Self = Self { request: 0, moment: DeviceCutMoment::Before, survival: Survival::None, seed: 0 };

    /// A plan with one cut.
    pub const fn at(request: u64, moment: DeviceCutMoment, survival: Survival, seed: u64) -> Self {
        Self { request, moment, survival, seed }
    }
}

/// One sector's new content; `None` if it was trimmed.
type Version = Option<Box<[u8]>>;

/// A block device with a volatile cache: it holds back writes since the last flush, and a power cut
/// keeps those that the plan selects. After the cut every request fails with `PowerLost` until
/// [`CutDevice::power_on`]. Memory: the writes since the last flush.
#[derive(Clone, Debug)]
pub struct CutDevice<D> {
    inner: D,
    geometry: BlockGeometry,
    plan: DeviceCutPlan,
    requests: u64,
    cuts: Vec<u64>,
    off: bool,
    /// The latest unflushed version of each sector.
    cache: BTreeMap<u64, Version>,
    /// Every version of every sector since the last flush, in order.
    log: Vec<(u64, Version)>,
    remap_limits: RemapLimits,
}

impl<D: BlockDevice> CutDevice<D> {
    /// Wraps `inner` with a plan; the next request is number 1.
    pub fn new(mut inner: D, plan: DeviceCutPlan) -> Self {
        let geometry = *inner.geometry();
        let remap_limits = remap_limits(&mut inner);
        Self {
            inner,
            geometry,
            plan,
            requests: 0,
            cuts: Vec::new(),
            off: false,
            cache: BTreeMap::new(),
            log: Vec::new(),
            remap_limits,
        }
    }

    /// The number of writes, trims, flushes and remaps so far.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether the power is off.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// The request numbers at which the power was cut.
    pub fn cuts(&self) -> &[u64] {
        &self.cuts
    }

    /// Replaces the plan. Request numbers continue.
    pub const fn set_plan(&mut self, plan: DeviceCutPlan) {
        self.plan = plan;
    }

    /// Turns the power on again.
    pub const fn power_on(&mut self) {
        self.off = false;
    }

    /// Returns the device below. Unflushed writes are lost if the power is off, else written to it.
    pub fn into_inner(mut self) -> Result<D> {
        if !self.off {
            self.destage(&Context::default())?;
        }
        Ok(self.inner)
    }

    fn check_power(&self, operation: Operation, at: Lba) -> Result<()> {
        if self.off { Err(power_lost(operation, at)) } else { Ok(()) }
    }

    /// Counts a request; returns the moment of the cut if the power fails at it.
    fn arrive(&mut self, operation: Operation, at: Lba) -> Result<Option<DeviceCutMoment>> {
        self.check_power(operation, at)?;
        self.requests += 1;
        if self.plan.request != self.requests {
            return Ok(None);
        }
        self.cuts.push(self.requests);
        Ok(Some(self.plan.moment))
    }

    /// Writes versions to the device below in order.
    fn put(&mut self, context: &Context, versions: impl IntoIterator<Item = (u64, Version)>) -> Result<()> {
        for (sector, version) in versions {
            match version {
                Some(bytes) => self.inner.write(context, Lba(sector), Payload::Bytes(&bytes))?,
                None => match self.inner.trim() {
                    Some(trim) => trim.trim(context, Lba(sector), 1)?,
                    None => return Err(no_capability(Operation::Trim)),
                },
            };
        }
        Ok(())
    }

    /// Writes everything held back to the device below.
    fn destage(&mut self, context: &Context) -> Result<()> {
        self.log.clear();
        let cache = std::mem::take(&mut self.cache);
        self.put(context, cache)
    }

    /// Cuts the power: the plan determines which of the held-back writes survive.
    fn cut(&mut self, context: &Context) -> Result<()> {
        self.off = true;
        self.cache.clear();
        let log = std::mem::take(&mut self.log);
        let mut random = Random::new(self.plan.seed ^ self.requests.rotate_left(32), "device cut");
        let survivors: Vec<(u64, Version)> = match self.plan.survival {
            Survival::None => Vec::new(),
            Survival::All => log,
            Survival::Prefix => {
                let count = random.between(0, log.len() as u64) as usize;
                log.into_iter().take(count).collect()
            }
            Survival::Subset => {
                let mut versions: BTreeMap<u64, Vec<Version>> = BTreeMap::new();
                for (sector, version) in log {
                    versions.entry(sector).or_default().push(version);
                }
                let mut pick = |mut held: Vec<Version>| {
                    let picked = random.below(held.len() as u64 + 1) as usize;
                    (picked < held.len()).then(|| held.swap_remove(picked))
                };
                versions.into_iter().filter_map(|(sector, held)| Some((sector, pick(held)?))).collect()
            }
        };
        self.put(context, survivors)?;
        self.inner.flush(context)?;
        Ok(())
    }

    fn hold(&mut self, sector: u64, version: Version) {
        self.log.push((sector, version.clone()));
        self.cache.insert(sector, version);
    }

    /// Handles a write or trim of these versions.
    fn change(
        &mut self,
        context: &Context,
        operation: Operation,
        at: Lba,
        versions: Vec<(u64, Version)>,
    ) -> Result<Done> {
        match self.arrive(operation, at)? {
            None => versions.into_iter().for_each(|(sector, version)| self.hold(sector, version)),
            Some(DeviceCutMoment::Before) => {
                self.cut(context)?;
                return Err(power_lost(operation, at));
            }
            Some(DeviceCutMoment::Inside) => {
                let mut random = Random::new(self.plan.seed ^ self.requests, "device cut inside");
                versions
                    .into_iter()
                    .filter(|_| random.chance(0.5))
                    .for_each(|(sector, version)| self.hold(sector, version));
                self.cut(context)?;
                return Err(power_lost(operation, at));
            }
            Some(DeviceCutMoment::After) => {
                versions.into_iter().for_each(|(sector, version)| self.hold(sector, version));
                self.cut(context)?;
            }
        }
        Ok(Done::immediately(context))
    }

    /// Handles a remap: atomic, and durable at once together with everything before it.
    fn remap_step(&mut self, context: &Context, step: impl FnOnce(&mut dyn Remap) -> Result<Done>) -> Result<Done> {
        let moment = self.arrive(Operation::Remap, Lba(0))?;
        let mut random = Random::new(self.plan.seed ^ self.requests, "device cut remap");
        if moment == Some(DeviceCutMoment::Before) || (moment == Some(DeviceCutMoment::Inside) && random.chance(0.5)) {
            self.cut(context)?;
            return Err(power_lost(Operation::Remap, Lba(0)));
        }
        self.destage(context)?;
        let done = match self.inner.remap() {
            Some(remap) => step(remap)?,
            None => return Err(no_capability(Operation::Remap)),
        };
        if let Some(moment) = moment {
            self.cut(context)?;
            if moment == DeviceCutMoment::Inside {
                return Err(power_lost(Operation::Remap, Lba(0)));
            }
        }
        Ok(done)
    }
}

#[cold]
fn power_lost(operation: Operation, at: Lba) -> BlockError {
    BlockError::new(ErrorKind::PowerLost, operation, at, "the power was cut by plan")
}

impl<D: BlockDevice> BlockDevice for CutDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, mut into: ReadInto<'_>) -> Result<Done> {
        self.check_power(Operation::Read, at)?;
        check_range(&self.geometry, Operation::Read, at, into.len())?;
        let size = self.geometry.sector_size as usize;
        let done = self.inner.read(context, at, into.reborrow())?;
        let end = at.0 + (into.len() / size) as u64;
        let bytes = match into {
            ReadInto::Nothing { .. } => return Ok(done),
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, .. } => {
                if self.cache.range(at.0..end).next().is_none() {
                    return Ok(done);
                }
                content.to_bytes()
            }
        };
        for (sector, version) in self.cache.range(at.0..end) {
            let from = (sector - at.0) as usize * size;
            if let Some(into) = bytes.get_mut(from..from + size) {
                match version {
                    Some(held) => into.copy_from_slice(held),
                    None => into.fill(0),
                }
            }
        }
        Ok(done)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let sectors = bytes.chunks_exact(self.geometry.sector_size as usize);
        let versions = (at.0..).zip(sectors.map(|sector| Some(sector.into()))).collect();
        self.change(context, Operation::Write, at, versions)
    }

    /// Durable by itself: other writes stay held back, and may be lost although this one is not.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        let moment = self.arrive(Operation::Write, at)?;
        if let Some(DeviceCutMoment::Before) = moment {
            self.cut(context)?;
            return Err(power_lost(Operation::Write, at));
        }
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let mut random = Random::new(self.plan.seed ^ self.requests, "device cut inside");
        let inside = moment == Some(DeviceCutMoment::Inside);
        let size = self.geometry.sector_size as usize;
        let sectors = (at.0..).zip(bytes.chunks_exact(size)).filter(|_| !inside || random.chance(0.5));
        let versions: Vec<(u64, Version)> = sectors.map(|(sector, bytes)| (sector, Some(bytes.into()))).collect();
        for (sector, _) in &versions {
            self.cache.remove(sector);
        }
        let durable: std::collections::BTreeSet<u64> = versions.iter().map(|(sector, _)| *sector).collect();
        self.log.retain(|(sector, _)| !durable.contains(sector));
        self.put(context, versions)?;
        let done = self.inner.flush(context)?;
        match moment {
            None => Ok(done),
            Some(_) => {
                self.cut(context)?;
                if inside { Err(power_lost(Operation::Write, at)) } else { Ok(done) }
            }
        }
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        match self.arrive(Operation::Flush, Lba(0))? {
            Some(moment @ (DeviceCutMoment::Before | DeviceCutMoment::Inside)) => {
                // Before and inside differ only in which writes reached the medium, which the
                // plan's survival determines.
                let _ = moment;
                self.cut(context)?;
                Err(power_lost(Operation::Flush, Lba(0)))
            }
            moment => {
                self.destage(context)?;
                let done = self.inner.flush(context)?;
                self.off = moment.is_some();
                Ok(done)
            }
        }
    }

    offer_capabilities!();
}

impl<D: BlockDevice> Trim for CutDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(&self.geometry, Operation::Trim, at, sectors)?;
        let versions = (at.0..at.0 + sectors).map(|sector| (sector, None)).collect();
        self.change(context, Operation::Trim, at, versions)
    }
}

impl<D: BlockDevice> Remap for CutDevice<D> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_step(context, |remap| remap.share(context, pairs))
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_step(context, |remap| remap.remap_move(context, pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_write_does_not_make_others_durable() {
        use crate::RamDevice;
        let context = Context::default();
        let read = |device: &RamDevice, at| {
            let mut bytes = [9; 512];
            device.read(&context, Lba(at), ReadInto::Bytes(&mut bytes)).unwrap();
            bytes[0]
        };
        for moment in [DeviceCutMoment::Before, DeviceCutMoment::After] {
            let ram = RamDevice::with_sectors(512, 8).unwrap();
            let mut device = CutDevice::new(ram, DeviceCutPlan::at(4, moment, Survival::None, 1));
            device.write(&context, Lba(0), Payload::Bytes(&[1; 512])).unwrap();
            device.write(&context, Lba(1), Payload::Bytes(&[2; 512])).unwrap();
            device.write_durable(&context, Lba(1), Payload::Bytes(&[3; 512])).unwrap();
            let last = device.write_durable(&context, Lba(2), Payload::Bytes(&[4; 512]));
            let kept = last.is_ok();
            assert_eq!(kept, moment == DeviceCutMoment::After);
            let ram = device.into_inner().unwrap();
            assert_eq!((read(&ram, 0), read(&ram, 1), read(&ram, 2)), (0, 3, if kept { 4 } else { 0 }));
        }
    }
}
