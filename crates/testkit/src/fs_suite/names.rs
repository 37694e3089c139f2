//! Checks of making, finding and refusing names.

use nandkit_units::Payload;
use nandkit_vfs::ErrorKind::{
    Exists, InvalidArgument, InvalidName, NameTooLong, NotADirectory, NotFound, NotSupported,
};
use nandkit_vfs::path::link_target;
use nandkit_vfs::{FileKind, NewNode};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, show};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("create_and_lookup", create_and_lookup),
    ("create_refuses_existing", create_refuses_existing),
    ("names_refused", names_refused),
    ("names_long", names_long),
    ("names_odd", names_odd),
    ("names_case", names_case),
    ("lookup_in_a_file", lookup_in_a_file),
    ("kinds", kinds),
    ("symlinks", symlinks),
];

fn create_and_lookup(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    ensure!(bench.stat(root)?.kind == FileKind::Directory, "the root is no directory");
    ensure!(bench.names(root)?.is_empty(), "a new volume is not empty");
    fails(bench.fs().lookup(root, b"file"), &[NotFound], "lookup of a name that does not exist")?;
    let file = bench.create(root, b"file", &NewNode::FILE)?;
    let directory = bench.directory(root, b"directory")?;
    let nested = bench.create(directory, b"file", &NewNode::FILE)?;
    ensure!(file != directory && file != nested && nested != directory, "two inodes share a number");
    ensure!(bench.lookup(root, b"file")? == file, "lookup finds another inode than create made");
    ensure!(bench.lookup(directory, b"file")? == nested, "lookup in a directory finds another inode");
    let attributes = bench.stat(file)?;
    ensure!(attributes.inode == file && attributes.kind == FileKind::Regular, "stat of a new file: {attributes:?}");
    ensure!(attributes.size == 0 && attributes.links == 1, "a new file is not empty with one name: {attributes:?}");
    let attributes = bench.stat(directory)?;
    ensure!(attributes.kind == FileKind::Directory && attributes.links >= 1, "stat of a directory: {attributes:?}");
    ensure!(bench.content(file)?.is_empty(), "a new file has content");
    Ok(())
}

fn create_refuses_existing(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"name", b"content")?;
    for node in [NewNode::FILE, NewNode::DIRECTORY] {
        let result = bench.changes().create(root, b"name", &node);
        fails(result, &[Exists], format_args!("create of an existing name as {:?}", node.kind))?;
    }
    bench.expect_content(file, b"content", "after refused creates")?;
    bench.expect_names(root, &[b"name"], "after refused creates")?;
    fails(bench.changes().create(file, b"x", &NewNode::FILE), &[NotADirectory], "create in a regular file")
}

fn names_refused(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"file", b"")?;
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"file/", b"nul\0", b"\0"] {
        let refused = &[InvalidName];
        let what = |call: &str| format!("{call} {}", show(name));
        fails(bench.changes().create(root, name, &NewNode::FILE), refused, what("create"))?;
        fails(bench.changes().create(root, name, &NewNode::DIRECTORY), refused, what("create of a directory"))?;
        fails(bench.changes().rename((root, b"file"), (root, name), Default::default()), refused, what("rename to"))?;
        let absent = &[InvalidName, NotFound];
        fails(bench.fs().lookup(root, name), absent, what("lookup of"))?;
        fails(bench.changes().remove(root, name), absent, what("remove"))?;
        fails(bench.changes().rename((root, name), (root, b"x"), Default::default()), absent, what("rename of"))?;
        if let Some(links) = bench.changes().links() {
            fails(links.link(file, root, name), refused, what("link"))?;
        }
    }
    bench.expect_names(root, &[b"file"], "after refused names")
}

