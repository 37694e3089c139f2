//! Builds new inodes (f2fs.md, "Inode"; namei.c, `f2fs_new_inode`).

use nandkit_vfs::{ErrorKind, FileKind, FsError, NewNode, Result, Timestamp};
use zerocopy::FromZeros;

use super::temperature::advise_of;
use crate::encode::directory::put_dots;
use crate::encode::inode::{InodeRest, check_device, device_words, inode_block, set_name, set_times, xattr_words};
use crate::encode::put;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::inode::{
    DEFAULT_XATTR_WORDS, EXTRA_BYTES_MAX, Extent, NIDS, WORDS_OFFSET, flag, inline, nids_offset,
};
use crate::layout::{Features, InodeHead};

/// Flags that a new inode inherits from its directory (f2fs.h, F2FS_FL_INHERITED).
const INHERITED: u32 =
    flag::SYNC | flag::NO_DUMP | flag::NO_ACCESS_TIME | flag::DIRECTORY_SYNC | flag::PROJECT_INHERIT | flag::CASEFOLD;
/// Flags of these that only directories get (f2fs.h, F2FS_REG_FLMASK).
const OF_DIRECTORIES: u32 = flag::DIRECTORY_SYNC | flag::PROJECT_INHERIT | flag::CASEFOLD;
/// Flags of these that symlinks and devices get (f2fs.h, F2FS_OTHER_FLMASK).
const OF_OTHERS: u32 = flag::NO_DUMP | flag::NO_ACCESS_TIME;

/// Options for new inodes: Linux's defaults, unless mount options differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Making {
    /// Stores small content in the inode (`inline_data`).
    pub inline_data: bool,
    /// Stores entries in the inode while they fit (`inline_dentry`).
    pub inline_entries: bool,
    /// Words for attributes in the inode, 0 for none (`inline_xattr`, `inline_xattr_size`; numbers
    /// other than 50 need FLEXIBLE_INLINE_XATTR).
    pub xattr_words: u16,
    /// The base-2 logarithm of the number of buckets in level 0 of a new directory (`dir_level` of
    /// sysfs).
    pub directory_level: u8,
}

impl Default for Making {
    fn default() -> Self {
        Self { inline_data: true, inline_entries: true, xattr_words: DEFAULT_XATTR_WORDS, directory_level: 0 }
    }
}

/// An inode to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// What the caller requests.
    pub node: &'a NewNode<'a>,
    /// Its first name.
    pub name: &'a [u8],
    /// Its number.
    pub ino: NodeId,
    /// Its directory, which must not be encrypted.
    pub parent: &'a Inode,
    /// The time for all its timestamps.
    pub now: Timestamp,
    /// A generation number that an earlier inode with this number is unlikely to have had.
    pub generation: u32,
    /// Extensions of cold and of hot files.
    pub extensions: (&'a [String], &'a [String]),
}

/// The block of a new inode without its footer, and its first page if it needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlocks {
    /// The inode; `blocks` is 1, and `links` includes its first name.
    pub inode: Vec<u8>,
    /// A directory's first block, or a symlink target that is too long for the inode.
    pub page: Option<Vec<u8>>,
}

/// Builds the blocks of a new inode.
///
/// Errors: `InvalidArgument` (a target that is empty or contains NUL, a device number beyond 12 and
/// 20 bits), `NameTooLong` (a target that does not fit into a block with its NUL).
pub fn blocks(block_size: usize, features: Features, making: &Making, new: &NewInode<'_>) -> Result<NewBlocks> {
    check(block_size, new.node)?;
    let kind = new.node.kind;
    let parent_flags = new.parent.head.flags.get();
    let mut head = InodeHead::new_zeroed();
    let permissions = if kind == FileKind::Symlink { 0o777 } else { new.node.mode & 0o7777 };
    head.mode = (kind.mode() as u16 | permissions).into();
    (head.uid, head.gid) = (new.node.uid.into(), new.node.gid.into());
    head.links = if kind == FileKind::Directory { 2 } else { 1 }.into();
    (head.blocks, head.generation) = (1.into(), new.generation.into());
    set_times(&mut head, new.now, new.now, new.now);
    head.parent = new.parent.nid.0.into();
    set_name(&mut head, new.name);
    head.directory_level = making.directory_level;
    head.inline = inline_bits(making, kind);
    head.flags = inherited(kind, parent_flags, features).into();
    if kind == FileKind::Directory {
        head.depth = 1.into();
    }
    if kind == FileKind::Regular {
        let (cold, hot) = new.extensions;
        head.advise = advise_of(new.name, cold.iter().map(String::as_str), hot.iter().map(String::as_str));
    }
    let mut rest = InodeRest {
        // Linux always reserves all bytes; kernels that know fewer only refuse sizes above their
        // own.
        extra_bytes: if features.has(Features::EXTRA_ATTRIBUTES) { EXTRA_BYTES_MAX } else { 0 },
        project_id: project(new.parent, features),
        compression: (0, 0, 0),
        xattr_words: making.xattr_words,
        created: new.now,
        inline: &[],
        words: &[],
        xattrs: &[],
        nids: [NodeId::NONE; NIDS],
        extent: Extent::default(),
    };
    if head.has_flag(flag::COMPRESSED)
        && let Some(extra) = &new.parent.extra
    {
        rest.compression = (extra.compression, extra.log_cluster_pages, extra.compression_flags.get());
    }
    Ok(with_content(block_size, features, new, head, rest))
}

