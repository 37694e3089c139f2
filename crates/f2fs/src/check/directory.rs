//! Checks directories: every entry, and each directory as a whole.

use nandkit_units::Cause;
use nandkit_vfs::FileKind;

use super::Check;
use super::batch::{self, BATCH};
use super::file::FileWalk;
use super::inodes::state;
use super::nat::Reach;
use super::repair::mend::AreaPlace;
use super::report::of;
use super::walk::Expected;
use crate::bits::lsb_first;
use crate::directory::levels::{LEVELS_MAX, bucket_blocks, bucket_pages, buckets};
use crate::directory::{casefold, hash};
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::{Entry, Slot, kind_of, slots_of, type_of};
use crate::layout::inode::inline;
use crate::layout::{DentryArea, NodeOffset};

/// The offset of an entry's type.
pub(super) const ENTRY_TYPE: usize = 10;
/// The most names compared for duplicates at once; a larger directory is compared in parts of this
/// size.
const COMPARED: usize = 1 << 22;

/// The most pairs of names with equal hashes that are read again to see whether the names are
/// equal.
const COMPARED_PAIRS: u32 = 1 << 16;

/// The hash and location of a name, for finding duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NameKey {
    directory: u32,
    hash: u64,
    block: u32,
    slot: u16,
    inline: bool,
}

/// An area of entries and its location.
#[derive(Clone, Copy)]
struct Area<'a> {
    entries: DentryArea<'a>,
    at: BlockAddress,
    page: u32,
    inline: bool,
}

impl Area<'_> {
    const fn place(&self) -> AreaPlace {
        AreaPlace { at: self.at, inline: self.inline }
    }
}

/// The parts of a directory that the check has seen.
#[derive(Clone, Copy, Default)]
struct Met {
    dot: bool,
    dots: bool,
    /// One more than the highest level with an entry.
    levels: u32,
}

/// The level that a page belongs to; `None` past the last.
fn level_of(page: u32, directory_level: u8) -> Option<u32> {
    let mut end = 0_u64;
    (0..LEVELS_MAX).find(|&level| {
        end = end.saturating_add(buckets(level, directory_level) * bucket_blocks(level));
        u64::from(page) < end
    })
}

