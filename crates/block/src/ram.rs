//! A block device in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_units::{Content, Context, Described, Description, Done, Generator, Lba, Nanos, Payload, Pieces, ReadInto};

use crate::check::{check_geometry, check_range, check_unit, sectors_of};
use crate::{BlockDevice, BlockGeometry, Extent, Operation, Result, Trim};

/// Sectors of a leaf: allocated together at the first write.
const LEAF: usize = 64;
/// Leaves of a branch.
const BRANCH: usize = 512;

/// How long each request takes. Requests are served one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTime {
    /// For each request, whatever it is.
    pub per_request: Nanos,
    /// For each byte read or written, in picoseconds.
    pub per_byte_ps: u64,
}

/// What a sector holds.
#[derive(Clone, Debug, Default)]
enum Sector {
    #[default]
    Zero,
    Described(Description),
    Bytes(Box<[u8]>),
}

type Leaf = Box<[Sector]>;
type Branch = Box<[Option<Leaf>]>;

/// A block device in memory. Sectors never written cost nothing; described sectors cost their description.
#[derive(Debug)]
pub struct RamDevice {
    geometry: BlockGeometry,
    service: ServiceTime,
    branches: Vec<Option<Branch>>,
    busy_until: AtomicU64,
}

impl Clone for RamDevice {
    fn clone(&self) -> Self {
        Self {
            geometry: self.geometry,
            service: self.service,
            branches: self.branches.clone(),
            busy_until: AtomicU64::new(self.busy_until.load(Ordering::Acquire)),
        }
    }
}

impl RamDevice {
    /// An empty device whose requests take no time. Errors: an impossible geometry, as `OutOfRange`.
    pub fn new(geometry: BlockGeometry) -> Result<Self> {
        check_geometry(&geometry)?;
        let branches = geometry.sectors.div_ceil((LEAF * BRANCH) as u64);
        let branches = (0..branches).map(|_| None).collect();
        Ok(Self { geometry, service: ServiceTime::default(), branches, busy_until: AtomicU64::new(0) })
    }

    /// A device of `sectors` sectors of `sector_size` bytes, with a preferred size of 4 KiB or a sector.
    pub fn with_sectors(sector_size: u32, sectors: u64) -> Result<Self> {
        Self::new(BlockGeometry { sector_size, sectors, preferred_size: sector_size.max(4096), recycling_size: 0 })
    }

    /// The same with requests that take time.
    pub fn with_service_time(mut self, service: ServiceTime) -> Self {
        self.service = service;
        self
    }

    /// How many sectors hold bytes, and how many a description.
    pub fn held_sectors(&self) -> (u64, u64) {
        let (mut bytes, mut described) = (0, 0);
        for sector in
            self.branches.iter().flatten().flat_map(|branch| branch.iter().flatten()).flat_map(|leaf| leaf.iter())
        {
            match sector {
                Sector::Zero => {}
                Sector::Described(_) => described += 1,
                Sector::Bytes(_) => bytes += 1,
            }
        }
        (bytes, described)
    }

    fn sector(&self, number: u64) -> &Sector {
        let (branch, leaf, index) = place(number);
        self.branches
            .get(branch)
            .and_then(Option::as_ref)
            .and_then(|branch| branch.get(leaf))
            .and_then(Option::as_ref)
            .and_then(|leaf| leaf.get(index))
            .unwrap_or(&Sector::Zero)
    }

    /// Whether a sector holds anything, and the next one that has to be asked: behind the leaf or branch that was never made.
    fn alike(&self, number: u64) -> (bool, u64) {
        let (branch, leaf, index) = place(number);
        let behind = |sectors: u64| (number / sectors + 1) * sectors;
        let Some(branch) = self.branches.get(branch).and_then(Option::as_ref) else {
            return (false, behind((LEAF * BRANCH) as u64));
        };
        match branch.get(leaf).and_then(Option::as_ref) {
            None => (false, behind(LEAF as u64)),
            Some(leaf) => (!matches!(leaf.get(index), Some(Sector::Zero) | None), number + 1),
        }
    }

    fn sector_mut(&mut self, number: u64) -> Option<&mut Sector> {
        let (branch, leaf, index) = place(number);
        let branch = self.branches.get_mut(branch)?.get_or_insert_with(|| (0..BRANCH).map(|_| None).collect());
        let leaf = branch.get_mut(leaf)?.get_or_insert_with(|| (0..LEAF).map(|_| Sector::Zero).collect());
        leaf.get_mut(index)
    }

    /// When a request of this many bytes ends; the device is busy until then.
    fn serve(&self, context: &Context, bytes: u64) -> Done {
        let span =
            self.service.per_request + Nanos((u128::from(bytes) * u128::from(self.service.per_byte_ps) / 1000) as u64);
        if span == Nanos::ZERO {
            return Done::immediately(context);
        }
        let end = |busy_until: u64| Nanos(busy_until).max(context.issued) + span;
        let before = self
            .busy_until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |busy_until| Some(end(busy_until).0))
            .unwrap_or_default();
        Done { completed: end(before), busy: span, corrected_bits: 0 }
    }

    /// The one description that the sectors make together, if they do.
    fn joined(&self, at: Lba, sectors: u64) -> Option<Description> {
        let first = match self.sector(at.0) {
            Sector::Zero => Description::default(),
            Sector::Described(description) => *description,
            Sector::Bytes(_) => return None,
        };
        for index in 1..sectors {
            let expected = first.advanced(u32::try_from(index).ok()?.checked_mul(self.geometry.sector_size)?)?;
            match self.sector(at.0 + index) {
                Sector::Zero if first.generator == Generator::Zero => {}
                Sector::Described(description) if *description == expected => {}
                _ => return None,
            }
        }
        Some(first)
    }

    fn copy_to(&self, at: Lba, into: &mut [u8]) {
        for (number, into) in (at.0..).zip(into.chunks_mut(self.geometry.sector_size as usize)) {
            match self.sector(number) {
                Sector::Zero => into.fill(0),
                Sector::Described(description) => description.generate(into),
                Sector::Bytes(bytes) => into.copy_from_slice(bytes),
            }
        }
    }

    fn deliver(&self, at: Lba, content: &mut Content, length: u32) {
        match self.joined(at, u64::from(length / self.geometry.sector_size)) {
            Some(description) => content.set_described(Described { description, length }),
            None => self.copy_to(at, content.set_bytes(length as usize)),
        }
    }
}

