//! Moving extended attributes and references to them. They get new versions, as in Linux: if the
//! erase of their old block were interrupted, the remaining copies could be taken for them.

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::catalogue::NodeRef;
use crate::encode::{XattrFields, xattr_node, xref_node};
use crate::volume::Jffs2;
use crate::write::allocate::Need;
use crate::write::order::{Order, Reference};
use crate::{Ino, NodeAddress};

impl<F: Flash> Jffs2<F> {
    /// Moves an extended attribute.
    pub(super) fn collect_attribute(&mut self, id: u32, at: NodeAddress, node: &NodeRef) -> Result<()> {
        let used = self.xattrs.attributes.get(&id).filter(|attribute| attribute.users > 0);
        let newest = used.map(|attribute| (attribute.node == at, attribute.version.saturating_add(1)));
        // If a power cut tore the newest node, an older one is the only intact one. The moved
        // content then becomes the newest.
        let needed = match newest {
            Some((false, version)) if !self.is_sound_attribute(id)? && self.attribute_content(id)?.is_some() => {
                Some(version)
            }
            Some((true, version)) => Some(version),
            _ => None,
        };
        let Some(version) = needed else {
            self.obsolete(at);
            return Ok(());
        };
        let order = self.medium.order();
        let Some(content) = self.attribute_content(id)?.cloned() else {
            return self.copy(at, node, Some(crate::write::XATTR_ENTRY));
        };
        let mut bytes = Vec::new();
        let (prefix, name, value) = (content.prefix, &*content.name, &*content.value);
        xattr_node(order, &XattrFields { id, version, prefix, name, value }, &mut bytes);
        let to = self.place_renewed(at, node, &bytes, crate::write::XATTR_ENTRY)?;
        if let Some(attribute) = self.xattrs.attributes.get_mut(&id) {
            attribute.nodes.push(to);
            (attribute.node, attribute.version) = (to, version);
        }
        self.obsolete(at);
        Ok(())
    }

    /// Moves a reference to an extended attribute, or drops a deletion that no longer hides
    /// anything.
    pub(super) fn collect_reference(&mut self, inode: Ino, at: NodeAddress, node: &NodeRef) -> Result<()> {
        let mut all = self.xattrs.references.range((inode, 0)..=(inode, u32::MAX));
        let found = all.find(|(_, reference)| reference.node == at);
        // Includes those in the victim, whose erase may be interrupted.
        let older = |other: &NodeAddress| *other != at;
        let needed = found.filter(|(_, found)| !found.is_dead() || found.nodes.iter().any(older));
        let Some(((_, id), reference)) = needed else {
            self.obsolete(at);
            return Ok(());
        };
        let (id, dead, order) = (*id, u32::from(reference.is_dead()), self.medium.order());
        let Some(highest) = self.xattrs.highest_sequence.checked_add(2) else {
            return self.copy(at, node, Some(crate::write::XREF_ENTRY));
        };
        self.xattrs.highest_sequence = highest;
        let mut bytes = Vec::new();
        xref_node(order, inode, id, highest | dead, &mut bytes);
        let to = self.place_renewed(at, node, &bytes, crate::write::XREF_ENTRY)?;
        if let Some(reference) = self.xattrs.references.get_mut(&(inode, id)) {
            reference.nodes.push(to);
            (reference.node, reference.sequence) = (to, highest | dead);
        }
        self.obsolete(at);
        Ok(())
    }

    fn place_renewed(&mut self, at: NodeAddress, node: &NodeRef, bytes: &[u8], entry: u32) -> Result<NodeAddress> {
        let datum = self.separate_moved(Ino::NONE, u32::MAX, at)?;
        let need = Need { region: datum.region, least: bytes.len() as u32, entry };
        let grant = self.reserve_collecting(need)?;
        let (owner, state, written) = (node.owner(), node.state, node.written);
        let reference = Reference { owner, state, written, cause: Cause::Cleaning, order: Order::Name };
        self.writer()?.counters.rewritten += 1;
        self.place(grant, bytes, reference)
    }
}
