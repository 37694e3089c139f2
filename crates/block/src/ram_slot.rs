//! The content of 4 KiB of a memory device, or of one larger sector: uniform, or sector by sector.

use nandkit_units::{Description, Payload};

/// Size of a slot in bytes, unless sectors are larger.
const SLOT_BYTES: u32 = 4096;

/// The geometry of a device's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotShape {
    sector_size: u32,
    sectors: u32,
}

impl SlotShape {
    /// The slot shape for this sector size, a power of two.
    pub fn of(sector_size: u32) -> Self {
        Self { sector_size, sectors: (SLOT_BYTES / sector_size.max(1)).max(1) }
    }

    /// Sectors per slot.
    #[inline]
    pub fn sectors(self) -> u64 {
        self.sectors.into()
    }
}

/// The content of a sector.
#[derive(Clone, Debug, Default)]
pub(crate) enum Sector {
    #[default]
    Zero,
    Described(Description),
    Bytes(Box<[u8]>),
}

/// The content of a sector, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held<'a> {
    Zero,
    Described(Description),
    Bytes(&'a [u8]),
}

/// The content of a slot.
#[derive(Clone, Debug, Default)]
pub(crate) enum Slot {
    #[default]
    Zero,
    /// Its sectors are consecutive parts of one description.
    Described(Description),
    /// All its bytes.
    Bytes(Box<[u8]>),
    /// Each sector separately.
    Mixed(Box<[Sector]>),
}

/// The bytes of composed content.
fn bytes_of(payload: Payload<'_>) -> Box<[u8]> {
    let mut bytes = vec![0; payload.len()].into_boxed_slice();
    payload.copy_to(&mut bytes);
    bytes
}

impl Sector {
    fn of(payload: Payload<'_>) -> Self {
        match payload {
            Payload::Bytes(bytes) => Self::Bytes(bytes.into()),
            Payload::Described(described) => Self::Described(described.description),
            Payload::Assembled(_) => Self::Bytes(bytes_of(payload)),
        }
    }

    fn held(&self) -> Held<'_> {
        match self {
            Self::Zero => Held::Zero,
            Self::Described(description) => Held::Described(*description),
            Self::Bytes(bytes) => Held::Bytes(bytes),
        }
    }
}

impl Slot {
    /// Replaces the whole content; the payload has the length of the slot.
    #[inline]
    pub fn put(&mut self, payload: Payload<'_>) {
        match (payload, &mut *self) {
            (Payload::Bytes(bytes), Self::Bytes(held)) if held.len() == bytes.len() => held.copy_from_slice(bytes),
            (Payload::Bytes(bytes), slot) => *slot = Self::Bytes(bytes.into()),
            (Payload::Described(described), slot) => *slot = Self::Described(described.description),
            (Payload::Assembled(_), slot) => *slot = Self::Bytes(bytes_of(payload)),
        }
    }

    /// Replaces one sector.
    pub fn put_sector(&mut self, shape: SlotShape, index: u64, payload: Payload<'_>) {
        let size = shape.sector_size as usize;
        if let (Self::Bytes(held), Payload::Bytes(bytes)) = (&mut *self, payload)
            && let Some(place) = held.get_mut(index as usize * size..(index as usize + 1) * size)
        {
            place.copy_from_slice(bytes);
            return;
        }
        match self.mixed(shape).get_mut(index as usize) {
            Some(Sector::Bytes(held)) if let Payload::Bytes(bytes) = payload => held.copy_from_slice(bytes),
            Some(sector) => *sector = Sector::of(payload),
            None => {}
        }
    }

    /// Clears one sector.
    pub fn clear_sector(&mut self, shape: SlotShape, index: u64) {
        if let Some(sector) = self.mixed(shape).get_mut(index as usize) {
            *sector = Sector::Zero;
        }
    }

    /// The sectors, stored separately from now on.
    fn mixed(&mut self, shape: SlotShape) -> &mut [Sector] {
        if !matches!(self, Self::Mixed(_)) {
            let sectors = (0..shape.sectors()).map(|index| match self.sector(shape, index) {
                Held::Zero => Sector::Zero,
                Held::Described(description) => Sector::Described(description),
                Held::Bytes(bytes) => Sector::Bytes(bytes.into()),
            });
            *self = Self::Mixed(sectors.collect());
        }
        match self {
            Self::Mixed(sectors) => sectors,
            _ => &mut [],
        }
    }

    /// The content of one sector.
    #[inline]
    pub fn sector(&self, shape: SlotShape, index: u64) -> Held<'_> {
        let start = index as usize * shape.sector_size as usize;
        match self {
            Self::Zero => Held::Zero,
            // A description of a whole slot covers each of its bytes: no offset within it is out of
            // range.
            Self::Described(description) => Held::Described(description.advanced(start as u32).unwrap_or(*description)),
            Self::Bytes(bytes) => bytes.get(start..start + shape.sector_size as usize).map_or(Held::Zero, Held::Bytes),
            Self::Mixed(sectors) => sectors.get(index as usize).map_or(Held::Zero, Sector::held),
        }
    }

    /// The number of its sectors that hold bytes, and of those that hold a description.
    pub fn held(&self, shape: SlotShape) -> (u64, u64) {
        let count =
            |wanted: fn(&Sector) -> bool, sectors: &[Sector]| sectors.iter().filter(|&s| wanted(s)).count() as u64;
        match self {
            Self::Zero => (0, 0),
            Self::Described(_) => (0, shape.sectors()),
            Self::Bytes(_) => (shape.sectors(), 0),
            Self::Mixed(sectors) => (
                count(|sector| matches!(sector, Sector::Bytes(_)), sectors),
                count(|sector| matches!(sector, Sector::Described(_)), sectors),
            ),
        }
    }
}