/// A hash that distinct names rarely share (FNV-1a); names with equal hashes are compared.
fn key(name: &[u8]) -> u64 {
    name.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

impl Check<'_> {
    /// Checks the directories among these inodes.
    pub fn directories(&mut self, files: &[FileWalk]) {
        let mut names = Vec::new();
        for file in files.iter().filter(|file| file.is_directory()) {
            let (inode, mut met) = (&file.inode, Met::default());
            if let Some(bytes) = inode.inline_entries() {
                let area = Area { entries: DentryArea::new(bytes), at: file.expected.at, page: 0, inline: true };
                self.area(inode, area, &mut met, &mut names);
            }
            let mut whole = file.whole;
            for pages in file.pages.chunks(BATCH) {
                let wanted = pages.iter().map(|(page, here)| (*here, *page)).collect();
                for had in batch::read(self.blocks, Cause::Metadata, wanted) {
                    let (at, page) = (had.at, had.tag);
                    let Some(block) = self.had(had) else {
                        (whole, self.whole) = (false, false);
                        continue;
                    };
                    let area = Area { entries: DentryArea::new(&block), at, page, inline: false };
                    self.area(inode, area, &mut met, &mut names);
                }
                if names.len() >= COMPARED {
                    self.compare_names(&mut names);
                }
            }
            self.finish_directory(file, met, whole);
            self.remember_home(file);
        }
        self.compare_names(&mut names);
    }

    fn area(&mut self, inode: &Inode, area: Area<'_>, met: &mut Met, names: &mut Vec<NameKey>) {
        let place = of(inode.nid).at(area.at);
        let level = if area.inline { None } else { level_of(area.page, inode.head.directory_level) };
        for slot in area.entries.slots_from(0) {
            let entry = match slot {
                Slot::Entry(entry) => entry,
                Slot::BadName(slot, dentry) => {
                    let length = dentry.name_length.get();
                    self.report.fault(FindingKind::Dentry, place, || {
                        format!("slot {slot} is in use, with a name of {length} bytes")
                    });
                    self.mend_remove(area.place(), slot, 0);
                    continue;
                }
            };
            met.levels = met.levels.max(level.map_or(0, |level| level + 1));
            let torn =
                (entry.slot + 1..entry.slot + slots_of(entry.name.len())).find(|slot| !area.entries.is_used(*slot));
            if let Some(torn) = torn {
                self.report.fault(FindingKind::Dentry, place, || {
                    format!("the name in slot {} continues in slot {torn}, which is free", entry.slot)
                });
                let slots = entry.slot..entry.slot + slots_of(entry.name.len());
                self.mend_area(area.place(), |bytes| slots.for_each(|slot| lsb_first::set(bytes, slot, true)));
            }
            let first_page = area.page == 0;
            if entry.is_dots() && first_page && entry.slot == entry.name.len() - 1 {
                self.dots(inode, area, &entry, met);
                continue;
            }
            let fits = self.check_name(inode, area, level, &entry);
            if !fits {
                self.mend_remove(area.place(), entry.slot, entry.name.len());
                // A name that is dropped anyway must not cause an equal one to be dropped as its
                // duplicate.
                if self.mender.is_some() {
                    continue;
                }
            }
            if !self.name(inode, area, &entry) || !fits {
                continue;
            }
            let folded = inode.is_casefolded() && !inode.is_encrypted();
            let hash = if folded { key(&casefold::key(entry.name)) } else { key(entry.name) };
            names.push(NameKey {
                directory: inode.nid.0,
                hash,
                block: area.at.0,
                slot: entry.slot as u16,
                inline: area.inline,
            });
        }
    }

    /// Checks `.` in the first slot and `..` in the second.
    fn dots(&mut self, inode: &Inode, area: Area<'_>, entry: &Entry<'_>, met: &mut Met) {
        let is_dot = entry.name.len() == 1;
        let known = self.inodes.get(inode.nid);
        let parent = if inode.nid == NodeId::ROOT { NodeId::ROOT.0 } else { known.parent };
        let expected = if is_dot { inode.nid.0 } else { parent };
        *(if is_dot { &mut met.dot } else { &mut met.dots }) = true;
        let found = entry.dentry;
        let name = if is_dot { "." } else { ".." };
        let place = of(inode.nid).at(area.at);
        // The parent of a lost directory is unknown.
        if found.ino.get() != expected && expected != 0 {
            self.report.fault(FindingKind::Directory, place, || {
                format!("{name} is inode {}; expected {expected}", found.ino.get())
            });
        }
        if found.hash.get() != 0 || found.file_type != type_of(FileKind::Directory) {
            let (hash, kind) = (found.hash.get(), found.file_type);
            self.report.fault(FindingKind::Dentry, place, || {
                format!("{name} has hash {hash:#x} and type {kind}; expected 0 and 2")
            });
        }
        let wrong =
            found.ino.get() != expected || found.hash.get() != 0 || found.file_type != type_of(FileKind::Directory);
        if wrong && expected != 0 {
            self.mend_dots(area.place(), inode.nid, NodeId(if parent == 0 { NodeId::ROOT.0 } else { parent }));
        }
    }

    /// Whether an entry may stay, after repairing what can be repaired.
    fn check_name(&mut self, inode: &Inode, area: Area<'_>, level: Option<u32>, entry: &Entry<'_>) -> bool {
        let place = of(inode.nid).at(area.at);
        let (encrypted, folded) = (inode.is_encrypted(), inode.is_casefolded());
        let shown = || String::from_utf8_lossy(entry.name).escape_debug().to_string();
        let mut stays = true;
        if entry.is_dots() || (!encrypted && entry.name.iter().any(|byte| matches!(byte, 0 | b'/'))) {
            self.report
                .fault(FindingKind::Dentry, place, || format!("slot {}: the invalid name \"{}\"", entry.slot, shown()));
            stays = false;
        }
        if kind_of(entry.dentry.file_type).is_none() {
            let kind = entry.dentry.file_type;
            self.report.fault(FindingKind::Dentry, place, || {
                format!("the entry \"{}\" has type {kind}; expected 1 to 7", shown())
            });
        }
        let stored = entry.dentry.hash.get();
        // If the directory is both encrypted and casefolded, the hash needs its key.
        let right = match (encrypted, folded) {
            (true, true) => stored,
            (false, true) => hash(&casefold::key(entry.name)),
            _ => hash(entry.name),
        };
        if stored != right {
            let detail = || format!("the entry \"{}\" has hash {stored:#010x}; its name gives {right:#010x}", shown());
            // Case folding changed between versions of Unicode, and Linux finds such names anyway.
            match folded && !entry.name.is_ascii() {
                true => self.report.harmless(FindingKind::Dentry, place, detail),
                false => self.report.fault(FindingKind::Dentry, place, detail),
            }
            self.mend_entry(area.place(), entry.slot, 0, &right.to_le_bytes());
        }
        if area.inline {
            return stays;
        }
        let bucket = level.and_then(|level| bucket_pages(level, inode.head.directory_level, right));
        let by_stored = level.and_then(|level| bucket_pages(level, inode.head.directory_level, stored));
        if ![bucket, by_stored].iter().flatten().any(|bucket| bucket.contains(&area.page)) {
            self.report.fault(FindingKind::Directory, place, || {
                format!("the entry \"{}\" is in page {}, where its hash does not lead", shown(), area.page)
            });
            stays = false;
        }
        stays
    }

    /// Handles a name that leads to an inode: the inode's first name, or one more link. Returns
    /// whether the entry may stay.
    fn name(&mut self, directory: &Inode, area: Area<'_>, entry: &Entry<'_>) -> bool {
        let (ino, kind) = (entry.ino(), entry.dentry.file_type);
        let place = of(directory.nid).at(area.at);
        let shown = || String::from_utf8_lossy(entry.name).escape_debug().to_string();
        let is_directory = kind == type_of(FileKind::Directory);
        if self.mender.as_ref().is_some_and(|mender| mender.hopeless.contains(&ino)) {
            self.mend_remove(area.place(), entry.slot, entry.name.len());
            return false;
        }
        let known = self.inodes.get(ino);
        if ino == NodeId::ROOT || known.names > 0 {
            let was = if known.inode_type == 0 { known.entry_type } else { known.inode_type };
            if ino == NodeId::ROOT || was == type_of(FileKind::Directory) {
                self.report.fault(FindingKind::Directory, place, || {
                    format!("the entry \"{}\" refers to directory {}, which has another name", shown(), ino.0)
                });
            } else if kind != was && kind_of(kind).is_some() {
                self.report.fault(FindingKind::Dentry, place, || {
                    format!("the entry \"{}\" has type {kind}; the inode {} has {was}", shown(), ino.0)
                });
            }
            let again = ino == NodeId::ROOT || was == type_of(FileKind::Directory);
            if again {
                self.mend_remove(area.place(), entry.slot, entry.name.len());
            } else if kind != was {
                self.mend_entry(area.place(), entry.slot, ENTRY_TYPE, &[was]);
            }
            if ino != NodeId::ROOT {
                self.inodes.change(ino).names += 1;
            }
            return !again;
        }
        // Orphans and quota files were reached before without a name.
        let was_met = known.flags & (state::ORPHAN | state::QUOTA | state::LOST) != 0;
        let expected = match self.nat.entry(ino) {
            _ if was_met => None,
            Some(nat) if ino > NodeId::ROOT && !nat.is_free() => match self.nat.reach(ino) {
                Reach::First(_) => match nat.address() {
                    DataAddress::At(here) if self.geometry.main(here).is_some() => {
                        Some(Expected { nid: ino, ino, offset: NodeOffset::INODE, at: here, version: nat.version })
                    }
                    other => {
                        self.whole = false;
                        self.report.fault(FindingKind::Nat, of(ino), || {
                            format!("{ino} has the address {:#x}, outside the main area", other.field())
                        });
                        self.mend_remove(area.place(), entry.slot, entry.name.len());
                        self.mender.iter_mut().for_each(|mender| _ = mender.hopeless.insert(ino));
                        None
                    }
                },
                _ => {
                    self.report.fault(FindingKind::Dentry, place, || {
                        format!("the entry \"{}\" refers to {ino}, which is part of a file", shown())
                    });
                    self.mend_remove(area.place(), entry.slot, entry.name.len());
                    return false;
                }
            },
            _ => {
                self.report.fault(FindingKind::Dentry, place, || {
                    format!("the entry \"{}\" refers to inode {}, which does not exist", shown(), ino.0)
                });
                self.mend_remove(area.place(), entry.slot, entry.name.len());
                return false;
            }
        };
        let leads_somewhere = was_met || expected.is_some();
        if let Some(expected) = expected {
            self.tell_owner(&expected);
            self.pending.push(expected);
        }
        if directory.nid == NodeId::ROOT
            && entry.name == b"lost+found"
            && is_directory
            && let Some(mender) = &mut self.mender
        {
            mender.home = Some(ino);
        }
        let place = self.inodes.change(ino);
        (place.parent, place.name_block, place.name_slot) = (directory.nid.0, area.at.0, entry.slot as u16);
        (place.entry_type, place.names, place.name_length) = (kind, 1, entry.name.len() as u8);
        place.flags |= if area.inline { state::NAME_INLINE } else { 0 };
        if is_directory {
            self.inodes.change(directory.nid).directories += 1;
        }
        leads_somewhere
    }

    /// Notes where a repair puts recovered inodes: `lost+found`, or the root if there is none.
    fn remember_home(&mut self, file: &FileWalk) {
        if let Some(mender) = &mut self.mender
            && (file.inode.nid == NodeId::ROOT || mender.home == Some(file.inode.nid))
        {
            mender.pages.insert(file.inode.nid, file.pages.clone());
        }
    }

    fn tell_owner(&mut self, expected: &Expected) {
        let owner = self.nat.entry(expected.nid).unwrap_or_default().ino.get();
        if owner != expected.ino.0 {
            self.report.fault(FindingKind::Nat, of(expected.ino).at(expected.at), || {
                format!("the NAT has {} as one of inode {owner}; it is an inode", expected.nid)
            });
        }
    }

    fn finish_directory(&mut self, file: &FileWalk, met: Met, whole: bool) {
        let (inode, place) = (&file.inode, of(file.inode.nid).at(file.expected.at));
        let head = &inode.head;
        if whole && !(met.dot && met.dots) && !head.has_inline(inline::DOTS) {
            let missing = if met.dot { ".." } else { "." };
            self.report.fault(FindingKind::Directory, place, || format!("a directory without {missing} in its place"));
            let parent = match self.inodes.get(inode.nid).parent {
                0 => NodeId::ROOT,
                parent => NodeId(parent),
            };
            match file.pages.iter().find(|(page, _)| *page == 0) {
                Some((_, at)) => self.mend_dots(AreaPlace { at: *at, inline: false }, inode.nid, parent),
                None if inode.inline_entries().is_some() => {
                    self.mend_dots(AreaPlace { at: file.expected.at, inline: true }, inode.nid, parent);
                }
                // It gets a new page once it is known which blocks are free; its old content counts
                // as lost.
                None => {
                    let place = (inode.nid, file.expected.at, inode.shape.addresses.start, parent);
                    self.mender.iter_mut().for_each(|mender| mender.pageless.push(place));
                }
            }
        }
        if met.levels > head.depth.get().min(LEVELS_MAX) && inode.inline_entries().is_none() {
            let depth = head.depth.get();
            self.report.fault(FindingKind::Directory, place, || {
                format!("entries in {} levels of a directory of {depth}", met.levels)
            });
            self.mend_head(file.expected.at, |head| head.depth = met.levels.into());
        }
        let known = self.inodes.get(inode.nid);
        // A directory's inode records its parent too, and roll-forward relies on it. mkfs.f2fs
        // writes 0 into the root's.
        if known.parent != 0 && head.parent.get() != known.parent {
            self.report.fault(FindingKind::Directory, place, || {
                format!("the inode has {} as its parent; expected {}", head.parent.get(), known.parent)
            });
            self.mend_head(file.expected.at, |head| head.parent = known.parent.into());
        }
    }

    /// Reports names that occur twice in a directory.
    fn compare_names(&mut self, names: &mut Vec<NameKey>) {
        names.sort_unstable();
        for pair in names.windows(2) {
            let [one, other] = pair else { continue };
            if (one.directory, one.hash) != (other.directory, other.hash) || self.compared_pairs == COMPARED_PAIRS {
                continue;
            }
            self.compared_pairs += 1;
            let (Some(first), Some(second)) = (self.name_at(one), self.name_at(other)) else { continue };
            if first == second || casefold::key(&first) == casefold::key(&second) {
                let directory = NodeId(other.directory);
                self.report.fault(FindingKind::Dentry, of(directory).at(BlockAddress(other.block)), || {
                    format!(
                        "the name \"{}\" twice, also at block {:#x}",
                        String::from_utf8_lossy(&second).escape_debug(),
                        one.block
                    )
                });
                let place = AreaPlace { at: BlockAddress(other.block), inline: other.inline };
                self.mend_remove(place, other.slot.into(), second.len());
            }
        }
        names.clear();
    }

    fn name_at(&self, place: &NameKey) -> Option<Vec<u8>> {
        let block: Block = batch::one(self.blocks, Cause::Metadata, BlockAddress(place.block)).ok()?;
        let bytes = match place.inline {
            true => {
                block.get(crate::layout::inode_shape(self.geometry, self.geometry.features, &block).ok()?.inline)?
            }
            false => &block,
        };
        match DentryArea::new(bytes).slot(place.slot.into())? {
            Slot::Entry(entry) => Some(entry.name.to_vec()),
            Slot::BadName(..) => None,
        }
    }
}
