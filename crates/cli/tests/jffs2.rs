//! JFFS2 images from the command line, with mkfs.jffs2, find, ls and diff as judges.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::jffs2::{self, deletion, flip, inode_node, rename_in_image};
use crate::common::{exits, json, nandkit, nandkit_bytes, run, succeeds};
use serde_json::Value;

/// A directory with a tree of every kind that any user can make, in `tree`.
fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("etc/empty")).expect("directories");
    let noise: Vec<u8> = (0..150_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n".repeat(700)).expect("a file");
    fs::write(tree.join("noise"), &noise).expect("a file");
    fs::write(tree.join("nothing"), "").expect("a file");
    fs::write(tree.join("f\u{fc}r alle"), "x").expect("a file");
    let sparse = File::create(tree.join("sparse")).expect("a file");
    sparse.set_len(70_001).expect("a hole");
    fs::hard_link(tree.join("noise"), tree.join("etc/same")).expect("a link");
    symlink("../noise", tree.join("etc/link")).expect("a link");
    run(
        &tree,
        "mkfifo pipe && chmod 4711 noise && chmod 600 etc/passwd && chmod 1777 etc/empty && touch -d @1500000001 pipe noise",
    );
    run(&tree, "touch -h -d @1400000000 etc/link && find . -type f -o -type d | xargs -d '\\n' touch -d @1600000000");
    directory
}

/// Everything that find knows of a tree, the sizes of directories excepted.
fn listing(directory: &Path, tree: &str) -> String {
    let format = "%P|%y|%m|%U|%G|%Ts|%l|%n";
    run(
        &directory.join(tree),
        &format!("find . -type d -printf '{format}\\n' -o -printf '{format}|%s\\n' | LC_ALL=C sort"),
    )
}

/// Both trees are the same to find and to diff. Fifos are no files to diff.
fn same(directory: &Path, other: &str, what: &str) {
    assert_eq!(listing(directory, other), listing(directory, "tree"), "{what}");
    run(directory, &format!("diff -r --no-dereference -x pipe tree {other}"));
}

#[test]
fn a_tree_comes_back_from_our_images_and_from_those_of_mkfs_jffs2() {
    let directory = with_tree();
    let path = directory.path();
    let ours = "--from tree image.jffs2";
    let theirs = "-r tree -o image.jffs2";
    for (number, (ours_too, options)) in [
        (true, "--endian little"),
        (true, "--endian big --erase-size 4K --compress lzo"),
        (true, "--erase-size 0x20000 --no-cleanmarkers --compress none --size 1M"),
        (true, "--device nandsim-32m-128k --compress zlib,lzo,rtime --smallest --level 5"),
        (true, "-e 16K -s 8192 -c 12 -x rtime --threads 1"),
        (true, "--endian big --erase-size 8K --summary"),
        (true, "--device nandsim-32m-128k --oob --size 1M --summary -x none"),
        (true, "--erase-size 16K --oob=512+16"),
        (false, "-l -e 64KiB"),
        (false, "-b -e 128KiB -n --pad=0x100000"),
        (false, "-l -e 16KiB -m size -X lzo"),
        (false, "-b -e 8KiB -m none"),
    ]
    .into_iter()
    .enumerate()
    {
        match ours_too {
            true => succeeds(path, &format!("mkfs jffs2 {ours} --force {options}").split(' ').collect::<Vec<_>>()),
            false => run(path, &format!("mkfs.jffs2 {theirs} {options}")),
        };
        let out = format!("out{number}");
        succeeds(path, &["extract", "image.jffs2", &out]);
        if !ours_too {
            // mkfs.jffs2 keeps no time of the root directory.
            run(path, &format!("touch -d @1600000000 {out}"));
        }
        same(path, &out, options);
        let outcome = nandkit(path, &["check", "image.jffs2"]);
        assert_eq!(outcome.status, Some(0), "{options}: {}", outcome.stdout);
        let info = json(path, &["info", "image.jffs2", "--json"]);
        let found = &info["detections"][0];
        let order = if options.contains("big") || options.contains("-b") { "big" } else { "little" };
        assert_eq!((&info["image"], &found["endian"]), (&"jffs2".into(), &order.into()), "{options}: {info}");
        assert!(found["why"][0].as_str().is_some_and(|why| why.contains("checksum")), "{info}");
    }
}

