//! Free numbers of nodes (f2fs-writing.md, "nids"; node.c, `f2fs_build_free_nids`).

use std::collections::VecDeque;

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::Blocks;
use crate::ids::NodeId;
use crate::layout::NatEntry;
use crate::meta::MetaBlocks;
use crate::nat::Nat;

/// Blocks of the NAT that are searched at once (node.h, FREE_NID_PAGES).
const BLOCKS_AT_ONCE: u32 = 8;

/// Free nids in ascending order from where the last search ended. A nid is handed out only if it is
/// free now and was free at the last checkpoint.
#[derive(Clone, Debug)]
pub struct Nids {
    ready: VecDeque<NodeId>,
    /// The nid from which on the next search looks.
    next: NodeId,
}

impl Nids {
    /// The search begins at this nid (`next_free_nid` of the checkpoint); one that is none begins
    /// at the first.
    pub fn new(next: NodeId) -> Self {
        Self { ready: VecDeque::new(), next }
    }

    /// A free nid, which the caller enters into the NAT before it asks again. Errors: `NoSpace`
    /// (none is free), `Device`. Cost: constant; every 3640 nids a look at eight blocks.
    pub fn take(&mut self, nat: &Nat, meta: &MetaBlocks, device: &dyn Blocks) -> Result<NodeId> {
        let mut searched = 0;
        loop {
            while let Some(nid) = self.ready.pop_front() {
                // What was found free may have been taken by its number since: roll-forward does.
                if !nat.is_changed(nid) && nat.entry(meta, device, nid)?.is_free() {
                    return Ok(nid);
                }
            }
            let blocks = device.geometry().nat_blocks();
            // One more than all: the search may have begun in the middle of a block.
            if searched > blocks {
                let detail = format!("none of {} numbers of nodes is free", device.geometry().nid_end());
                return Err(FsError::new(ErrorKind::NoSpace, detail));
            }
            searched += self.search(nat, meta, device)?;
        }
    }

    /// Looks at some blocks; returns how many.
    fn search(&mut self, nat: &Nat, meta: &MetaBlocks, device: &dyn Blocks) -> Result<u32> {
        let geometry = device.geometry();
        let entries = geometry.nat_entries() as u32;
        let (mut number, mut first) = geometry.nat_block(self.next).unwrap_or((0, 0));
        let mut looked = 0;
        while looked < BLOCKS_AT_ONCE {
            let block = nat.block(meta, device, number)?;
            for index in first..entries as usize {
                // A NAT may have room for more than nids have bits.
                let Some(nid) = number.checked_mul(entries).and_then(|first| first.checked_add(index as u32)) else {
                    break;
                };
                let nid = NodeId(nid);
                let free = match nat.above(nid) {
                    Some(above) => above.is_free() && !nat.is_changed(nid),
                    None => NatEntry::in_block(&block, index).is_some_and(|entry| entry.is_free()),
                };
                if free && nid > NodeId::ROOT {
                    self.ready.push_back(nid);
                }
            }
            (looked, first) = (looked + 1, 0);
            number = if number + 1 < geometry.nat_blocks() { number + 1 } else { 0 };
            if number == 0 {
                break;
            }
        }
        self.next = NodeId(number.saturating_mul(entries));
        Ok(looked)
    }

    /// Gives back a nid that was taken and not entered.
    pub fn give_back(&mut self, nid: NodeId) {
        self.ready.push_front(nid);
    }

    /// Where the next mount may begin to search.
    pub fn hint(&self) -> NodeId {
        self.ready.front().copied().unwrap_or(self.next)
    }
}
