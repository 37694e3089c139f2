//! Changing extended attributes: one node has name and value, another one says which inode has it.

use std::sync::OnceLock;

use nandkit_flash::Flash;
use nandkit_units::{Cause, Nanos};
use nandkit_vfs::{ErrorKind, FsError, Result, acl};

use super::allocate::{Grant, Need, Urgency};
use super::exhausted;
use super::order::{Order, Reference as Placed};
use super::summary::{XATTR_ENTRY, XREF_ENTRY};
use crate::catalogue::{NodeState, Owner};
use crate::encode::{XattrFields, xattr_node, xref_node};
use crate::layout::format as mode_format;
use crate::layout::{XATTR_SIZE, XREF_SIZE, xattr_prefix};
use crate::volume::Jffs2;
use crate::xattr::{Attribute, AttributeContent, Reference, is_list};
use crate::{Ino, NodeAddress};

/// Longest name with its prefix in bytes (Linux's `XATTR_NAME_MAX`).
const NAME_MAX: usize = 255;

impl<F: Flash> Jffs2<F> {
    /// Prefix, rest of the name, and value in stored form.
    fn stored_form(&mut self, inode: Ino, name: &[u8], value: &[u8]) -> Result<AttributeContent> {
        if name.len() > NAME_MAX {
            return Err(FsError::new(
                ErrorKind::NameTooLong,
                format!("an attribute's name has at most {NAME_MAX} bytes"),
            ));
        }
        let Some((prefix, rest)) = crate::xattr::split_name(name) else {
            let name = String::from_utf8_lossy(name);
            return Err(FsError::new(
                ErrorKind::NotSupported,
                format!("attribute {name}: the format has no such prefix"),
            ));
        };
        let mut value = value.to_vec();
        if matches!(prefix, xattr_prefix::ACL_ACCESS | xattr_prefix::ACL_DEFAULT) {
            let format = self.body_mut(inode)?.format();
            if format == 0o120_000 {
                return Err(FsError::new(ErrorKind::NotSupported, "a symbolic link has no access control list"));
            }
            if prefix == xattr_prefix::ACL_DEFAULT && format != mode_format::DIRECTORY {
                return Err(FsError::new(ErrorKind::InvalidArgument, "only directories have a default list"));
            }
            value = crate::xattr::acl_to_node(self.medium.order(), &acl::parse(&value)?);
        } else if rest.is_empty() || rest.contains(&0) {
            return Err(FsError::new(
                ErrorKind::InvalidArgument,
                "an attribute's name is not empty behind its prefix, and holds no NUL",
            ));
        }
        let room = self.catalogue.erase_size - self.medium.shape().cleanmarker.size();
        let length = XATTR_SIZE as usize + rest.len() + 1 + value.len();
        if length.next_multiple_of(4) > room as usize || value.len() > usize::from(u16::MAX) {
            return Err(FsError::new(
                ErrorKind::NoSpace,
                format!("an attribute of {length} bytes; a block has {room}"),
            ));
        }
        Ok(AttributeContent { prefix, name: rest.into(), value: value.into() })
    }

