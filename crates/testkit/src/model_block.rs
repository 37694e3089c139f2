//! A model of a block device that knows what each sector may hold after a power cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_block::{BlockDevice, BlockGeometry};
use nandkit_units::{Context, Lba, ReadInto};

use crate::violation::ensure;

/// A sector's content; zeroes where it was trimmed or never written.
type Version = Option<Arc<[u8]>>;

/// The oldest content that a cut may leave, and every later one.
#[derive(Clone, Debug)]
struct Held {
    /// First the content at the last flush, then each since, in order.
    versions: Vec<Version>,
    /// Whether the last version was acknowledged to the writer; if not, reads before a cut may see
    /// it or the one before.
    acknowledged: bool,
}

/// What a block device must hold: per sector the newest version, and all that a cut may leave (old
/// or new since the last flush; never a mix).
///
/// The test does to the model what it does to the device, and lets the model judge what it reads.
#[derive(Clone, Debug)]
pub struct ModelBlockDevice {
    geometry: BlockGeometry,
    sectors: BTreeMap<u64, Held>,
}

impl ModelBlockDevice {
    /// A device of zeroes.
    pub fn new(geometry: &BlockGeometry) -> Self {
        Self { geometry: *geometry, sectors: BTreeMap::new() }
    }

    fn push(&mut self, sector: u64, version: Version, acknowledged: bool) {
        let held = self.sectors.entry(sector).or_insert_with(|| Held { versions: vec![None], acknowledged: true });
        held.versions.push(version);
        held.acknowledged = acknowledged;
    }

    fn write_versions(&mut self, at: Lba, bytes: &[u8], acknowledged: bool) {
        let size = self.geometry.sector_size as usize;
        for (sector, bytes) in (at.0..).zip(bytes.chunks(size)) {
            self.push(sector, Some(bytes.into()), acknowledged);
        }
    }

    /// Notes a write that succeeded.
    pub fn write(&mut self, at: Lba, bytes: &[u8]) {
        self.write_versions(at, bytes, true);
    }

    /// Notes a write that failed: each sector is old or new.
    pub fn write_failed(&mut self, at: Lba, bytes: &[u8]) {
        self.write_versions(at, bytes, false);
    }

    /// Notes a trim that succeeded.
    pub fn trim(&mut self, at: Lba, sectors: u64) {
        (at.0..at.0 + sectors).for_each(|sector| self.push(sector, None, true));
    }

    /// Notes a trim that failed.
    pub fn trim_failed(&mut self, at: Lba, sectors: u64) {
        (at.0..at.0 + sectors).for_each(|sector| self.push(sector, None, false));
    }

    /// Notes a flush that succeeded: only the newest versions are left. (A flush that failed need
    /// not be noted.)
    pub fn flush(&mut self) {
        for held in self.sectors.values_mut().filter(|held| held.acknowledged) {
            held.versions.drain(..held.versions.len() - 1);
        }
    }

    /// The newest content of a sector.
    pub fn newest(&self, sector: u64) -> Vec<u8> {
        let newest = self.sectors.get(&sector).and_then(|held| held.versions.last()).and_then(Option::as_ref);
        newest.map_or_else(|| vec![0; self.geometry.sector_size as usize], |bytes| bytes.to_vec())
    }

    /// Judges bytes that were read from `at` on while the power was on.
    pub fn check_read(&self, at: Lba, bytes: &[u8]) -> Result<(), String> {
        for (sector, found) in (at.0..).zip(bytes.chunks(self.geometry.sector_size as usize)) {
            let newest = self.newest(sector);
            let unsure = self.sectors.get(&sector).is_some_and(|held| !held.acknowledged);
            let allowed = found == newest || unsure && self.place_of(sector, found).is_some();
            ensure!(allowed, "sector {sector}: {}", self.describe(sector, found));
        }
        Ok(())
    }

    /// The index of the newest version of the sector that equals these bytes.
    fn place_of(&self, sector: u64, found: &[u8]) -> Option<usize> {
        let is = |version: &Version| match version {
            Some(bytes) => **bytes == *found,
            None => nandkit_units::is_zeroed(found),
        };
        match self.sectors.get(&sector) {
            Some(held) => held.versions.iter().rposition(is),
            None => is(&None).then_some(0),
        }
    }

