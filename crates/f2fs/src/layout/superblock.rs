//! The superblock (f2fs.md, "Superblock").

use std::fmt;
use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{MAGIC, checksum};
use crate::bits::lsb_first;

/// The offset of a superblock within its block, in bytes.
pub const SUPERBLOCK_OFFSET: usize = 1024;
/// The most devices of a volume.
pub const DEVICES_MAX: usize = 8;
/// The most extensions, cold and hot together.
pub const EXTENSIONS_MAX: usize = 64;

/// The superblock: 3072 bytes at byte 1024 of blocks 0 and 1.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: U32,
    /// Major version of the tools that made it.
    pub major_version: U16,
    /// Minor version of the tools that made it.
    pub minor_version: U16,
    /// The base-2 logarithm of the sector size, 9 to 12 (14 with blocks of 16 KiB).
    pub log_sector_size: U32,
    /// The base-2 logarithm of the sectors per block.
    pub log_sectors_per_block: U32,
    /// The base-2 logarithm of the block size: 12 or 14.
    pub log_block_size: U32,
    /// Always 9.
    pub log_blocks_per_segment: U32,
    /// Segments per section.
    pub segments_per_section: U32,
    /// Sections per zone.
    pub sections_per_zone: U32,
    /// 3068 with [`Features::CHECKSUM`], else 0.
    pub checksum_offset: U32,
    /// Blocks of all devices.
    pub block_count: U64,
    /// Sections of the main area.
    pub section_count: U32,
    /// Segments of all areas, starting with segment 0.
    pub segment_count: U32,
    /// Segments of the checkpoint packs: 2.
    pub segment_count_checkpoint: U32,
    /// Segments of the SIT, both copies.
    pub segment_count_sit: U32,
    /// Segments of the NAT, both copies.
    pub segment_count_nat: U32,
    /// Segments of the SSA.
    pub segment_count_ssa: U32,
    /// Segments of the main area.
    pub segment_count_main: U32,
    /// Address of segment 0.
    pub segment0_address: U32,
    /// Address of the first checkpoint pack; equals that of segment 0.
    pub checkpoint_address: U32,
    /// Address of the SIT.
    pub sit_address: U32,
    /// Address of the NAT.
    pub nat_address: U32,
    /// Address of the SSA.
    pub ssa_address: U32,
    /// Address of the main area.
    pub main_address: U32,
    /// The inode number of the root: 3.
    pub root_ino: U32,
    /// The inode number of the node area: 1.
    pub node_ino: U32,
    /// The inode number of the metadata areas: 2.
    pub meta_ino: U32,
    /// The identity of the volume; its CRC seeds the inode checksums.
    pub uuid: [u8; 16],
    /// Label in UTF-16, NUL-padded.
    pub volume_name: [U16; 512],
    /// Number of cold extensions in the list.
    pub extension_count: U32,
    /// The cold extensions, then the hot ones, NUL-padded.
    pub extensions: [[u8; 8]; EXTENSIONS_MAX],
    /// Checkpoint blocks after the first that hold bitmaps.
    pub checkpoint_payload: U32,
    /// Kernel version at the last check.
    pub version: [u8; 256],
    /// Kernel version at mkfs.
    pub initial_version: [u8; 256],
    /// Bits of [`Features`].
    pub features: U32,
    /// Unused.
    pub encryption_level: u8,
    /// Unused.
    pub encryption_salt: [u8; 16],
    /// The devices; all paths are empty for a single one.
    pub devices: [Device; DEVICES_MAX],
    /// Quota inodes for users, groups and projects; 0 for none.
    pub quota_inodes: [U32; 3],
    /// Number of hot extensions in the list.
    pub hot_extension_count: u8,
    /// Encoding of names in casefolded directories: 1 is UTF-8 of Unicode 12.1.
    pub encoding: U16,
    /// Bit 0: refuse names that are not valid in the encoding.
    pub encoding_flags: U16,
    /// Counters of the reasons for which checkpoints stopped.
    pub stop_reasons: [u8; 32],
    /// A bit per kind of corruption found.
    pub errors: [u8; 16],
    /// Reserved; kept as read.
    pub reserved: [u8; 258],
    /// Covers the bytes before it, only with [`Features::CHECKSUM`].
    pub checksum: U32,
}