fn check(block_size: usize, node: &NewNode<'_>) -> Result<()> {
    let invalid = |text: String| Err(FsError::new(ErrorKind::InvalidArgument, text));
    match node.kind {
        FileKind::Symlink if node.target.is_empty() || node.target.contains(&0) => {
            invalid("a symlink target must not be empty or contain NUL".into())
        }
        FileKind::Symlink if node.target.len() >= block_size => {
            let detail = format!("a symlink target of {} bytes; at most {}", node.target.len(), block_size - 1);
            Err(FsError::new(ErrorKind::NameTooLong, detail))
        }
        FileKind::BlockDevice | FileKind::CharacterDevice => check_device(node.device),
        _ => Ok(()),
    }
}

const fn inline_bits(making: &Making, kind: FileKind) -> u8 {
    let mut bits = if making.xattr_words > 0 { inline::XATTR } else { 0 };
    bits |= match kind {
        FileKind::Directory if making.inline_entries => inline::DENTRY,
        FileKind::Regular | FileKind::Symlink if making.inline_data => inline::DATA,
        _ => 0,
    };
    bits
}

/// The flags of a new inode (namei.c, `f2fs_mask_flags`). New files are not compressed, even if
/// their directory asks for it; new directories pass the flag on.
fn inherited(kind: FileKind, parent: u32, features: Features) -> u32 {
    match kind {
        FileKind::Directory => {
            let compressed = if features.has(Features::COMPRESSION) { parent & flag::COMPRESSED } else { 0 };
            parent & INHERITED | compressed | flag::INDEX
        }
        FileKind::Regular => parent & INHERITED & !OF_DIRECTORIES,
        _ => parent & INHERITED & OF_OTHERS,
    }
}

/// The project: that of a directory that passes it on, else 0.
pub fn project(parent: &Inode, features: Features) -> u32 {
    match parent.extra.and_then(|extra| extra.project_id(features)) {
        Some(project) if parent.head.has_flag(flag::PROJECT_INHERIT) => project,
        _ => 0,
    }
}

/// The inline capacity of an inode in bytes.
fn inline_room(block_size: usize, features: Features, inline_flags: u8, rest: &InodeRest<'_>) -> usize {
    let words = usize::from(xattr_words(features, inline_flags, rest.xattr_words));
    nids_offset(block_size).saturating_sub(WORDS_OFFSET + usize::from(rest.extra_bytes) + words * 4 + 4)
}

fn with_content(
    block_size: usize,
    features: Features,
    new: &NewInode<'_>,
    mut head: InodeHead,
    rest: InodeRest<'_>,
) -> NewBlocks {
    let room = inline_room(block_size, features, head.inline, &rest);
    let (node, mut page, mut content, words) = (new.node, None, Vec::new(), device(new.node));
    match node.kind {
        FileKind::Directory if head.has_inline(inline::DENTRY) => {
            content = vec![0; room];
            put_dots(&mut content, new.ino, new.parent.nid);
            head.size = (room as u64).into();
        }
        FileKind::Directory => {
            let mut first = vec![0; block_size];
            put_dots(&mut first, new.ino, new.parent.nid);
            (head.size, page) = ((block_size as u64).into(), Some(first));
        }
        FileKind::Symlink => {
            head.size = (node.target.len() as u64).into();
            if head.has_inline(inline::DATA) && node.target.len() <= room {
                head.inline |= inline::DATA_EXISTS;
                content = node.target.to_vec();
            } else {
                head.inline &= !inline::DATA;
                let mut first = vec![0; block_size];
                put(&mut first, 0, node.target);
                page = Some(first);
            }
        }
        _ => {}
    }
    let rest = InodeRest { inline: &content, words: &words, ..rest };
    NewBlocks { inode: inode_block(block_size, features, &head, &rest), page }
}

