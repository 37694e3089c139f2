//! Reading file content: inline, in blocks, in clusters.

use std::ops::Range;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::{Blocks, Nodes};
use crate::compressed::Clusters;
use crate::ids::DataAddress;
use crate::inode::Inode;
use crate::layout::inode::flag;
use crate::node::tree::{Leaf, leaf};
use crate::runs::{read_run, run_at};

/// Refuses content that cannot be read without a key. Errors: `NotSupported`; `Corrupt` (a device
/// alias without the feature, which Linux refuses too).
pub fn expect_readable(inode: &Inode) -> Result<()> {
    if inode.is_encrypted() {
        let detail = format!(
            "inode {} is encrypted (fscrypt): its content needs the key, and reading it is not supported",
            inode.nid.0
        );
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    if inode.head.has_flag(flag::DEVICE_ALIAS) && !inode.is_device_alias() {
        let detail = format!("inode {} is a device alias, on a volume without the feature device_alias", inode.nid.0);
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    Ok(())
}

/// Reads bytes of a file or symlink from `offset` on; bytes past its blocks are zero. Ignores the
/// file's size. Errors: `NotSupported` (encrypted), `Corrupt`, `Device`.
pub fn read(
    volume: &(impl Blocks + Nodes),
    clusters: &Clusters,
    inode: &Inode,
    offset: u64,
    into: &mut [u8],
) -> Result<()> {
    expect_readable(inode)?;
    if let Some(data) = inode.inline_data() {
        let data = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)).unwrap_or_default();
        let length = data.len().min(into.len());
        let (head, tail) = into.split_at_mut(length);
        head.copy_from_slice(data.get(..length).unwrap_or_default());
        tail.fill(0);
        return Ok(());
    }
    let size = volume.geometry().block_size() as u64;
    let (mut at, mut rest) = (offset, into);
    if inode.is_compressed() {
        while !rest.is_empty() {
            let done = clusters.read(volume, inode, at, rest)?;
            at = at.saturating_add(done as u64);
            rest = rest.get_mut(done..).unwrap_or_default();
        }
        return Ok(());
    }
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (page, within) = (at / size, at % size);
        let pages = (within + rest.len() as u64).div_ceil(size);
        let run = run_at(volume, inode, page, pages)?;
        let done = read_run(volume, run, within, &mut rest, &mut pieces)?;
        at = at.saturating_add(done as u64);
    }
    volume.read_together(Cause::UserData, &mut pieces)
}

/// The next range of bytes at or after `offset` that has blocks, within the size. Errors:
/// `Corrupt`, `Device`. Cost: one step per address of the holes and of the range; one per missing
/// subtree.
pub fn data_after(volume: &(impl Blocks + Nodes), inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
    data_after_by(volume, inode, offset, &|page| leaf(volume, inode, page))
}

/// Like [`data_after`], but finds the leaf of a page through `leaf`.
pub fn data_after_by(
    volume: &impl Blocks,
    inode: &Inode,
    offset: u64,
    leaf: &dyn Fn(u64) -> Result<Leaf>,
) -> Result<Option<Range<u64>>> {
    let end = inode.head.size.get();
    if offset >= end {
        return Ok(None);
    }
    if inode.inline_data().is_some() {
        return Ok(Some(offset..end));
    }
    let size = volume.geometry().block_size() as u64;
    let pages = end.div_ceil(size);
    let cluster = u64::from(inode.cluster);
    let mut page = offset / size / cluster * cluster;
    while page < pages {
        let addresses = match leaf(page)? {
            Leaf::Hole { pages } => {
                page = page.saturating_add(pages);
                continue;
            }
            Leaf::Addresses(addresses) => addresses,
        };
        let count = u64::from(addresses.count).min(pages - page);
        // A compressed cluster is data as a whole; an uncompressed one is looked at page by
        // page.
        let holds = |number: u64| match addresses.get(number / cluster * cluster) {
            DataAddress::Compressed => true,
            _ => matches!(addresses.get(number), DataAddress::At(_)),
        };
        let wanted = (offset / size).saturating_sub(page).min(count);
        if let Some(first) = (wanted..count).find(|&number| holds(number)) {
            let behind = (first + 1..count).find(|&number| !holds(number)).unwrap_or(count);
            let start = (page + first).saturating_mul(size).max(offset);
            return Ok(Some(start..(page + behind).saturating_mul(size).min(end)));
        }
        page += count;
    }
    Ok(None)
}