/// A device of a volume.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Device {
    /// NUL-terminated path; the bytes after the NUL are arbitrary.
    pub path: [u8; 64],
    /// Its segments; for the first device, without the part before segment 0.
    pub segments: U32,
}

impl Superblock {
    /// Decodes a superblock from its block without checking it; `None` if the block is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block.get(SUPERBLOCK_OFFSET..)?).ok().map(|(superblock, _)| superblock)
    }

    /// A superblock with all fields zero except the magic number.
    pub fn empty() -> Self {
        let mut superblock = Self::new_zeroed();
        superblock.magic = MAGIC.into();
        superblock
    }

    /// The features.
    pub fn features(&self) -> Features {
        Features(self.features.get())
    }

    /// The checksum computed over its bytes.
    pub fn computed_checksum(&self) -> u32 {
        checksum(self.as_bytes().get(..offset_of!(Self, checksum)).unwrap_or_default())
    }

    /// Why checkpoints stopped: each reason with its count; 255 means at least that many.
    pub fn stop_reasons(&self) -> Vec<(String, u8)> {
        let counts = self.stop_reasons.iter().enumerate().filter(|(_, count)| **count != 0);
        counts.map(|(number, count)| (name_of(&STOP_REASONS, number), *count)).collect()
    }

    /// The kinds of corruption that Linux recorded.
    pub fn errors(&self) -> Vec<String> {
        let bits = (0..self.errors.len() * 8).filter(|bit| lsb_first::get(&self.errors, *bit));
        bits.map(|bit| name_of(&ERRORS, bit)).collect()
    }

    /// The label.
    pub fn label(&self) -> String {
        let units = self.volume_name.iter().map(|unit| unit.get()).take_while(|&unit| unit != 0);
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// The reasons for which Linux stops checkpoints, by counter index (f2fs_fs.h, `enum
/// stop_cp_reason`).
const STOP_REASONS: [&str; 13] = [
    "shutdown",
    "fault_inject",
    "meta_page",
    "write_fail",
    "corrupted_summary",
    "update_inode",
    "flush_fail",
    "no_segment",
    "corrupted_free_bitmap",
    "corrupted_nid",
    "read_meta",
    "read_node",
    "read_data",
];

/// The kinds of corruption that Linux records, by bit (f2fs_fs.h, `enum f2fs_error`).
const ERRORS: [&str; 18] = [
    "corrupted_cluster",
    "fail_decompression",
    "invalid_blkaddr",
    "corrupted_dirent",
    "corrupted_inode",
    "inconsistent_summary",
    "inconsistent_footer",
    "inconsistent_sum_type",
    "corrupted_journal",
    "inconsistent_node_count",
    "inconsistent_block_count",
    "invalid_curseg",
    "inconsistent_sit",
    "corrupted_verity_xattr",
    "corrupted_xattr",
    "invalid_node_reference",
    "inconsistent_nat",
    "inconsistent_orphan",
];

/// The name of a number, or the number itself if only a newer Linux knows it.
fn name_of(names: &[&str], number: usize) -> String {
    names.get(number).map_or_else(|| format!("number {number}"), |name| (*name).to_owned())
}

/// Feature bits of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(pub u32);

impl Features {
    /// Encrypted inodes may occur.
    pub const ENCRYPT: Self = Self(0x1);
    /// The volume is on zoned devices.
    pub const ZONED: Self = Self(0x2);
    /// Inodes may have extra attributes.
    pub const EXTRA_ATTRIBUTES: Self = Self(0x8);
    /// Inodes have project IDs.
    pub const PROJECT_QUOTA: Self = Self(0x10);
    /// Inodes have checksums.
    pub const INODE_CHECKSUM: Self = Self(0x20);
    /// Each inode gives the size of its inline attributes.
    pub const FLEXIBLE_INLINE_XATTR: Self = Self(0x40);
    /// The superblock names inodes as quota files.
    pub const QUOTA_INODES: Self = Self(0x80);
    /// Inodes have a creation time.
    pub const CREATION_TIME: Self = Self(0x100);
    /// mkfs made lost+found.
    pub const LOST_FOUND: Self = Self(0x200);
    /// Verity files may occur.
    pub const VERITY: Self = Self(0x400);
    /// The superblock has a checksum.
    pub const CHECKSUM: Self = Self(0x800);
    /// Casefolded directories may occur.
    pub const CASEFOLD: Self = Self(0x1000);
    /// Compressed files may occur.
    pub const COMPRESSION: Self = Self(0x2000);
    /// The volume is never written: no SSA, no spare, two logs.
    pub const READ_ONLY: Self = Self(0x4000);
    /// Files may be aliases of whole devices.
    pub const DEVICE_ALIAS: Self = Self(0x8000);
    /// Summaries of 4 KiB packed into larger blocks.
    pub const PACKED_SSA: Self = Self(0x1_0000);

    /// The name of each bit; that of mkfs.f2fs if it has one.
    pub const NAMES: [(Self, &'static str); 17] = [
        (Self::ENCRYPT, "encrypt"),
        (Self::ZONED, "blkzoned"),
        (Self(0x4), "atomic_write"),
        (Self::EXTRA_ATTRIBUTES, "extra_attr"),
        (Self::PROJECT_QUOTA, "project_quota"),
        (Self::INODE_CHECKSUM, "inode_checksum"),
        (Self::FLEXIBLE_INLINE_XATTR, "flexible_inline_xattr"),
        (Self::QUOTA_INODES, "quota"),
        (Self::CREATION_TIME, "inode_crtime"),
        (Self::LOST_FOUND, "lost_found"),
        (Self::VERITY, "verity"),
        (Self::CHECKSUM, "sb_checksum"),
        (Self::CASEFOLD, "casefold"),
        (Self::COMPRESSION, "compression"),
        (Self::READ_ONLY, "ro"),
        (Self::DEVICE_ALIAS, "device_alias"),
        (Self::PACKED_SSA, "packed_ssa"),
    ];

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits that have no name here.
    pub fn unknown(self) -> u32 {
        Self::NAMES.iter().fold(self.0, |rest, (feature, _)| rest & !feature.0)
    }
}

/// Shows the names separated by commas; bits without a name as one number.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> =
            Self::NAMES.iter().filter(|(feature, _)| self.has(*feature)).map(|(_, name)| (*name).to_owned()).collect();
        if self.unknown() != 0 {
            names.push(format!("{:#x}", self.unknown()));
        }
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

const _: () = {
    assert!(size_of::<Superblock>() == 3072);
    assert!(offset_of!(Superblock, checksum_offset) == 32);
    assert!(offset_of!(Superblock, block_count) == 36);
    assert!(offset_of!(Superblock, segment_count_main) == 68);
    assert!(offset_of!(Superblock, main_address) == 92);
    assert!(offset_of!(Superblock, uuid) == 108);
    assert!(offset_of!(Superblock, volume_name) == 124);
    assert!(offset_of!(Superblock, extension_count) == 1148);
    assert!(offset_of!(Superblock, checkpoint_payload) == 1664);
    assert!(offset_of!(Superblock, version) == 1668);
    assert!(offset_of!(Superblock, features) == 2180);
    assert!(offset_of!(Superblock, devices) == 2201);
    assert!(offset_of!(Superblock, quota_inodes) == 2745);
    assert!(offset_of!(Superblock, hot_extension_count) == 2757);
    assert!(offset_of!(Superblock, encoding) == 2758);
    assert!(offset_of!(Superblock, stop_reasons) == 2762);
    assert!(offset_of!(Superblock, errors) == 2794);
    assert!(offset_of!(Superblock, checksum) == 3068);
    assert!(size_of::<Device>() == 68);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_names() {
        let features = Features::ENCRYPT.with(Features::CASEFOLD).with(Features(0x8000_0000));
        assert_eq!(features.to_string(), "encrypt,casefold,0x80000000");
        assert_eq!(Features(0).to_string(), "none");
    }

    #[test]
    fn what_linux_remembers_has_names() {
        let mut superblock = Superblock::empty();
        assert_eq!((superblock.stop_reasons(), superblock.errors()), (vec![], vec![]));
        (superblock.stop_reasons[1], superblock.stop_reasons[31]) = (2, 255);
        (superblock.errors[0], superblock.errors[15]) = (0b101, 0x80);
        assert_eq!(superblock.stop_reasons(), [("fault_inject".to_owned(), 2), ("number 31".to_owned(), 255)]);
        assert_eq!(superblock.errors(), ["corrupted_cluster", "invalid_blkaddr", "number 127"]);
    }
}
