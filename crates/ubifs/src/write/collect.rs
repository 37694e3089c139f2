//! Collection: the nodes in use of a LEB move to the collector's head, and the LEB becomes free.
//!
//! Source of the rules: Linux `fs/ubifs/gc.c`; `cleaning::victim` chooses the LEB.

use nandkit_vfs::Result;

use super::Writer;
use super::buffers::HEADS;
use crate::encode::{aligned, pad};
use crate::layout::{COLLECTOR_HEAD, Data, Dentry, Inode, Key, node_type};
use crate::lpt::LebProperties;
use crate::mount::Ubifs;
use crate::node::{Node, Place};
use crate::walk::nodes_of;

/// What a collection gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collected {
    /// A free LEB, which is unmapped.
    Freed(u32),
    /// Nodes moved together; the LEB is now the collector's.
    Moved,
    /// LEBs of the index that the next commit frees.
    Index,
    /// No LEB is worth it.
    Nothing,
}

/// A node in use that is to be moved.
struct Live {
    key: Key,
    place: Place,
    bytes: Vec<u8>,
}

impl Writer {
    /// The LEB that the policy takes: of the index only if `with_index` is set.
    fn victim(&mut self, least: u32, with_index: bool) -> Option<(u32, LebProperties)> {
        let random = &mut self.random;
        let mut draw = |bound: u32| random.below(u64::from(bound.max(1))) as u32;
        let views = self.space.collectable(least, with_index);
        let leb = self.options.policy.choose_among(&views, self.clock.now(), &mut draw)?.block;
        self.space.get(leb).map(|properties| (leb, properties))
    }
}

impl Ubifs {
    /// Collects one LEB; one of the index only if a commit may follow.
    pub(super) fn collect(&mut self, may_commit: bool) -> Result<Collected> {
        let with_index = may_commit && self.reserved_for_index() == 0;
        let writer = self.writer()?;
        if let Some(leb) = writer.space.freeable(false).first().copied() {
            self.flush_heads()?;
            self.free_leb(leb)?;
            return Ok(Collected::Freed(leb));
        }
        let least = writer.space.limits().dead;
        let is_index_freeable = may_commit && !writer.space.freeable(true).is_empty();
        let Some((leb, properties)) = writer.victim(least, with_index) else {
            return Ok(if is_index_freeable { Collected::Index } else { Collected::Nothing });
        };
        writer.counters.collected += 1;
        if properties.is_index {
            self.tree.make_dirty_in(leb);
            self.count_obsolete_index()?;
            return Ok(Collected::Index);
        }
        self.collect_files(leb)
    }

    /// Moves the nodes in use of a LEB of files.
    fn collect_files(&mut self, leb: u32) -> Result<Collected> {
        let mut live = self.live_in(leb)?;
        live.sort_by_key(|live| (live.key.key_type() != Some(crate::layout::KeyType::Data), live.key));
        for node in live {
            if !self.move_node(node)? {
                return Ok(Collected::Nothing);
            }
        }
        // What made nodes of this LEB obsolete must be on the flash before they go.
        self.flush_heads()?;
        self.free_leb(leb)?;
        let writer = self.writer()?;
        if writer.collector_leb.is_none() {
            writer.collector_leb = Some(leb);
            writer.space.take(leb, true);
            return Ok(Collected::Moved);
        }
        Ok(Collected::Freed(leb))
    }

    /// The nodes in use of a LEB.
    fn live_in(&self, leb: u32) -> Result<Vec<Live>> {
        let nodes = nodes_of(&self.lebs, leb, 0)?;
        let mut live = Vec::new();
        for (offset, node) in &nodes.list {
            let place = Place { leb, offset: *offset, length: node.length() };
            let Some(key) = key_of(node).filter(|key| self.tree.get(*key).contains(&place)) else { continue };
            let end = *offset as usize + node.length() as usize;
            let bytes = nodes.bytes().get(*offset as usize..end).unwrap_or_default().to_vec();
            live.push(Live { key, place, bytes });
        }
        Ok(live)
    }

    /// Moves a node, as it is, to the collector's head; false if there is no LEB for it.
    fn move_node(&mut self, live: Live) -> Result<bool> {
        let Live { key, place, mut bytes } = live;
        let (head, end) = (COLLECTOR_HEAD as usize, aligned(bytes.len()));
        pad(&mut bytes, end);
        let writer = self.writer()?;
        let (leb_size, unit) = (writer.log.leb_size, writer.unit);
        if self.lebs.head(head).leb.is_none() || self.lebs.head(head).end() + bytes.len() as u32 > leb_size {
            let writer = self.writer()?;
            let Some(leb) = writer.collector_leb.filter(|_| !writer.log.has_no_room()) else { return Ok(false) };
            self.open_bud(head, leb)?;
            self.writer()?.collector_leb = None;
        }
        let (leb, at) = (self.lebs.head(head).leb.unwrap_or_default(), self.lebs.head(head).end());
        let appended = self.lebs.append(head, unit, &bytes);
        self.or_broken(appended)?;
        let writer = self.writer()?;
        writer.is_changed = true;
        writer.space.written(leb, bytes.len() as u32, writer.clock.now());
        writer.space.dirtied(place.leb, bytes.len() as u32);
        writer.counters.moved_bytes += bytes.len() as u64;
        self.tree.relocate(key, place, Place { leb, offset: at, length: place.length });
        self.count_obsolete_index()?;
        Ok(true)
    }

    /// Unmaps a LEB with nothing in use.
    pub(super) fn free_leb(&mut self, leb: u32) -> Result<()> {
        for head in 0..HEADS {
            if self.lebs.head(head).leb == Some(leb) {
                self.lebs.seek(head, None, 0);
            }
        }
        let unmapped = self.lebs.writer().and_then(|writer| writer.unmap(leb));
        self.or_broken(unmapped)?;
        self.writer()?.space.set_empty(leb);
        Ok(())
    }
}

/// The key by which the index finds a node; `None` for a node that it does not know.
fn key_of(node: &Node) -> Option<Key> {
    Some(match node.node_type {
        node_type::INODE => node.body::<Inode>()?.0.key.key(),
        node_type::DATA => node.body::<Data>()?.0.key.key(),
        node_type::DENTRY | node_type::XENTRY => node.body::<Dentry>()?.0.key.key(),
        _ => return None,
    })
}
