//! A block device in memory whose copies are cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result, Trim};
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

type Sector = Arc<[u8]>;

/// A block device in memory. A copy shares the base, and costs what was changed since
/// [`MemoryDisk::settle`].
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    geometry: BlockGeometry,
    base: Arc<BTreeMap<u64, Sector>>,
    /// Over the base; `None` where a sector was trimmed.
    changed: BTreeMap<u64, Option<Sector>>,
}

impl MemoryDisk {
    /// A device of zeroes.
    pub fn new(sector_size: u32, sectors: u64) -> Self {
        let geometry = BlockGeometry { sector_size, sectors, preferred_size: sector_size.max(4096), recycling_size: 0 };
        Self { geometry, base: Arc::default(), changed: BTreeMap::new() }
    }

    /// A copy of a device, in its sectors. Errors: those of its reads.
    pub fn copy_of(device: &dyn BlockDevice) -> Result<Self> {
        let shape = *device.geometry();
        let mut disk = Self::new(shape.sector_size, shape.sectors);
        let mut bytes = vec![0; shape.sector_size as usize];
        let mut base = BTreeMap::new();
        for sector in 0..shape.sectors {
            device.read(&Context::default(), Lba(sector), ReadInto::Bytes(&mut bytes))?;
            if !nandkit_units::is_zeroed(&bytes) {
                base.insert(sector, Sector::from(&bytes[..]));
            }
        }
        disk.base = Arc::new(base);
        Ok(disk)
    }

    /// Brings all changes into the base, so that copies cost nothing.
    #[must_use]
    pub fn settle(self) -> Self {
        let base = self.held().map(|(sector, bytes)| (sector, bytes.clone())).collect();
        Self { base: Arc::new(base), changed: BTreeMap::new(), ..self }
    }

    /// The sectors that were written, ascending, with their bytes.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.held().map(|(sector, bytes)| (sector, &bytes[..]))
    }

    fn held(&self) -> impl Iterator<Item = (u64, &Sector)> {
        let untouched = self.base.iter().filter(|(sector, _)| !self.changed.contains_key(sector));
        let mut all: Vec<(u64, &Sector)> = untouched.map(|(sector, bytes)| (*sector, bytes)).collect();
        all.extend(self.changed.iter().filter_map(|(sector, bytes)| Some((*sector, bytes.as_ref()?))));
        all.sort_unstable_by_key(|(sector, _)| *sector);
        all.into_iter()
    }

    fn sector(&self, number: u64) -> Option<&Sector> {
        match self.changed.get(&number) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(&number),
        }
    }

    /// Errors: sectors that are not there, or no whole ones.
    fn check(&self, operation: Operation, at: Lba, bytes: usize) -> Result<()> {
        let size = self.geometry.sector_size as usize;
        let end = at.0.checked_add((bytes / size) as u64);
        if bytes.is_multiple_of(size) && end.is_some_and(|end| end <= self.geometry.sectors) {
            return Ok(());
        }
        Err(BlockError::new(ErrorKind::OutOfRange, operation, at, format!("{bytes} bytes")))
    }
}

impl BlockDevice for MemoryDisk {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.check(Operation::Read, at, into.len())?;
        let bytes = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, length } => content.set_bytes(length as usize),
            ReadInto::Nothing { .. } => return Ok(Done::immediately(context)),
        };
        for (number, into) in (at.0..).zip(bytes.chunks_exact_mut(self.geometry.sector_size as usize)) {
            match self.sector(number) {
                Some(sector) => into.copy_from_slice(sector),
                None => into.fill(0),
            }
        }
        Ok(Done::immediately(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.check(Operation::Write, at, data.len())?;
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let sectors = bytes.chunks_exact(self.geometry.sector_size as usize);
        self.changed.extend((at.0..).zip(sectors.map(|sector| Some(Sector::from(sector)))));
        Ok(Done::immediately(context))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl Trim for MemoryDisk {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let end = at.0.checked_add(sectors).filter(|end| *end <= self.geometry.sectors);
        let Some(end) = end else {
            let what = format!("{sectors} sectors");
            return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Trim, at, what));
        };
        self.changed.extend((at.0..end).map(|sector| (sector, None)));
        Ok(Done::immediately(context))
    }
}