fn names_long(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let longest = (bench.volume()?.name_max as usize).min(255);
    ensure!(longest > 0, "name_max is 0");
    let mut names: Vec<Vec<u8>> = Vec::new();
    for length in [1, 2, 8, 11, 12, 13, 14, 26, 27, 64, 128, longest - 1, longest].into_iter().filter(|l| *l <= longest)
    {
        // Names of the same length differ in their last byte only.
        for last in *b"xy" {
            let mut name = vec![b'n'; length];
            name[length - 1] = last;
            if length > 0 && !names.contains(&name) {
                bench.create(root, &name, &NewNode::FILE)?;
                names.push(name);
            }
        }
    }
    for name in &names {
        bench.lookup(root, name)?;
    }
    let too_long = vec![b'n'; bench.volume()?.name_max as usize + 1];
    for name in [too_long, vec![b'n'; 70_000]] {
        fails(bench.changes().create(root, &name, &NewNode::FILE), &[NameTooLong], format_args!("{}", show(&name)))?;
        fails(bench.fs().lookup(root, &name), &[NameTooLong, NotFound], format_args!("lookup of {}", show(&name)))?;
    }
    names.sort();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    bench.expect_names(root, &names, "after names of all lengths")
}

/// Names that only some formats hold: taken as they are, or refused as `InvalidName`, never
/// changed.
fn names_odd(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let odd: [&[u8]; 16] = [
        b"\xFF\xFE\x80",
        "\u{fc}ml\u{e4}ut \u{1F600} \u{4e2d}\u{6587}".as_bytes(),
        b"a b  c",
        b" lead",
        b"trail ",
        b"dot.",
        b"...",
        b".hidden",
        b"a.b.c.d",
        b"new\nline",
        b"q?*:<>|\"\\",
        b"+,;=[]",
        b"CON",
        b"-",
        b"\x7F",
        b"~1",
    ];
    let mut taken: Vec<&[u8]> = Vec::new();
    for name in odd {
        match bench.changes().create(root, name, &NewNode::FILE) {
            Ok(inode) => {
                ensure!(bench.lookup(root, name)? == inode, "{} is found as another inode", show(name));
                taken.push(name);
            }
            Err(error) => ensure!(error.kind == InvalidName, "create {}: {error}", show(name)),
        }
    }
    for plain in [&b".hidden"[..], b"a.b.c.d", b"a b  c", b"-"] {
        ensure!(taken.contains(&plain), "{} was refused", show(plain));
    }
    taken.sort();
    bench.expect_names(root, &taken, "after odd names")?;
    bench.remount()?;
    bench.expect_names(bench.root, &taken, "odd names after a remount")
}

fn names_case(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let upper = bench.create(root, b"Name.Txt", &NewNode::FILE)?;
    if bench.features.case_sensitive {
        fails(bench.fs().lookup(root, b"NAME.TXT"), &[NotFound], "lookup in another case")?;
        let lower = bench.create(root, b"name.txt", &NewNode::FILE)?;
        ensure!(lower != upper && bench.lookup(root, b"Name.Txt")? == upper, "names in two cases are mixed up");
        return bench.expect_names(root, &[b"Name.Txt", b"name.txt"], "names in two cases");
    }
    ensure!(bench.lookup(root, b"nAME.tXT")? == upper, "lookup in another case finds another inode");
    fails(bench.changes().create(root, b"name.txt", &NewNode::FILE), &[Exists], "create in another case")?;
    bench.expect_names(root, &[b"Name.Txt"], "the case as first written")?;
    let renamed = bench.changes().rename((root, b"NAME.txt"), (root, b"name.TXT"), Default::default());
    ok(renamed, "rename to another case")?;
    bench.expect_names(root, &[b"name.TXT"], "a rename changes the case")?;
    ensure!(bench.lookup(root, b"Name.Txt")? == upper, "a rename to another case changed the inode");
    ok(bench.changes().remove(root, b"NAME.TXT"), "remove in another case")?;
    bench.expect_names(root, &[], "after a remove in another case")
}

fn lookup_in_a_file(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"content")?;
    fails(bench.fs().lookup(file, b"x"), &[NotADirectory], "lookup in a regular file")?;
    let listing = bench.fs().read_dir(file, 0, &mut |_| std::ops::ControlFlow::Continue(()));
    fails(listing, &[NotADirectory], "read_dir of a regular file")?;
    fails(bench.changes().remove(file, b"x"), &[NotADirectory], "remove in a regular file")?;
    let root = bench.root;
    let result = bench.changes().rename((root, b"file"), (file, b"x"), Default::default());
    fails(result, &[NotADirectory], "rename into a regular file")
}

