//! The superblock and the newest master node.

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::{
    ALIGNMENT, FORMAT_MAX, MASTER_LEBS, Master, READ_ONLY_FORMAT_MAX, SUPERBLOCK_LEB, Superblock, flag, node_type,
};
use crate::lebs::Lebs;
use crate::node::{self, Place};
use crate::walk::nodes_of;

/// Bytes of a superblock node.
pub(crate) const SUPERBLOCK_SIZE: u32 = 4096;

/// Reads the superblock. Errors: `Corrupt` (what is wrong with it), `NotSupported` (a newer format,
/// keys of another format, authentication), `Device`.
pub(crate) fn read(lebs: &dyn Lebs) -> Result<Superblock> {
    let place = Place { leb: SUPERBLOCK_LEB, offset: 0, length: SUPERBLOCK_SIZE };
    let node = node::read(lebs, place, node_type::SUPERBLOCK)?;
    let corrupt = |detail: String| Err(FsError::new(ErrorKind::Corrupt, format!("superblock: {detail}")));
    let Some((superblock, _)) = node.body::<Superblock>() else { return corrupt("too short".to_owned()) };
    let refused = |detail: String| Err(FsError::new(ErrorKind::NotSupported, detail));
    if superblock.format.get() > FORMAT_MAX && superblock.read_only_format.get() > READ_ONLY_FORMAT_MAX {
        return refused(format!(
            "format {} of UBIFS, to be read by those who know format {}; known are those up to {FORMAT_MAX}",
            superblock.format, superblock.read_only_format
        ));
    }
    if superblock.key_format != 0 || superblock.key_hash > 1 {
        return refused(format!(
            "keys of format {} with hash {}; known are format 0 with hash 0 or 1",
            superblock.key_format, superblock.key_hash
        ));
    }
    if superblock.flags.get() & flag::AUTHENTICATION != 0 {
        return refused("an authenticated volume, whose nodes have hashes: it is not read yet".to_owned());
    }
    if superblock.leb_size.get() != lebs.leb_size() {
        return corrupt(format!("LEBs of {} bytes; the volume has LEBs of {}", superblock.leb_size, lebs.leb_size()));
    }
    Ok(superblock)
}

/// The newest valid master node, and its sequence number. Errors: `Corrupt` if there is none;
/// `Device`.
pub(crate) fn master(lebs: &dyn Lebs) -> Result<(Master, u64)> {
    let mut newest: Option<(Master, u64)> = None;
    for leb in MASTER_LEBS {
        for (_, node) in nodes_of(lebs, leb, 0)?.list {
            let master = node.body::<Master>().filter(|_| node.node_type == node_type::MASTER);
            if let Some((master, _)) = master
                && newest.as_ref().is_none_or(|(_, sequence)| node.sequence >= *sequence)
            {
                newest = Some((master, node.sequence));
            }
        }
    }
    let missing = || FsError::new(ErrorKind::Corrupt, "neither LEB 1 nor LEB 2 holds a valid master node");
    let (master, sequence) = newest.ok_or_else(missing)?;
    if master.root_offset.get() % ALIGNMENT != 0 {
        let detail = format!("master node: the index begins at {}, no multiple of {ALIGNMENT}", master.root_offset);
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    Ok((master, sequence))
}
