//! A model of a block device with trim, share and move.
//!
//! A completed write is durable at once, or with the next flush if there is a write buffer. Trims
//! are durable with the next flush or remap, remaps when they complete.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos, Payload, ReadInto};

use super::page_causes::REMAP;

/// What a sector holds: the number of a version, which determines its bytes.
type Version = Option<u64>;

/// Commands drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub seed: u64,
    pub commands: u64,
    /// Number of commands between two starts without a cut; 0 for none.
    pub restart_every: u64,
    /// Number of writes of which one is durable by itself; 0 for none.
    pub durable_every: u64,
}

/// A remap that was not acknowledged: either all of these changes were made, or none.
type Pending = Vec<(u64, Version)>;

pub struct Model {
    /// The versions that each sector may hold after a cut; the last one is what it holds now.
    versions: Vec<Vec<Version>>,
    pending: Pending,
    next: u64,
    now: Nanos,
    pub remaps: u64,
    /// Whether completed writes may be lost before a flush.
    has_buffer: bool,
    durable_every: u64,
    /// Whether there are pauses in which the device has time for work of its own. In half of them
    /// it is told how long they last.
    pub pauses: bool,
}

pub fn bytes_of(version: Version, size: usize) -> Vec<u8> {
    let Some(version) = version else { return vec![0; size] };
    let mut bytes = vec![0; size];
    for (word, part) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *part = (version << 16 | word as u64 | 1 << 60).to_le_bytes();
    }
    bytes
}

impl Model {
    pub fn new(sectors: u64, has_buffer: bool) -> Self {
        let versions = vec![vec![None]; sectors as usize];
        let (pending, now) = (Vec::new(), Nanos::ZERO);
        Self { versions, pending, next: 1, now, remaps: 0, has_buffer, durable_every: 0, pauses: false }
    }

    fn now(&self, sector: u64) -> Version {
        self.versions[sector as usize].last().copied().unwrap_or(None)
    }

    fn settle(&mut self) {
        for versions in &mut self.versions {
            versions.drain(..versions.len() - 1);
        }
    }

    /// Runs commands until the script ends (`true`), a restart is due (`false`), or one fails.
    pub fn run(
        &mut self,
        device: &mut dyn BlockDevice,
        script: &Script,
        random: &mut Random,
        left: &mut u64,
    ) -> Result<bool, String> {
        self.durable_every = script.durable_every;
        while *left > 0 {
            *left -= 1;
            if self.pauses {
                self.pause(device, random);
            }
            self.command(device, random)?;
            if script.restart_every > 0 && left.is_multiple_of(script.restart_every) {
                return Ok(*left == 0);
            }
        }
        device.flush(&Context::at(self.now)).map_err(|error| error.to_string())?;
        self.settle();
        Ok(true)
    }

    fn pause(&mut self, device: &mut dyn BlockDevice, random: &mut Random) {
        if random.below(3) == 0 {
            self.now += Nanos(random.below(20_000_000));
        }
        let is_told = random.below(2) == 0;
        if let Some(pacing) = device.pacing().filter(|_| is_told) {
            pacing.quiet_until(self.now);
        }
    }

    fn command(&mut self, device: &mut dyn BlockDevice, random: &mut Random) -> Result<(), String> {
        let (sectors, size) = (device.geometry().sectors, device.geometry().sector_size as usize);
        // Half of all go to a tenth of the device.
        let reach = if random.below(2) == 0 { sectors } else { sectors / 10 + 1 };
        let first = random.below(reach);
        let count = random.between(1, 6).min(sectors - first);
        let context = Context::at(self.now);
        let done = match random.below(100) {
            0..60 => {
                self.next += 1;
                let version = Some(self.next);
                let data = bytes_of(version, size).repeat(count as usize);
                let is_durable = self.durable_every > 0 && self.next.is_multiple_of(self.durable_every);
                let done = match is_durable {
                    true => device.write_durable(&context, Lba(first), Payload::Bytes(&data)),
                    false => device.write(&context, Lba(first), Payload::Bytes(&data)),
                };
                for sector in first..first + count {
                    let versions = &mut self.versions[sector as usize];
                    if done.is_ok() && (is_durable || !self.has_buffer) {
                        versions.clear();
                    }
                    versions.push(version);
                }
                done.map_err(|error| error.to_string())?
            }
            60..72 => {
                let done = device.trim().ok_or("no trim")?.trim(&context, Lba(first), count);
                (first..first + count).for_each(|sector| self.versions[sector as usize].push(None));
                done.map_err(|error| error.to_string())?
            }
            72..80 => {
                let done = device.flush(&context).map_err(|error| error.to_string())?;
                self.settle();
                done
            }
            80..94 => return self.remap(device, random, reach),
            _ => return self.check(device, first),
        };
        self.now = Nanos(self.now.0.max(done.completed.0.saturating_sub(random.below(300_000))));
        Ok(())
    }

