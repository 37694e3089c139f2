//! Options of FAT in a stack.

use crate::SpecError;
use serde::{Deserialize, Serialize};

/// When the sector cache writes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackName {
    /// After each operation.
    #[default]
    Through,
    /// When more than `dirty_sectors` are dirty, when a change is older than `age_ms`, and at a
    /// sync.
    Back,
}

/// The type of FAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FatTypeName {
    /// The choice of mkfs.vfat for the size of the device.
    #[default]
    Auto,
    /// Entries of 12 bits.
    Fat12,
    /// Entries of 16 bits.
    Fat16,
    /// Entries of 28 bits.
    Fat32,
}

/// Where FAT's data area begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentName {
    /// Directly after the root directory or the FATs.
    None,
    /// On a multiple of the cluster size, as in mkfs.vfat.
    #[default]
    Cluster,
    /// On an erase block, as on formatted memory cards: no block holds both metadata and files.
    EraseBlock,
}

/// Options of FAT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FatSpec {
    /// The type of FAT.
    pub fat_type: FatTypeName,
    /// Cluster size in bytes; 0: chosen by the size of the device.
    pub cluster_size: u32,
    /// Where the data area begins.
    pub alignment: AlignmentName,
    /// Whether formatting writes zeros over the reserved sectors that alignment adds; without, they
    /// keep what the device held.
    #[serde(skip_serializing_if = "is_usual_padding")]
    pub write_padding: bool,
    /// Whether the device was formatted once before, padding and all: what formatting leaves alone
    /// then holds old data, as on any used device, and is not blank.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub formatted_before: bool,
    /// Slots of the root directory of FAT12 and FAT16.
    pub root_entries: u16,
    /// The volume's label, up to 11 characters; empty for none.
    pub label: String,
    /// Clean sectors in the cache, with least-recently-used replacement; 0 for no cache.
    pub cache_sectors: u32,
    /// When the cache writes back.
    pub write_back: WriteBackName,
    /// Largest number of dirty sectors with `write_back = "back"`; 0 stands for half of
    /// `cache_sectors`.
    pub dirty_sectors: u32,
    /// Longest time a change stays in the cache with `write_back = "back"`, in simulated
    /// milliseconds.
    pub age_ms: u64,
    /// Whether the cache holds file data too, or only metadata.
    pub cache_data: bool,
    /// Whether flushes of the device separate the steps of a change.
    pub barriers: bool,
}

/// Specs do not show the usual way of formatting, so that records from before it was an option keep
/// their keys.
const fn is_usual_padding(write_padding: &bool) -> bool {
    *write_padding
}

impl Default for FatSpec {
    fn default() -> Self {
        Self {
            fat_type: FatTypeName::Auto,
            cluster_size: 0,
            alignment: AlignmentName::Cluster,
            write_padding: true,
            formatted_before: false,
            root_entries: 512,
            label: String::new(),
            cache_sectors: 0,
            write_back: WriteBackName::default(),
            dirty_sectors: 0,
            age_ms: 5_000,
            cache_data: false,
            barriers: true,
        }
    }
}

impl FatSpec {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        let size = self.cluster_size;
        if size != 0 && (!size.is_power_of_two() || !(512..=32_768).contains(&size)) {
            return Err(SpecError::range(format!(
                "cluster_size is {size}; expected 0, or a power of two from 512 to 32768"
            )));
        }
        if self.root_entries == 0 {
            return Err(SpecError::range("root_entries is 0; expected 1 to 65535"));
        }
        if self.label.chars().count() > 11 {
            return Err(SpecError::range(format!("label is \"{}\"; expected up to 11 characters", self.label)));
        }
        if self.cache_sectors > 1 << 24 {
            return Err(SpecError::range(format!(
                "cache_sectors is {}; expected 0 to {}",
                self.cache_sectors,
                1 << 24
            )));
        }
        if self.cache_sectors == 0 && (self.write_back == WriteBackName::Back || self.cache_data) {
            let what =
                "there is no cache (cache_sectors is 0) to write back or to hold data; expected cache_sectors above 0";
            return Err(SpecError::conflict(what));
        }
        Ok(())
    }

    pub(super) fn title(&self) -> String {
        let standard = Self::default();
        let mut title = match self.fat_type {
            FatTypeName::Auto => "fat",
            FatTypeName::Fat12 => "fat12",
            FatTypeName::Fat16 => "fat16",
            FatTypeName::Fat32 => "fat32",
        }
        .to_string();
        if self.cluster_size > 0 {
            title += &format!(" | clusters of {}", nandkit_units::format_bytes(u64::from(self.cluster_size)));
        }
        if self.root_entries != standard.root_entries {
            title += &format!(" | {} root entries", self.root_entries);
        }
        match self.alignment {
            AlignmentName::None => title += " | not aligned",
            AlignmentName::Cluster => {}
            AlignmentName::EraseBlock => title += " | aligned on erase blocks",
        }
        if !self.write_padding {
            title += " | padding not written";
        }
        if self.formatted_before {
            title += " | formatted twice";
        }
        if self.cache_sectors > 0 {
            title += &format!(" | cache of {} sectors", self.cache_sectors);
            if self.cache_data {
                title += " with data";
            }
        }
        if self.write_back == WriteBackName::Back {
            title += " | write-back";
            if self.dirty_sectors > 0 {
                title += &format!(" over {} dirty", self.dirty_sectors);
            }
            if self.age_ms != standard.age_ms {
                title += &format!(" after {} ms", self.age_ms);
            }
        }
        if !self.barriers {
            title += " | no barriers";
        }
        title
    }
}
