//! Extended attributes, and which inodes have them.
//!
//! A value is stored once, under its own number; references assign it to any number of inodes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, InodeNumber, Result, XattrPair, Xattrs, acl};

use crate::damage::{Damage, DamageKind};
use crate::layout::{ByteOrder, Header, node_type, xattr_prefix};
use crate::scan::node::{self, Bad};
use crate::volume::Jffs2;
use crate::work;
use crate::{Ino, NodeAddress};

/// An attribute: a name and a value, which any number of inodes may share.
#[derive(Debug)]
pub struct Attribute {
    /// All its nodes that are still on the flash.
    pub nodes: Vec<NodeAddress>,
    /// The newest of its nodes.
    pub node: NodeAddress,
    /// The version of the newest node.
    pub version: u32,
    /// The number of inodes that have it; 0 means it is dead.
    pub users: u32,
    /// Name and value, read at the first use; `None` if damaged.
    pub content: OnceLock<Option<Box<AttributeContent>>>,
}

/// An attribute's name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeContent {
    /// The prefix of the name: see [`crate::layout::xattr_prefix`].
    pub prefix: u8,
    /// The name after the prefix.
    pub name: Box<[u8]>,
    /// The stored value.
    pub value: Box<[u8]>,
}

/// A reference of an inode to an attribute, or its deletion.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// All its nodes that are still on the flash.
    pub nodes: Vec<NodeAddress>,
    /// The newest of its nodes.
    pub node: NodeAddress,
    /// The newest node's sequence number; an odd one deletes the reference.
    pub sequence: u32,
}

impl Reference {
    /// Whether the reference is deleted.
    pub const fn is_dead(&self) -> bool {
        self.sequence & 1 == 1
    }
}

/// All attributes and references of a volume.
#[derive(Debug, Default)]
pub struct XattrTable {
    /// The attributes by number.
    pub attributes: BTreeMap<u32, Attribute>,
    /// The references by inode and attribute number, including dead ones while nodes of them are on
    /// the flash.
    pub references: BTreeMap<(Ino, u32), Reference>,
    /// For `Jffs2::user_of`: one inode for each attribute, as of the first query.
    pub users: OnceLock<BTreeMap<u32, Ino>>,
    /// The highest number of an attribute ever seen.
    pub highest_id: u32,
    /// The highest sequence number of a reference ever seen, without its lowest bit.
    pub highest_sequence: u32,
}

impl XattrTable {
    /// The numbers of an inode's attributes, with their sequence numbers.
    pub fn of_inode(&self, inode: Ino) -> impl Iterator<Item = (u32, u32)> {
        self.references
            .range((inode, 0)..=(inode, u32::MAX))
            .filter(|(_, reference)| !reference.is_dead())
            .map(|((_, id), reference)| (*id, reference.sequence))
    }
}

/// The external form of a stored prefix, and whether the name after it counts, which it does not
/// for access control lists.
const fn prefix_name(prefix: u8) -> Option<(&'static [u8], bool)> {
    match prefix {
        xattr_prefix::USER => Some((b"user.", true)),
        xattr_prefix::SECURITY => Some((b"security.", true)),
        xattr_prefix::TRUSTED => Some((b"trusted.", true)),
        xattr_prefix::ACL_ACCESS => Some((acl::ACCESS, false)),
        xattr_prefix::ACL_DEFAULT => Some((acl::DEFAULT, false)),
        _ => None,
    }
}

impl AttributeContent {
    /// The name as programs know it; `None` if the prefix is unknown.
    pub fn full_name(&self) -> Option<Vec<u8>> {
        let (prefix, named) = prefix_name(self.prefix)?;
        Some(if named { [prefix, &self.name].concat() } else { prefix.to_vec() })
    }
}

/// Splits a name as programs know it into the stored prefix and the rest; `None` if the format has
/// no such names.
pub fn split_name(full: &[u8]) -> Option<(u8, &[u8])> {
    for prefix in [xattr_prefix::USER, xattr_prefix::SECURITY, xattr_prefix::TRUSTED] {
        if let Some((text, _)) = prefix_name(prefix)
            && let Some(name) = full.strip_prefix(text)
        {
            return Some((prefix, name));
        }
    }
    let lists = [(acl::ACCESS, xattr_prefix::ACL_ACCESS), (acl::DEFAULT, xattr_prefix::ACL_DEFAULT)];
    lists.into_iter().find(|(name, _)| *name == full).map(|(_, prefix)| (prefix, &b""[..]))
}

