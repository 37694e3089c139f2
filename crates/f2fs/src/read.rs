//! The content of files: inline, in blocks, in clusters.

use std::ops::Range;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::{Blocks, Nodes};
use crate::compressed::Clusters;
use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, DataAddress};
use crate::inode::Inode;
use crate::node::tree::{Addresses, Leaf, leaf};

/// Pages of a file that follow one another, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many, at least one.
    pub pages: u64,
    /// The first one's block, those of the others following; `None` where they read as zeros.
    pub at: Option<BlockAddress>,
    /// Whether the pages are nothing but a hole: neither blocks nor reserved.
    pub is_hole: bool,
}

/// The run from a page on, of `most` pages at most. In compressed files only for clusters that are not compressed.
/// Errors: `Corrupt` (an address outside the main area, a mark of compression where none may be), `Device`.
pub fn run_at(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64, most: u64) -> Result<Run> {
    match leaf(volume, inode, page)? {
        Leaf::Hole { pages } => Ok(Run { pages: pages.min(most), at: None, is_hole: true }),
        Leaf::Addresses(addresses) => run_of(volume, inode, page, &addresses, most),
    }
}

fn run_of(volume: &impl Blocks, inode: &Inode, page: u64, addresses: &Addresses, most: u64) -> Result<Run> {
    let first = addresses.get(0);
    let most = most.min(u64::from(addresses.count));
    let wrong = |detail: String| Err(Defect::new(FindingKind::Address, detail).of(inode.nid).into_error());
    match first {
        DataAddress::Compressed => wrong(format!("page {page} begins a compressed cluster, where none may begin")),
        DataAddress::Hole | DataAddress::Reserved => {
            let pages = (1..most).take_while(|&number| addresses.get(number) == first).count() as u64 + 1;
            Ok(Run { pages, at: None, is_hole: first == DataAddress::Hole })
        }
        DataAddress::At(at) => {
            if volume.geometry().main(at).is_none() {
                return wrong(format!("page {page} is at {at}, outside the main area"));
            }
            let room = volume.geometry().main_end() - u64::from(at.0);
            let follows =
                |number: u64| addresses.get(number) == DataAddress::At(BlockAddress(at.0.wrapping_add(number as u32)));
            let pages = (1..most.min(room)).take_while(|&number| follows(number)).count() as u64 + 1;
            Ok(Run { pages, at: Some(at), is_hole: false })
        }
    }
}

/// Refuses what cannot be read without a key. Errors: `NotSupported`.
pub fn expect_readable(inode: &Inode) -> Result<()> {
    if inode.is_encrypted() {
        let detail = format!(
            "inode {} is encrypted (fscrypt): its content needs the key, and reading it is not supported",
            inode.nid.0
        );
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    if inode.head.has_flag(crate::layout::inode::flag::DEVICE_ALIAS) {
        let detail = format!("inode {} stands for a whole device: it has no content of its own", inode.nid.0);
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    Ok(())
}

/// Reads bytes of a file or link from `offset` on; what is behind its blocks is zero. Its size does not matter here.
/// Errors: `NotSupported` (encrypted), `Corrupt`, `Device`.
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
    while !rest.is_empty() {
        let (page, within) = (at / size, at % size);
        let pages = (within + rest.len() as u64).div_ceil(size);
        let done = if inode.is_compressed() {
            clusters.read(volume, inode, at, rest)?
        } else {
            let run = run_at(volume, inode, page, pages)?;
            read_run(volume, run, within, rest)?
        };
        at = at.saturating_add(done as u64);
        rest = rest.get_mut(done..).unwrap_or_default();
    }
    Ok(())
}

/// Reads from byte `within` of a run on as much as the run and `into` have, and says how much. Whole blocks go straight to where they are wanted.
pub(crate) fn read_run(volume: &impl Blocks, run: Run, within: u64, into: &mut [u8]) -> Result<usize> {
    let size = volume.geometry().block_size();
    let bytes = run.pages.saturating_mul(size as u64).saturating_sub(within);
    let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(into.len());
    let into = into.get_mut(..length).unwrap_or_default();
    let Some(at) = run.at else {
        into.fill(0);
        return Ok(length);
    };
    let behind = |blocks: usize| BlockAddress(at.0.saturating_add(blocks as u32));
    let skip = within as usize;
    if skip == 0 && length >= size {
        let whole = length - length % size;
        volume.read(Cause::UserData, at, into.get_mut(..whole).unwrap_or_default())?;
        return Ok(whole);
    }
    // The part of one block.
    let mut block = vec![0; size];
    volume.read(Cause::UserData, behind(skip / size), &mut block)?;
    let part = block.get(skip % size..).unwrap_or_default();
    let length = part.len().min(length);
    into.get_mut(..length).unwrap_or_default().copy_from_slice(part.get(..length).unwrap_or_default());
    Ok(length)
}

/// The next range of bytes at or behind `offset` that has blocks, within the size. Errors: `Corrupt`, `Device`. Cost: a look at each address of holes and range, one a missing subtree.
pub fn data_after(volume: &(impl Blocks + Nodes), inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
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
        let addresses = match leaf(volume, inode, page)? {
            Leaf::Hole { pages } => {
                page = page.saturating_add(pages);
                continue;
            }
            Leaf::Addresses(addresses) => addresses,
        };
        let count = u64::from(addresses.count).min(pages - page);
        // A compressed cluster is data as a whole; what stands in it plainly, page by page.
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
