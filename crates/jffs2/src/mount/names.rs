//! Choosing among several entries with one name.

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

/// Assigns nodes to inodes, names to directories, and attributes to inodes. Errors: those of the
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

/// Chooses among the entries with one name: the highest version counts; among equal versions the
/// one found last (fs/jffs2/nodelist.c, `jffs2_add_fd_to_list`).
///
/// Unlike Linux, an entry that would hide others is verified first if only a summary lists it, or
/// its page was uncorrectable; and among equal versions such an uncorrectable one ranks last. An
/// interrupted erase may leave such entries of names that are intact elsewhere, and both ways to
/// mount must show the same tree. Cost: a read for each name that hides another.
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

/// Drains a list of entries with one name, the preferred one last, and makes all except the chosen
/// one obsolete.
fn newest<F: Flash>(
    collected: &mut Collected,
    medium: &Medium<F>,
    damage: &DamageList,
    same: &mut Vec<(NodeAddress, FoundName)>,
) -> Result<Option<(NodeAddress, FoundName)>, FlashError> {
    let erase_size = medium.shape().erase_size;
    while let Some((at, name)) = same.pop() {
        // For a deletion the summary's entry is enough: without it the deleted name would reappear.
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

/// Whether a node is still the entry that was found, with valid checksums.
fn look<F: Flash>(medium: &Medium<F>, at: NodeAddress, expected: &FoundName) -> Result<Result<(), Bad>, FlashError> {
    let order = medium.order();
    let length = DIRENT_SIZE + expected.name.len().min(NAME_MAX) as u32;
    let mut bytes = vec![0; length as usize];
    // The checksums matter, not whether the page is sound.
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
