//! A block device in memory with remapping and at most one planted bug: the suite's own test.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_block::{
    BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, RamDevice, Remap, RemapLimits, Result, Trim,
};
use nandkit_units::{Assembly, Context, Done, Lba, Nanos, Payload, ReadInto, random};

use crate::block_suite::Reopen;

/// One broken promise, planted into [`PlantedDevice`]. [`BlockBug::ALL`] names the check that must
/// find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what is wrong")]
pub enum BlockBug {
    GeometryTooSmall,
    UnwrittenGarbage,
    LastSectorLost,
    StaleRead,
    NeighbourTouched,
    EndWraps,
    PartialSectorTaken,
    RefusedWriteChanges,
    TrimRangeUnchecked,
    HugeAddressPanics,
    DescriptionOffsetLost,
    ContentTooShort,
    FlushDropsSectorTwo,
    CompletesBeforeIssued,
    TimeDependsOnChance,
    SharedRegister,
    TrimIgnored,
    TrimOneTooMany,
    TrimOneTooFew,
    MoveKeepsSource,
    OverlapTaken,
    FlushNotDurable,
    EmptyRequestRefused,
    PartsSwapped,
    PartsAreRequests,
    /// The device forgets a write that comes after many others.
    FortyFifthWriteLost,
}

impl BlockBug {
    /// Each bug with the name of the check that finds it.
    pub const ALL: [(Self, &'static str); 26] = [
        (Self::GeometryTooSmall, "geometry"),
        (Self::UnwrittenGarbage, "unwritten_reads_zero"),
        (Self::LastSectorLost, "write_and_read_back"),
        (Self::StaleRead, "overwrites"),
        (Self::NeighbourTouched, "isolation"),
        (Self::EndWraps, "range"),
        (Self::PartialSectorTaken, "range"),
        (Self::RefusedWriteChanges, "range"),
        (Self::TrimRangeUnchecked, "range"),
        (Self::HugeAddressPanics, "no_panic"),
        (Self::DescriptionOffsetLost, "described"),
        (Self::ContentTooShort, "content_reads"),
        (Self::PartsSwapped, "parts"),
        (Self::PartsAreRequests, "parts"),
        (Self::FlushDropsSectorTwo, "flush"),
        (Self::CompletesBeforeIssued, "time"),
        (Self::TimeDependsOnChance, "repeatable"),
        (Self::SharedRegister, "parallel_reads"),
        (Self::TrimIgnored, "trim"),
        (Self::TrimOneTooMany, "trim"),
        (Self::TrimOneTooFew, "trim"),
        (Self::MoveKeepsSource, "remap"),
        (Self::OverlapTaken, "remap"),
        (Self::FlushNotDurable, "durability"),
        (Self::EmptyRequestRefused, "silly_arguments"),
        (Self::FortyFifthWriteLost, "model"),
    ];
}

/// A RAM device with remapping, a volatile cache ([`Reopen::reopen`] loses what was not flushed),
/// and at most one planted bug.
#[derive(Debug)]
pub struct PlantedDevice {
    inner: RamDevice,
    durable: RamDevice,
    mapped: BTreeSet<u64>,
    bug: Option<BlockBug>,
    register: AtomicU64,
    stale: Option<(u64, Vec<u8>)>,
    /// Writes so far.
    writes: u64,
}

impl PlantedDevice {
    /// A correct device.
    pub fn new(geometry: &BlockGeometry) -> Self {
        let inner = RamDevice::new(*geometry).expect("a possible geometry");
        let durable = inner.clone();
        Self { inner, durable, mapped: BTreeSet::new(), bug: None, register: AtomicU64::new(0), stale: None, writes: 0 }
    }

    /// A device with a bug.
    pub fn with_bug(geometry: &BlockGeometry, bug: BlockBug) -> Self {
        let mut geometry = *geometry;
        geometry.sectors -= u64::from(bug == BlockBug::GeometryTooSmall);
        Self { bug: Some(bug), ..Self::new(&geometry) }
    }

    fn has(&self, bug: BlockBug) -> bool {
        self.bug == Some(bug)
    }

