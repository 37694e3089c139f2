//! Options for a new volume.

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::Features;
use crate::layout::superblock::EXTENSIONS_MAX;

/// Cold extensions of mkfs.f2fs 1.15 (f2fs-mkfs.md, "What is written").
pub const COLD_EXTENSIONS: [&str; 36] = [
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus", "flac", "gif",
    "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc", "ttc", "ttf", "exe", "apk", "cnt",
    "exo", "odex", "vdex", "so",
];
/// Hot extensions of mkfs.f2fs 1.15.
pub const HOT_EXTENSIONS: [&str; 4] = ["db", "vmdk", "vdi", "qcow2"];

/// The longest extension: eight bytes including the NUL.
const EXTENSION_LENGTH_MAX: usize = 7;
/// The longest label in UTF-16 units.
const LABEL_MAX: usize = 512;
/// The checkpoint version of a reproducible volume: what mkfs.f2fs -r writes.
const FIXED_CHECKPOINT_VERSION: u64 = 0x6B8B_4567;

/// Features that a new volume can have.
const MADE: Features = Features(
    Features::ENCRYPT.0
        | Features::EXTRA_ATTRIBUTES.0
        | Features::PROJECT_QUOTA.0
        | Features::INODE_CHECKSUM.0
        | Features::FLEXIBLE_INLINE_XATTR.0
        | Features::QUOTA_INODES.0
        | Features::CREATION_TIME.0
        | Features::LOST_FOUND.0
        | Features::VERITY.0
        | Features::CHECKSUM.0
        | Features::CASEFOLD.0
        | Features::COMPRESSION.0
        | Features::READ_ONLY.0,
);
/// Features whose fields are extra attributes.
const IN_EXTRA_ATTRIBUTES: [Features; 5] = [
    Features::PROJECT_QUOTA,
    Features::INODE_CHECKSUM,
    Features::FLEXIBLE_INLINE_XATTR,
    Features::CREATION_TIME,
    Features::COMPRESSION,
];

/// Options for a new volume. The defaults are those of mkfs.f2fs 1.15, reproducible as with its `-r
/// -T 0`.
#[derive(Clone, Debug, PartialEq)]
pub struct MkfsOptions {
    /// Label, up to 512 UTF-16 units (-l).
    pub label: String,
    /// The volume's identity (-U); its checksum seeds the inode checksums.
    pub uuid: [u8; 16],
    /// Features (-O).
    pub features: Features,
    /// Segments per section (-s).
    pub segments_per_section: u32,
    /// Sections per zone (-z).
    pub sections_per_zone: u32,
    /// Spare in per cent of the space (-o); `None`: the value that leaves the most room.
    pub overprovision_percent: Option<f64>,
    /// Further cold extensions (-e).
    pub cold_extensions: Vec<String>,
    /// Further hot extensions (-E).
    pub hot_extensions: Vec<String>,
    /// Sector size in the superblock, 512 to 4096 bytes (-w).
    pub sector_size: u32,
    /// First sector of the volume on its disk, in units of 512 bytes, for aligning zones to the
    /// disk.
    pub start_sector: u64,
    /// Size the NAT for a fifth of all blocks, even if the checkpoint block has no room for its
    /// bitmap (-i).
    pub extended_node_bitmap: bool,
    /// Put node logs at the end and data logs at the start (-a 1).
    pub heap: bool,
    /// Names of casefolded directories are UTF-8 of Unicode 12.1 (-C utf8); `Some(true)` refuses
    /// other names there (-C utf8:strict).
    pub encoding: Option<bool>,
    /// Time of inodes for which the tree gives none, in seconds since 1970 (-T).
    pub time_seconds: u64,
    /// Owner and group of the root if the tree gives none (-R).
    pub root_owner: (u32, u32),
    /// The version of the first checkpoint; mkfs.f2fs draws a random odd one.
    pub checkpoint_version: u64,
    /// The system that made the volume, for the superblock.
    pub maker: String,
    /// Whether to discard the whole device first (-t).
    pub discard: bool,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            uuid: [0; 16],
            features: Features(0),
            segments_per_section: 1,
            sections_per_zone: 1,
            overprovision_percent: None,
            cold_extensions: Vec::new(),
            hot_extensions: Vec::new(),
            sector_size: 512,
            start_sector: 0,
            extended_node_bitmap: false,
            heap: false,
            encoding: None,
            time_seconds: 0,
            root_owner: (0, 0),
            checkpoint_version: FIXED_CHECKPOINT_VERSION,
            maker: concat!("nandkit ", env!("CARGO_PKG_VERSION")).into(),
            discard: true,
        }
    }
}

fn wrong<T>(text: String) -> Result<T> {
    Err(FsError::new(ErrorKind::InvalidArgument, text))
}

/// Parses feature names separated by commas, as for -O. Errors: `InvalidArgument`, with the known
/// names.
pub fn features_named(names: &str) -> Result<Features> {
    let mut features = Features(0);
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let found = Features::NAMES.iter().find(|(feature, known)| *known == name && MADE.has(*feature));
        let Some((feature, _)) = found else {
            let known: Vec<&str> =
                Features::NAMES.iter().filter(|(feature, _)| MADE.has(*feature)).map(|(_, name)| *name).collect();
            return wrong(format!("no feature is called {name:?}; there are {}", known.join(", ")));
        };
        features = features.with(*feature);
    }
    Ok(features)
}