/// An access control list in stored form.
pub(crate) fn acl_to_node(order: ByteOrder, entries: &[acl::AclEntry]) -> Vec<u8> {
    crate::acl::to_stored(order, &acl::encode(entries)).unwrap_or_default()
}

impl<F: Flash> Jffs2<F> {
    /// Name and value of an attribute, read at the first use; `None` if damaged or missing. Errors:
    /// `Device`.
    pub(crate) fn attribute_content(&self, id: u32) -> Result<Option<&AttributeContent>> {
        let Some(attribute) = self.xattrs.attributes.get(&id) else { return Ok(None) };
        if let Some(content) = attribute.content.get() {
            return Ok(content.as_deref());
        }
        let (mut content, bad) = match self.attribute_at(id, attribute, attribute.node)? {
            Ok((_, content)) => (Some(Box::new(content)), None),
            Err(bad) => (None, Some(bad)),
        };
        if let Some(bad) = bad {
            let (at, block) = (attribute.node, self.medium.shape().block_of(attribute.node));
            let kind = self.kind_at(at, bad.kind)?;
            self.damage.add(Damage { at, block, kind, inode: self.user_of(id), detail: bad.detail });
            // A power cut during a move may have left the beginning of the copy: the original still
            // exists then.
            let mut newest = 0;
            for other in attribute.nodes.iter().filter(|other| **other != attribute.node) {
                if let Ok((version, found)) = self.attribute_at(id, attribute, *other)?
                    && version >= newest
                {
                    (newest, content) = (version, Some(Box::new(found)));
                }
            }
        }
        Ok(attribute.content.get_or_init(|| content).as_deref())
    }

    /// An inode with the attribute. Cost: a pass over all references at the first call, later none
    /// unless the inode was changed.
    pub(crate) fn user_of(&self, id: u32) -> Option<Ino> {
        let table = &self.xattrs;
        let mut living = table.references.iter().filter(|(_, reference)| !reference.is_dead()).map(|(key, _)| *key);
        let users = table.users.get_or_init(|| {
            let mut users = BTreeMap::new();
            living.clone().for_each(|(inode, id)| _ = users.entry(id).or_insert(inode));
            users
        });
        let known = users
            .get(&id)
            .filter(|inode| table.references.get(&(**inode, id)).is_some_and(|reference| !reference.is_dead()));
        let changed = || table.attributes.get(&id).is_some_and(|attribute| attribute.users > 0);
        known
            .copied()
            .or_else(|| if changed() { living.find(|(_, of)| *of == id).map(|(inode, _)| inode) } else { None })
    }

    /// Whether the newest node of an attribute is intact. Errors: `Device`.
    pub(crate) fn is_sound_attribute(&self, id: u32) -> Result<bool> {
        let Some(attribute) = self.xattrs.attributes.get(&id) else { return Ok(false) };
        Ok(self.attribute_at(id, attribute, attribute.node)?.is_ok())
    }

    /// Version and content of one node of an attribute.
    fn attribute_at(
        &self,
        id: u32,
        attribute: &Attribute,
        at: NodeAddress,
    ) -> Result<std::result::Result<(u32, AttributeContent), Bad>> {
        let bytes = self.node_bytes(at, Cause::Metadata)?;
        Ok(self.read_attribute(id, &bytes).and_then(|(version, content)| {
            if at == attribute.node && version != attribute.version {
                let detail = "the summary tells of another version of the attribute".into();
                return Err(Bad { kind: DamageKind::Summary, inode: None, detail });
            }
            Ok((version, content))
        }))
    }

