//! Deleted files of a mountable volume, as far as their blocks are still free.

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

/// The most content assembled in memory, in bytes.
const CONTENT_MAX: u64 = 1 << 30;

/// A deleted inode whose node still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedInode {
    /// Its number, which another inode may have by now.
    pub nid: NodeId,
    /// The address of its node.
    pub at: BlockAddress,
    /// The directory that it records.
    pub parent: NodeId,
    /// The name that it records.
    pub name: Vec<u8>,
    /// The kind of file.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// The modification time of its content, in nanoseconds since 1970.
    pub modified: nandkit_vfs::Timestamp,
}

/// The remaining content of a deleted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedContent {
    /// The bytes; lost ones are zeroes.
    pub bytes: Vec<u8>,
    /// The lost ranges: blocks that something else uses now, and those of lost nodes.
    pub lost: Vec<Range<u64>>,
    /// Whether nothing casts doubt on the content.
    pub is_intact: bool,
}

/// The blocks in use according to the SIT.
#[derive(Debug)]
struct UsedBlocks(Vec<[u8; VALID_MAP_BYTES]>);

impl UsedBlocks {
    /// Reads the SIT. Errors: `Device`, `Corrupt` (cut short).
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
    /// The inodes that the mounted volume no longer has. `live` is the volume on the same devices.
    /// Errors: `Device`, `Corrupt`.
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

    /// The content of a deleted file. Errors: `NotFound`; `InvalidArgument` (not a file, or too
    /// large to assemble in memory); `NotSupported` (encrypted); `Device`, `Corrupt`.
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

/// The ranges of a file whose blocks or nodes are lost.
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