    fn describe(&self, sector: u64, found: &[u8]) -> String {
        let count = self.sectors.get(&sector).map_or(1, |held| held.versions.len());
        match self.place_of(sector, found) {
            Some(place) => format!("version {place} of {count} since the last flush, expected the newest"),
            None => format!(
                "none of the {count} versions since the last flush, but {:02x?}..., newest {:02x?}...",
                &found[..found.len().min(8)],
                &self.newest(sector)[..8.min(found.len())]
            ),
        }
    }

    /// Reads the whole device after a cut and a recovery: every sector must hold one of its
    /// versions. From then on exactly what was read is held. Cost: a read of every sector that was
    /// ever touched, and of all sectors of devices up to 64 Ki sectors.
    pub fn recover(&mut self, device: &dyn BlockDevice, context: &Context) -> Result<(), String> {
        let all = self.geometry.sectors <= 1 << 16;
        let touched: Vec<u64> =
            if all { (0..self.geometry.sectors).collect() } else { self.sectors.keys().copied().collect() };
        let mut bytes = vec![0; self.geometry.sector_size as usize];
        for sector in touched {
            device
                .read(context, Lba(sector), ReadInto::Bytes(&mut bytes))
                .map_err(|error| format!("after the recovery: {error}"))?;
            ensure!(
                self.place_of(sector, &bytes).is_some(),
                "after the recovery sector {sector} holds {}",
                self.describe(sector, &bytes)
            );
            if self.sectors.contains_key(&sector) {
                let version = (!nandkit_units::is_zeroed(&bytes)).then(|| bytes.as_slice().into());
                self.sectors.insert(sector, Held { versions: vec![version], acknowledged: true });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_block::RamDevice;
    use nandkit_units::Payload;

    fn geometry() -> BlockGeometry {
        BlockGeometry { sector_size: 512, sectors: 8, preferred_size: 512, recycling_size: 0 }
    }

    /// Whether the model takes a device whose sector 2 holds `found`.
    fn takes(model: &ModelBlockDevice, found: &[u8; 512]) -> bool {
        let mut device = RamDevice::new(geometry()).unwrap();
        device.write(&Context::default(), Lba(2), Payload::Bytes(found)).unwrap();
        model.clone().recover(&device, &Context::default()).is_ok()
    }

    #[test]
    fn after_a_cut_old_or_new_is_taken_and_nothing_else() {
        let mut model = ModelBlockDevice::new(&geometry());
        model.write(Lba(2), &[1; 512]);
        model.flush();
        model.write(Lba(2), &[2; 512]);
        model.write_failed(Lba(2), &[3; 512]);
        assert!([1, 2, 3].into_iter().all(|byte| takes(&model, &[byte; 512])));
        let mut torn = [2; 512];
        torn[256..].fill(3);
        assert!(!takes(&model, &torn) && !takes(&model, &[0; 512]));
        assert!(model.check_read(Lba(2), &[2; 512]).is_ok() && model.check_read(Lba(2), &[9; 512]).is_err());
        model.write(Lba(2), &[4; 512]);
        model.flush();
        assert!(takes(&model, &[4; 512]) && !takes(&model, &[2; 512]));
        model.trim(Lba(2), 1);
        assert!(takes(&model, &[4; 512]) && takes(&model, &[0; 512]));
        assert!(model.check_read(Lba(2), &[0; 512]).is_ok() && model.check_read(Lba(2), &[4; 512]).is_err());
    }

    #[test]
    fn what_was_read_after_the_cut_stays() {
        let mut model = ModelBlockDevice::new(&geometry());
        model.write(Lba(2), &[1; 512]);
        let mut device = RamDevice::new(geometry()).unwrap();
        model.recover(&device, &Context::default()).unwrap();
        device.write(&Context::default(), Lba(2), Payload::Bytes(&[1; 512])).unwrap();
        assert!(model.recover(&device, &Context::default()).is_err(), "a sector changed by itself");
    }
}
