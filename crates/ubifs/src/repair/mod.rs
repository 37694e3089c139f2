//! Repair: the leaves that can be saved become a new volume, with an index, properties, log and
//! master nodes of its own.
//!
//! Design: `docs/design/22-ubifs-repair.md`.

mod choose;
mod draft;
mod mend;
mod scan;

use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_codec::compression::Level;
use nandkit_vfs::check::{Finding, Findings, Repair, Report};
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use self::choose::{Base, Lost};
use self::draft::{Draft, DraftName};
use self::scan::Found;
use crate::damage::DamageKind;
use crate::encode::{EntryOf, entry, node, raw};
use crate::layout::{FORMAT_MAX, Key, MASTER_LEBS, Master, Superblock, flag, node_type};
use crate::lebs::Lebs;
use crate::mkfs::{BuildOptions, Identity, LebSink, NewVolume};
use crate::mount::Ubifs;
use crate::node::Place;
use crate::pack::method_of;
use crate::properties::Areas;
use crate::replay::Change;
use crate::superblock;
use crate::walk::nodes_of;

/// A repair, and the volume that it made.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was repaired.
    pub repair: Repair,
    /// LEBs of the new volume; those that were not written are erased.
    pub leb_count: u32,
}

/// Writes a sound volume with all that can be saved of a damaged one: as many LEBs as it needs, up
/// to the most that the old one may have. Nodes of data are copied as they are.
///
/// Errors: `Corrupt` (the superblock), `NotSupported` (a newer format, authentication), `NoSpace`,
/// `Device`. Cost: reads every LEB, and every node that counts twice; memory: about 100 bytes a
/// node.
pub fn repair(lebs: Arc<dyn Lebs>, sink: &mut dyn LebSink) -> Result<Repaired> {
    let superblock = superblock::read(&lebs)?;
    refuse_unknown(&superblock)?;
    let Some(areas) = Areas::of(&superblock) else {
        let detail = "the superblock's numbers of LEBs contradict each other";
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    };
    let (mut dropped, mut pending) = (Findings::default(), BTreeMap::new());
    let (base, before) = match Ubifs::mount(Box::new(Arc::clone(&lebs))) {
        Ok(volume) => {
            let base = Base::of(&volume, commit_sequence(&lebs)?, &mut dropped)?;
            let before = volume.check()?;
            pending = volume.pending;
            (base, before)
        }
        Err(error) if error.kind == ErrorKind::Corrupt => {
            let mut findings = vec![Finding::new(DamageKind::Index, error.detail)];
            let (counted, here) = (superblock.leb_count.get(), lebs.leb_count());
            if counted > here {
                let detail = format!("the superblock counts {counted} LEBs, {here} are here");
                findings.push(Finding::new(DamageKind::Cut, detail));
            }
            (Base::none(), Report { findings, ..Report::default() })
        }
        Err(error) => return Err(error),
    };
    let scan = scan::nodes(&lebs, areas.main_first, superblock.key_hash)?;
    let highest = highest_inode(&lebs, &scan.found);
    let is_incomplete = base.is_incomplete();
    let (leaves, lost) = match is_incomplete {
        true => base.with(&scan, &lebs, &mut dropped),
        false => (base.leaves, Lost::default()),
    };
    let mut draft = Draft::read(&lebs, &leaves, &pending, (superblock.key_hash, highest), dropped)?;
    draft.settle();
    if is_incomplete {
        let what = "a part of the index or of the journal is lost: what was found without it may be an older version, \
                    or have been removed";
        draft.mended.add(Finding::new(DamageKind::Index, what));
        draft.tell_gaps(&lost);
    }
    let dropped = draft.dropped_with_paths();
    let leb_count = write(&lebs, &superblock, &draft, sink)?;
    let kept = (draft.data.len() + draft.inodes.len() + draft.names.len() + draft.xattrs.len()) as u64;
    let mended = draft.mended.into_list();
    Ok(Repaired { repair: Repair { before, kept, mended, dropped, remaining: Vec::new() }, leb_count })
}

/// Bytes of log, properties and orphans that are made beyond what is there: a hostile superblock
/// asks for any number.
const FRONT_MAX: u64 = 64 << 20;

/// Flags of the superblock that a repaired volume keeps.
const KEPT: u32 = flag::DOUBLE_HASH | flag::ENCRYPTION;

/// Refuses a volume that cannot be written as it was. Errors: `NotSupported`.
fn refuse_unknown(superblock: &Superblock) -> Result<()> {
    let (format, flags) = (superblock.format.get(), superblock.flags.get());
    if format <= FORMAT_MAX && flags & !(KEPT | flag::BIG_LPT | flag::SPACE_FIXUP | 1) == 0 {
        return Ok(());
    }
    let detail = format!("format {format} with flags {flags:#x}; known are formats up to {FORMAT_MAX}");
    Err(FsError::new(ErrorKind::NotSupported, detail))
}