#[test]
fn the_same_tree_gives_the_same_bytes_and_a_table_adds_nodes() {
    let directory = with_tree();
    let path = directory.path();
    fs::write(path.join("table"), "/dev d 755 0 0 - - - - -\n/dev/mtd c 640 0 5 90 0 0 2 3\n/etc/passwd f 644 7 8\n")
        .expect("a file");
    let base = ["mkfs", "jffs2", "--from", "tree", "--squash", "-D", "table"];
    let with = |more: &[&'static str]| base.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    let bytes = |name: &str| fs::read(path.join(name)).expect("reads");
    for more in [&[][..], &["--summary", "--erase-size", "16K", "--oob=512+16", "--force"]] {
        succeeds(path, &with(&[more, &["b.jffs2", "--threads", "2"]].concat()));
        succeeds(path, &with(&[more, &["a.jffs2", "--threads", "1"]].concat()));
        assert!(bytes("a.jffs2") == bytes("b.jffs2"), "{more:?}");
    }
    // Without the OOB, its 16 bytes behind each 512, it is the image that is asked for without.
    succeeds(path, &with(&["--summary", "--erase-size", "16K", "--no-cleanmarkers", "plain.jffs2"]));
    let (dump, plain) = (bytes("a.jffs2"), bytes("plain.jffs2"));
    let data: Vec<u8> = dump.chunks(528).flat_map(|page| &page[..512]).copied().collect();
    assert!(data == plain);
    // Cleanmarkers are where Linux has them on pages of 512 bytes: behind the code, in each block's
    // first page.
    for (number, page) in dump.chunks(528).enumerate() {
        let mut oob = [0xFF; 16];
        if number % 32 == 0 {
            oob[8..].copy_from_slice(&[0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0]);
        }
        assert_eq!(page[512..], oob, "page {number}");
    }
    let long = succeeds(path, &["ls", "-lR", "a.jffs2"]);
    for line in [
        "crw-r----- 1 0 5  90, 4 1970-01-01 00:00:00 dev/mtd2",
        "-rw-r--r-- 1 7 8  21000 2020-09-13 12:26:40 etc/passwd",
    ] {
        assert!(long.contains(line), "{line} is not in\n{long}");
    }
    // The same tree through an archive, and with times that are held down.
    run(path, "tar cf tree.tar.gz -z -C tree . && tar cf - -C tree . > tree.tar");
    let archived = ["mkfs", "jffs2", "--from", "tree.tar.gz", "--squash", "-D", "table", "c.jffs2"];
    succeeds(path, &archived);
    assert_eq!(succeeds(path, &["ls", "-lR", "c.jffs2"]), long);
    let binary = env!("CARGO_BIN_EXE_nandkit");
    run(path, &format!("SOURCE_DATE_EPOCH=1450000000 {binary} mkfs jffs2 --from - d.jffs2 < tree.tar"));
    let times = succeeds(path, &["ls", "-lR", "d.jffs2"]);
    assert!(times.contains("2014-05-13 16:53:20 etc/link") && times.contains("2015-12-13 09:46:40 noise"), "{times}");
}

#[test]
fn ls_is_as_coreutils_has_it_and_json_and_tar_say_the_same() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i.jffs2"]);
    for (ours, theirs) in [("/", "tree"), ("/etc", "tree/etc"), ("etc/link", "tree/etc/link")] {
        let long = succeeds(path, &["ls", "-l", "i.jffs2", ours]);
        // Linux lists no size of its own for directories, and the columns are as wide as that makes
        // them.
        let squeezed = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('d') && !line.starts_with("total"));
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let command = format!("TZ=UTC LC_ALL=C ls -lnA -N --time-style='+%Y-%m-%d %H:%M:%S' {theirs}");
        let expected: Vec<String> =
            squeezed(&run(path, &command)).iter().map(|line| line.replace("tree/etc/link", "link")).collect();
        assert_eq!(squeezed(&long), expected, "{ours}");
        assert!(!expected.is_empty());
    }
    let names = succeeds(path, &["ls", "-R", "i.jffs2"]);
    let expected = run(&path.join("tree"), "find . -mindepth 1 -printf '%P\\n' | LC_ALL=C sort");
    let mut sorted: Vec<&str> = names.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, expected.lines().collect::<Vec<_>>());
    let list = json(path, &["ls", "-R", "--json", "i.jffs2"]);
    let noise = list.as_array().expect("a list").iter().find(|row| row["path"] == "/noise").expect("noise");
    assert_eq!((&noise["size"], &noise["mode"], &noise["links"]), (&150_000.into(), &"4711".into(), &2.into()));
    run(
        path,
        &format!(
            "mkdir t && {} extract i.jffs2 --to-tar - | tar xpf - -C t --delay-directory-restore",
            env!("CARGO_BIN_EXE_nandkit")
        ),
    );
    same(path, "t", "tar");
    succeeds(path, &["extract", "i.jffs2", "--path", "/etc", "part"]);
    assert_eq!(fs::read_link(path.join("part/link")).expect("a link"), Path::new("../noise"));
}

