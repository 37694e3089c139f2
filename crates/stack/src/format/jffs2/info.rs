//! Facts about a JFFS2 volume for `info`.

use nandkit_jffs2::probe::has_old_magic;
use nandkit_units::format_bytes;
use nandkit_vfs::FileSystem;

use super::{NAME, OLD_MAGIC, mount_chip};
use crate::format::{Fact, FormatError, Medium, Opening, VolumeInfo};

/// The facts of a volume. For a dump they come from detection; a volume on a chip is mounted and
/// shows its free space.
pub(super) fn of(medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
    let mut notes = Vec::new();
    let facts = match medium {
        Medium::Dump(dump) => {
            notes.extend(has_old_magic(&dump.device).then(|| OLD_MAGIC.to_owned()));
            vec![Fact::new("file system", dump.found.detection.text(), "kind", NAME)]
        }
        other => {
            let status = mount_chip(other, how)?.volume()?;
            let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.block_size));
            let (total, free) = (bytes(status.blocks), bytes(status.blocks_free));
            let room = format!("{} of {}", format_bytes(free), format_bytes(total));
            vec![
                Fact::new("file system", NAME, "kind", NAME),
                Fact::new("free", room, "free_bytes", free).and("total_bytes", total),
            ]
        }
    };
    Ok(VolumeInfo { facts, notes })
}