const fn place(number: u64) -> (usize, usize, usize) {
    let leaf = number / LEAF as u64;
    ((leaf / BRANCH as u64) as usize, (leaf % BRANCH as u64) as usize, (number % LEAF as u64) as usize)
}

impl BlockDevice for RamDevice {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Read, at, into.len())?;
        let bytes = into.len() as u64;
        match into {
            ReadInto::Bytes(into) => self.copy_to(at, into),
            ReadInto::Content { content, length } => self.deliver(at, content, length),
            ReadInto::Nothing { .. } => {}
        }
        Ok(self.serve(context, bytes))
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let length = check_unit(&self.geometry, at, unit, into.len())?;
        let sectors = u64::from(unit / self.geometry.sector_size);
        for (number, content) in (0..).zip(into) {
            self.deliver(Lba(at.0 + number * sectors), content, unit);
        }
        Ok(self.serve(context, u64::from(length)))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.write_parts(context, at, &[data])
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let total = Pieces::total(parts);
        check_range(&self.geometry, Operation::Write, at, total)?;
        let size = self.geometry.sector_size as usize;
        let (mut pieces, mut buffer) = (Pieces::new(parts), Vec::new());
        for number in 0..total / size {
            let Some(piece) = pieces.next(size, &mut buffer) else { break };
            let Some(sector) = self.sector_mut(at.0 + number as u64) else { break };
            match piece {
                Payload::Bytes(bytes) => match sector {
                    Sector::Bytes(held) => held.copy_from_slice(bytes),
                    held => *held = Sector::Bytes(bytes.into()),
                },
                Payload::Described(described) => *sector = Sector::Described(described.description),
            }
        }
        Ok(self.serve(context, total as u64))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(self.serve(context, 0))
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        let end = at.0.saturating_add(most).min(self.geometry.sectors);
        let (first, mut number) = self.alike(at.0);
        while number < end {
            let (holds, next) = self.alike(number);
            if holds != first {
                break;
            }
            number = next;
        }
        Extent { sectors: number.min(end).saturating_sub(at.0).max(1), holds: first }
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl Trim for RamDevice {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(&self.geometry, Operation::Trim, at, sectors)?;
        let end = at.0 + sectors;
        let whole_branch = (LEAF * BRANCH) as u64;
        let mut number = at.0;
        while number < end {
            let (branch, leaf, index) = place(number);
            let branch_end = (number / whole_branch + 1) * whole_branch;
            let Some(slot) = self.branches.get_mut(branch) else { break };
            if slot.is_none() || (number.is_multiple_of(whole_branch) && end >= branch_end) {
                *slot = None;
                number = branch_end;
                continue;
            }
            let last = (LEAF as u64).min(index as u64 + end - number) as usize;
            if let Some(leaf) = slot.as_mut().and_then(|branch| branch.get_mut(leaf)) {
                if index == 0 && last == LEAF {
                    *leaf = None;
                } else if let Some(sectors) = leaf.as_mut().and_then(|leaf| leaf.get_mut(index..last)) {
                    sectors.fill(Sector::Zero);
                }
            }
            number += (last - index) as u64;
        }
        Ok(self.serve(context, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_empty_device_trims_at_once_and_described_sectors_stay_described() {
        let mut device = RamDevice::with_sectors(512, 1 << 31).unwrap();
        let context = Context::default();
        let described = Described {
            description: Description { record: 4, version: 2, offset: 0, generator: Generator::Record },
            length: 4096,
        };
        let at = Lba((1 << 31) - 8);
        device.write(&context, at, Payload::Described(described)).unwrap();
        assert_eq!(device.held_sectors(), (0, 8));
        let mut content = Content::new();
        device.read(&context, at, ReadInto::Content { content: &mut content, length: 4096 }).unwrap();
        assert_eq!(content.described(), Some(described));
        Trim::trim(&mut device, &context, Lba(0), 1 << 31).unwrap();
        assert_eq!(device.held_sectors(), (0, 0));
    }

    #[test]
    fn requests_wait_for_each_other() {
        let service = ServiceTime { per_request: Nanos(100), per_byte_ps: 500 };
        let mut device = RamDevice::with_sectors(512, 8).unwrap().with_service_time(service);
        let context = Context::at(Nanos(1000));
        let first = device.write(&context, Lba(0), Payload::Bytes(&[0; 512])).unwrap();
        assert_eq!((first.completed, first.busy), (Nanos(1356), Nanos(356)));
        let second = device.flush(&context).unwrap();
        assert_eq!((second.completed, second.busy), (Nanos(1456), Nanos(100)));
    }
}