fn kinds(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    for (name, kind, held) in [
        (&b"symlink"[..], FileKind::Symlink, bench.features.symlinks),
        (b"block", FileKind::BlockDevice, bench.features.device_nodes),
        (b"character", FileKind::CharacterDevice, bench.features.device_nodes),
        // The largest numbers of Linux, which do not fit into its old form of 8 and 8 bits; and one
        // half of them that does.
        (b"block, large", FileKind::BlockDevice, bench.features.device_nodes),
        (b"character, large", FileKind::CharacterDevice, bench.features.device_nodes),
        (b"fifo", FileKind::Fifo, bench.features.device_nodes),
        (b"socket", FileKind::Socket, bench.features.device_nodes),
    ] {
        let target: &[u8] = if kind == FileKind::Symlink { b"some/where else" } else { b"" };
        let device = match name {
            b"block" | b"character" => (8 << 32) | 17,
            b"block, large" => (4095 << 32) | 0xF_FFFF,
            b"character, large" => (5 << 32) | 256,
            _ => 0,
        };
        let node = NewNode { kind, target, device, ..NewNode::FILE };
        if !held {
            fails(bench.changes().create(root, name, &node), &[NotSupported], format_args!("create of a {kind:?}"))?;
            continue;
        }
        bench.create(root, name, &node)?;
        bench.remount()?;
        let root = bench.root;
        let inode = bench.lookup(root, name)?;
        let attributes = bench.stat(inode)?;
        ensure!(attributes.kind == kind && attributes.device == device, "a {kind:?} came back as {attributes:?}");
        let listed = bench.list(root, 0, usize::MAX)?.into_iter().find(|(_, entry)| entry.name == name);
        ensure!(listed.is_some_and(|(_, entry)| entry.kind == kind), "read_dir delivers another kind than {kind:?}");
    }
    Ok(())
}

/// Targets are stored as given: any bytes, long ones, paths that lead nowhere.
fn symlinks(bench: &mut Bench<'_>) -> CheckResult {
    if !bench.features.symlinks {
        return Ok(());
    }
    let long = vec![b't'; 254];
    let targets: [&[u8]; 5] = [b"x", b"/some/where//else/..", b"\xFF\x80\n raw", b"../../..", &long];
    let node = |target| NewNode { kind: FileKind::Symlink, target, ..NewNode::FILE };
    let root = bench.root;
    for (number, target) in targets.into_iter().enumerate() {
        bench.create(root, format!("link{number}").as_bytes(), &node(target))?;
    }
    for target in [&b""[..], b"a\0b"] {
        let result = bench.changes().create(root, b"wrong", &node(target));
        fails(result, &[InvalidArgument], format_args!("create of a link to {}", show(target)))?;
    }
    for mounted in ["as made", "mounted again"] {
        for (number, target) in targets.into_iter().enumerate() {
            let inode = bench.lookup(bench.root, format!("link{number}").as_bytes())?;
            let found = ok(link_target(bench.fs(), inode), "read_link")?;
            ensure!(found == target, "target {number} {mounted} is {}", show(&found));
            let attributes = bench.stat(inode)?;
            ensure!(attributes.size == target.len() as u64, "link {number} {mounted}: size {}", attributes.size);
            let mode = attributes.mode;
            ensure!(!bench.features.permissions || mode == 0o777, "link {number} {mounted}: mode {mode:o}");
        }
        bench.remount()?;
    }
    let inode = bench.lookup(bench.root, b"link0")?;
    fails(bench.changes().write(inode, 0, Payload::Bytes(b"x")), &[InvalidArgument], "write to a link")?;
    fails(bench.fs().lookup(inode, b"x"), &[NotADirectory], "lookup in a link")?;
    bench.remove(b"link0", "remove of a link")
}
