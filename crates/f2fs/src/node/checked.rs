//! Checks that a node read from the device is the requested one.

use nandkit_vfs::Result;

use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::{ExtraAttributes, Footer, Geometry, NatEntry, inode};

/// The address in a node's NAT entry. Errors: `Corrupt` (a free nid, an address outside the main
/// area).
pub(crate) fn address_of(geometry: &Geometry, nid: NodeId, entry: &NatEntry) -> Result<BlockAddress> {
    match entry.address() {
        DataAddress::At(at) if geometry.main(at).is_some() => Ok(at),
        other => {
            let what = match other {
                DataAddress::Hole => "is free".to_owned(),
                other => format!("has the address {:#x}, outside the main area", other.field()),
            };
            Err(Defect::new(FindingKind::Nat, format!("{nid} {what}, and something refers to it")).into_error())
        }
    }
}

/// Checks that a block belongs to the node, and the checksum of an inode, with the volume's seed.
/// Errors: `Corrupt`.
pub(crate) fn check_node(
    (geometry, seed): (&Geometry, u32),
    nid: NodeId,
    entry: &NatEntry,
    at: BlockAddress,
    block: &[u8],
) -> Result<()> {
    let wrong = |kind, detail: String| Err(Defect::new(kind, detail).of(entry.ino()).at(at).into_error());
    let Some(footer) = Footer::of_block(block) else { return Ok(()) };
    if footer.nid() != nid || footer.ino() != entry.ino() {
        let (found, owner) = (footer.nid(), footer.ino.get());
        return wrong(
            FindingKind::Footer,
            format!("the NAT has {nid} of inode {} here; the block is {found} of inode {owner}", entry.ino.get()),
        );
    }
    if footer.ino() != nid {
        return Ok(());
    }
    let stored = ExtraAttributes::of_block(block).and_then(|extra| extra.checksum(geometry.features));
    match (stored, inode::computed_checksum(seed, block)) {
        (Some(stored), Some(computed)) if stored != computed => wrong(
            FindingKind::InodeChecksum,
            format!("the inode's checksum is {stored:#010x}; its bytes give {computed:#010x}"),
        ),
        _ => Ok(()),
    }
}

/// Decodes the inode in a node's block. Errors: `Corrupt`.
pub(crate) fn decode_inode(geometry: &Geometry, nid: NodeId, block: Block) -> Result<Inode> {
    if Footer::of_block(&block).is_none_or(|footer| footer.ino() != nid) {
        return Err(Defect::new(FindingKind::Footer, format!("{nid} is not an inode but part of one")).into_error());
    }
    let mut why = None;
    let decoded = Inode::decode(geometry, nid, block, &mut |finding| why = Some(finding));
    decoded.ok_or_else(|| {
        why.unwrap_or_else(|| Defect::new(FindingKind::Inode, "the inode cannot be decoded").of(nid)).into_error()
    })
}