    /// The number of an inode's attribute with a name. If an interrupted change left several, only
    /// the newest is visible; the others are removed, because they would become visible when that
    /// one is deleted.
    fn only_attribute_of(&mut self, inode: Ino, prefix: u8, rest: &[u8]) -> Result<Option<u32>> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for (id, sequence) in self.xattrs.of_inode(inode) {
            let Some(content) = self.attribute_content(id)? else { continue };
            // As in reading: an access control list has no name of its own.
            if content.prefix == prefix && (*content.name == *rest || is_list(prefix)) {
                found.push((sequence, id));
            }
        }
        found.sort_unstable();
        let newest = found.pop();
        for (_, id) in found {
            let grant = self.reserve_references(inode, 1, Urgency::Deletion)?;
            self.write_reference(grant, inode, id, true)?;
            self.release_attribute(id);
        }
        Ok(newest.map(|(_, id)| id))
    }

    /// Sets the value of a new or existing attribute.
    pub(super) fn put_xattr(&mut self, inode: Ino, name: &[u8], value: &[u8]) -> Result<()> {
        let now = self.seconds();
        self.body_mut(inode)?;
        let content = self.stored_form(inode, name, value)?;
        let old = self.only_attribute_of(inode, content.prefix, &content.name)?;
        let same = |id: &u32| self.known_content(*id).is_some_and(|known| *known == content);
        if old.as_ref().is_some_and(same) {
            return Ok(());
        }
        // Equal attributes of several inodes are shared (fs/jffs2/xattr.c, `create_xattr_datum`).
        let shared = self.xattrs.attributes.iter().filter(|(_, known)| known.users > 0).map(|(id, _)| *id).find(same);
        let id = match shared {
            Some(id) => id,
            None => self.write_attribute(inode, content)?,
        };
        // Count it before there is a reference: otherwise the collector, which may run for space,
        // would take it for dead.
        if let Some(attribute) = self.xattrs.attributes.get_mut(&id) {
            attribute.users += 1;
        }
        // One reservation for both nodes: a full volume gets neither.
        let granted = self.reserve_references(inode, 1 + u32::from(old.is_some()), Urgency::Normal);
        let written = granted.and_then(|grant| self.write_reference(grant, inode, id, false).map(|()| grant));
        let grant = match written {
            Ok(grant) => grant,
            Err(error) => {
                self.release_attribute(id);
                return Err(error);
            }
        };
        if let Some(old) = old {
            // Without this, the old value would reappear when the new one's reference is deleted.
            self.write_reference(grant, inode, old, true)?;
            self.release_attribute(old);
        }
        self.body_mut(inode)?.changed = now;
        Ok(())
    }

    /// Removes an attribute.
    pub(super) fn take_xattr(&mut self, inode: Ino, name: &[u8]) -> Result<()> {
        self.body_mut(inode)?;
        let missing =
            || FsError::new(ErrorKind::NoAttribute, format!("no attribute {}", String::from_utf8_lossy(name)));
        let (prefix, rest) = crate::xattr::split_name(name).ok_or_else(missing)?;
        let id = self.only_attribute_of(inode, prefix, rest)?.ok_or_else(missing)?;
        let grant = self.reserve_references(inode, 1, Urgency::Deletion)?;
        self.write_reference(grant, inode, id, true)?;
        self.release_attribute(id);
        let now = self.seconds();
        self.body_mut(inode)?.changed = now;
        Ok(())
    }

    fn known_content(&self, id: u32) -> Option<&AttributeContent> {
        self.xattrs.attributes.get(&id)?.content.get()?.as_deref()
    }

    fn write_attribute(&mut self, inode: Ino, content: AttributeContent) -> Result<u32> {
        let full = || exhausted("all numbers of attributes have been given");
        let id = self.xattrs.highest_id.checked_add(1).ok_or_else(full)?;
        let mut bytes = Vec::new();
        let AttributeContent { prefix, name, value } = &content;
        xattr_node(self.medium.order(), &XattrFields { id, version: 1, prefix: *prefix, name, value }, &mut bytes);
        let datum = self.separate_attributes(inode)?;
        let need = Need { region: datum.region, least: bytes.len() as u32, entry: XATTR_ENTRY };
        let grant = self.reserve(need, Urgency::Normal)?;
        let written = Nanos(datum.stamp.0);
        let placed = Placed {
            owner: Owner::Xattr(id),
            state: NodeState::Pristine,
            written,
            cause: Cause::Metadata,
            order: Order::Name,
        };
        let node = self.place(grant, &bytes, placed)?;
        self.xattrs.highest_id = id;
        let content = OnceLock::from(Some(Box::new(content)));
        self.xattrs.attributes.insert(id, Attribute { nodes: vec![node], node, version: 1, users: 0, content });
        Ok(id)
    }

    /// Reserves space for some references of an inode; also returns their stamp.
    fn reserve_references(&mut self, inode: Ino, count: u32, urgency: Urgency) -> Result<(Grant, Nanos)> {
        let datum = self.separate_attributes(inode)?;
        let need = Need { region: datum.region, least: count * XREF_SIZE, entry: count * XREF_ENTRY };
        Ok((self.reserve(need, urgency)?, Nanos(datum.stamp.0)))
    }

    /// Writes a reference of an inode to an attribute, or its deletion.
    fn write_reference(&mut self, (grant, written): (Grant, Nanos), inode: Ino, id: u32, gone: bool) -> Result<()> {
        let full = || exhausted("all sequence numbers of references have been given");
        let highest = self.xattrs.highest_sequence.checked_add(2).ok_or_else(full)?;
        self.xattrs.highest_sequence = highest;
        let sequence = highest | u32::from(gone);
        let mut bytes = Vec::new();
        xref_node(self.medium.order(), inode, id, sequence, &mut bytes);
        let placed = Placed {
            owner: Owner::Xref(inode),
            state: NodeState::Pristine,
            written,
            cause: Cause::Metadata,
            order: Order::Name,
        };
        let node = self.place(grant, &bytes, placed)?;
        let reference = self.xattrs.references.entry((inode, id)).or_default();
        let old = (!reference.nodes.is_empty()).then_some(reference.node);
        reference.nodes.push(node);
        (reference.node, reference.sequence) = (node, sequence);
        if let Some(old) = old {
            self.obsolete(old);
        }
        Ok(())
    }

    /// Releases an attribute that an inode no longer has.
    fn release_attribute(&mut self, id: u32) {
        if let Some(attribute) = self.xattrs.attributes.get_mut(&id) {
            attribute.users = attribute.users.saturating_sub(1);
        }
        self.drop_unused(id);
    }

    fn drop_unused(&mut self, id: u32) {
        let Some(attribute) = self.xattrs.attributes.get_mut(&id).filter(|attribute| attribute.users == 0) else {
            return;
        };
        for node in attribute.nodes.clone() {
            self.obsolete(node);
        }
    }

    /// Makes all references of a dead inode obsolete; its number is not reused while they are on
    /// the flash.
    pub(super) fn bury_xattrs(&mut self, inode: Ino) {
        let range = (inode, 0)..=(inode, u32::MAX);
        let all: Vec<(u32, Reference)> =
            self.xattrs.references.range(range).map(|((_, id), reference)| (*id, reference.clone())).collect();
        for (id, reference) in all {
            for node in &reference.nodes {
                self.obsolete(*node);
            }
            if !reference.is_dead() {
                if let Some(reference) = self.xattrs.references.get_mut(&(inode, id)) {
                    reference.sequence |= 1;
                }
                self.release_attribute(id);
            }
        }
    }

    /// Records that a node of an attribute or a reference was copied.
    pub(super) fn moved_of_xattr(&mut self, owner: Owner, from: NodeAddress, to: NodeAddress) {
        // Not by the content of the copy, which may have decayed.
        let (nodes, node) = match owner {
            Owner::Xattr(id) => {
                let Some(attribute) = self.xattrs.attributes.get_mut(&id) else { return };
                (&mut attribute.nodes, &mut attribute.node)
            }
            Owner::Xref(inode) => {
                let mut all = self.xattrs.references.range_mut((inode, 0)..=(inode, u32::MAX));
                let Some((_, reference)) = all.find(|(_, reference)| reference.nodes.contains(&from)) else { return };
                (&mut reference.nodes, &mut reference.node)
            }
            Owner::Inode(_) | Owner::None => return,
        };
        nodes.push(to);
        if *node == from {
            *node = to;
        }
    }
}