fn device(node: &NewNode<'_>) -> Vec<u32> {
    match node.kind {
        FileKind::BlockDevice | FileKind::CharacterDevice => {
            device_words((node.device >> 32) as u32, node.device as u32).to_vec()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::directory::find_in;
    use crate::encode::inode::seal;
    use crate::encode::node::{FooterFields, put_footer};
    use crate::ids::BlockAddress;
    use crate::layout::inode::{advise, checksum_seed, computed_checksum};
    use crate::layout::{DentryArea, ExtraAttributes, Geometry, NodeOffset};

    const EXTRA: Features = Features::EXTRA_ATTRIBUTES;
    const NOW: Timestamp = Timestamp(1_700_000_000_123_456_789);

    fn geometry(features: Features) -> Geometry {
        let mut geometry = Geometry::for_tests(4096);
        geometry.features = features;
        geometry
    }

    fn decode(features: Features, nid: NodeId, block: &[u8]) -> Inode {
        Inode::decode(&geometry(features), nid, Arc::from(block), &mut |finding| panic!("{finding}")).unwrap()
    }

    /// A directory with these flags and this project.
    fn parent(features: Features, flags: u32, project: u32) -> Inode {
        let mut head = InodeHead::new_zeroed();
        (head.mode, head.flags, head.links) = (0o040_755.into(), flags.into(), 2.into());
        head.inline = inline::XATTR;
        let rest = InodeRest {
            extra_bytes: if features.has(EXTRA) { EXTRA_BYTES_MAX } else { 0 },
            project_id: project,
            compression: (1, 3, 1),
            xattr_words: 50,
            created: NOW,
            inline: &[],
            words: &[],
            xattrs: &[],
            nids: [NodeId::NONE; NIDS],
            extent: Extent::default(),
        };
        decode(features, NodeId(3), &inode_block(4096, features, &head, &rest))
    }

    fn made(features: Features, making: &Making, parent: &Inode, node: &NewNode<'_>, name: &str) -> (Inode, NewBlocks) {
        let extensions = (&["mp".to_owned()][..], &["db".to_owned()][..]);
        let new =
            NewInode { node, name: name.as_bytes(), ino: NodeId(9), parent, now: NOW, generation: 77, extensions };
        let blocks = blocks(4096, features, making, &new).unwrap();
        (decode(features, NodeId(9), &blocks.inode), blocks)
    }

    #[test]
    fn directories_have_their_dots_and_files_nothing() {
        let flexible = EXTRA.with(Features::FLEXIBLE_INLINE_XATTR).with(Features::CREATION_TIME);
        for (features, inline_bytes) in [(Features(0), 3488), (EXTRA, 3452), (flexible, 3452)] {
            let parent = parent(features, 0, 0);
            let (inode, blocks) = made(features, &Making::default(), &parent, &NewNode::DIRECTORY, "directory");
            let area = inode.inline_entries().unwrap();
            assert_eq!((area.len(), inode.head.size.get(), blocks.page), (inline_bytes, inline_bytes as u64, None));
            let find = |name: &[u8]| find_in(DentryArea::new(area), 0, 0, &|found| found == name).unwrap().entry;
            assert_eq!((find(b".").ino.get(), find(b"..").ino.get()), (9, 3));
            assert_eq!((inode.head.links.get(), inode.head.depth.get(), inode.head.flags.get()), (2, 1, flag::INDEX));
            assert_eq!((inode.head.parent.get(), inode.head.name()), (3, Some(&b"directory"[..])));
            let (inode, _) = made(features, &Making::default(), &parent, &NewNode::FILE, "file.mpeg");
            assert_eq!((inode.head.links.get(), inode.head.blocks.get(), inode.head.depth.get()), (1, 1, 0));
            assert_eq!(inode.head.inline & !inline::EXTRA, inline::XATTR | inline::DATA);
            assert_eq!((inode.head.advise, inode.head.generation.get()), (advise::COLD, 77));
            assert_eq!(inode.inline_xattrs(), [0; 200]);
            let attributes = inode.attributes(&geometry(features));
            assert_eq!([attributes.accessed, attributes.modified, attributes.changed], [NOW; 3]);
            assert_eq!(attributes.created, features.has(Features::CREATION_TIME).then_some(NOW));
            assert_eq!((attributes.mode, attributes.size), (0o644, 0));
        }
    }

    #[test]
    fn what_is_not_wanted_in_the_inode_is_in_a_page() {
        let making = Making { inline_data: false, inline_entries: false, xattr_words: 0, directory_level: 2 };
        let parent = parent(EXTRA, 0, 0);
        let (inode, blocks) = made(EXTRA, &making, &parent, &NewNode::DIRECTORY, "d");
        assert_eq!((inode.head.inline, inode.shape.count, inode.head.directory_level), (inline::EXTRA, 914, 2));
        let page = blocks.page.unwrap();
        assert_eq!(find_in(DentryArea::new(&page), 0, 0, &|found| found == b"..").unwrap().entry.ino.get(), 3);
        assert_eq!(inode.head.size.get(), 4096);
        let (inode, _) = made(EXTRA, &making, &parent, &NewNode::FILE, "f");
        assert_eq!(inode.head.inline, inline::EXTRA);
    }

    #[test]
    fn targets_are_inline_as_far_as_they_fit() {
        let parent = parent(Features(0), 0, 0);
        for (length, is_inline) in [(1, true), (3488, true), (3489, false), (4095, false)] {
            let target = vec![b't'; length];
            let node = NewNode { kind: FileKind::Symlink, target: &target, ..NewNode::FILE };
            let (inode, blocks) = made(Features(0), &Making::default(), &parent, &node, "a.mp4");
            assert_eq!((inode.inline_data().is_some(), blocks.page.is_none()), (is_inline, is_inline));
            let found = inode.inline_data().or(blocks.page.as_ref().map(|page| &page[..length])).unwrap();
            assert_eq!((found, inode.head.size.get()), (&target[..], length as u64));
            assert_eq!((inode.head.mode.get(), inode.head.advise), (0o120_777, 0));
            assert_eq!(inode.head.has_inline(inline::DATA_EXISTS), is_inline);
        }
    }

    #[test]
    fn directories_hand_flags_and_projects_on() {
        let features = EXTRA.with(Features::PROJECT_QUOTA).with(Features::COMPRESSION).with(Features::CASEFOLD);
        let flags = flag::COMPRESSED | flag::IMMUTABLE | INHERITED;
        let parent = parent(features, flags, 41);
        for (kind, expected) in [
            (FileKind::Directory, flag::COMPRESSED | flag::INDEX | INHERITED),
            (FileKind::Regular, flag::SYNC | flag::NO_DUMP | flag::NO_ACCESS_TIME),
            (FileKind::Fifo, flag::NO_DUMP | flag::NO_ACCESS_TIME),
        ] {
            let (inode, _) = made(features, &Making::default(), &parent, &NewNode { kind, ..NewNode::FILE }, "n");
            let extra = inode.extra.unwrap();
            assert_eq!((inode.head.flags.get(), extra.project_id(features)), (expected, Some(41)), "{kind}");
            let compression = (extra.compression, extra.log_cluster_pages, extra.compression_flags.get());
            assert_eq!(compression, if kind == FileKind::Directory { (1, 3, 1) } else { (0, 0, 0) });
        }
        let (inode, _) = made(features, &Making::default(), &self::parent(features, 0, 41), &NewNode::FILE, "n");
        assert_eq!(inode.extra.unwrap().project_id(features), Some(0));
    }

    #[test]
    fn devices_and_what_cannot_be() {
        let parent = parent(Features(0), 0, 0);
        for device in [8 << 32 | 1, 4095 << 32 | 0xF_FFFF] {
            let node = NewNode { kind: FileKind::BlockDevice, device, ..NewNode::FILE };
            let (inode, _) = made(Features(0), &Making::default(), &parent, &node, "d");
            assert_eq!((inode.device(), inode.head.inline), (device, inline::XATTR));
        }
        let refused = |kind, device, target: &[u8]| {
            let node = NewNode { kind, device, target, ..NewNode::FILE };
            let extensions = (&[][..], &[][..]);
            let (ino, name) = (NodeId(9), &b"n"[..]);
            let new = NewInode { node: &node, name, ino, parent: &parent, now: NOW, generation: 1, extensions };
            blocks(4096, Features(0), &Making::default(), &new).unwrap_err().kind
        };
        assert_eq!(refused(FileKind::BlockDevice, 4096 << 32, b""), ErrorKind::InvalidArgument);
        assert_eq!(refused(FileKind::CharacterDevice, 1 << 20, b""), ErrorKind::InvalidArgument);
        assert_eq!(refused(FileKind::Symlink, 0, b""), ErrorKind::InvalidArgument);
        assert_eq!(refused(FileKind::Symlink, 0, b"a\0"), ErrorKind::InvalidArgument);
        assert_eq!(refused(FileKind::Symlink, 0, &[b'a'; 4096]), ErrorKind::NameTooLong);
    }

    #[test]
    fn the_checksum_has_its_place() {
        let features = EXTRA.with(Features::INODE_CHECKSUM);
        let (_, blocks) = made(features, &Making::default(), &parent(features, 0, 0), &NewNode::FILE, "f");
        let (mut block, seed) = (blocks.inode, checksum_seed(&[7; 16]));
        let (nid, marks) = (NodeId(9), FooterFields::cold(false));
        put_footer(
            &mut block,
            &FooterFields { nid, ino: nid, offset: NodeOffset::INODE, marks, checkpoint: 5, next: BlockAddress(9) },
        );
        seal(&mut block, features, seed);
        let stored = ExtraAttributes::of_block(&block).unwrap().checksum(features);
        assert!(stored.is_some_and(|sum| sum != 0) && stored == computed_checksum(seed, &block));
    }
}
