//! The structures on the medium.
//!
//! Source of the facts: "Microsoft Extensible Firmware Initiative FAT32 File System Specification",
//! version 1.03 (6 December 2000), called "the specification" in this crate; `state` and
//! `case_flags` follow Windows NT's and Linux' use of bytes that the specification reserves. All
//! numbers are little-endian.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a directory slot in bytes.
pub const SLOT_SIZE: u32 = 32;
/// Most slots in a directory, by the specification (2 MiB).
pub const SLOTS_MAX: u32 = 65_536;
/// Largest file in bytes: the size field has 32 bits.
pub const FILE_SIZE_MAX: u64 = 0xFFFF_FFFF;

/// First byte of a slot that was used and is now free.
pub const SLOT_FREE: u8 = 0xE5;
/// First byte of a free slot after which all slots are free.
pub const SLOT_END: u8 = 0x00;
/// Represents a real 0xE5 as the first byte of a name.
pub const SLOT_E5: u8 = 0x05;

/// Attribute bits.
pub mod attribute {
    /// The file must not be written.
    pub const READ_ONLY: u8 = 0x01;
    /// The entry is the volume's label.
    pub const VOLUME: u8 = 0x08;
    /// A directory.
    pub const DIRECTORY: u8 = 0x10;
    /// Changed since the last backup.
    pub const ARCHIVE: u8 = 0x20;
    /// All four low bits: the slot is part of a long name.
    pub const LONG_NAME: u8 = 0x0F;
    /// The bits to test for a long-name slot.
    pub const LONG_NAME_MASK: u8 = 0x3F;
}

/// Bits of `case_flags`.
pub mod case {
    /// The base of the short name is shown in lower case (Windows NT, Linux).
    pub const BASE: u8 = 0x08;
    /// The extension is shown in lower case.
    pub const EXTENSION: u8 = 0x10;
    /// An extension of nandkit, set only while a rename over an existing file is in progress
    /// between two sectors: this entry is the one to remove.
    pub const MOVING: u8 = 0x80;
    /// As [`MOVING`], for an empty file, whose cluster and size fields then hold its target.
    pub const MOVING_EMPTY: u8 = 0xC0;
}

/// Bit in `state`: the volume is mounted, or was not unmounted.
pub const STATE_DIRTY: u8 = 0x01;
/// The value of `boot_signature` if volume id, label and type text follow.
pub const EXTENDED_BOOT: u8 = 0x29;

/// The first 36 bytes of the boot sector, the same for all three types.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BootCommon {
    /// Jump instruction: EB xx 90 or E9 xx xx.
    pub jump: [u8; 3],
    /// The creating program, for people.
    pub oem_name: [u8; 8],
    /// Bytes per sector: 512, 1024, 2048 or 4096.
    pub sector_size: U16,
    /// Sectors per cluster, a power of two.
    pub sectors_per_cluster: u8,
    /// Sectors before the first FAT, including this one.
    pub reserved_sectors: U16,
    /// Number of FATs.
    pub fats: u8,
    /// Slots in the root directory; 0 on FAT32.
    pub root_entries: U16,
    /// Sectors in the volume if they fit in 16 bits, else 0.
    pub total_sectors_16: U16,
    /// Media byte: F0, F8 to FF.
    pub media: u8,
    /// Sectors per FAT; 0 on FAT32.
    pub fat_sectors_16: U16,
    /// Sectors per track, for BIOS calls.
    pub sectors_per_track: U16,
    /// Heads, for BIOS calls.
    pub heads: U16,
    /// Sectors before the volume, for BIOS calls.
    pub hidden_sectors: U32,
    /// Sectors in the volume if `total_sectors_16` is 0.
    pub total_sectors_32: U32,
}

/// The fields from byte 36 on in FAT12 and FAT16.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BootTail {
    /// BIOS drive number.
    pub drive: u8,
    /// Bits such as [`STATE_DIRTY`].
    pub state: u8,
    /// [`EXTENDED_BOOT`] if the fields below are valid.
    pub boot_signature: u8,
    /// Serial number.
    pub volume_id: U32,
    /// Label, padded with blanks.
    pub label: [u8; 11],
    /// "FAT12   ", for people.
    pub kind: [u8; 8],
}

/// The fields from byte 36 on in FAT32, followed by a [`BootTail`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Boot32 {
    /// Sectors per FAT.
    pub fat_sectors_32: U32,
    /// Bits 0 to 3: the active FAT; bit 7: only that one is written.
    pub flags: U16,
    /// Version 0.0.
    pub version: U16,
    /// First cluster of the root directory.
    pub root_cluster: U32,
    /// Sector of the FSInfo structure.
    pub fs_info_sector: U16,
    /// Sector of the copy of the boot sector.
    pub backup_sector: U16,
    /// Zero.
    pub reserved: [u8; 12],
}