    fn answer(&self, context: &Context, done: Done) -> Done {
        let mut completed = done.completed;
        if self.has(BlockBug::CompletesBeforeIssued) {
            completed = Nanos(context.issued.0.saturating_sub(1));
        }
        if self.has(BlockBug::TimeDependsOnChance) {
            // The address of the device differs from device to device.
            completed += Nanos(random::hash(std::ptr::from_ref(self) as u64, context.issued.0, 0) % 64);
        }
        Done { completed, ..done }
    }

    fn size(&self) -> usize {
        self.inner.geometry().sector_size as usize
    }

    fn check_pairs(&self, pairs: &[(Lba, Lba)]) -> Result<()> {
        let refuse = |kind, at, detail: &str| Err(BlockError::new(kind, Operation::Remap, at, detail));
        let sectors = self.inner.geometry().sectors;
        let mut targets = BTreeSet::new();
        for &(from, to) in pairs {
            if from.0 >= sectors || to.0 >= sectors {
                return refuse(ErrorKind::OutOfRange, from.max(to), "outside the device");
            }
            if !targets.insert(to) && !self.has(BlockBug::OverlapTaken) {
                return refuse(ErrorKind::Overlap, to, "a target twice");
            }
            if !self.mapped.contains(&from.0) {
                return refuse(ErrorKind::Unmapped, from, "the source holds nothing");
            }
        }
        match pairs.iter().find(|(from, _)| targets.contains(from)) {
            Some((from, _)) => refuse(ErrorKind::Overlap, *from, "target and source"),
            None => Ok(()),
        }
    }
}

impl BlockDevice for PlantedDevice {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, mut into: ReadInto<'_>) -> Result<Done> {
        let mut at = at;
        if self.has(BlockBug::EndWraps) && at.0 == self.inner.geometry().sectors && into.len() == self.size() {
            at = Lba(0);
        }
        if self.has(BlockBug::HugeAddressPanics) {
            at.0.checked_add(into.len() as u64).expect("a planted panic");
        }
        if self.has(BlockBug::SharedRegister) && into.len() == self.size() {
            self.register.store(at.0, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_micros(20));
            at = Lba(self.register.load(Ordering::SeqCst));
        }
        let done = self.inner.read(context, at, into.reborrow())?;
        let size = self.size();
        let mapped = self.mapped.contains(&at.0);
        match (&mut into, self.bug) {
            (ReadInto::Bytes(bytes), Some(BlockBug::UnwrittenGarbage)) if !mapped => bytes.fill(0xEE),
            (ReadInto::Bytes(bytes), Some(BlockBug::StaleRead)) => {
                if let Some((sector, old)) = &self.stale {
                    let place = sector.checked_sub(at.0).map(|index| index as usize * size);
                    if let Some(into) = place.and_then(|place| bytes.get_mut(place..place + size)) {
                        into.copy_from_slice(old);
                    }
                }
            }
            (ReadInto::Content { content, .. }, Some(BlockBug::ContentTooShort)) => {
                let bytes = content.to_bytes().to_vec();
                content.set_bytes(bytes.len() / 2).copy_from_slice(&bytes[..bytes.len() / 2]);
            }
            _ => {}
        }
        Ok(self.answer(context, done))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let (size, sectors) = (self.size(), self.inner.geometry().sectors);
        let (mut at, mut data) = (at, data);
        self.writes += 1;
        match self.bug {
            Some(BlockBug::EmptyRequestRefused) if data.is_empty() => {
                return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Write, at, "nothing to write"));
            }
            Some(BlockBug::FortyFifthWriteLost) if self.writes == 45 => return Ok(Done::immediately(context)),
            Some(BlockBug::EndWraps) if at.0 == sectors => at = Lba(0),
            Some(BlockBug::PartialSectorTaken) => {
                data = data.part(0, data.len() / size * size).unwrap_or(data);
            }
            Some(BlockBug::RefusedWriteChanges) if at.0 == sectors - 1 && data.len() > size => {
                if let Some(first) = data.part(0, size) {
                    self.inner.write(context, at, first)?;
                }
            }
            Some(BlockBug::LastSectorLost) if data.len() > 2 * size => {
                data = data.part(0, data.len() - size).unwrap_or(data);
            }
            _ => {}
        }
        if let (Some(BlockBug::DescriptionOffsetLost), Payload::Described(described)) = (self.bug, &mut data) {
            described.description.offset = 0;
        }
        if self.has(BlockBug::StaleRead) && data.len() == size && at.0 < sectors {
            let mut old = vec![0; size];
            self.inner.read(context, at, ReadInto::Bytes(&mut old))?;
            self.stale = Some((at.0, old));
        }
        let done = self.inner.write(context, at, data)?;
        let count = (data.len() / size) as u64;
        self.mapped.extend(at.0..at.0 + count);
        if self.has(BlockBug::NeighbourTouched) && at.0 + count < sectors {
            let mut next = vec![0; size];
            self.inner.read(context, at.plus(count), ReadInto::Bytes(&mut next))?;
            next[0] ^= 1;
            self.inner.write(context, at.plus(count), Payload::Bytes(&next))?;
        }
        Ok(self.answer(context, done))
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let mut parts = parts.to_vec();
        if self.has(BlockBug::PartsSwapped) {
            parts.reverse();
        }
        let joined = self.write(context, at, Payload::joined(&parts, &mut Assembly::new()))?;
        // Each part takes a second, as a request of its own; no device above hides that.
        let more = if self.has(BlockBug::PartsAreRequests) { parts.len().saturating_sub(1) as u64 } else { 0 };
        Ok(Done { completed: Nanos(joined.completed.0 + 1_000_000_000 * more), ..joined })
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        if self.has(BlockBug::FlushDropsSectorTwo) {
            Trim::trim(&mut self.inner, context, Lba(2), 1)?;
        }
        if !self.has(BlockBug::FlushNotDurable) {
            self.durable = self.inner.clone();
        }
        let done = self.inner.flush(context)?;
        Ok(self.answer(context, done))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        Some(self)
    }
}

