//! Checks one inode: its fields against each other and the volume, and its extended attributes.

use std::collections::BTreeSet;

use nandkit_vfs::FileKind;

use super::directory::ENTRY_TYPE;
use super::file::FileWalk;
use super::inodes::state;
use super::repair::mend::AreaPlace;
use super::report::{FindingSubject, of};
use super::walk::Expected;
use super::{Check, report};
use crate::directory::levels::LEVELS_MAX;
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::{kind_of, type_of};
use crate::layout::inode::{self, advise, flag, inline};
use crate::layout::node::FOOTER_BYTES;
use crate::layout::xattr::{Attribute, XattrFault, attributes, index, is_unused};
use crate::layout::{ExtraAttributes, Features, NAME_MAX, word};
use crate::xattr::acl_from_stored;

const NS_PER_S: u32 = 1_000_000_000;

impl Check<'_> {
    /// Checks an inode whose block is known to be its own. Returns `None` if it cannot be decoded.
    pub fn look_at_inode(&mut self, expected: &Expected, block: Block) -> Option<FileWalk> {
        let (nid, here) = (expected.nid, expected.at);
        self.check_inode_checksum(expected, &block);
        let mut told = Vec::new();
        let decoded = Inode::decode(self.geometry, nid, block, &mut |finding| told.push(finding));
        told.into_iter().for_each(|finding| self.report.take(finding.at(here)));
        let Some(inode) = decoded else {
            self.whole = false;
            self.inodes.change(nid).flags |= state::DAMAGED;
            self.mend_nameless(nid);
            return None;
        };
        self.remember(&inode);
        let is_directory = inode.kind == FileKind::Directory;
        // mkfs.f2fs does not mark the inodes of device aliases.
        if !inode.is_device_alias() {
            self.check_cold(expected, &inode.block, is_directory);
        }
        self.check_fields(&inode, of(nid).at(here));
        self.mend_fields(&inode, here);
        let head = &inode.head;
        let is_inline = head.has_inline(if is_directory { inline::DENTRY } else { inline::DATA });
        let alias = inode.is_device_alias();
        let has_content = matches!(inode.kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink);
        let has_addresses = has_content && !is_inline && !alias;
        if has_content && is_inline {
            self.check_inline(&inode, of(nid).at(here));
            self.mend_inline(&inode, here);
        }
        if !has_addresses {
            self.check_no_nodes(&inode, here);
        }
        let mut file = FileWalk::new(inode, *expected, has_addresses);
        file.is_quota = self.inodes.get(nid).has(state::QUOTA);
        if has_addresses {
            let (start, count) = (file.inode.shape.addresses.start, file.inode.shape.count);
            let block = file.inode.block.clone();
            self.addresses(&mut file, expected, &block, start, count, 0);
        } else if alias {
            self.device_alias(&mut file);
        }
        Some(file)
    }

    fn check_inode_checksum(&mut self, expected: &Expected, block: &[u8]) {
        let stored = ExtraAttributes::of_block(block).and_then(|extra| extra.checksum(self.geometry.features));
        if let (Some(stored), Some(computed)) = (stored, inode::computed_checksum(self.checksum_seed, block))
            && stored != computed
        {
            self.report.fault(FindingKind::InodeChecksum, of(expected.nid).at(expected.at), || {
                format!("the inode's checksum is {stored:#010x}; its bytes give {computed:#010x}")
            });
            self.mend_inode(expected.at, |_| {});
        }
    }

    /// Stores what is later compared with names, and compares the kind with that of the entry that
    /// led here.
    fn remember(&mut self, inode: &Inode) {
        let kind = type_of(inode.kind);
        let place = self.inodes.change(inode.nid);
        place.inode_type = kind;
        place.links = inode.head.links.get();
        place.flags |= if inode.is_encrypted() { state::ENCRYPTED } else { 0 };
        let known = *place;
        match inode.kind {
            FileKind::Regular => self.totals.files += 1,
            FileKind::Directory => self.totals.directories += 1,
            _ => self.totals.others += 1,
        }
        self.totals.inodes += 1;
        if known.names > 0 && known.entry_type != kind {
            let subject = of(inode.nid).at(BlockAddress(known.name_block));
            // An unknown type was reported with the entry.
            if let Some(said) = kind_of(known.entry_type) {
                self.report.fault(FindingKind::Dentry, subject, || {
                    format!("the entry says {said}; the inode is a {}", inode.kind)
                });
            }
            let place = AreaPlace { at: BlockAddress(known.name_block), inline: known.has(state::NAME_INLINE) };
            self.mend_entry(place, known.name_slot.into(), ENTRY_TYPE, &[kind]);
            let directory = type_of(FileKind::Directory);
            let parent = self.inodes.change(NodeId(known.parent));
            parent.directories = match (known.entry_type == directory, kind == directory) {
                (true, false) => parent.directories.saturating_sub(1),
                (false, true) => parent.directories + 1,
                _ => parent.directories,
            };
        }
    }

    fn check_fields(&mut self, inode: &Inode, subject: FindingSubject) {
        let (head, kind) = (&inode.head, inode.kind);
        let fault = |detail: String, report: &mut report::Draft| report.fault(FindingKind::Inode, subject, || detail);
        let report = &mut self.report;
        if head.blocks.get() == 0 {
            fault("a block count of 0; expected at least the inode's own".into(), report);
        }
        if head.name_length.get() as usize > NAME_MAX {
            fault(format!("a name of {} bytes; at most {NAME_MAX}", head.name_length.get()), report);
        }
        let is_directory = kind == FileKind::Directory;
        if head.has_inline(inline::DENTRY) && !is_directory {
            fault(format!("inline entries in a {kind}"), report);
        }
        if head.has_inline(inline::DATA) && !matches!(kind, FileKind::Regular | FileKind::Symlink | FileKind::Directory)
        {
            fault(format!("inline data in a {kind}"), report);
        }
        let secret = inode.is_encrypted() || head.has_advise(advise::VERITY);
        if head.has_inline(inline::DATA) && kind == FileKind::Regular && secret {
            fault("inline data in an encrypted or verity file".into(), report);
        }
        if is_directory && !head.has_inline(inline::DENTRY) && head.depth.get() > LEVELS_MAX {
            fault(format!("{} levels of a directory; at most {LEVELS_MAX}", head.depth.get()), report);
        }
        let needs = [
            (inode.is_encrypted(), Features::ENCRYPT, "encrypted"),
            (head.has_advise(advise::VERITY), Features::VERITY, "a verity file"),
            (is_directory && head.has_flag(flag::CASEFOLD), Features::CASEFOLD, "casefolded"),
            (kind == FileKind::Regular && head.has_flag(flag::COMPRESSED), Features::COMPRESSION, "compressed"),
        ];
        for (is, feature, what) in needs {
            if is && !self.geometry.features.has(feature) {
                fault(format!("{what}, on a volume without the feature {feature}"), report);
            }
        }
        let parts = [head.accessed_ns.get(), head.changed_ns.get(), head.modified_ns.get()];
        if parts.iter().any(|&ns| ns >= NS_PER_S) {
            fault(format!("nanoseconds {parts:?}; expected less than {NS_PER_S}"), report);
        }
    }

    /// Repairs what [`Check::check_fields`] and decoding found.
    fn mend_fields(&mut self, inode: &Inode, here: BlockAddress) {
        let (mut head, kind) = (inode.head, inode.kind);
        let is_directory = kind == FileKind::Directory;
        for ns in [&mut head.accessed_ns, &mut head.changed_ns, &mut head.modified_ns] {
            *ns = ns.get().min(NS_PER_S - 1).into();
        }
        if head.name_length.get() as usize > NAME_MAX {
            head.name_length = 0.into();
        }
        if !is_directory {
            head.inline &= !inline::DENTRY;
        } else if !head.has_inline(inline::DENTRY) {
            head.depth = head.depth.get().min(LEVELS_MAX).into();
        }
        if !matches!(kind, FileKind::Regular | FileKind::Symlink) {
            head.inline &= !inline::DATA;
        }
        let has = |feature| self.geometry.features.has(feature);
        let without = [
            (flag::CASEFOLD, is_directory && !has(Features::CASEFOLD)),
            (flag::COMPRESSED, kind == FileKind::Regular && !has(Features::COMPRESSION)),
        ];
        let cleared = without.iter().filter(|(_, clear)| *clear).fold(0, |bits, (bit, _)| bits | bit);
        head.flags = (head.flags.get() & !cleared).into();
        // On volumes that have such inodes, nothing tells which flags are wrong.
        let without = [
            (advise::ENCRYPTED | advise::ENCRYPTED_NAME, !has(Features::ENCRYPT)),
            (advise::VERITY, !has(Features::VERITY)),
        ];
        head.advise &= !without.iter().filter(|(_, clear)| *clear).fold(0, |bits, (bit, _)| bits | bit);
        if head != inode.head {
            self.mend_head(here, |place| *place = head);
        }
    }

    /// Repairs inline content that contradicts itself.
    fn mend_inline(&mut self, inode: &Inode, here: BlockAddress) {
        let (mut head, room) = (inode.head, inode.shape.inline.len() as u64);
        let area = inode.block.get(inode.shape.inline.clone()).unwrap_or_default();
        match inode.kind {
            FileKind::Directory => head.size = room.into(),
            _ => head.size = head.size.get().min(room).into(),
        }
        if inode.kind != FileKind::Directory && !nandkit_units::is_zeroed(area) {
            head.inline |= inline::DATA_EXISTS;
        }
        if head != inode.head {
            self.mend_head(here, |place| *place = head);
        }
        let word_at = inode.shape.addresses.start;
        if word(&inode.block, word_at).unwrap_or(0) != 0 {
            self.mend_word(here, word_at, true, 0);
        }
    }

    /// Checks inline content: the word before it is zero, it fits, and a file's flag says that it
    /// exists.
    fn check_inline(&mut self, inode: &Inode, subject: FindingSubject) {
        let (head, size) = (&inode.head, inode.head.size.get());
        let room = inode.shape.inline.len() as u64;
        let report = &mut self.report;
        if word(&inode.block, inode.shape.addresses.start).unwrap_or(0) != 0 {
            report.fault(FindingKind::Inode, subject, || "the word before inline content is not zero".into());
        }
        if inode.kind == FileKind::Directory {
            if size != room {
                report.fault(FindingKind::Inode, subject, || {
                    format!("an inline directory of {size} bytes; the inode has room for {room}")
                });
            }
            return;
        }
        if size > room {
            report
                .fault(FindingKind::Inode, subject, || format!("{size} bytes in the inode, which has room for {room}"));
        }
        let area = inode.block.get(inode.shape.inline.clone()).unwrap_or_default();
        if !head.has_inline(inline::DATA_EXISTS) && !nandkit_units::is_zeroed(area) {
            report.fault(FindingKind::Inode, subject, || {
                "inline content in an inode whose flags say there is none".into()
            });
        }
    }

    /// Checks that an inode with inline content, or without content, refers to no nodes.
    fn check_no_nodes(&mut self, inode: &Inode, here: BlockAddress) {
        let nids = inode::nids_offset(self.geometry.block_size());
        let found = (0..inode::NIDS).find_map(|index| word(&inode.block, nids + index * 4).filter(|nid| *nid != 0));
        if let Some(nid) = found {
            self.report.fault(FindingKind::Inode, of(inode.nid).at(here), || {
                format!("refers to node {nid}, with its content in the inode or none at all")
            });
            for index in 0..inode::NIDS {
                self.mend_word(here, nids + index * 4, true, 0);
            }
        }
    }

    /// Checks the attributes of an inode. `node`: the block of its attribute node, if it has one.
    pub fn check_xattrs(&mut self, inode: &Inode, node: Option<&Block>) {
        let mut area = inode.inline_xattrs().to_vec();
        if let Some(block) = node {
            area.extend_from_slice(block.get(..block.len().saturating_sub(FOOTER_BYTES)).unwrap_or_default());
        }
        let (wrong, missing) = wrong_attributes(inode, &area, node.is_some());
        if !wrong.is_empty() {
            self.mend_xattrs(inode);
        } else if !missing.is_empty() {
            self.mend_marks(inode, &missing);
        }
        for index in missing {
            self.report.fault(FindingKind::Xattr, of(inode.nid), || {
                format!("an encrypted or verity inode without its attribute of index {index}")
            });
        }
        for detail in wrong {
            self.report.fault(FindingKind::Xattr, of(inode.nid), || detail);
        }
    }
}

