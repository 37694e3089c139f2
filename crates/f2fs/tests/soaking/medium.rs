//! A device in memory that is copied at no cost, and that notes what is asked of it: any cut of a run is made from the notes, without the run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_block::wrap::{CutDevice, DeviceCutPlan};
use nandkit_block::{BlockDevice, BlockGeometry, Result, Trim};
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use crate::writing::oracle::{BLOCK, Image, SECTORS};

type Sector = Arc<[u8]>;

/// What a request was.
#[derive(Clone, Debug)]
pub enum What {
    Write { at: u64, sectors: Vec<Sector>, durable: bool },
    Trim { at: u64, sectors: u64 },
    Flush,
}

/// A request that changed something.
#[derive(Clone, Debug)]
pub struct Event {
    pub context: Context,
    pub what: What,
}

impl Event {
    fn apply(&self, device: &mut impl BlockDevice) {
        // After the cut everything is an error.
        let _ = match &self.what {
            What::Write { at, sectors, durable } => {
                let bytes = sectors.concat();
                match durable {
                    true => device.write_durable(&self.context, Lba(*at), Payload::Bytes(&bytes)),
                    false => device.write(&self.context, Lba(*at), Payload::Bytes(&bytes)),
                }
            }
            What::Trim { at, sectors } => device.trim().unwrap().trim(&self.context, Lba(*at), *sectors),
            What::Flush => device.flush(&self.context),
        };
    }
}

/// The requests of a run, which whoever runs it looks at meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Event>>>);

impl Log {
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sectors of 4096 bytes in memory.
#[derive(Clone, Debug)]
pub struct Medium {
    geometry: BlockGeometry,
    base: Arc<Vec<Option<Sector>>>,
    /// Over the base.
    changed: BTreeMap<u64, Option<Sector>>,
    log: Option<Log>,
}

impl Medium {
    pub fn of(image: &Image) -> Self {
        let mut base = vec![None; SECTORS as usize];
        image.iter().for_each(|(sector, bytes)| base[*sector as usize] = Some(bytes[..].into()));
        let geometry =
            BlockGeometry { sector_size: BLOCK as u32, sectors: SECTORS, preferred_size: 4096, recycling_size: 0 };
        Self { geometry, base: Arc::new(base), changed: BTreeMap::new(), log: None }
    }

    /// A copy that notes every change.
    pub fn recorded(&self) -> (Self, Log) {
        let log = Log::default();
        (Self { log: Some(log.clone()), ..self.clone() }, log)
    }

    /// A copy that notes nothing, with all changes in its base.
    pub fn settled(&self) -> Self {
        let mut base = (*self.base).clone();
        self.changed.iter().for_each(|(sector, bytes)| base[*sector as usize] = bytes.clone());
        Self { base: Arc::new(base), changed: BTreeMap::new(), log: None, ..*self }
    }

    pub fn image(&self) -> Image {
        (0..SECTORS).filter_map(|sector| Some((sector, self.sector(sector)?.to_vec()))).collect()
    }

    fn sector(&self, number: u64) -> Option<&Sector> {
        self.changed.get(&number).unwrap_or_else(|| &self.base[number as usize]).as_ref()
    }

    fn note(&self, context: &Context, what: impl FnOnce() -> What) {
        if let Some(Log(log)) = &self.log {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(Event { context: *context, what: what() });
        }
    }

    fn put(&mut self, context: &Context, at: Lba, data: Payload<'_>, durable: bool) -> Done {
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let sectors: Vec<Sector> = bytes.chunks_exact(BLOCK).map(Sector::from).collect();
        self.changed.extend((at.0..).zip(sectors.iter().cloned().map(Some)));
        self.note(context, || What::Write { at: at.0, sectors, durable });
        Done::immediately(context)
    }
}

impl BlockDevice for Medium {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        let bytes = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, length } => content.set_bytes(length as usize),
            ReadInto::Nothing { .. } => return Ok(Done::immediately(context)),
        };
        for (number, into) in (at.0..).zip(bytes.chunks_exact_mut(BLOCK)) {
            match self.sector(number) {
                Some(sector) => into.copy_from_slice(sector),
                None => into.fill(0),
            }
        }
        Ok(Done::immediately(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        Ok(self.put(context, at, data, false))
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        Ok(self.put(context, at, data, true))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.note(context, || What::Flush);
        Ok(Done::immediately(context))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl Trim for Medium {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        self.changed.extend((at.0..at.0 + sectors).map(|sector| (sector, None)));
        self.note(context, || What::Trim { at: at.0, sectors });
        Ok(Done::immediately(context))
    }
}

/// The requests of a run one after the other, and what a cut at each leaves.
pub struct Replay {
    events: Vec<Event>,
    /// As it is at the last flush before `next`.
    flushed: Medium,
    first: usize,
    next: usize,
}

impl Replay {
    /// Of a run that began on `medium`.
    pub fn of(medium: &Medium, events: Vec<Event>) -> Self {
        Self { events, flushed: Medium { log: None, ..medium.clone() }, first: 0, next: 0 }
    }

    /// The next request, and its number from 0 on.
    pub fn peek(&self) -> Option<(usize, &Event)> {
        Some((self.next, self.events.get(self.next)?))
    }

    /// What a cut at the next request leaves. Of the plan its moment, survival and seed count.
    pub fn cut(&self, plan: DeviceCutPlan) -> Medium {
        let at = (self.next - self.first + 1) as u64;
        let plan = DeviceCutPlan::at(at, plan.moment, plan.survival, plan.seed);
        let mut device = CutDevice::new(self.flushed.clone(), plan);
        self.events[self.first..=self.next].iter().for_each(|event| event.apply(&mut device));
        assert!(device.is_off());
        device.into_inner().unwrap()
    }

    /// Goes on to the one behind it.
    pub fn advance(&mut self) {
        if matches!(self.events[self.next].what, What::Flush) {
            for event in &self.events[self.first..=self.next] {
                event.apply(&mut self.flushed);
            }
            self.first = self.next + 1;
        }
        self.next += 1;
    }
}