#[test]
fn damage_is_told_with_file_offset_and_cause_and_the_rest_is_delivered() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "--compress", "none", "i.jffs2"]);
    let good = fs::read(path.join("i.jffs2")).expect("reads");
    let noise = fs::read(path.join("tree/noise")).expect("reads");
    // The third page of the file.
    let mut bad = good.clone();
    let at = flip(&mut bad, &noise[9000..9100]);
    fs::write(path.join("i.jffs2"), &bad).expect("writes");
    let (status, bytes, told) = nandkit_bytes(path, &["cat", "i.jffs2", "/noise"]);
    assert_eq!(status, Some(1), "{told}");
    let offset = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let found = words.find_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        found.unwrap_or_else(|| panic!("no offset in {text}"))
    };
    // The message leads to the node that holds the bit.
    assert!(told.contains("/noise") && (at as u64).abs_diff(offset(&told)) < 5000, "{at:#x}: {told}");
    assert_eq!(bytes.len(), noise.len());
    let wrong = bytes.iter().zip(&noise).filter(|(a, b)| a != b).count();
    assert!((1..=4096).contains(&wrong), "{wrong} bytes are wrong");
    // All other files come whole.
    let outcome = exits(path, &["extract", "i.jffs2", "out", "--json"], 1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(report["files"], 5, "{report}");
    let told = report["findings"].to_string() + &report["damaged"].to_string();
    assert!(told.contains("/noise"), "{told}");
    run(path, "diff -r --no-dereference -x pipe -x noise -x same tree out");
    // The check says the same, and a repair leaves out the node.
    let outcome = exits(path, &["check", "i.jffs2", "--json"], 1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let finding = &report["findings"][0];
    assert!(finding["offset"].as_u64().is_some_and(|offset| (at as u64).abs_diff(offset) < 5000), "{report}");
    assert!(
        report["findings"].to_string().contains("noise") || report["findings"].to_string().contains("same"),
        "{report}"
    );
    let outcome = nandkit(path, &["check", "i.jffs2", "--repair", "r.jffs2"]);
    assert_eq!(
        (outcome.status, outcome.stdout.contains("left out: ")),
        (Some(1), true),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(fs::read(path.join("i.jffs2")).expect("reads") == bad, "the image is as it was");
    let end: Vec<&str> = outcome.stdout.lines().rev().take(2).collect();
    let told =
        end[1].starts_with("r.jffs2 holds ") && end[1].contains("its structure is sound, but these data are lost");
    assert!(told && end[0].contains("missing data") && end[0].contains("/noise"), "{end:?}");
    // The same for programs.
    let outcome = exits(path, &["check", "i.jffs2", "--repair", "j.jffs2", "--json"], 1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let held = &report["repaired"]["holds"];
    assert_eq!(
        (held["sound"].as_bool(), &held["findings"][0]["kind"]),
        (Some(true), &"missing data".into()),
        "{report}"
    );
    assert_eq!((&held["files"], &held["directories"]), (&report["files"], &report["directories"]), "{report}");
    run(path, "cmp r.jffs2 j.jffs2");
    // What is lost stays lost, and stays told; nothing else is wrong any more.
    let outcome = nandkit(path, &["check", "r.jffs2", "--json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let kinds: Vec<&Value> =
        report["findings"].as_array().expect("a list").iter().map(|found| &found["kind"]).collect();
    assert_eq!(kinds, ["missing data"], "{report}");
    let told = nandkit(path, &["check", "r.jffs2"]);
    assert!(told.status == Some(1) && told.stderr.contains("the structure is sound"), "{}", told.stderr);
    // It is changed like any sound volume, and the loss told.
    fs::copy(path.join("r.jffs2"), path.join("changed.jffs2")).expect("copies");
    let changed = nandkit(path, &["rm", "changed.jffs2", "/noise", "/etc/same", "--size", "1M", "--erase-size", "64K"]);
    assert!(changed.status == Some(0) && changed.stderr.contains("missing data"), "{}", changed.stderr);
    succeeds(path, &["check", "changed.jffs2"]);
    assert_eq!(nandkit(path, &["extract", "r.jffs2", "repaired"]).status, Some(1));
    run(path, "diff -r --no-dereference -x pipe out repaired");
    exits(path, &["check", "r.jffs2", "--repair", "r.jffs2"], 2);
}

#[test]
fn names_that_lead_out_are_refused_by_name() {
    let directory = with_tree();
    let path = directory.path();
    fs::write(path.join("tree/harmless"), "gotcha").expect("a file");
    symlink("/etc/passwd", path.join("tree/outward")).expect("a link");
    for (number, evil) in ["../../xx", "etc/../x", "/var/x_x", "a\0b\0c\0d\0", ".."].into_iter().enumerate() {
        fs::write(path.join("tree/harmless"), "gotcha").expect("a file");
        succeeds(path, &["mkfs", "jffs2", "--from", "tree", "--force", "i.jffs2"]);
        let mut image = fs::read(path.join("i.jffs2")).expect("reads");
        rename_in_image(&mut image, b"harmless", evil.as_bytes());
        fs::write(path.join("i.jffs2"), &image).expect("writes");
        let out = format!("out{number}");
        let outcome = nandkit(path, &["extract", "i.jffs2", &out]);
        assert_eq!(outcome.status, Some(1), "{evil:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("refused ") || outcome.stderr.contains("damaged "),
            "{evil:?}: {}",
            outcome.stderr
        );
        assert_eq!(run(path, "ls -d xx x ../xx /var/x_x 2>/dev/null | cat"), "", "{evil:?}");
        run(path, &format!("! grep -rl --devices=skip gotcha {out}"));
        assert!(path.join(&out).join("etc/passwd").exists());
    }
    let outcome = nandkit(path, &["extract", "i.jffs2", "inward", "--inward-links-only"]);
    assert!(outcome.stderr.contains("/outward") && !path.join("inward/outward").exists(), "{}", outcome.stderr);
}

#[test]
fn what_was_deleted_or_replaced_can_be_had_and_is_marked() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/gone"), "what was").expect("a file");
    fs::write(path.join("tree/kept"), "first").expect("a file");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-x", "none", "-n", "i.jffs2"]);
    let mut image = fs::read(path.join("i.jffs2")).expect("reads");
    // Inodes are numbered in the order of the names, from 2 on; the directory's nodes from 1 on.
    jffs2::append(&mut image, &inode_node(3, 9, 6, 0, b"second"));
    jffs2::append(&mut image, &deletion(1, 9, b"gone"));
    fs::write(path.join("i.jffs2"), &image).expect("writes");
    assert_eq!(succeeds(path, &["ls", "i.jffs2"]), "kept\n");
    assert_eq!(succeeds(path, &["cat", "i.jffs2", "kept"]), "second");
    let deleted = succeeds(path, &["ls", "--deleted", "i.jffs2"]);
    assert!(deleted.contains("/gone (inode 2)") && !deleted.contains("kept"), "{deleted}");
    let outcome = nandkit(path, &["cat", "i.jffs2", "gone"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""));
    assert!(outcome.stderr.contains("deleted") && outcome.stderr.contains("--version"), "{}", outcome.stderr);
    let first = |arguments: &[&str]| -> u64 {
        let value = json(path, arguments);
        value["versions"][0]["version"].as_u64().unwrap_or_else(|| panic!("{value}"))
    };
    for (file, expected, mark) in [("gone", "what was", "deleted"), ("kept", "first", "earlier")] {
        let number = first(&["cat", "i.jffs2", file, "--versions", "--json"]).to_string();
        let outcome = nandkit(path, &["cat", "i.jffs2", file, "--version", &number]);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(0), expected), "{file}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(mark), "{file}: {}", outcome.stderr);
    }
}

#[test]
fn regions_of_a_whole_device_are_listed_and_opened() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "16K", "i.jffs2"]);
    let image = fs::read(path.join("i.jffs2")).expect("reads");
    // A boot loader, then the file system.
    let loader: Vec<u8> = (0..0x40000_u32).map(|at| (at.wrapping_mul(40_503) >> 7) as u8).collect();
    fs::write(path.join("dump"), [loader, image.clone()].concat()).expect("writes");
    let info = succeeds(path, &["info", "dump"]);
    assert!(info.contains("at 0x40000") && info.contains("opens as jffs2"), "{info}");
    for place in [
        &[][..],
        &["--offset", "256K"],
        &["--region", "0"],
        &["--offset", "0x40000", "--erase-size", "16K", "--endian", "little"],
    ] {
        let arguments = [&["ls", "dump"], place].concat();
        assert!(succeeds(path, &arguments).contains("noise\n"), "{arguments:?}");
    }
    // Two partitions in a table: which one is meant has to be said.
    let sectors = (image.len() / 512) as u32;
    let mut disk = vec![0; 1 << 20];
    for (number, first) in [2048, 2048 + sectors].into_iter().enumerate() {
        let entry = 446 + 16 * number;
        disk[entry + 4] = 0x83;
        disk[entry + 8..entry + 12].copy_from_slice(&first.to_le_bytes());
        disk[entry + 12..entry + 16].copy_from_slice(&sectors.to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    let disk = [disk, image.clone(), image].concat();
    fs::write(path.join("disk"), disk).expect("writes");
    let outcome = exits(path, &["ls", "disk"], 2);
    assert!(outcome.stderr.contains("mbr1") && outcome.stderr.contains("--region"), "{}", outcome.stderr);
    assert!(succeeds(path, &["ls", "disk", "--region", "mbr2"]).contains("noise\n"));
    let outcome = nandkit(path, &["ls", "disk", "--region", "mbr3"]);
    assert_eq!((outcome.status, outcome.stderr.contains("mbr1, mbr2")), (Some(2), true), "{}", outcome.stderr);
}

#[test]
fn options_that_do_not_fit_the_image_are_refused() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i.jffs2"]);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "--endian", "big", "b.jffs2"]);
    run(path, "cat i.jffs2 b.jffs2 > mixed && mkdir full && touch full/x");
    for (arguments, expected) in [
        (vec!["ls", "i.jffs2", "--erase-size", "4K"], vec!["--erase-size 4096", "expected 65536"]),
        (vec!["ls", "i.jffs2", "--erase-size", "1000"], vec!["1000"]),
        (vec!["check", "i.jffs2", "--endian", "big"], vec!["i.jffs2", "byte order"]),
        (vec!["extract", "mixed", "out"], vec!["holds 2 file systems", "--region"]),
        (vec!["extract", "i.jffs2", "full"], vec!["full", "--merge"]),
        (vec!["extract", "i.jffs2", "i.jffs2"], vec!["not a directory"]),
        (vec!["extract", "i.jffs2", "--to-tar", "b.jffs2"], vec!["b.jffs2", "exists", "--force"]),
        (vec!["cat", "i.jffs2", "etc"], vec!["this is a directory"]),
        (vec!["cat", "i.jffs2", "etc/no"], vec!["/etc/no", "nandkit ls"]),
        (vec!["cat", "i.jffs2", "noise", "--version", "0"], vec!["--versions"]),
    ] {
        let outcome = nandkit(path, &arguments);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", outcome.stderr);
        for part in expected {
            assert!(outcome.stderr.contains(part), "{part:?} is not in {arguments:?}: {}", outcome.stderr);
        }
    }
    assert!(!path.join("out").exists());
}

#[test]
fn ctrl_c_leaves_nothing_half_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    // Enough that the signal meets it at work, also where this test gets no processor for a while.
    let noise: Vec<u8> = (0..24 << 20_u32).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    for number in 0..4 {
        fs::write(path.join(format!("tree/noise{number}")), &noise).expect("a file");
    }
    // A shell's background hands down that Ctrl-C is ignored.
    let mut child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_nandkit")])
        .args(["mkfs", "jffs2", "--from", "tree", "--smallest", "-x", "zlib,lzo,rtime", "--threads", "1", "i.jffs2"])
        .current_dir(path)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary runs");
    let deadline = SystemTime::now() + Duration::from_secs(60);
    // As soon as the file under its other name is there, it is at work.
    while fs::read_dir(path).expect("reads").count() < 2 && SystemTime::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    run(path, &format!("kill -INT {}", child.id()));
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert_eq!(fs::read_dir(path).expect("reads").count(), 1, "the tree alone is left");
}

/// An image whose blocks were filled without cleanmarkers in them (they are in the OOB of its
/// device): a repair that put some in pushed the last node of each block out, and ended well.
#[test]
fn a_repair_of_a_sound_image_keeps_every_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    for number in 0..60u32 {
        let content: Vec<u8> = (0..9000 + number * 331).map(|at| (at * (number + 3) % 251) as u8).collect();
        fs::write(path.join(format!("tree/file{number}")), content).expect("written");
    }
    exits(
        path,
        &["mkfs", "jffs2", "--from", "tree", "--device", "slc-256m", "--size", "4M", "i.jffs2", "--compress", "none"],
        0,
    );
    let outcome = exits(path, &["check", "i.jffs2", "--repair", "r.jffs2"], 0);
    assert!(outcome.stdout.contains("left out 0"), "{}", outcome.stdout);
    assert_eq!(nandkit(path, &["check", "r.jffs2"]).status, Some(0));
    assert_eq!(nandkit(path, &["extract", "r.jffs2", "out"]).status, Some(0));
    run(path, "diff -r tree out");
}
