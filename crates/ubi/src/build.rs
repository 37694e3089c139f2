//! Making images, as `ubinize` does: PEBs with the volume table, then those of each volume.

use crate::layout::{
    EcHeader, HEADER_SIZE, LAYOUT_LEBS, LAYOUT_VOLUME, NAME_MAX, RECORD_SIZE, VOLUMES_MAX, VidHeader, VolumeRecord,
    VolumeType, checksum, compatibility,
};
use crate::scan::Geometry;

/// A volume of a new image.
#[derive(Clone, Debug)]
pub struct VolumeContent<'a> {
    /// Its number.
    pub number: u32,
    /// Its record. `data_pad` follows from the alignment.
    pub record: VolumeRecord,
    /// Its content.
    pub content: &'a [u8],
}

/// What PEBs of a new image have in common.
#[derive(Clone, Copy, Debug)]
pub struct ImageHeaders {
    /// Where headers and data lie.
    pub geometry: Geometry,
    /// The image sequence number.
    pub image_sequence: u32,
    /// The erase counter of each PEB.
    pub erase_counter: u64,
}

impl ImageHeaders {
    fn ec(&self) -> EcHeader {
        let Self { geometry: Geometry { vid_offset, data_offset, .. }, image_sequence, erase_counter } = *self;
        EcHeader { erase_counter, vid_offset, data_offset, image_sequence }
    }

    /// A PEB with this identifier and data, erased behind them.
    pub fn peb(&self, vid: &VidHeader, data: &[u8]) -> Vec<u8> {
        let Geometry { peb_size, vid_offset, data_offset } = self.geometry;
        let mut peb = vec![0xFF; peb_size as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            if let Some(place) = peb.get_mut(at as usize..).and_then(|rest| rest.get_mut(..bytes.len())) {
                place.copy_from_slice(bytes);
            }
        };
        put(0, &self.ec().encode());
        put(vid_offset, &vid.encode());
        put(data_offset, data);
        peb
    }

    /// The PEBs of the volume table with these records, by the number of their volumes.
    pub fn table(&self, records: &[Option<&VolumeRecord>]) -> Vec<Vec<u8>> {
        let all = records.iter().copied().chain(std::iter::repeat(None)).take(records_of(&self.geometry));
        let table: Vec<u8> = all.flat_map(|record| record.map_or_else(empty_record, VolumeRecord::encode)).collect();
        let vid = |leb| VidHeader {
            compatibility: compatibility::REJECT,
            volume: LAYOUT_VOLUME,
            leb,
            ..VidHeader::new(VolumeType::Dynamic)
        };
        (0..LAYOUT_LEBS).map(|leb| self.peb(&vid(leb), &table)).collect()
    }

    /// Why these headers cannot be written, if so.
    pub fn refusal(&self) -> Option<String> {
        let Geometry { peb_size, vid_offset, data_offset } = self.geometry;
        (!self.ec().fits(peb_size)).then(|| {
            format!(
                "volume identifiers at {vid_offset} and data at {data_offset} of blocks of {peb_size} bytes; expected them in this order, after {HEADER_SIZE} bytes each"
            )
        })
    }
}

/// Makes an image of these volumes. The error says what does not fit: a number or a name that two
/// volumes have, a content larger than its volume.
pub fn build(headers: &ImageHeaders, volumes: &[VolumeContent<'_>]) -> Result<Vec<u8>, String> {
    if let Some(why) = headers.refusal() {
        return Err(why);
    }
    let leb_size = headers.geometry.leb_size();
    let mut records: Vec<Option<&VolumeRecord>> = vec![None; records_of(&headers.geometry)];
    for volume in volumes {
        let name = String::from_utf8_lossy(&volume.record.name);
        let taken = |record: &&VolumeRecord| record.name == volume.record.name;
        if !(1..=NAME_MAX).contains(&volume.record.name.len()) || volume.record.name.contains(&0) {
            return Err(format!("volume '{name}': expected a name of 1 to {NAME_MAX} bytes without zeroes"));
        }
        if records.iter().flatten().any(taken) {
            return Err(format!("two volumes have the name '{name}'"));
        }
        let count = records.len();
        let Some(place) = records.get_mut(volume.number as usize) else {
            return Err(format!("volume '{name}' has number {}; expected one below {count}", volume.number));
        };
        if place.replace(&volume.record).is_some() {
            return Err(format!("two volumes have number {}", volume.number));
        }
        let record = &volume.record;
        if !(1..=leb_size).contains(&record.alignment) || record.data_pad != leb_size % record.alignment {
            return Err(format!(
                "volume '{name}': alignment {} does not fit LEBs of {leb_size} bytes",
                record.alignment
            ));
        }
        let room = u64::from(record.reserved_pebs) * u64::from(leb_size - record.data_pad);
        if volume.content.len() as u64 > room {
            return Err(format!("volume '{name}': {} bytes do not fit in {room}", volume.content.len()));
        }
    }
    let mut image = headers.table(&records).concat();
    for volume in volumes {
        let size = (leb_size - volume.record.data_pad) as usize;
        let used_lebs = volume.content.len().div_ceil(size.max(1)) as u32;
        for (leb, data) in (0..).zip(volume.content.chunks(size.max(1))) {
            let vid = VidHeader {
                volume: volume.number,
                leb,
                data_pad: volume.record.data_pad,
                ..VidHeader::new(volume.record.volume_type)
            };
            let vid = match volume.record.volume_type {
                VolumeType::Dynamic => vid,
                VolumeType::Static => {
                    VidHeader { data_size: data.len() as u32, used_lebs, data_checksum: checksum(data), ..vid }
                }
            };
            image.extend(headers.peb(&vid, data));
        }
    }
    Ok(image)
}

/// Records in a volume table: as many as a LEB holds.
pub(crate) fn records_of(geometry: &Geometry) -> usize {
    (VOLUMES_MAX as usize).min(geometry.leb_size() as usize / RECORD_SIZE)
}

/// A record of no volume: zeroes with their checksum.
pub(crate) fn empty_record() -> [u8; RECORD_SIZE] {
    let mut record = [0; RECORD_SIZE];
    let sum = checksum(&record[..RECORD_SIZE - 4]).to_be_bytes();
    record[RECORD_SIZE - 4..].copy_from_slice(&sum);
    record
}
