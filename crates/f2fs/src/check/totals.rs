//! Compares what was found with the counts of the checkpoint and the inodes.

use nandkit_vfs::FileKind;

use super::Check;
use super::inodes::state;
use super::report::{WHOLE_VOLUME, of};
use crate::findings::FindingKind;
use crate::ids::BlockAddress;
use crate::layout::dentry::type_of;

/// Totals of what was found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub nodes: u64,
    pub inodes: u64,
    pub files: u64,
    pub directories: u64,
    pub others: u64,
    /// Addresses that count although they have no block.
    pub reserved: u64,
}

impl Check<'_> {
    /// Compares each inode's link count with its names.
    pub fn check_links(&mut self) {
        let directory = type_of(FileKind::Directory);
        let mut wrong = Vec::new();
        for (nid, known) in self.inodes.read() {
            let (links, place) = (known.links, of(nid));
            if known.has(state::ORPHAN) {
                if links != 0 || known.names != 0 {
                    let names = known.names;
                    self.report.fault(FindingKind::Links, place, || {
                        format!("deleted but open according to the checkpoint, with {links} links and {names} names; expected none")
                    });
                }
                continue;
            }
            // For an inode without a name, it is unknown how many names it had.
            if known.has(state::QUOTA) || (known.names == 0 && known.inode_type != directory) {
                continue;
            }
            let (expected, what) = match known.inode_type == directory {
                true => (known.directories.saturating_add(2), "directories in it, and two"),
                false => (known.names, "names"),
            };
            if links != expected {
                wrong.push((nid, expected));
            }
            // If something could not be read, names may be missing.
            if links > expected && !self.whole {
                self.report.harmless(FindingKind::Links, place, || {
                    format!("{links} links; {expected} were found, but not everything could be read")
                });
            } else if links != expected {
                self.report.fault(FindingKind::Links, place, || format!("{links} links; expected {expected}: {what}"));
            }
        }
        if self.mender.is_some() {
            for (nid, links) in wrong {
                let at = BlockAddress(self.nat.entry(nid).unwrap_or_default().address.get());
                self.mend_head(at, |head| head.links = links.into());
            }
        }
    }

    /// Checks the checkpoint's counts. A count is correct if it matches the tables or what was
    /// found: where these differ, that was reported.
    pub fn check_counts(&mut self) {
        let head = &self.state.head;
        let (used_nodes, used_inodes) = self.nat.used();
        let (claimed, valid) = self.segments.totals();
        let (free, free_by_sit) = self.segments.free(self.state);
        let reserved = self.totals.reserved;
        let counts = [
            ("valid blocks", head.valid_blocks.get(), claimed + reserved, valid + reserved),
            ("nodes", head.valid_nodes.get().into(), self.totals.nodes, used_nodes),
            ("inodes", head.valid_inodes.get().into(), self.totals.inodes, used_inodes),
            ("free segments", head.free_segments.get().into(), free, free_by_sit),
        ];
        for (what, have, met, by_table) in counts {
            if have == met || have == by_table {
                continue;
            }
            let detail = || format!("the checkpoint counts {have} {what}; expected {met}");
            match self.whole {
                true => self.report.fault(FindingKind::Count, WHOLE_VOLUME, detail),
                false => self.report.harmless(FindingKind::Count, WHOLE_VOLUME, detail),
            }
        }
        let next = head.next_free_nid.get();
        if u64::from(next) >= self.geometry.nid_end() {
            let end = self.geometry.nid_end();
            self.report
                .fault(FindingKind::Count, WHOLE_VOLUME, || format!("the next free nid is {next}; nids end at {end}"));
        }
        let user = head.user_blocks.get();
        if claimed + reserved > user {
            self.report.fault(FindingKind::Count, WHOLE_VOLUME, || {
                format!("{} blocks are in use; users may have {user}", claimed + reserved)
            });
        }
    }
}
