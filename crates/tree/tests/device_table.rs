//! Device tables, with mkfs.jffs2 as the judge of what a line means.

use std::fs;
use std::process::Command;

use nandkit_tree::{AdjustedTree, Adjustments, DeviceTable};
use nandkit_vfs::FileKind;
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree};

use crate::common::run;

const TABLE: &str = "\
# a comment

/f\tf\t4751\t7\t8\t-\t-\t-\t-\t-
/d      d  700  1  2
/hda    b  640  0  6  3  0  1  2  5
/tty    c  666  0  0  4  64 0  1  3
  /one  c  600  3  4  1  3  -  -  -
/log    p  622  0  0
";

/// The root's names as `jffs2reader -d /` lists them: mode, owner, group, size or device numbers,
/// name.
fn listed(tree: &dyn SourceTree) -> Vec<Vec<String>> {
    let line = |node: &SourceNode| {
        let kind = match node.kind {
            FileKind::Directory => 'd',
            FileKind::BlockDevice => 'b',
            FileKind::CharacterDevice => 'c',
            FileKind::Fifo => 'p',
            _ => '-',
        };
        let letters = |shift: u16, special: bool| {
            let bits = node.mode >> shift & 7;
            let letter = |bit, letter| if bits & bit != 0 { letter } else { '-' };
            let execute = if special { 's' } else { letter(1, 'x') };
            format!("{}{}{execute}", letter(4, 'r'), letter(2, 'w'))
        };
        let mode = format!("{kind}{}{}{}", letters(6, node.mode & 0o4000 != 0), letters(3, false), letters(0, false));
        let size = match node.device {
            0 => node.size.to_string(),
            device => format!("{},{}", device >> 32, device as u32),
        };
        vec![mode, node.uid.to_string(), node.gid.to_string(), size, String::from_utf8(node.name.clone()).unwrap()]
    };
    let mut lines: Vec<Vec<String>> = tree.nodes()[1..].iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_table_means_what_mkfs_jffs2_takes_it_for() {
    let place = tempfile::tempdir().unwrap();
    let (root, table, image) = (place.path().join("root"), place.path().join("table"), place.path().join("image"));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("f"), b"12345").unwrap();
    // jffs2reader omits the first name of an image, which is this one.
    fs::write(root.join("a"), b"").unwrap();
    fs::write(&table, TABLE).unwrap();
    run(Command::new("mkfs.jffs2").arg("-r").arg(&root).arg("-D").arg(&table).arg("-o").arg(&image).arg("-p"));
    let text = run(Command::new("jffs2reader").args(["-d", "/"]).arg(&image));
    let mut judged: Vec<Vec<String>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        // Mode, links, owner, group, size or "major, minor", and the name with a letter for its
        // type.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.last().unwrap().trim_end_matches(['/', '|']);
        // jffs2reader reads two bytes of device numbers and shows more: only the low bytes are the
        // image's.
        let size = match fields[4..fields.len() - 1] {
            [major, minor] => [major.trim_end_matches(','), minor]
                .map(|number| number.parse::<i64>().unwrap().rem_euclid(256).to_string())
                .join(","),
            _ => fields[4].to_owned(),
        };
        let name = name.trim_start_matches('/');
        judged.push([fields[0], fields[2], fields[3], &size, name].map(str::to_owned).to_vec());
    }
    judged.sort();
    let file = SourceNode::new(FileKind::Regular, 0o644);
    let tree = MemoryTree::new([(b"f".to_vec(), file, b"12345".to_vec())]).unwrap();
    let table = DeviceTable::parse(TABLE.as_bytes()).unwrap();
    let squashed = Adjustments { squash_owners: true, squash_permissions: true, ..Adjustments::default() };
    for adjustments in [Adjustments::default(), squashed] {
        let ours = AdjustedTree::new(tree.clone(), &adjustments, Some(&table)).unwrap();
        assert_eq!(listed(&ours), judged);
        assert_eq!(judged.len(), 12);
    }
}

#[test]
fn a_wrong_line_is_named_with_what_was_expected() {
    let cases = [
        ("/a", "at least a name and a type"),
        ("a c", "starts with \"/\""),
        ("/a x", "expected a type"),
        ("/a c 888", "octal number up to 7777 as mode"),
        ("/a c 10000", "octal number up to 7777 as mode"),
        ("/a c 644 -1", "as uid"),
        ("/a c 644 0 0 4294967296", "up to 4294967295 as major"),
        ("/a c 644 0 0 1 1 0 1 99999", "at most 65536 devices"),
        ("/a c 644 0 0 1 4294967295 0 1 2", "32 bits"),
        ("/a c 644 0 0 1 1 0 1 1 more", "at most 10 fields"),
        ("/../a c", "\"..\""),
        ("/a f", "expected /a in the tree"),
        ("/a l", "expected /a in the tree"),
        ("/f d", "is in the tree as a Regular"),
        ("/f/x p", "no directory"),
        ("/no/x c", "no parent directory: /no, for /no/x, is not there; expected a line \"/no d 755 0 0\""),
    ];
    let file = SourceNode::new(FileKind::Regular, 0o644);
    let tree = MemoryTree::new([(b"f".to_vec(), file, Vec::new())]).unwrap();
    for (line, expected) in cases {
        let table = format!("# first\n\n{line}\n");
        let result = DeviceTable::parse(table.as_bytes())
            .and_then(|table| AdjustedTree::new(tree.clone(), &Adjustments::default(), Some(&table)));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains(expected), "{line}: {error}");
    }
}