impl MkfsOptions {
    /// Checks the options. Errors: name the option, its value and what is expected.
    pub fn check(&self) -> Result<()> {
        let unknown = Features(self.features.0 & !MADE.0);
        if unknown.0 != 0 {
            return wrong(format!("a volume with the features {unknown} cannot be made"));
        }
        let needy = IN_EXTRA_ATTRIBUTES.iter().find(|feature| self.features.has(**feature));
        if let Some(needy) = needy.filter(|_| !self.features.has(Features::EXTRA_ATTRIBUTES)) {
            return wrong(format!("the feature {needy} needs extra_attr"));
        }
        if self.features.has(Features::CASEFOLD) != self.encoding.is_some() {
            return wrong("the feature casefold and an encoding go together".into());
        }
        if self.label.encode_utf16().count() > LABEL_MAX {
            return wrong(format!("the label is longer than {LABEL_MAX} units of UTF-16"));
        }
        if self.segments_per_section == 0 || self.sections_per_zone == 0 {
            return wrong(format!(
                "{} segments a section and {} sections a zone; expected 1 or more",
                self.segments_per_section, self.sections_per_zone
            ));
        }
        if !self.sector_size.is_power_of_two() || !(512..=4096).contains(&self.sector_size) {
            return wrong(format!("sectors of {} bytes; expected 512, 1024, 2048 or 4096", self.sector_size));
        }
        if let Some(percent) = self.overprovision_percent
            && !(percent > 0.0 && percent <= 100.0)
        {
            return wrong(format!("{percent} % of spare; expected more than 0 and at most 100"));
        }
        if self.checkpoint_version == 0 {
            return wrong("the first checkpoint has version 0; expected 1 or more".into());
        }
        self.check_extensions()
    }

    fn check_extensions(&self) -> Result<()> {
        let (cold, hot) = self.extensions();
        let count = cold.len() + hot.len();
        if count > EXTENSIONS_MAX {
            return wrong(format!("{count} extensions with those of mkfs.f2fs; a volume holds {EXTENSIONS_MAX}"));
        }
        match cold.iter().chain(&hot).find(|name| name.is_empty() || name.len() > EXTENSION_LENGTH_MAX) {
            Some(name) => {
                wrong(format!("the extension {name:?} has {} bytes; expected 1 to {EXTENSION_LENGTH_MAX}", name.len()))
            }
            None => Ok(()),
        }
    }

    /// All extensions, cold and hot, in the order of the superblock, without duplicates
    /// (f2fs_format.c, `cure_extension_list`).
    pub fn extensions(&self) -> (Vec<&str>, Vec<&str>) {
        let mut cold: Vec<&str> = COLD_EXTENSIONS.to_vec();
        for name in self.cold_extensions.iter().map(String::as_str) {
            if !cold.contains(&name) {
                cold.push(name);
            }
        }
        let mut hot: Vec<&str> = HOT_EXTENSIONS.to_vec();
        for name in self.hot_extensions.iter().map(String::as_str) {
            if !cold.contains(&name) && !hot.contains(&name) {
                hot.push(name);
            }
        }
        (cold, hot)
    }

    /// Segments per zone.
    pub(super) const fn zone_segments(&self) -> u64 {
        self.segments_per_section as u64 * self.sections_per_zone as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_known_by_name() {
        assert_eq!(features_named("extra_attr, verity").unwrap(), Features(0x408));
        assert!(features_named("blkzoned").unwrap_err().detail.contains("inode_checksum"));
    }

    #[test]
    fn options_that_cannot_be_are_refused() {
        let good = MkfsOptions::default();
        good.check().unwrap();
        for (bad, says) in [
            (MkfsOptions { features: Features::INODE_CHECKSUM, ..good.clone() }, "inode_checksum needs extra_attr"),
            (MkfsOptions { features: Features::ZONED, ..good.clone() }, "blkzoned"),
            (MkfsOptions { features: Features::CASEFOLD, ..good.clone() }, "encoding"),
            (MkfsOptions { encoding: Some(true), ..good.clone() }, "casefold"),
            (MkfsOptions { label: "x".repeat(513), ..good.clone() }, "label"),
            (MkfsOptions { segments_per_section: 0, ..good.clone() }, "0 segments"),
            (MkfsOptions { sector_size: 8192, ..good.clone() }, "8192"),
            (MkfsOptions { overprovision_percent: Some(0.0), ..good.clone() }, "spare"),
            (MkfsOptions { overprovision_percent: Some(f64::NAN), ..good.clone() }, "spare"),
            (MkfsOptions { cold_extensions: vec!["12345678".into()], ..good.clone() }, "8 bytes"),
            (
                MkfsOptions { hot_extensions: (0..30).map(|number| format!("x{number}")).collect(), ..good.clone() },
                "70 extensions",
            ),
        ] {
            assert!(bad.check().unwrap_err().detail.contains(says), "{says}");
        }
    }
}
