//! Deleted files of a volume that can be mounted, as far as their blocks are free.

use std::ops::{ControlFlow, Range};

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::RescuedVolume;
use super::doubt::Doubt;
use super::view::View;
use crate::bits::msb_first;
use crate::blocks::{Blocks, Nodes};
use crate::checkpoint_state::CheckpointState;
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::layout::SitEntry;
use crate::layout::sit::VALID_MAP_BYTES;
use crate::volume::F2fs;

/// Longest content that is put together in memory.
const CONTENT_MAX: u64 = 1 << 30;

/// An inode that was deleted, and whose node is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedInode {
    /// Its number, which another inode may have now.
    pub nid: NodeId,
    /// Where its node lies.
    pub at: BlockAddress,
    /// The directory that it knows.
    pub parent: NodeId,
    /// The name that it knows.
    pub name: Vec<u8>,
    /// What it was.
    pub kind: FileKind,
    /// Bytes of its content.
    pub size: u64,
    /// Its content's last change, in nanoseconds since 1970.
    pub modified: nandkit_vfs::Timestamp,
}

/// What is left of a deleted file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedContent {
    /// The bytes; what is lost is zeroes.
    pub bytes: Vec<u8>,
    /// What is lost: blocks that something else uses now, and those behind nodes that are lost.
    pub lost: Vec<Range<u64>>,
    /// Nothing speaks against it.
    pub is_intact: bool,
}

/// The blocks that are in use, by the SIT.
#[derive(Debug)]
struct UsedBlocks(Vec<[u8; VALID_MAP_BYTES]>);

impl UsedBlocks {
    /// Errors: `Device`, `Corrupt` (cut short).
    fn read(blocks: &dyn Blocks, state: &CheckpointState) -> Result<Self> {
        let geometry = blocks.geometry();
        let count = geometry.main_segments as usize;
        let (mut maps, mut block) = (Vec::new(), vec![0; geometry.block_size()]);
        for number in 0.. {
            if maps.len() >= count {
                break;
            }
            let second = msb_first::get(&state.sit_map, number as usize);
            blocks.read(Cause::Metadata, geometry.sit_place(number, second), &mut block)?;
            let entries = (0..geometry.sit_entries()).filter_map(|index| SitEntry::in_block(&block, index));
            maps.extend(entries.take(count - maps.len()).map(|entry| entry.valid_map));
        }
        for (segment, entry) in &state.sit_journal {
            if let Some(map) = maps.get_mut(segment.0 as usize) {
                *map = entry.valid_map;
            }
        }
        Ok(Self(maps))
    }

    fn has(&self, blocks: &dyn Blocks, at: BlockAddress) -> bool {
        let place = blocks.geometry().main(at);
        let map = place.and_then(|(segment, block)| Some((self.0.get(segment.0 as usize)?, block)));
        map.is_none_or(|(map, block)| msb_first::get(map, block.into()))
    }
}

impl<D: BlockDevice> RescuedVolume<D> {
    /// The inodes that the mounted volume does not have any more. `live` is the volume on the same
    /// devices. Errors: `Device`, `Corrupt`.
    pub fn deleted<L: BlockDevice>(&self, live: &F2fs<L>) -> Result<Vec<DeletedInode>> {
        let mut deleted = Vec::new();
        for (nid, inode) in self.inodes.iter().filter(|(nid, _)| **nid != NodeId::ROOT) {
            let is_known = live.geometry().nat_block(*nid).is_some();
            let entry = if is_known { live.entry(*nid)? } else { crate::layout::NatEntry::default() };
            let Some(record) = self.scan.nodes.get(&(*nid, *nid)) else { continue };
            if !entry.is_free() && entry.ino() == *nid {
                continue;
            }
            let Ok(found) = self.view(*nid).inode() else { continue };
            deleted.push(DeletedInode {
                nid: *nid,
                at: record.at,
                parent: inode.parent,
                name: inode.name.clone(),
                kind: inode.kind,
                size: inode.size,
                modified: found.attributes(self.scan.blocks.geometry()).modified,
            });
        }
        Ok(deleted)
    }

    /// What a deleted file held. Errors: `NotFound`; `InvalidArgument` for what is no file, or is
    /// too large to be put together in memory; `NotSupported` (encrypted); `Device`, `Corrupt`.
    pub fn deleted_content<L: BlockDevice>(&self, live: &F2fs<L>, nid: NodeId) -> Result<DeletedContent> {
        let inode = self.inodes.get(&nid);
        let inode = inode.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("no inode {}", nid.0)))?;
        if inode.kind != FileKind::Regular || inode.size > CONTENT_MAX {
            let detail = format!("inode {} is a {} of {} bytes", nid.0, inode.kind, inode.size);
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let used = UsedBlocks::read(live, live.checkpoint_state().0)?;
        let view = self.view(nid);
        let found = view.inode()?;
        let lost = lost_ranges(&view, &found, &|at| !view.reaches(at) || used.has(live, at));
        let mut bytes = vec![0; usize::try_from(inode.size).unwrap_or(0)];
        let (mut offset, mut unread) = (0, Vec::new());
        while let Some(range) = view.data_after(&found, offset)? {
            let (start, end) = (range.start as usize, range.end.min(inode.size) as usize);
            let part = bytes.get_mut(start..end).unwrap_or_default();
            if let Err(error) = crate::read::read(&view, &self.clusters, &found, range.start, part) {
                if error.kind == ErrorKind::NotSupported {
                    return Err(error);
                }
                unread.push(range.clone());
            }
            offset = range.end;
        }
        let mut lost: Vec<Range<u64>> = lost.into_iter().chain(unread).collect();
        lost.sort_by_key(|range| range.start);
        for range in &mut lost {
            range.end = range.end.min(inode.size);
            let part = bytes.get_mut(range.start as usize..range.end as usize);
            part.unwrap_or_default().fill(0);
        }
        let is_shared = |doubt: &Doubt| matches!(doubt, Doubt::Reused { .. } | Doubt::Older | Doubt::Incomplete { .. });
        let is_intact = lost.is_empty() && !inode.doubts.iter().any(is_shared);
        Ok(DeletedContent { bytes, lost, is_intact })
    }
}

/// The ranges of a file whose blocks are gone, or whose nodes are.
fn lost_ranges<D: BlockDevice>(
    view: &View<'_, D>,
    inode: &crate::inode::Inode,
    is_gone: &dyn Fn(BlockAddress) -> bool,
) -> Vec<Range<u64>> {
    if inode.inline_data().is_some() {
        return Vec::new();
    }
    let size = view.geometry().block_size() as u64;
    let mut lost: Vec<Range<u64>> = Vec::new();
    let mut add = |start: u64, end: u64| match lost.last_mut() {
        Some(last) if last.end == start * size => last.end = end * size,
        _ => lost.push(start * size..end * size),
    };
    view.each_leaf(inode, |page, leaf| {
        match leaf {
            Err(pages) => add(page, page + pages),
            Ok((addresses, count)) => {
                for number in 0..count {
                    if let DataAddress::At(at) = addresses.get(number)
                        && is_gone(at)
                    {
                        add(page + number, page + number + 1);
                    }
                }
            }
        }
        ControlFlow::Continue(())
    });
    lost
}
