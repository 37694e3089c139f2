//! Facts about a FAT volume.

use nandkit_block::BlockDevice;
use nandkit_fat::Fat;
use nandkit_units::format_bytes;
use nandkit_vfs::{FileSystem, Result};

use crate::format::fact::{Fact, or_none};

/// Type, label and space. Errors: those of reading the volume.
pub(super) fn facts<D: BlockDevice>(fat: &Fat<D>) -> Result<Vec<Fact>> {
    let (label, status, geometry) = (fat.label()?, fat.volume()?, fat.geometry());
    let bytes = |blocks: u64| blocks.saturating_mul(status.block_size.into());
    let (total, free) = (bytes(status.blocks), bytes(status.blocks_free));
    let (kind, sector, cluster) = (geometry.kind.name(), geometry.sector_size, geometry.cluster_size());
    let shape = format!("{kind}, sectors of {sector} bytes, clusters of {}", format_bytes(cluster.into()));
    let room = format!("{} of {}", format_bytes(free), format_bytes(total));
    Ok(vec![
        Fact::new("file system", shape, "kind", kind).and("sector_size", sector).and("cluster_size", cluster),
        Fact::new("label", or_none(&label), "label", label),
        Fact::new("free", room, "free_bytes", free).and("total_bytes", total),
    ])
}
