//! The damages of mtd-utils' tests of fsck.ubifs, by their names there: a field of a node is set
//! and its checksum mended. Each ends as well as there or better.

use nandkit_testkit::listing::{Listing, of_volume};
use nandkit_ubifs::layout::{HEADER_SIZE, node_type};
use nandkit_ubifs::{BuildOptions, LebBytes, Ubifs};
use nandkit_vfs::FileKind;
use nandkit_vfs::source::{MemoryTree, SourceNode};

use crate::built::built;
use crate::nodes::{is_of_type, mend, nodes};
use crate::repair::repaired;

const LEB_SIZE: u32 = 16_256;

/// The content of the images there: a file with an attribute, a directory with nodes of all kinds,
/// a hard link and a soft link; and a second file, so that data fill more than one index node.
fn volume() -> LebBytes {
    let file = || SourceNode::new(FileKind::Regular, 0o644);
    let mut builder = MemoryTree::builder();
    let put = |builder: &mut _, path: &str, node, content: Option<Vec<u8>>| {
        let builder: &mut nandkit_vfs::source::TreeBuilder<Vec<u8>> = builder;
        builder.put(path.as_bytes(), node, content).expect("a node");
    };
    put(&mut builder, "corrupt_file", file(), Some(vec![7; 2048]));
    put(&mut builder, "dir/block_dev", SourceNode::device(FileKind::BlockDevice, 0o600, 8, 1), None);
    put(&mut builder, "dir/char_dev", SourceNode::device(FileKind::CharacterDevice, 0o600, 4, 1), None);
    put(&mut builder, "dir/dir", SourceNode::new(FileKind::Directory, 0o755), None);
    put(&mut builder, "dir/file", file(), Some(b"123".to_vec()));
    put(&mut builder, "large", file(), Some((0..200_000_u32).map(|at| (at / 7) as u8).collect()));
    put(&mut builder, "softlink_file", SourceNode::symlink(b"corrupt_file"), None);
    builder.link(b"hardlink_file", b"corrupt_file").expect("a link");
    let xattrs = vec![(b"user.corrupt".to_vec(), b"value".to_vec())];
    builder.get_mut(b"corrupt_file").expect("a path").expect("a node").xattrs = xattrs;
    let options =
        BuildOptions { min_io_size: 8, leb_size: LEB_SIZE, leb_count_max: 60, fanout: 4, ..BuildOptions::default() };
    built(&MemoryTree::from_builder(builder), &options).expect("a volume")
}

/// Sets fields of nodes.
struct Editor(LebBytes);

impl Editor {
    /// The nodes of a type that hold these bytes at an offset behind the header.
    fn find(&self, node_type: u8, at: usize, bytes: &[u8]) -> Vec<usize> {
        let all = nodes(&self.0.bytes).into_iter();
        let of_type = all.filter(|(start, length)| is_of_type(&self.0.bytes[*start..start + length], node_type));
        let holds = |start: &usize| self.0.bytes[start + HEADER_SIZE + at..].starts_with(bytes);
        of_type.map(|(start, _)| start).filter(holds).collect()
    }

    /// The entry with this name.
    fn entry(&self, name: &str) -> usize {
        let kind = if name.starts_with("user.") { node_type::XENTRY } else { node_type::DENTRY };
        self.find(kind, 32, format!("{name}\0").as_bytes())[0]
    }

    /// The node of the inode to which the entry with this name leads.
    fn inode(&self, name: &str) -> usize {
        let entry = self.entry(name) + HEADER_SIZE + 16;
        let number = self.0.bytes[entry..entry + 4].to_vec();
        self.find(node_type::INODE, 0, &[&number[..], &[0; 4]].concat())[0]
    }

    /// Sets a field behind a node's header, and mends the checksum.
    fn set(&mut self, node: usize, at: usize, bytes: &[u8]) {
        let length = self.0.bytes[node + 16..][..4].try_into().map(u32::from_le_bytes).expect("a length") as usize;
        let node = &mut self.0.bytes[node..node + length];
        node[HEADER_SIZE + at..][..bytes.len()].copy_from_slice(bytes);
        mend(node);
    }

    fn set_in_all(&mut self, node_type: u8, at: usize, bytes: &[u8]) {
        for node in self.find(node_type, 0, &[]) {
            self.set(node, at, bytes);
        }
    }

