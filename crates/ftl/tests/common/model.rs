//! What the device should hold, and seeded operations on it.

use nandkit_block::{BlockDevice, BlockError, ErrorKind};
use nandkit_units::random::{Random, hash};
use nandkit_units::{Cause, Content, Context, Lba, Payload, ReadInto};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Write { at: u64, sectors: u64 },
    Trim { at: u64, sectors: u64 },
    Read { at: u64, sectors: u64 },
    Flush,
}

/// The content of a sector by version; version 0 is zeroes.
pub fn fill(sector: u64, version: u64, into: &mut [u8]) {
    if version == 0 {
        return into.fill(0);
    }
    for (index, chunk) in into.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&hash(sector, version, index as u64).to_le_bytes()[..chunk.len()]);
    }
}

/// What one sector may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sector {
    /// What reads must show: a version, 0 for zeroes.
    pub now: u64,
    /// The version last written before a trim; a power cut may bring it back.
    pub before_trim: u64,
    /// The write or trim that was in progress at the power cut.
    pub pending: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub sectors: Vec<Sector>,
    pub sector_size: usize,
    pub version: u64,
    requests: u64,
}

impl Model {
    pub fn new(device: &impl BlockDevice) -> Self {
        let geometry = device.geometry();
        Self {
            sectors: vec![Sector { now: 0, before_trim: 0, pending: None }; geometry.sectors as usize],
            sector_size: geometry.sector_size as usize,
            version: 0,
            requests: 0,
        }
    }

    /// Does one request on the device and the model, and compares what is read. After an error the
    /// model knows which request was in progress.
    pub fn apply(&mut self, device: &mut impl BlockDevice, op: Op) -> Result<(), BlockError> {
        // Some of the host's writes count as metadata.
        self.requests += 1;
        let cause = if self.requests.is_multiple_of(3) { Cause::Metadata } else { Cause::UserData };
        let context = Context::default().for_cause(cause);
        match op {
            Op::Write { at, sectors } => {
                self.version += 1;
                let bytes = self.bytes(at, sectors, |_| self.version);
                let range = at as usize..(at + sectors) as usize;
                let version = self.version;
                self.sectors[range.clone()].iter_mut().for_each(|sector| sector.pending = Some(version));
                device.write(&context, Lba(at), Payload::Bytes(&bytes))?;
                self.sectors[range].fill(Sector { now: version, before_trim: version, pending: None });
            }
            Op::Trim { at, sectors } => {
                let range = at as usize..(at + sectors) as usize;
                self.sectors[range.clone()].iter_mut().for_each(|sector| sector.pending = Some(0));
                device.trim().expect("the layers trim").trim(&context, Lba(at), sectors)?;
                self.sectors[range].iter_mut().for_each(|sector| (sector.now, sector.pending) = (0, None));
            }
            Op::Read { at, sectors } => {
                let expected = self.bytes(at, sectors, |sector| self.sectors[sector].now);
                let mut found = vec![0xA5; expected.len()];
                device.read(&context, Lba(at), ReadInto::Bytes(&mut found))?;
                assert!(found == expected, "read of {sectors} sectors at {at}");
                let mut content = Content::new();
                let length = expected.len() as u32;
                device.read(&context, Lba(at), ReadInto::Content { content: &mut content, length })?;
                assert!(content.to_bytes() == expected, "read of the content of {sectors} sectors at {at}");
            }
            Op::Flush => {
                device.flush(&context)?;
                // A trim is durable after a flush.
                self.sectors.iter_mut().for_each(|sector| sector.before_trim = sector.now);
            }
        }
        Ok(())
    }

    fn bytes(&self, at: u64, sectors: u64, version: impl Fn(usize) -> u64) -> Vec<u8> {
        let mut bytes = vec![0; sectors as usize * self.sector_size];
        for (sector, chunk) in (at..).zip(bytes.chunks_mut(self.sector_size)) {
            fill(sector, version(sector as usize), chunk);
        }
        bytes
    }

    /// Compares every sector.
    pub fn verify(&self, device: &impl BlockDevice) {
        let mut found = vec![0; self.sector_size];
        let mut expected = vec![0; self.sector_size];
        for (at, sector) in self.sectors.iter().enumerate() {
            device.read(&Context::default(), Lba(at as u64), ReadInto::Bytes(&mut found)).unwrap();
            fill(at as u64, sector.now, &mut expected);
            assert!(found == expected, "sector {at}: expected version {}, found {}", sector.now, self.name(at, &found));
        }
    }

