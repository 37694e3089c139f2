//! Free node numbers (f2fs-writing.md, "nids"; node.c, `f2fs_build_free_nids`).

use std::collections::VecDeque;

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::Blocks;
use crate::ids::NodeId;
use crate::layout::NatEntry;
use crate::meta::MetaBlocks;
use crate::nat::Nat;

/// NAT blocks searched at once (node.h, FREE_NID_PAGES).
const BLOCKS_AT_ONCE: u32 = 8;

/// Finds free nids in ascending order from the end of the last search. A nid is handed out only if
/// it is free now and was free at the last checkpoint.
#[derive(Clone, Debug)]
pub struct Nids {
    ready: VecDeque<NodeId>,
    /// The nid at which the next search starts.
    next: NodeId,
}

impl Nids {
    /// Starts the search at `next` (`next_free_nid` of the checkpoint); an invalid nid means the
    /// first one.
    pub fn new(next: NodeId) -> Self {
        Self { ready: VecDeque::new(), next }
    }

    /// Takes a free nid, which the caller enters into the NAT before it asks again. Errors:
    /// `NoSpace` (no nid is free), `Device`. Cost: constant; every 3640 nids a scan of eight
    /// blocks.
    pub fn take(&mut self, nat: &Nat, meta: &MetaBlocks, device: &dyn Blocks) -> Result<NodeId> {
        let mut searched = 0;
        loop {
            while let Some(nid) = self.ready.pop_front() {
                // Roll-forward may have taken this nid by number after the search found it free.
                if !nat.is_changed(nid) && nat.entry(meta, device, nid)?.is_free() {
                    return Ok(nid);
                }
            }
            let blocks = device.geometry().nat_blocks();
            // One more than the NAT has: the search may have begun in the middle of a block.
            if searched > blocks {
                let detail = format!("none of {} node numbers is free", device.geometry().nid_end());
                return Err(FsError::new(ErrorKind::NoSpace, detail));
            }
            searched += self.search(nat, meta, device)?;
        }
    }

    /// Scans the next NAT blocks; returns how many.
    fn search(&mut self, nat: &Nat, meta: &MetaBlocks, device: &dyn Blocks) -> Result<u32> {
        let geometry = device.geometry();
        let entries = geometry.nat_entries() as u32;
        let (mut number, mut first) = geometry.nat_block(self.next).unwrap_or((0, 0));
        let mut looked = 0;
        while looked < BLOCKS_AT_ONCE {
            let block = nat.block(meta, device, number)?;
            for index in first..entries as usize {
                // The NAT may have room for more nids than 32 bits can number.
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

    /// Returns a nid that was taken and not entered.
    pub fn give_back(&mut self, nid: NodeId) {
        self.ready.push_front(nid);
    }

    /// Where the next mount may start its search.
    pub fn hint(&self) -> NodeId {
        self.ready.front().copied().unwrap_or(self.next)
    }
}