    /// Sets a field of a branch of the first index node of a level.
    fn set_branch(&mut self, level: u8, at: usize, bytes: &[u8]) {
        let node = self.find(node_type::INDEX, 2, &[level, 0])[0];
        self.set(node, 4 + 20 + at, bytes);
    }

    fn destroy(&mut self, node: usize) {
        self.0.bytes[node + HEADER_SIZE + 8] ^= 0x55;
    }

    fn destroy_leb(&mut self, leb: u32) {
        let size = LEB_SIZE as usize;
        self.0.bytes[leb as usize * size..][..size].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x55);
    }
}

type Edit = fn(&mut Editor);

/// What the damages of names and inodes may change, beside `lost+found`; the rest stays as it is.
const DAMAGES: [(&str, Edit, &[&str]); 44] = [
    ("good", |_| {}, &[]),
    ("master_highest_inum", |image| image.set_in_all(node_type::MASTER, 0, &[65]), &[]),
    ("master_tnc", |image| image.set_in_all(node_type::MASTER, 28, &[8, 1]), &[]),
    ("master_lpt", |image| image.set_in_all(node_type::MASTER, 100, &[8]), &[]),
    ("master_total_free", |image| image.set_in_all(node_type::MASTER, 56, &[1, 2, 3]), &[]),
    ("master_total_dirty", |image| image.set_in_all(node_type::MASTER, 64, &[1, 2, 3]), &[]),
    ("master_total_dead", |image| image.set_in_all(node_type::MASTER, 80, &[1, 2, 3]), &[]),
    ("index_size", |image| image.set_in_all(node_type::MASTER, 48, &[8, 8]), &[]),
    ("journal_log", |image| image.destroy_leb(3), &[]),
    ("lpt and ltab, any field", |image| image.destroy_leb(7), &[]),
    ("tnc_lv0_key", |image| image.set_branch(0, 12, &[99]), &[]),
    ("tnc_lv0_pos", |image| image.set_branch(0, 4, &[40, 5]), &[]),
    ("tnc_lv0_len", |image| image.set_branch(0, 8, &[77]), &[]),
    ("tnc_noleaf_key", |image| image.set_branch(1, 12, &[99]), &[]),
    ("tnc_noleaf_pos", |image| image.set_branch(1, 4, &[40, 5]), &[]),
    ("tnc_noleaf_len", |image| image.set_branch(1, 8, &[77]), &[]),
    (
        "corrupted_idx_leb",
        |image| {
            let node = image.find(node_type::INDEX, 0, &[])[0];
            image.destroy_leb(node as u32 / LEB_SIZE);
        },
        &[],
    ),
    ("inode_nlink", |image| image.set(image.inode("corrupt_file"), 68, &[9]), &[]),
    ("inode_xcnt", |image| image.set(image.inode("corrupt_file"), 92, &[9]), &[]),
    ("inode_size", |image| image.set(image.inode("large"), 24, &[5, 0, 0]), &[]),
    ("inode_size of a directory", |image| image.set(image.inode("dir"), 24, &[1, 1]), &[]),
    ("inode_data", |image| image.set(image.inode("large"), 88, &[5]), &[]),
    ("inode_mode", |image| image.set(image.inode("large"), 80, &[0, 0]), &["/large"]),
    ("soft_link_inode_mode", |image| image.set(image.inode("softlink_file"), 80, &[0, 0]), &["/softlink_file"]),
    ("soft_link_data_len", |image| image.set(image.inode("softlink_file"), 88, &[3]), &["/softlink_file"]),
    ("dentry_key", |image| image.set(image.entry("large"), 4, &[9]), &["/large"]),
    ("dentry_nlen", |image| image.set(image.entry("large"), 26, &[3]), &["/large"]),
    ("dentry_type", |image| image.set(image.entry("large"), 25, &[1]), &[]),
    ("xentry_key", |image| image.set(image.entry("user.corrupt"), 4, &[9]), WITH_ATTRIBUTE),
    ("xentry_nlen", |image| image.set(image.entry("user.corrupt"), 26, &[3]), WITH_ATTRIBUTE),
    ("xentry_type", |image| image.set(image.entry("user.corrupt"), 25, &[1]), &[]),
    ("xinode_flags", |image| image.set(image.inode("user.corrupt"), 84, &[0]), WITH_ATTRIBUTE),
    ("xinode_key", |image| image.set(image.inode("user.corrupt"), 0, &[99]), WITH_ATTRIBUTE),
    ("xinode_mode", |image| image.set(image.inode("user.corrupt"), 80, &[0, 0]), WITH_ATTRIBUTE),
    ("xent_host", |image| image.set(image.inode("corrupt_file"), 84, &[0x21]), &["/corrupt_file", "/hardlink_file"]),
    (
        "corrupted_data_leb",
        |image| {
            let data = image.find(node_type::DATA, 0, &[])[9];
            image.destroy(data);
        },
        &["/large"],
    ),
    (
        "dir_many_dentry",
        |image| {
            let number = image.0.bytes[image.entry("dir") + HEADER_SIZE + 16];
            image.set(image.entry("hardlink_file"), 16, &[number]);
        },
        &["/corrupt_file", "/hardlink_file"],
    ),
    ("dir_lost", |image| image.destroy(image.inode("dir")), &["/dir", "/dir/"]),
    ("dir_lost, its name", |image| image.destroy(image.entry("dir")), &["/dir", "/dir/"]),
    (
        "root_dir",
        |image| {
            let root = image.find(node_type::INODE, 0, &[1, 0, 0, 0, 0, 0, 0, 0])[0];
            image.destroy(root);
        },
        &["/"],
    ),
    (
        "orphan_node",
        |image| {
            image.set(image.inode("large"), 68, &[0]);
            image.destroy(image.entry("large"));
        },
        &["/large"],
    ),
    ("empty_tnc", |image| image.set_in_all(node_type::INODE, 80, &[0, 0]), &["/"]),
    ("empty_tnc, only its index", |image| image.set_in_all(node_type::INDEX, 0, &[0]), &[]),
    (
        "both master nodes",
        |image| image.find(node_type::MASTER, 0, &[]).into_iter().for_each(|at| image.destroy(at)),
        &[],
    ),
];