/// Lists what is wrong in an attribute area, and the kinds of attributes that the inode's flags
/// require but that are missing.
fn wrong_attributes(inode: &Inode, area: &[u8], has_node: bool) -> (Vec<String>, Vec<u8>) {
    let mut wrong = Vec::new();
    let mut seen: BTreeSet<(u8, &[u8])> = BTreeSet::new();
    for attribute in attributes(area) {
        let attribute = match attribute {
            Ok(attribute) => attribute,
            Err(XattrFault::Magic(magic)) => {
                return (
                    vec![format!("extended attributes begin with {magic:#010x}; expected 0xf2f52011")],
                    Vec::new(),
                );
            }
            Err(XattrFault::Overrun(at)) => {
                wrong.push(format!("the extended attribute at byte {at} extends past its area"));
                return (wrong, Vec::new());
            }
        };
        wrong.extend(wrong_attribute(&attribute));
        if !seen.insert((attribute.index, attribute.name)) {
            wrong.push(format!("the extended attribute {} twice", shown(&attribute)));
        }
    }
    if is_unused(area) && (has_node || !nandkit_units::is_zeroed(area)) {
        wrong.push("the area of extended attributes starts with zero but is not empty".to_owned());
    }
    let needed = [(inode.is_encrypted(), index::ENCRYPTION), (inode.head.has_advise(advise::VERITY), index::VERITY)];
    let missing = needed.iter().filter(|(is, what)| *is && !seen.iter().any(|(index, _)| index == what));
    (wrong, missing.map(|(_, what)| *what).collect())
}

fn shown(attribute: &Attribute<'_>) -> String {
    format!("{}:{}", attribute.index, String::from_utf8_lossy(attribute.name).escape_debug())
}

/// Describes what is wrong with one attribute, if anything.
fn wrong_attribute(attribute: &Attribute<'_>) -> Option<String> {
    let is_acl = matches!(attribute.index, index::ACL_ACCESS | index::ACL_DEFAULT);
    if is_acl != attribute.name.is_empty() {
        return Some(format!(
            "the extended attribute {} with a name of {} bytes",
            shown(attribute),
            attribute.name.len()
        ));
    }
    if is_acl && acl_from_stored(attribute.value).is_none() {
        return Some(format!("an invalid access control list of {} bytes", attribute.value.len()));
    }
    let known = [index::USER, index::TRUSTED, index::LUSTRE, index::SECURITY, index::ENCRYPTION, index::VERITY];
    (!is_acl && !known.contains(&attribute.index))
        .then(|| format!("an extended attribute of the unknown index {}", attribute.index))
}