/// The sequence number of the newest master node of the commit before the last one: all that is
/// older is in the index, or out of use.
fn commit_sequence(lebs: &dyn Lebs) -> Result<u64> {
    let mut masters: Vec<(u64, u64)> = Vec::new();
    for leb in MASTER_LEBS {
        for (_, node) in nodes_of(lebs, leb, 0)?.list {
            let master = node.body::<Master>().filter(|_| node.node_type == node_type::MASTER);
            masters.extend(master.map(|(master, _)| (master.commit.get(), node.sequence)));
        }
    }
    let last = masters.iter().map(|(commit, _)| *commit).max().unwrap_or(0);
    let earlier = masters.iter().filter(|(commit, _)| *commit < last).map(|(_, sequence)| *sequence).max();
    let first_of_last = masters.iter().filter(|(commit, _)| *commit == last).map(|(_, sequence)| *sequence).min();
    Ok(earlier.or(first_of_last).unwrap_or(0))
}

/// The highest number of an inode in any node, so that no number is given twice.
fn highest_inode(lebs: &dyn Lebs, found: &[Found]) -> u32 {
    let numbers = found.iter().map(|found| match &found.change {
        Change::Inode { inode, .. } | Change::Truncation { inode, .. } => *inode,
        Change::Data { key, .. } | Change::Name { key, .. } => key.inode,
    });
    // Some room for the directory of what is lost.
    let highest = numbers.filter(|number| *number < u32::MAX - (1 << 16)).max().unwrap_or(0);
    let master = superblock::master(lebs).map_or(0, |(master, _)| master.highest_inode.get());
    highest.max(u32::try_from(master).ok().filter(|number| *number < u32::MAX - (1 << 16)).unwrap_or(0)).max(64)
}

/// Writes the new volume; returns the number of its LEBs.
fn write(lebs: &dyn Lebs, superblock: &Superblock, draft: &Draft, sink: &mut dyn LebSink) -> Result<u32> {
    let options = options(superblock);
    options.check()?;
    let front = u64::from(options.front_lebs());
    let there = u64::from(lebs.mapped());
    if (front.saturating_sub(there)) * u64::from(options.leb_size) > FRONT_MAX {
        let detail = format!("the superblock asks for {front} LEBs in front of files, and {there} are here");
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    let mut volume = NewVolume::new(&options, sink);
    volume.highest = draft.highest;
    let mut bytes = Vec::new();
    // Data first, as mkfs has them.
    for (key, (leaf, _)) in &draft.data {
        copy(lebs, leaf.place, &mut bytes)?;
        volume.put_again(*key, &[], &mut bytes)?;
    }
    let names = draft.names.iter().map(|name| (name, false)).chain(draft.xattrs.iter().map(|name| (name, true)));
    for (((key, name), found), is_xattr) in names {
        put_name(lebs, draft.key_hash, (*key, name), found, is_xattr, &mut bytes)?;
        volume.put_again(*key, name, &mut bytes)?;
    }
    // A directory is newer than its names, as those who change it have it.
    for (number, found) in &draft.inodes {
        let mut inode = found.inode;
        // Data count only if they are newer than their inode was when it was made.
        inode.created_sequence.set(0);
        inode.key = raw(Key::inode(*number));
        node(node_type::INODE, 0, &[inode.as_bytes(), &found.data], &mut bytes);
        volume.put_again(Key::inode(*number), &[], &mut bytes)?;
    }
    let identity = Identity {
        key_hash: superblock.key_hash,
        flags: superblock.flags.get() & KEPT,
        format: superblock.format.get(),
        reserved_for: (superblock.reserved_uid.get(), superblock.reserved_gid.get()),
    };
    volume.finish(&identity).map(|(_, leb_count)| leb_count)
}

fn put_name(
    lebs: &dyn Lebs,
    key_hash: u8,
    (key, name): (Key, &[u8]),
    found: &DraftName,
    is_xattr: bool,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    if let Some(place) = found.place {
        return copy(lebs, place, bytes);
    }
    let (inode, file_type) = (found.inode, found.file_type);
    entry(&EntryOf { key_hash, parent: key.inode, name, inode, file_type, is_xattr }, 0, bytes);
    Ok(())
}

/// Reads a node as it stands.
fn copy(lebs: &dyn Lebs, place: Place, into: &mut Vec<u8>) -> Result<()> {
    into.resize(place.length as usize, 0);
    lebs.read(place.leb, place.offset, into)
}

/// The options of a volume with this superblock.
fn options(superblock: &Superblock) -> BuildOptions {
    BuildOptions {
        min_io_size: superblock.min_io_size.get(),
        leb_size: superblock.leb_size.get(),
        leb_count_max: superblock.leb_count_max.get(),
        compression: method_of(superblock.compression.get()),
        level: Level::BEST,
        fanout: superblock.fanout.get(),
        journal_size: Some(superblock.bud_bytes_max.get()),
        orphan_lebs: superblock.orphan_lebs.get(),
        reserved_size: superblock.reserved_size.get(),
        space_fixup: superblock.flags.get() & flag::SPACE_FIXUP != 0,
        uuid: superblock.uuid,
        xattrs: true,
        threads: 1,
    }
}
