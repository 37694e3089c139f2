//! FAT volumes in images.

pub(crate) mod mount;
pub(crate) mod repairs;
pub(crate) mod spec;

use nandkit_block::BlockDevice;
use nandkit_fat::{Fat, MountOptions};
use nandkit_units::Clock;
use nandkit_vfs::FileSystem;
use toml::Table;

use self::spec::FatSpec;
use crate::format::emulate::{EmulateFormat, FormatSpec};
use crate::format::{Checked, Format, MediumKind};
use crate::named::whole;

/// FAT in the table of formats.
pub static FORMAT: FatFormat = FatFormat;

/// FAT.
pub struct FatFormat;

impl Format for FatFormat {
    fn name(&self) -> &'static str {
        "fat"
    }

    fn title(&self) -> &'static str {
        "FAT"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Blocks
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for FatFormat {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, String> {
        let spec: FatSpec = whole(table).map_err(|error| format!("in fat: {error}"))?;
        spec.check()?;
        Ok(Box::new(spec))
    }

    fn restricts_names(&self) -> bool {
        true
    }
}

/// A FAT volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatInfo {
    /// `FAT12`, `FAT16` or `FAT32`.
    pub kind: &'static str,
    /// The label; empty for none.
    pub label: String,
    /// Bytes of a sector.
    pub sector_size: u32,
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Bytes in clusters.
    pub total_bytes: u64,
    /// Bytes in free clusters.
    pub free_bytes: u64,
}

/// Mounts a volume for reading.
pub(crate) fn mount<D: BlockDevice>(device: D, clock: &Clock) -> Result<Fat<D>, String> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    Fat::mount(device, clock.clone(), options).map_err(|error| error.to_string())
}

/// What a volume says of itself.
pub(crate) fn info<D: BlockDevice>(device: D, clock: &Clock) -> Result<FatInfo, String> {
    let fat = mount(device, clock)?;
    let label = fat.label().map_err(|error| error.to_string())?;
    let status = fat.volume().map_err(|error| error.to_string())?;
    let geometry = fat.geometry();
    let block = u64::from(status.block_size);
    Ok(FatInfo {
        kind: geometry.kind.name(),
        label,
        sector_size: geometry.sector_size,
        cluster_size: geometry.cluster_size(),
        total_bytes: status.blocks.saturating_mul(block),
        free_bytes: status.blocks_free.saturating_mul(block),
    })
}

/// Checks a volume.
pub(crate) fn check<D: BlockDevice>(device: &mut D, clock: &Clock) -> Result<Checked, String> {
    let report = nandkit_fat::check(device, clock).map_err(|error| error.to_string())?;
    Ok(Checked { format: "fat", report })
}
