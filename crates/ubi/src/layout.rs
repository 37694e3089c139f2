//! The structures of UBI on flash: the two headers of each PEB, and the records of the volume
//! table. All numbers are big-endian.
//!
//! Source of structures and constants: Linux `drivers/mtd/ubi/ubi-media.h`. Description of the
//! format: `docs/formats/ubi.md`.

use nandkit_codec::checksum::crc32_linux;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes of an erase counter header: `UBI#`.
pub const EC_MAGIC: u32 = 0x5542_4923;
/// First four bytes of a volume identifier header: `UBI!`.
pub const VID_MAGIC: u32 = 0x5542_4921;
/// The only version of UBI.
pub const VERSION: u8 = 1;
/// Size of each of the two headers in bytes.
pub const HEADER_SIZE: usize = 64;
/// Size of a record of the volume table in bytes.
pub const RECORD_SIZE: usize = 172;
/// Most volumes of a device, and most records of a volume table.
pub const VOLUMES_MAX: u32 = 128;
/// The longest name of a volume, in bytes.
pub const NAME_MAX: usize = 127;
/// The largest erase counter.
pub const ERASE_COUNTER_MAX: u64 = 0x7FFF_FFFF;
/// Identifiers from here on belong to UBI itself.
pub const INTERNAL_VOLUME: u32 = 0x7FFF_EFFF;
/// The volume that holds the volume table, in two LEBs with the same content.
pub const LAYOUT_VOLUME: u32 = INTERNAL_VOLUME;
/// Number of LEBs of the layout volume.
pub const LAYOUT_LEBS: u32 = 2;
/// The superblock of a fastmap.
pub const FASTMAP_SUPERBLOCK: u32 = LAYOUT_VOLUME + 1;
/// The rest of a fastmap.
pub const FASTMAP_DATA: u32 = LAYOUT_VOLUME + 2;

/// How an implementation treats internal volumes that it does not know.
pub mod compatibility {
    /// Erase its PEBs.
    pub const DELETE: u8 = 1;
    /// Attach the device read-only.
    pub const READ_ONLY: u8 = 2;
    /// Leave its PEBs alone.
    pub const PRESERVE: u8 = 4;
    /// Refuse the device.
    pub const REJECT: u8 = 5;
}

/// Flags of a volume record.
pub mod flag {
    /// The volume grows to all free PEBs at the first attach.
    pub const AUTORESIZE: u8 = 1;
    /// The content of a static volume is not checked when it is opened.
    pub const SKIP_CHECK: u8 = 2;
}

/// The type of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeType {
    /// Any LEB may be written, unmapped or changed.
    Dynamic,
    /// Its content is written as a whole, and has a checksum per LEB.
    Static,
}

impl VolumeType {
    /// The type of this number on flash.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Dynamic),
            2 => Some(Self::Static),
            _ => None,
        }
    }

    /// Its number on flash.
    pub const fn number(self) -> u8 {
        match self {
            Self::Dynamic => 1,
            Self::Static => 2,
        }
    }

    /// The word for people and for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
        }
    }
}

/// The checksum of headers, records and the data of a LEB.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32_linux(u32::MAX, bytes)
}

/// What the bytes at the place of a header are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A header with the right checksum.
    Header(T),
    /// Erased flash.
    Erased,
    /// Anything else, also a header with a wrong checksum or version.
    Damaged,
}

impl<T> Decoded<T> {
    /// The header, if there is one.
    pub fn header(self) -> Option<T> {
        match self {
            Self::Header(header) => Some(header),
            Self::Erased | Self::Damaged => None,
        }
    }
}

/// Whether a structure ends with the checksum of the bytes before it.
fn ends_with_checksum(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(summed, sum)| checksum(summed) == u32::from_be_bytes(*sum))
}

/// The erase counter header, at the beginning of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcHeader {
    /// How often the PEB was erased.
    pub erase_counter: u64,
    /// Where the volume identifier header is in the PEB.
    pub vid_offset: u32,
    /// Where the data begin in the PEB.
    pub data_offset: u32,
    /// A number that all PEBs of a flashed image have in common; 0 if unknown.
    pub image_sequence: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEc {
    magic: U32,
    version: u8,
    padding1: [u8; 3],
    erase_counter: U64,
    vid_offset: U32,
    data_offset: U32,
    image_sequence: U32,
    padding2: [u8; 32],
    checksum: U32,
}