/// The FSInfo sector of FAT32, which contains only hints.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FsInfo {
    /// [`FsInfo::LEAD`].
    pub lead: U32,
    /// Zero.
    pub reserved: [u8; 480],
    /// [`FsInfo::STRUCTURE`].
    pub structure: U32,
    /// Number of free clusters, or all ones.
    pub free: U32,
    /// Where to start looking for a free cluster, or all ones.
    pub next: U32,
    /// Zero.
    pub reserved_2: [u8; 12],
    /// [`FsInfo::TRAIL`].
    pub trail: U32,
}

impl FsInfo {
    /// "RRaA".
    pub const LEAD: u32 = 0x4161_5252;
    /// "rrAa".
    pub const STRUCTURE: u32 = 0x6141_7272;
    /// Ends in 55 AA.
    pub const TRAIL: u32 = 0xAA55_0000;
}

/// A directory slot with the entry of a file, a directory or the label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ShortEntry {
    /// Base name of 8 bytes and extension of 3 bytes, padded with blanks.
    pub name: [u8; 11],
    /// Bits of [`mod@attribute`].
    pub attributes: u8,
    /// Bits of [`mod@case`].
    pub case_flags: u8,
    /// Creation time within its 2 s step, in tens of milliseconds, 0 to 199.
    pub created_fine: u8,
    /// Creation time in steps of 2 s.
    pub created_time: U16,
    /// Date of creation.
    pub created_date: U16,
    /// Date of last access.
    pub accessed_date: U16,
    /// High half of the first cluster (FAT32).
    pub cluster_high: U16,
    /// Time of last change.
    pub modified_time: U16,
    /// Date of last change.
    pub modified_date: U16,
    /// Low half of the first cluster.
    pub cluster_low: U16,
    /// Size of a file in bytes; 0 for directories.
    pub size: U32,
}

/// A directory slot with 13 characters of a long name.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LongEntry {
    /// Number of the part, 1 to 20; the last part (first on the medium) has bit 0x40 set.
    pub order: u8,
    /// Characters 1 to 5, UTF-16.
    pub part_1: [U16; 5],
    /// [`attribute::LONG_NAME`].
    pub attributes: u8,
    /// Zero.
    pub kind: u8,
    /// Checksum of the corresponding short name.
    pub checksum: u8,
    /// Characters 6 to 11.
    pub part_2: [U16; 6],
    /// Zero.
    pub cluster: U16,
    /// Characters 12 and 13.
    pub part_3: [U16; 2],
}

impl LongEntry {
    /// Marks the last part in `order`.
    pub const LAST: u8 = 0x40;
    /// Characters per slot.
    pub const CHARACTERS: usize = 13;

    /// The 13 characters of the slot.
    pub fn characters(&self) -> [u16; Self::CHARACTERS] {
        let mut all = [0; Self::CHARACTERS];
        let parts = self.part_1.iter().chain(&self.part_2).chain(&self.part_3);
        for (to, from) in all.iter_mut().zip(parts) {
            *to = from.get();
        }
        all
    }

    /// Makes a slot with these characters.
    pub fn new(order: u8, checksum: u8, characters: &[u16; Self::CHARACTERS]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m] = characters.map(U16::new);
        Self {
            order,
            part_1: [a, b, c, d, e],
            attributes: attribute::LONG_NAME,
            kind: 0,
            checksum,
            part_2: [f, g, h, i, j, k],
            cluster: U16::ZERO,
            part_3: [l, m],
        }
    }
}

impl ShortEntry {
    /// The first cluster; 0 if there is none.
    pub fn cluster(&self) -> u32 {
        u32::from(self.cluster_high.get()) << 16 | u32::from(self.cluster_low.get())
    }

    /// Sets the first cluster.
    pub fn set_cluster(&mut self, cluster: u32) {
        self.cluster_high = U16::new((cluster >> 16) as u16);
        self.cluster_low = U16::new(cluster as u16);
    }

    /// Whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes & attribute::DIRECTORY != 0
    }

    /// Whether the slot is part of a long name.
    pub fn is_long_name(&self) -> bool {
        self.attributes & attribute::LONG_NAME_MASK == attribute::LONG_NAME
    }

    /// Whether the entry is the volume's label.
    pub fn is_label(&self) -> bool {
        self.attributes & attribute::VOLUME != 0 && !self.is_long_name()
    }

    /// The slot's bytes.
    pub fn bytes(&self) -> [u8; SLOT_SIZE as usize] {
        let mut bytes = [0; SLOT_SIZE as usize];
        bytes.copy_from_slice(self.as_bytes());
        bytes
    }
}

const _: () = {
    assert!(size_of::<BootCommon>() == 36);
    assert!(size_of::<BootTail>() == 26);
    assert!(size_of::<Boot32>() == 28);
    assert!(size_of::<FsInfo>() == 512);
    assert!(size_of::<ShortEntry>() == SLOT_SIZE as usize);
    assert!(size_of::<LongEntry>() == SLOT_SIZE as usize);
};
