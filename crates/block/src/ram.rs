//! A block device in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_units::{
    Assembly, Content, Context, Described, Description, Done, Generator, Lba, Nanos, Payload, Pieces, ReadInto,
};

use crate::check::{check_geometry, check_range, check_unit, sectors_of};
use crate::ram_slot::{Held, Slot, SlotShape};
use crate::{BlockDevice, BlockGeometry, Extent, Operation, Result, Trim};

/// Slots of a leaf: allocated together at the first write.
const LEAF: usize = 64;
/// Leaves per branch.
const BRANCH: usize = 512;

/// The duration of requests, which are served one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTime {
    /// Time per request of any kind.
    pub per_request: Nanos,
    /// Time per byte read or written, in picoseconds.
    pub per_byte_ps: u64,
}

type Leaf = Box<[Slot]>;
type Branch = Box<[Option<Leaf>]>;

/// A block device in memory. Sectors that were never written take no memory; described sectors take
/// the memory of a description, which consecutive small sectors share, one per 4 KiB.
#[derive(Debug)]
pub struct RamDevice {
    geometry: BlockGeometry,
    service: ServiceTime,
    shape: SlotShape,
    branches: Vec<Option<Branch>>,
    busy_until: AtomicU64,
}

impl Clone for RamDevice {
    fn clone(&self) -> Self {
        Self {
            geometry: self.geometry,
            service: self.service,
            shape: self.shape,
            branches: self.branches.clone(),
            busy_until: AtomicU64::new(self.busy_until.load(Ordering::Acquire)),
        }
    }
}

impl RamDevice {
    /// An empty device whose requests take no time. Errors: an impossible geometry, as
    /// `OutOfRange`.
    pub fn new(geometry: BlockGeometry) -> Result<Self> {
        check_geometry(&geometry)?;
        let shape = SlotShape::of(geometry.sector_size);
        let branches = geometry.sectors.div_ceil(shape.sectors()).div_ceil((LEAF * BRANCH) as u64);
        let branches = (0..branches).map(|_| None).collect();
        Ok(Self { geometry, service: ServiceTime::default(), shape, branches, busy_until: AtomicU64::new(0) })
    }

    /// A device of `sectors` sectors of `sector_size` bytes, with a preferred size of 4 KiB or a
    /// sector.
    pub fn with_sectors(sector_size: u32, sectors: u64) -> Result<Self> {
        Self::new(BlockGeometry { sector_size, sectors, preferred_size: sector_size.max(4096), recycling_size: 0 })
    }

    /// Makes requests take time.
    pub fn with_service_time(mut self, service: ServiceTime) -> Self {
        self.service = service;
        self
    }

    /// The number of sectors that hold bytes, and of those that hold a description.
    pub fn held_sectors(&self) -> (u64, u64) {
        let slots = self.branches.iter().flatten().flat_map(|branch| branch.iter().flatten()).flatten();
        slots.fold((0, 0), |(bytes, described), slot| {
            let (more_bytes, more_described) = slot.held(self.shape);
            (bytes + more_bytes, described + more_described)
        })
    }