const _: () = assert!(size_of::<RawEc>() == HEADER_SIZE);

impl EcHeader {
    /// Decodes the bytes at the beginning of a PEB. A version other than 1 counts as damage.
    pub fn decode(bytes: &[u8; HEADER_SIZE]) -> Decoded<Self> {
        if nandkit_units::is_erased(bytes) {
            return Decoded::Erased;
        }
        let raw = zerocopy::transmute_ref!(bytes);
        let RawEc { magic, version, erase_counter, vid_offset, data_offset, image_sequence, .. } = raw;
        if magic.get() != EC_MAGIC || *version != VERSION || !ends_with_checksum(bytes) {
            return Decoded::Damaged;
        }
        Decoded::Header(Self {
            erase_counter: erase_counter.get(),
            vid_offset: vid_offset.get(),
            data_offset: data_offset.get(),
            image_sequence: image_sequence.get(),
        })
    }

    /// Encodes the header with its checksum.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut raw = RawEc::new_zeroed();
        raw.magic = EC_MAGIC.into();
        raw.version = VERSION;
        raw.erase_counter = self.erase_counter.into();
        raw.vid_offset = self.vid_offset.into();
        raw.data_offset = self.data_offset.into();
        raw.image_sequence = self.image_sequence.into();
        raw.checksum = checksum(&raw.as_bytes()[..HEADER_SIZE - 4]).into();
        zerocopy::transmute!(raw)
    }

    /// Whether both offsets lie in a PEB of this size, one after the other, with space for data.
    pub fn fits(&self, peb_size: u32) -> bool {
        let header = HEADER_SIZE as u32;
        let between = self.data_offset.checked_sub(self.vid_offset);
        self.vid_offset >= header && self.data_offset < peb_size && between.is_some_and(|bytes| bytes >= header)
    }

    /// The erase counter, if it is one that UBI can have written.
    pub fn erases(&self) -> Option<u64> {
        (self.erase_counter <= ERASE_COUNTER_MAX).then_some(self.erase_counter)
    }
}

/// The volume identifier header: which LEB of which volume a PEB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VidHeader {
    /// The type of the volume.
    pub volume_type: VolumeType,
    /// Whether the LEB was copied here, so that `data_checksum` counts in dynamic volumes too.
    pub is_copy: bool,
    /// For internal volumes: one of [`compatibility`]; otherwise 0.
    pub compatibility: u8,
    /// The volume.
    pub volume: u32,
    /// The number of the LEB in the volume.
    pub leb: u32,
    /// Bytes covered by `data_checksum`: all data of a static volume's LEB, the used part of a
    /// copy, otherwise 0.
    pub data_size: u32,
    /// For static volumes: the number of LEBs in use.
    pub used_lebs: u32,
    /// Bytes at the end of each LEB that the volume's alignment leaves unused.
    pub data_pad: u32,
    /// The checksum of the data; see `data_size`.
    pub data_checksum: u32,
    /// Increases with each header written: of two PEBs with the same LEB, the larger one is newer.
    pub sequence: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawVid {
    magic: U32,
    version: u8,
    volume_type: u8,
    copy_flag: u8,
    compatibility: u8,
    volume: U32,
    leb: U32,
    padding1: [u8; 4],
    data_size: U32,
    used_lebs: U32,
    data_pad: U32,
    data_checksum: U32,
    padding2: [u8; 4],
    sequence: U64,
    padding3: [u8; 12],
    checksum: U32,
}

const _: () = assert!(size_of::<RawVid>() == HEADER_SIZE);

impl VidHeader {
    /// A header of LEB 0 of volume 0, with nothing else set.
    pub const fn new(volume_type: VolumeType) -> Self {
        Self {
            volume_type,
            is_copy: false,
            compatibility: 0,
            volume: 0,
            leb: 0,
            data_size: 0,
            used_lebs: 0,
            data_pad: 0,
            data_checksum: 0,
            sequence: 0,
        }
    }

