//! Decoded inodes.

use nandkit_vfs::{Attributes, FileKind, InodeNumber, Timestamp};

use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{Block, NodeId};
use crate::layout::TreeShape;
use crate::layout::inode::{advise, cluster_pages, flag, inline};
use crate::layout::{ExtraAttributes, Features, Geometry, InodeHead, InodeShape, inode_shape, word};

/// A decoded inode.
#[derive(Clone, Debug)]
pub struct Inode {
    /// The inode's number.
    pub nid: NodeId,
    /// The kind of file.
    pub kind: FileKind,
    /// The fixed part.
    pub head: InodeHead,
    /// The extra attributes, if the inode has them.
    pub extra: Option<ExtraAttributes>,
    /// Where each part lies in the block.
    pub shape: InodeShape,
    /// Pages per cluster; 1 if the inode is not compressed.
    pub cluster: u16,
    /// The inode's block.
    pub block: Block,
    features: Features,
}

impl Inode {
    /// Decodes an inode's block whose footer was checked. Returns `None`, and reports a finding, if
    /// the block cannot be decoded.
    pub fn decode(geometry: &Geometry, nid: NodeId, block: Block, findings: Defects<'_>) -> Option<Self> {
        let features = geometry.features;
        let shape = match inode_shape(geometry, features, &block) {
            Ok(shape) => shape,
            Err(finding) => {
                findings(finding.of(nid));
                return None;
            }
        };
        let head = InodeHead::of_block(&block)?;
        let Some(kind) = head.file_kind() else {
            let detail = format!("a mode of {:#o}, which is not a valid kind of file", head.mode.get());
            findings(Defect::new(FindingKind::Inode, detail).of(nid));
            return None;
        };
        let extra = ExtraAttributes::of_block(&block);
        let cluster = match &extra {
            Some(extra) if head.is_compressed(extra, features) => cluster_pages(extra).unwrap_or(1),
            _ => 1,
        };
        if kind == FileKind::Directory && head.has_inline(inline::DATA) {
            findings(Defect::new(FindingKind::Inode, "a directory with inline data").of(nid));
        }
        Some(Self { nid, kind, head, extra, shape, cluster, block, features })
    }

    /// The parameters of the inode's node tree.
    pub fn tree_shape(&self, geometry: &Geometry) -> TreeShape {
        TreeShape::new(geometry, self.shape.count, self.cluster)
    }

    /// Whether the content is compressed in clusters.
    pub const fn is_compressed(&self) -> bool {
        self.cluster > 1
    }

    /// Whether the inode is an alias of a whole device: its extent is the device, and it has no
    /// addresses (Linux 6.13, inode.c, `sanity_check_inode`: the flag counts only with the
    /// feature).
    pub fn is_device_alias(&self) -> bool {
        self.features.has(Features::DEVICE_ALIAS) && self.head.has_flag(flag::DEVICE_ALIAS)
    }

    /// Whether the content is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.head.has_advise(advise::ENCRYPTED)
    }

    /// Whether the directory compares names without case.
    pub fn is_casefolded(&self) -> bool {
        self.kind == FileKind::Directory && self.features.has(Features::CASEFOLD) && self.head.has_flag(flag::CASEFOLD)
    }

    /// The inline data, if the content is in the inode: as many bytes as the size says, at most the
    /// size of the area.
    pub fn inline_data(&self) -> Option<&[u8]> {
        if !self.head.has_inline(inline::DATA) || matches!(self.kind, FileKind::Directory) {
            return None;
        }
        let area = self.block.get(self.shape.inline.clone())?;
        let length = usize::try_from(self.head.size.get()).unwrap_or(usize::MAX);
        Some(area.get(..length).unwrap_or(area))
    }

    /// The area of inline entries, if the directory's entries are in the inode.
    pub fn inline_entries(&self) -> Option<&[u8]> {
        let is_inline = self.kind == FileKind::Directory && self.head.has_inline(inline::DENTRY);
        is_inline.then(|| self.block.get(self.shape.inline.clone()).unwrap_or_default())
    }

    /// The area of inline attributes; empty if there is none. Without the flag, words reserved for
    /// attributes hold none (xattr.c, `inline_xattr_size`).
    pub fn inline_xattrs(&self) -> &[u8] {
        match self.head.has_inline(inline::XATTR) {
            true => self.block.get(self.shape.xattrs.clone()).unwrap_or_default(),
            false => &[],
        }
    }

    /// The device number of a device inode (major << 32 | minor), else 0.
    pub fn device(&self) -> u64 {
        if !matches!(self.kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
            return 0;
        }
        let field = |number: usize| word(&self.block, self.shape.addresses.start + number * 4).unwrap_or(0);
        let (major, minor) = match (field(0), field(1)) {
            (0, new) => (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xF_FF00),
            (old, _) => (old >> 8 & 0xFF, old & 0xFF),
        };
        u64::from(major) << 32 | u64::from(minor)
    }

    /// The attributes for the file-system contract.
    pub fn attributes(&self, geometry: &Geometry) -> Attributes {
        let head = &self.head;
        let created = self.extra.and_then(|extra| extra.created(self.features));
        Attributes {
            inode: InodeNumber(u64::from(self.nid.0)),
            kind: self.kind,
            mode: head.mode.get() & 0o7777,
            links: head.links.get().max(1),
            uid: head.uid.get(),
            gid: head.gid.get(),
            device: self.device(),
            size: head.size.get(),
            allocated: head.blocks.get().saturating_mul(geometry.block_size() as u64),
            accessed: timestamp(head.accessed.get(), head.accessed_ns.get()),
            modified: timestamp(head.modified.get(), head.modified_ns.get()),
            changed: timestamp(head.changed.get(), head.changed_ns.get()),
            created: created.map(|(seconds, ns)| timestamp(seconds, ns)),
        }
    }
}

/// Converts a timestamp: seconds before 1970 are negative numbers in the unsigned field; times
/// beyond 64 bits of nanoseconds saturate.
fn timestamp(seconds: u64, ns: u32) -> Timestamp {
    let whole = seconds.cast_signed().saturating_mul(1_000_000_000);
    Timestamp(whole.saturating_add(i64::from(ns.min(999_999_999))))
}
