//! Which of several entries with one name counts.

use nandkit_flash::{Flash, FlashError};

use super::collect::Collected;
use crate::catalogue::NodeState;
use crate::damage::{Damage, DamageKind, DamageList};
use crate::inode::{Entries, Entry};
use crate::layout::{DIRENT_SIZE, Header, NAME_MAX, node_type};
use crate::medium::MOUNT;
use crate::medium::Medium;
use crate::scan::node::{self, Bad, FoundName, Witness};
use crate::{Ino, NodeAddress};

/// Puts nodes to inodes, names to directories, and attributes together. Errors: those of the
/// device.
pub(super) fn finish<F: Flash>(
    collected: &mut Collected,
    medium: &Medium<F>,
    damage: &DamageList,
) -> Result<(), FlashError> {
    let erase_size = medium.shape().erase_size;
    collected.finish_inodes();
    finish_names(collected, medium, damage)?;
    collected.finish_attributes(erase_size);
    collected.finish_references(erase_size);
    collected.finish_ghosts();
    Ok(())
}

/// Of all entries with one name the one with the highest version counts; among equals the one found
/// last (fs/jffs2/nodelist.c, `jffs2_add_fd_to_list`).
///
/// Other than in Linux one that would hide others is looked at first where only a summary tells of
/// it, or its page could not be corrected, and among equals the latter comes behind: an erase that
/// was cut off may leave such entries of names that are whole elsewhere. So both ways to mount show
/// the same tree. Cost: a read for each name that hides another.
///
/// Errors: those of the device.
fn finish_names<F: Flash>(
    collected: &mut Collected,
    medium: &Medium<F>,
    damage: &DamageList,
) -> Result<(), FlashError> {
    let mut names = std::mem::take(&mut collected.names);
    names.sort_unstable_by(|(at, a), (bt, b)| {
        let [sound, other] = [a, b].map(|name| name.witness != Witness::Uncorrectable);
        (a.parent, &a.name, a.version, sound, at).cmp(&(b.parent, &b.name, b.version, other, bt))
    });
    let mut names = names.into_iter().peekable();
    let mut same: Vec<(NodeAddress, FoundName)> = Vec::new();
    while let Some(parent) = names.peek().map(|(_, name)| name.parent) {
        let mut entries: Vec<(Box<[u8]>, Entry)> = Vec::new();
        while let Some((at, found)) = names.next_if(|(_, name)| name.parent == parent) {
            let goes_on = names.peek().is_some_and(|(_, next)| next.parent == parent && next.name == found.name);
            same.push((at, found));
            if !goes_on {
                let newest = newest(collected, medium, damage, &mut same)?;
                entries.extend(newest.map(|(node, FoundName { version, inode, kind, name, .. })| {
                    (name, Entry { inode, kind, version, node })
                }));
            }
        }
        if let Some(inode) = collected.inodes.get_mut(&parent) {
            inode.entries = Some(Box::new(Entries::of(entries)));
        }
    }
    Ok(())
}

/// Empties a list of entries with one name, the one that should count last; all but the one that
/// does become obsolete.
fn newest<F: Flash>(
    collected: &mut Collected,
    medium: &Medium<F>,
    damage: &DamageList,
    same: &mut Vec<(NodeAddress, FoundName)>,
) -> Result<Option<(NodeAddress, FoundName)>, FlashError> {
    let erase_size = medium.shape().erase_size;
    while let Some((at, name)) = same.pop() {
        // A summary's word for a deletion is enough: without it what was deleted would come back.
        let is_told_gone = name.witness == Witness::Summary && name.inode == Ino::NONE;
        if name.witness != Witness::Node
            && !is_told_gone
            && !same.is_empty()
            && let Err(bad) = look(medium, at, &name)?
        {
            let block = medium.shape().block_of(at);
            damage.add(Damage { at, block, kind: bad.kind, inode: Some(name.parent), detail: bad.detail });
            collected.set_state(at, erase_size, NodeState::Obsolete);
            continue;
        }
        for (older, before) in same.drain(..) {
            collected.in_use |= before.inode != name.inode;
            collected.set_state(older, erase_size, NodeState::Obsolete);
        }
        return Ok(Some((at, name)));
    }
    Ok(None)
}

/// Whether a node is the entry that was found there, with all checksums right.
fn look<F: Flash>(medium: &Medium<F>, at: NodeAddress, expected: &FoundName) -> Result<Result<(), Bad>, FlashError> {
    let order = medium.order();
    let length = DIRENT_SIZE + expected.name.len().min(NAME_MAX) as u32;
    let mut bytes = vec![0; length as usize];
    // Whether the page is sound does not matter; the checksums do.
    let _ = medium.read(at, &mut bytes, MOUNT)?;
    let bad = |kind, detail: &str| Ok(Err(Bad { kind, inode: Some(expected.parent), detail: detail.into() }));
    let header = Header::decode(order, &bytes).filter(|header| header.check(order).is_ok());
    let Some(header) = header else {
        return bad(DamageKind::Header, "a name was found here, or a summary tells of it; now the header is damaged");
    };
    if header.node_type != node_type::DIRENT {
        return bad(DamageKind::Summary, "the summary tells of a name here, where a node of another type is");
    }
    Ok(match node::dirent(order, &bytes, header.total_length) {
        Ok((_, found)) if found.says_the_same(expected) => Ok(()),
        Ok(_) => return bad(DamageKind::Summary, "the summary tells of another name or version"),
        Err(bad) => Err(bad),
    })
}