    /// Decodes the bytes at `vid_offset` of a PEB. An unknown version or volume type counts as
    /// damage.
    pub fn decode(bytes: &[u8; HEADER_SIZE]) -> Decoded<Self> {
        if nandkit_units::is_erased(bytes) {
            return Decoded::Erased;
        }
        let raw: &RawVid = zerocopy::transmute_ref!(bytes);
        if raw.magic.get() != VID_MAGIC || raw.version != VERSION || !ends_with_checksum(bytes) {
            return Decoded::Damaged;
        }
        let Some(volume_type) = VolumeType::of(raw.volume_type) else { return Decoded::Damaged };
        Decoded::Header(Self {
            volume_type,
            is_copy: raw.copy_flag != 0,
            compatibility: raw.compatibility,
            volume: raw.volume.get(),
            leb: raw.leb.get(),
            data_size: raw.data_size.get(),
            used_lebs: raw.used_lebs.get(),
            data_pad: raw.data_pad.get(),
            data_checksum: raw.data_checksum.get(),
            sequence: raw.sequence.get(),
        })
    }

    /// What in the header of a volume of users cannot be true, if anything (facts: Linux
    /// `drivers/mtd/ubi/io.c`, `validate_vid_hdr`).
    pub fn contradiction(&self, leb_size: u32) -> Option<&'static str> {
        let Some(usable) = leb_size.checked_sub(self.data_pad).filter(|usable| *usable > self.data_pad) else {
            return Some("the unused end is half a LEB or more");
        };
        if self.compatibility != 0 {
            return Some("a compatibility, which internal volumes alone have");
        }
        if self.data_size > leb_size {
            return Some("more data than a LEB holds");
        }
        match self.volume_type {
            VolumeType::Dynamic if self.used_lebs != 0 => Some("a number of LEBs in use, which static volumes have"),
            VolumeType::Dynamic if self.is_copy && self.data_size == 0 => Some("a copy without data"),
            VolumeType::Dynamic if !self.is_copy && (self.data_size, self.data_checksum) != (0, 0) => {
                Some("a data checksum, which copies alone have")
            }
            VolumeType::Dynamic => None,
            VolumeType::Static if self.used_lebs == 0 || self.data_size == 0 => Some("a static LEB without data"),
            VolumeType::Static if self.leb >= self.used_lebs => Some("a LEB behind the last one in use"),
            VolumeType::Static if self.leb + 1 < self.used_lebs && self.data_size != usable => {
                Some("a static LEB before the last one that is not full")
            }
            VolumeType::Static if self.data_size > usable => Some("more data than a LEB of this volume holds"),
            VolumeType::Static => None,
        }
    }

    /// Encodes the header with its checksum.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut raw = RawVid::new_zeroed();
        raw.magic = VID_MAGIC.into();
        raw.version = VERSION;
        raw.volume_type = self.volume_type.number();
        raw.copy_flag = self.is_copy.into();
        raw.compatibility = self.compatibility;
        raw.volume = self.volume.into();
        raw.leb = self.leb.into();
        raw.data_size = self.data_size.into();
        raw.used_lebs = self.used_lebs.into();
        raw.data_pad = self.data_pad.into();
        raw.data_checksum = self.data_checksum.into();
        raw.sequence = self.sequence.into();
        raw.checksum = checksum(&raw.as_bytes()[..HEADER_SIZE - 4]).into();
        zerocopy::transmute!(raw)
    }
}

/// A record of the volume table. The index of a record is the number of its volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// PEBs reserved for the volume.
    pub reserved_pebs: u32,
    /// LEBs have a size that is a multiple of this.
    pub alignment: u32,
    /// Bytes at the end of each LEB that the alignment leaves unused.
    pub data_pad: u32,
    /// The type.
    pub volume_type: VolumeType,
    /// Whether an update was begun and has not ended, so that the content is not valid.
    pub is_updating: bool,
    /// The name: at most [`NAME_MAX`] bytes.
    pub name: Vec<u8>,
    /// Bits of [`flag`].
    pub flags: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    reserved_pebs: U32,
    alignment: U32,
    data_pad: U32,
    volume_type: u8,
    update_marker: u8,
    name_length: U16,
    name: [u8; NAME_MAX + 1],
    flags: u8,
    padding: [u8; 23],
    checksum: U32,
}