    /// The version that this content belongs to.
    fn name(&self, at: usize, found: &[u8]) -> String {
        let mut bytes = vec![0; self.sector_size];
        for version in 0..=self.version {
            fill(at as u64, version, &mut bytes);
            if bytes == found {
                return format!("version {version}");
            }
        }
        "no version at all".into()
    }

    /// Checks the device after a power cut or a close: each sector is as it was, as the interrupted
    /// request would have made it, or as before its trim. What is found must stay from then on.
    /// `false`: the power was cut meanwhile.
    pub fn settle(&mut self, device: &impl BlockDevice) -> Result<bool, String> {
        self.compare(device, true)
    }

    /// As [`Self::settle`], after a failed request: each of its sectors is old or new.
    pub fn check_pending(&mut self, device: &impl BlockDevice) -> Result<bool, String> {
        self.compare(device, false)
    }

    /// As [`Self::settle`], for a running device: each sector is as it should be now.
    pub fn check(&mut self, device: &impl BlockDevice) -> Result<bool, String> {
        self.compare(device, false)
    }

    fn compare(&mut self, device: &impl BlockDevice, reopened: bool) -> Result<bool, String> {
        let mut found = vec![0; self.sector_size];
        let mut bytes = vec![0; self.sector_size];
        for at in 0..self.sectors.len() {
            let read = device.read(&Context::default(), Lba(at as u64), ReadInto::Bytes(&mut found));
            match read {
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::PowerLost => return Ok(false),
                Err(error) => return Err(format!("sector {at} cannot be read: {error}")),
            }
            let sector = self.sectors[at];
            let after = reopened.then_some(sector.before_trim);
            let allowed = [Some(sector.now), sector.pending, after];
            let is = allowed.into_iter().flatten().find(|version| {
                fill(at as u64, *version, &mut bytes);
                bytes == found
            });
            let Some(version) = is else {
                return Err(format!("sector {at}: {} is none of {sector:?}", self.name(at, &found)));
            };
            if reopened {
                self.sectors[at] = Sector { now: version, before_trim: version, pending: None };
            }
        }
        Ok(true)
    }
}

/// The mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Trims in 100 requests; a tenth of the rest are reads, and flushes are rare.
    pub trims: u64,
    /// Writes in 100 that go to the first few sectors.
    pub hot: u64,
    /// Writes in 100 that continue where the last one ended.
    pub sequential: u64,
    /// The longest request in sectors.
    pub longest: u64,
    /// Reads in 100 requests.
    pub reads: u64,
}

impl Mix {
    pub const ALL: Self = Self { trims: 8, hot: 40, sequential: 30, longest: 12, reads: 20 };
    pub const WRITES: Self = Self { trims: 6, hot: 45, sequential: 30, longest: 6, reads: 0 };
}

/// A seeded stream of operations.
pub struct Ops {
    random: Random,
    mix: Mix,
    sectors: u64,
    next: u64,
}

impl Ops {
    pub fn new(seed: u64, mix: Mix, sectors: u64) -> Self {
        Self { random: Random::new(seed, "operations"), mix, sectors, next: 0 }
    }
}

impl Iterator for Ops {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let longest = self.mix.longest.min(self.sectors);
        let sectors = 1 + self.random.below(longest);
        let at = self.random.below(self.sectors - sectors + 1);
        let dice = self.random.below(100);
        Some(if dice < self.mix.trims {
            // Now and then a trim covers a large part of the device.
            let sectors = if self.random.chance(0.1) { sectors * 8 } else { sectors };
            Op::Trim { at, sectors: sectors.min(self.sectors - at) }
        } else if dice < self.mix.trims + self.mix.reads {
            Op::Read { at, sectors }
        } else if dice >= 96 {
            Op::Flush
        } else {
            let kind = self.random.below(100);
            let at = if kind < self.mix.hot {
                self.random.below((self.sectors / 16).max(1)).min(self.sectors - sectors)
            } else if kind < self.mix.hot + self.mix.sequential {
                if self.next + sectors > self.sectors { 0 } else { self.next }
            } else {
                at
            };
            self.next = at + sectors;
            Op::Write { at, sectors }
        })
    }
}