impl Trim for PlantedDevice {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let all = self.inner.geometry().sectors;
        let sectors = match self.bug {
            Some(BlockBug::TrimRangeUnchecked) => sectors.min(all.saturating_sub(at.0)),
            Some(BlockBug::TrimOneTooMany) if sectors < all.saturating_sub(at.0) => sectors + 1,
            Some(BlockBug::TrimOneTooFew) if at.0 < all && sectors <= all - at.0 => sectors.saturating_sub(1),
            Some(BlockBug::TrimIgnored) if at.0 < all && sectors <= all - at.0 => 0,
            _ => sectors,
        };
        let at = if self.has(BlockBug::TrimRangeUnchecked) { Lba(at.0.min(all)) } else { at };
        let done = Trim::trim(&mut self.inner, context, at, sectors)?;
        self.mapped.retain(|&sector| sector < at.0 || sector >= at.0 + sectors);
        Ok(self.answer(context, done))
    }
}

impl Remap for PlantedDevice {
    fn limits(&self) -> RemapLimits {
        RemapLimits { unit: self.inner.geometry().sector_size, pairs_max: 16 }
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.check_pairs(pairs)?;
        let mut bytes = vec![0; self.size()];
        for &(from, to) in pairs {
            self.inner.read(context, from, ReadInto::Bytes(&mut bytes))?;
            self.inner.write(context, to, Payload::Bytes(&bytes))?;
            self.mapped.insert(to.0);
        }
        Ok(Done::immediately(context))
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.share(context, pairs)?;
        for &(from, _) in pairs {
            if !self.has(BlockBug::MoveKeepsSource) {
                Trim::trim(&mut self.inner, context, from, 1)?;
                self.mapped.remove(&from.0);
            }
        }
        Ok(Done::immediately(context))
    }
}

impl Reopen for PlantedDevice {
    fn device(&mut self) -> &mut dyn BlockDevice {
        self
    }

    fn reopen(&mut self) {
        self.inner = self.durable.clone();
        self.stale = None;
    }
}