const _: () = assert!(size_of::<RawRecord>() == RECORD_SIZE);

impl VolumeRecord {
    /// A record with a name, a number of PEBs, and nothing else.
    pub fn new(name: &str, volume_type: VolumeType, reserved_pebs: u32) -> Self {
        Self {
            reserved_pebs,
            alignment: 1,
            data_pad: 0,
            volume_type,
            is_updating: false,
            name: name.as_bytes().to_vec(),
            flags: 0,
        }
    }

    /// Decodes a record; an empty one counts as erased, one that contradicts itself as damaged.
    pub fn decode(bytes: &[u8; RECORD_SIZE]) -> Decoded<Self> {
        if !ends_with_checksum(bytes) {
            return Decoded::Damaged;
        }
        let raw: &RawRecord = zerocopy::transmute_ref!(bytes);
        if nandkit_units::is_zeroed(&bytes[..RECORD_SIZE - 4]) {
            return Decoded::Erased;
        }
        let length = usize::from(raw.name_length.get());
        let name =
            raw.name.split_at_checked(length).filter(|(name, rest)| !name.contains(&0) && rest.starts_with(&[0]));
        let (Some((name, _)), Some(volume_type)) = (name, VolumeType::of(raw.volume_type)) else {
            return Decoded::Damaged;
        };
        if raw.reserved_pebs.get() == 0 {
            return Decoded::Damaged;
        }
        Decoded::Header(Self {
            reserved_pebs: raw.reserved_pebs.get(),
            alignment: raw.alignment.get(),
            data_pad: raw.data_pad.get(),
            volume_type,
            is_updating: raw.update_marker != 0,
            name: name.to_vec(),
            flags: raw.flags,
        })
    }

    /// Encodes the record with its checksum; a longer name is cut off.
    pub fn encode(&self) -> [u8; RECORD_SIZE] {
        let mut raw = RawRecord::new_zeroed();
        raw.reserved_pebs = self.reserved_pebs.into();
        raw.alignment = self.alignment.into();
        raw.data_pad = self.data_pad.into();
        raw.volume_type = self.volume_type.number();
        raw.update_marker = self.is_updating.into();
        for (to, from) in raw.name.iter_mut().zip(self.name.iter().take(NAME_MAX)) {
            *to = *from;
        }
        raw.name_length = (self.name.len().min(NAME_MAX) as u16).into();
        raw.flags = self.flags;
        raw.checksum = checksum(&raw.as_bytes()[..RECORD_SIZE - 4]).into();
        zerocopy::transmute!(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_records_come_back_as_they_were_written() {
        let ec = EcHeader { erase_counter: 17, vid_offset: 2048, data_offset: 4096, image_sequence: 0x1234_5678 };
        assert_eq!(EcHeader::decode(&ec.encode()), Decoded::Header(ec));
        let vid = VidHeader {
            volume_type: VolumeType::Static,
            is_copy: true,
            compatibility: 0,
            volume: 3,
            leb: 9,
            data_size: 4000,
            used_lebs: 10,
            data_pad: 8,
            data_checksum: 0xABCD,
            sequence: 1 << 40,
        };
        assert_eq!(VidHeader::decode(&vid.encode()), Decoded::Header(vid));
        let record = VolumeRecord {
            reserved_pebs: 12,
            alignment: 1,
            data_pad: 0,
            volume_type: VolumeType::Dynamic,
            is_updating: false,
            name: b"rootfs".to_vec(),
            flags: flag::AUTORESIZE,
        };
        assert_eq!(VolumeRecord::decode(&record.encode()), Decoded::Header(record));
    }

    #[test]
    fn every_bit_of_a_header_is_covered_by_its_checksum() {
        let ec = EcHeader { erase_counter: 17, vid_offset: 64, data_offset: 128, image_sequence: 1 }.encode();
        for bit in 0..HEADER_SIZE * 8 {
            let mut damaged = ec;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(EcHeader::decode(&damaged), Decoded::Damaged, "bit {bit}");
        }
        assert_eq!(EcHeader::decode(&[0xFF; HEADER_SIZE]), Decoded::Erased);
    }
}