/// The names of the file with an attribute.
const WITH_ATTRIBUTE: &[&str] = &["/corrupt_file", "/hardlink_file"];

fn listing(image: &LebBytes) -> Listing {
    of_volume(&Ubifs::mount(Box::new(image.clone())).expect("a volume"))
}

#[test]
fn every_damage_costs_what_stood_there_and_no_more() {
    let whole = volume();
    let expected = listing(&whole);
    for (what, edit, may_change) in DAMAGES {
        let mut editor = Editor(whole.clone());
        edit(&mut editor);
        assert!(what == "good" || editor.0.bytes != whole.bytes, "{what}: nothing is damaged");
        let (new, repair) = repaired(&editor.0, what).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = listing(&new);
        let may = |path: &str| {
            let is_below = |prefix: &&str| prefix.ends_with('/') && path.starts_with(prefix);
            may_change.contains(&path) || may_change.iter().any(is_below)
        };
        for path in expected.keys().chain(found.keys()).filter(|path| !path.starts_with("/lost+found")) {
            assert!(may(path) || found.get(path) == expected.get(path), "{what}: {path} {found:#?} {repair:#?}");
        }
        let is_told = repair.mended.len() + repair.dropped.len() > 0;
        assert!(is_told || may_change.is_empty(), "{what}: nothing is told");
        println!("{what}: {} put right, {} left out", repair.mended.len(), repair.dropped.len());
    }
}

#[test]
fn a_damaged_superblock_is_refused() {
    let whole = volume();
    for (what, at, bytes) in [
        ("sb_fanout", 48, [2, 0]),
        ("sb_fmt_version", 56, [99, 0]),
        ("sb_leb_size", 12, [1, 2]),
        ("sb_log_lebs", 32, [0xFF, 0xFF]),
        ("sb_min_io_size", 8, [3, 0]),
    ] {
        let mut editor = Editor(whole.clone());
        let superblock = editor.find(node_type::SUPERBLOCK, 0, &[])[0];
        editor.set(superblock, at, &bytes);
        let refused = repaired(&editor.0, what).is_err();
        assert!(refused, "{what}: is repaired");
    }
}