    fn remap(&mut self, device: &mut dyn BlockDevice, random: &mut Random, reach: u64) -> Result<(), String> {
        let sectors = device.geometry().sectors;
        let mut pairs: Vec<(Lba, Lba)> = Vec::new();
        for _ in 0..random.between(1, 5) {
            let (source, target) = (Lba(random.below(reach)), Lba(random.below(sectors)));
            let used = |at: Lba| pairs.iter().any(|(one, other)| *one == at || *other == at);
            if self.now(source.0).is_some() && source != target && !used(source) && !used(target) {
                pairs.push((source, target));
            }
        }
        let moves = random.below(2) == 0;
        let context = Context { cause: REMAP, ..Context::at(self.now) };
        let mut changes: Pending = pairs.iter().map(|(source, target)| (target.0, self.now(source.0))).collect();
        if moves {
            changes.extend(pairs.iter().map(|(source, _)| (source.0, None)));
        }
        let remap = device.remap().ok_or("no remap")?;
        let done = if moves { remap.remap_move(&context, &pairs) } else { remap.share(&context, &pairs) };
        match done {
            Ok(done) => {
                for (sector, version) in changes {
                    self.versions[sector as usize] = vec![version];
                }
                self.remaps += u64::from(!pairs.is_empty());
                // An empty command may leave trims where they are.
                if !pairs.is_empty() && !self.has_buffer {
                    self.settle();
                }
                self.now = self.now.max(done.completed);
                Ok(())
            }
            // Too many aliases, which is reported before anything is changed.
            Err(error) if error.kind == ErrorKind::Full && error.to_string().contains("log of remaps") => {
                self.check(device, pairs[0].0.0)
            }
            Err(error) => {
                self.pending = changes;
                Err(error.to_string())
            }
        }
    }

    fn check(&self, device: &dyn BlockDevice, sector: u64) -> Result<(), String> {
        let size = device.geometry().sector_size as usize;
        let mut found = vec![0xEE; size];
        device
            .read(&Context::at(self.now), Lba(sector), ReadInto::Bytes(&mut found))
            .map_err(|error| error.to_string())?;
        let expected = self.now(sector);
        if found == bytes_of(expected, size) {
            return Ok(());
        }
        Err(format!("sector {sector} holds {:02x?}..., expected version {expected:?}", &found[..8]))
    }
}

/// Reads the whole device after a start. Each sector must hold one of its allowed versions, and a
/// remap that was cut must be complete or absent. From then on the device must hold what was read.
pub fn check_all(device: &dyn BlockDevice, model: &mut Model) -> Result<(), String> {
    let size = device.geometry().sector_size as usize;
    let mut found = Vec::new();
    for sector in 0..device.geometry().sectors {
        let mut bytes = vec![0xEE; size];
        device
            .read(&Context::at(model.now), Lba(sector), ReadInto::Bytes(&mut bytes))
            .map_err(|error| error.to_string())?;
        let pending = model.pending.iter().filter(|(at, _)| *at == sector).map(|(_, version)| *version);
        let versions = model.versions[sector as usize].iter().copied().chain(pending);
        let held = versions.clone().find(|version| bytes_of(*version, size) == bytes);
        let Some(held) = held else {
            let allowed: Vec<Version> = versions.collect();
            return Err(format!("sector {sector} holds {:02x?}..., allowed are {allowed:?}", &bytes[..8]));
        };
        found.push(held);
    }
    let is = |sector: u64, version: &Version| found[sector as usize] == *version;
    let pending = std::mem::take(&mut model.pending);
    let is_done = pending.iter().all(|(sector, version)| is(*sector, version));
    let is_undone =
        pending.iter().all(|(sector, _)| model.versions[*sector as usize].contains(&found[*sector as usize]));
    if !is_done && !is_undone {
        return Err(format!(
            "a remap happened in part: {pending:?} of {:?}",
            pending.iter().map(|(at, _)| found[*at as usize]).collect::<Vec<_>>()
        ));
    }
    model.versions = found.into_iter().map(|version| vec![version]).collect();
    Ok(())
}
