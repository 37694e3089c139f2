//! Extents of files: runs of addresses, inline content, compressed clusters.

use nandkit_vfs::{ExtentKind, FileExtent, Result};

use crate::blocks::{Blocks, Nodes};
use crate::ids::{BlockAddress, DataAddress};
use crate::inode::Inode;
use crate::node::tree::{Addresses, Leaf, leaf};
use crate::runs::run_at;

/// The next extent according to nodes and device, without pages in memory. Errors: `Corrupt`,
/// `Device`.
pub(crate) fn on_device(volume: &(impl Blocks + Nodes), inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
    if inode.inline_data().is_some() {
        return inline(volume, inode, offset);
    }
    let size = volume.geometry().block_size() as u64;
    let pages = inode.tree_shape(volume.geometry()).pages();
    let cluster = u64::from(inode.cluster);
    let mut page = offset / size / cluster * cluster;
    // Pages of an uncompressed cluster are looked up one by one.
    let mut wanted = offset / size;
    while page < pages {
        let addresses = match leaf(volume, inode, page)? {
            Leaf::Hole { pages } => {
                page = page.saturating_add(pages);
                continue;
            }
            Leaf::Addresses(addresses) => addresses,
        };
        if inode.is_compressed() {
            if addresses.get(0) == DataAddress::Compressed {
                return encoded(volume, inode, page, &addresses).map(Some);
            }
            let first = wanted.max(page);
            let found = (first..page + cluster).find(|&at| addresses.get(at - page) != DataAddress::Hole);
            if let Some(found) = found {
                return plain(volume, inode, found, page + cluster - found).map(Some);
            }
            page += cluster;
            wanted = page;
            continue;
        }
        let count = u64::from(addresses.count).max(1);
        match (0..count).find(|&number| addresses.get(number) != DataAddress::Hole) {
            Some(number) => return plain(volume, inode, page + number, count - number).map(Some),
            None => page += count,
        }
    }
    Ok(None)
}

/// The extent of inline content.
fn inline(volume: &(impl Blocks + Nodes), inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
    let length = inode.head.size.get();
    if offset >= length {
        return Ok(None);
    }
    let address = match volume.entry(inode.nid)?.address() {
        // A size beyond the inline area reads as zeroes there and has no location.
        DataAddress::At(at) if length <= inode.shape.inline.len() as u64 => {
            Some(byte_of(volume, at).saturating_add(inode.shape.inline.start as u64))
        }
        _ => None,
    };
    Ok(Some(FileExtent { offset: 0, length, address, kind: ExtentKind::Inline }))
}

/// The allocated run that starts at a page.
fn plain(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64, most: u64) -> Result<FileExtent> {
    let run = run_at(volume, inode, page, most)?;
    let size = volume.geometry().block_size() as u64;
    let kind = match run.at {
        None => ExtentKind::Unwritten,
        Some(_) if inode.is_encrypted() => ExtentKind::Encoded,
        Some(_) => ExtentKind::Written,
    };
    let address = run.at.map(|at| byte_of(volume, at));
    Ok(FileExtent { offset: page * size, length: run.pages * size, address, kind })
}

/// The extent of a compressed cluster.
fn encoded(volume: &impl Blocks, inode: &Inode, page: u64, addresses: &Addresses) -> Result<FileExtent> {
    let address = match addresses.get(1) {
        DataAddress::At(at) if volume.geometry().main(at).is_some() => Some(byte_of(volume, at)),
        DataAddress::Hole | DataAddress::Reserved => None,
        other => {
            let detail = format!("page {page} starts a cluster at {:#x}, outside the main area", other.field());
            return Err(crate::Defect::new(crate::FindingKind::Address, detail).of(inode.nid).into_error());
        }
    };
    let size = volume.geometry().block_size() as u64;
    let length = u64::from(inode.cluster) * size;
    Ok(FileExtent { offset: page * size, length, address, kind: ExtentKind::Encoded })
}

fn byte_of(volume: &impl Blocks, at: BlockAddress) -> u64 {
    u64::from(at.0) << volume.geometry().log_block_size()
}