    fn read_attribute(&self, id: u32, bytes: &[u8]) -> std::result::Result<(u32, AttributeContent), Bad> {
        let order = self.medium.order();
        let bad = |detail: &str| Bad { kind: DamageKind::Header, inode: None, detail: detail.into() };
        let header = Header::decode(order, bytes).filter(|header| header.check(order).is_ok());
        let header = header.ok_or_else(|| bad("the header of an extended attribute is damaged"))?;
        if header.node_type != node_type::XATTR {
            return Err(bad("the summary tells of another type of node"));
        }
        let found = node::xattr(order, bytes, header.total_length)?;
        if found.id != id {
            return Err(Bad { kind: DamageKind::Summary, ..bad("the summary tells of another attribute") });
        }
        let (name, value) = node::xattr_content(&found, bytes)?;
        Ok((found.version, AttributeContent { prefix: found.prefix, name: name.into(), value: value.into() }))
    }

    /// An inode's attributes. Of two with one name, the newer one counts (fs/jffs2/xattr.c,
    /// `check_xattr_ref_inode`). Errors: `Device`.
    pub(crate) fn attributes_of(&self, inode: Ino) -> Result<Vec<(u32, &AttributeContent)>> {
        let mut found: BTreeMap<(u8, &[u8]), (u32, u32, &AttributeContent)> = BTreeMap::new();
        for (id, sequence) in self.xattrs.of_inode(inode) {
            let Some(content) = self.attribute_content(id)? else { continue };
            work::steps(1);
            let name: &[u8] = if is_list(content.prefix) { b"" } else { &content.name };
            let newest = found.entry((content.prefix, name)).or_insert((sequence, id, content));
            if newest.0 < sequence {
                *newest = (sequence, id, content);
            }
        }
        Ok(found.into_values().map(|(_, id, content)| (id, content)).collect())
    }

    /// An inode's attribute with a name. Errors: `Device`. Cost: a look at each of its attributes.
    fn attribute_named(&self, inode: Ino, name: &[u8]) -> Result<Option<&AttributeContent>> {
        let Some((prefix, rest)) = split_name(name) else { return Ok(None) };
        let mut found: Option<(u32, &AttributeContent)> = None;
        for (id, sequence) in self.xattrs.of_inode(inode) {
            let Some(content) = self.attribute_content(id)? else { continue };
            work::steps(1);
            // The name of an access control list does not count.
            let same = content.prefix == prefix && (*content.name == *rest || is_list(prefix));
            if same && found.is_none_or(|(newest, _)| newest < sequence) {
                found = Some((sequence, content));
            }
        }
        Ok(found.map(|(_, content)| content))
    }
}

/// Whether a prefix is that of an access control list.
pub(crate) const fn is_list(prefix: u8) -> bool {
    matches!(prefix, xattr_prefix::ACL_ACCESS | xattr_prefix::ACL_DEFAULT)
}

impl<F: Flash> Jffs2<F> {
    /// A value as programs know it. Errors: `Corrupt` for an invalid access control list.
    fn value_outside(&self, inode: Ino, content: &AttributeContent) -> Result<Vec<u8>> {
        if !is_list(content.prefix) {
            return Ok(content.value.to_vec());
        }
        let value = crate::acl::from_stored(self.medium.order(), &content.value);
        value.ok_or_else(|| {
            FsError::new(ErrorKind::Corrupt, format!("the access control list of inode {inode} is not well formed"))
        })
    }
}

impl<F: Flash> Xattrs for Jffs2<F> {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        let number = self.living(inode)?;
        let missing = || {
            FsError::new(ErrorKind::NoAttribute, format!("inode {number} has no {:?}", String::from_utf8_lossy(name)))
        };
        let content = self.attribute_named(number, name)?.ok_or_else(missing)?;
        self.value_outside(number, content)
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let number = self.living(inode)?;
        Ok(self.attributes_of(number)?.into_iter().filter_map(|(_, content)| content.full_name()).collect())
    }

    fn all_xattrs(&self, inode: InodeNumber) -> Result<Vec<XattrPair>> {
        let number = self.living(inode)?;
        let pair = |content: &AttributeContent| Some((content.full_name()?, self.value_outside(number, content)));
        Ok(self.attributes_of(number)?.into_iter().filter_map(|(_, content)| pair(content)).collect())
    }
}