    fn sector(&self, number: u64) -> Held<'_> {
        let (branch, leaf, index) = place(number / self.shape.sectors());
        let branch = self.branches.get(branch).and_then(Option::as_ref);
        let slot = branch.and_then(|branch| branch.get(leaf)).and_then(Option::as_ref).and_then(|leaf| leaf.get(index));
        slot.map_or(Held::Zero, |slot| slot.sector(self.shape, number % self.shape.sectors()))
    }

    /// Whether a sector holds anything, and the next sector that must be checked: past the leaf or
    /// branch if that was never allocated.
    fn alike(&self, number: u64) -> (bool, u64) {
        let per_slot = self.shape.sectors();
        let (branch, leaf, _) = place(number / per_slot);
        let behind = |sectors: u64| (number / sectors + 1) * sectors;
        let Some(branch) = self.branches.get(branch).and_then(Option::as_ref) else {
            return (false, behind((LEAF * BRANCH) as u64 * per_slot));
        };
        match branch.get(leaf).and_then(Option::as_ref) {
            None => (false, behind(LEAF as u64 * per_slot)),
            Some(_) => (!matches!(self.sector(number), Held::Zero), number + 1),
        }
    }

    fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let (branch, leaf, index) = place(number);
        let branch = self.branches.get_mut(branch)?.get_or_insert_with(|| (0..BRANCH).map(|_| None).collect());
        let leaf = branch.get_mut(leaf)?.get_or_insert_with(|| (0..LEAF).map(|_| Slot::Zero).collect());
        leaf.get_mut(index)
    }

    /// The end of a request of this many bytes; the device is busy until then.
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

    /// The single description that the sectors form together, if there is one.
    fn joined(&self, at: Lba, sectors: u64) -> Option<Description> {
        let first = match self.sector(at.0) {
            Held::Zero => Description::default(),
            Held::Described(description) => description,
            Held::Bytes(_) => return None,
        };
        for index in 1..sectors {
            let expected = first.advanced(u32::try_from(index).ok()?.checked_mul(self.geometry.sector_size)?)?;
            match self.sector(at.0 + index) {
                Held::Zero if first.generator == Generator::Zero => {}
                Held::Described(description) if description == expected => {}
                _ => return None,
            }
        }
        Some(first)
    }

    fn copy_to(&self, at: Lba, into: &mut [u8]) {
        for (number, into) in (at.0..).zip(into.chunks_mut(self.geometry.sector_size as usize)) {
            match self.sector(number) {
                Held::Zero => into.fill(0),
                Held::Described(description) => description.generate(into),
                Held::Bytes(bytes) => into.copy_from_slice(bytes),
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
        let (shape, mut pieces, mut buffer) = (self.shape, Pieces::new(parts), Assembly::new());
        let (size, per_slot) = (self.geometry.sector_size as usize, shape.sectors());
        let (mut number, end) = (at.0, at.0 + (total / size) as u64);
        while number < end {
            let Some(slot) = self.slot_mut(number / per_slot) else { break };
            let whole = number.is_multiple_of(per_slot) && end - number >= per_slot;
            if whole && let Some(piece) = pieces.whole(per_slot as usize * size) {
                slot.put(piece);
                number += per_slot;
                continue;
            }
            let Some(piece) = pieces.next(size, &mut buffer) else { break };
            slot.put_sector(shape, number % per_slot, piece);
            number += 1;
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
        let (per_slot, shape) = (self.shape.sectors(), self.shape);
        let end = at.0 + sectors;
        // First sectors of partly cleared slots, then whole slots.
        let (first, last) = (at.0.div_ceil(per_slot), end / per_slot);
        let ragged = (at.0..end.min(first * per_slot)).chain((last * per_slot).max(at.0).max(first * per_slot)..end);
        for number in ragged {
            if !matches!(self.sector(number), Held::Zero)
                && let Some(slot) = self.slot_mut(number / per_slot)
            {
                slot.clear_sector(shape, number % per_slot);
            }
        }
        self.clear_slots(first, last);
        Ok(self.serve(context, 0))
    }
}

impl RamDevice {
    /// Clears slots.
    fn clear_slots(&mut self, first: u64, end: u64) {
        let whole_branch = (LEAF * BRANCH) as u64;
        let mut number = first;
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
                } else if let Some(slots) = leaf.as_mut().and_then(|leaf| leaf.get_mut(index..last)) {
                    slots.fill(Slot::Zero);
                }
            }
            number += (last - index) as u64;
        }
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

    /// Compares writes and trims of every alignment with a plain array.
    #[test]
    fn small_sectors_that_share_a_slot_read_as_they_were_written() {
        use nandkit_units::random::Random;
        let mut random = Random::new(5, "slots");
        for sector_size in [512_u32, 1024, 4096, 8192] {
            let mut device = RamDevice::with_sectors(sector_size, 61).unwrap();
            let mut plain = vec![0; 61 * sector_size as usize];
            let context = Context::default();
            for step in 0..2000 {
                let at = random.below(61);
                let count = 1 + random.below((61 - at).min(20));
                let (start, length) = ((at * u64::from(sector_size)) as usize, count as usize * sector_size as usize);
                let place = &mut plain[start..start + length];
                match random.below(5) {
                    0 => {
                        place.fill(0);
                        Trim::trim(&mut device, &context, Lba(at), count).unwrap();
                    }
                    1 | 2 => {
                        place.fill(step as u8);
                        device.write(&context, Lba(at), Payload::Bytes(place)).unwrap();
                    }
                    _ => {
                        // Two records with a boundary at any position.
                        let cut = random.below(count + 1) as usize * sector_size as usize;
                        let part = |record: u64, length: usize| Described {
                            description: Description { record, version: step, offset: 0, generator: Generator::Record },
                            length: length as u32,
                        };
                        let parts = [part(at, cut), part(at + 1, length - cut)];
                        parts[0].description.generate(&mut place[..cut]);
                        parts[1].description.generate(&mut place[cut..]);
                        let payloads: Vec<_> =
                            parts.into_iter().filter(|part| part.length > 0).map(Payload::Described).collect();
                        device.write_parts(&context, Lba(at), &payloads).unwrap();
                    }
                }
                let mut read = vec![9; plain.len()];
                device.read(&context, Lba(0), ReadInto::Bytes(&mut read)).unwrap();
                assert!(read == plain, "sectors of {sector_size}, step {step}");
                let holds = |number: u64| !matches!(device.sector(number), Held::Zero);
                let counted = (0..61).filter(|&number| holds(number)).count() as u64;
                let (bytes, described) = device.held_sectors();
                assert_eq!(bytes + described, counted, "step {step}");
            }
        }
    }

    #[test]
    fn four_kib_of_small_sectors_take_one_description() {
        let mut device = RamDevice::with_sectors(512, 1 << 16).unwrap();
        let description = Description { record: 1, version: 0, offset: 0, generator: Generator::Record };
        let described = Described { description, length: 1 << 20 };
        device.write(&Context::default(), Lba(0), Payload::Described(described)).unwrap();
        let slots = device.branches.iter().flatten().flat_map(|branch| branch.iter().flatten()).flatten();
        assert_eq!(slots.filter(|slot| matches!(slot, Slot::Described(_))).count(), 256);
        assert!(size_of::<Slot>() <= 24);
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
