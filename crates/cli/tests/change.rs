//! Images that are changed by commands. The same commands on a directory of the machine, and
//! jffs2dump, are the judges.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::noise::noise;
use crate::common::{exits, json, nandkit, run, succeeds, tells};

/// A directory with a tree to build an image from, and another one to put into it.
pub fn with_trees() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "mkdir -p tree/etc/init tree/bin tree/var/log over/etc/init over/lib/deep && mkfifo over/lib/pipe");
    fs::write(path.join("tree/bin/app"), noise(90_000, 1)).expect("a file");
    fs::write(path.join("tree/etc/passwd"), "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:\n").expect("a file");
    fs::write(path.join("tree/etc/group"), "adm:x:4:\n").expect("a file");
    fs::write(path.join("tree/etc/init/rc"), "old").expect("a file");
    fs::write(path.join("tree/var/log/messages"), "x\n".repeat(9000)).expect("a file");
    fs::write(path.join("over/etc/init/rc"), "new").expect("a file");
    fs::write(path.join("over/lib/a"), noise(30_001, 2)).expect("a file");
    File::create(path.join("over/lib/hole")).and_then(|file| file.set_len(200_000)).expect("a file");
    run(path, "cd over && ln lib/a lib/deep/b && ln -s ../a lib/deep/c && chmod 4750 lib/a && chmod 2711 lib/deep");
    run(path, "cd tree && ln -s lib lib64 && ln etc/group etc/group- && setfattr -n user.old -v 1 bin/app");
    run(path, "setfattr -n user.color -v green over/lib/a");
    run(
        path,
        "find tree over | xargs -d '\\n' touch -h -d @1600000000 && touch -d @1500000000 over/lib/a over/lib/pipe",
    );
    fs::write(path.join("big"), noise(60_000, 3)).expect("a file");
    run(path, "touch -d @1450000000 big && chmod 640 big");
    directory
}

/// What changes an image, and what changes a directory in the same way. `@` stands for the image
/// with its options, or for the directory.
pub const STEPS: [(&str, &str); 17] = [
    ("put @ -r over /", "cp -a over/. @/"),
    ("put @ big /etc", "cp -p big @/etc"),
    ("put @ big /bin/app", "cp -p big @/bin/app"),
    ("put @ - /etc/motd < big", "cat big > @/etc/motd && touch -d @1600000000 @/etc/motd"),
    ("put @ - /etc/group < over/etc/init/rc", "cat over/etc/init/rc > @/etc/group; touch -d @1600000000 @/etc/group"),
    ("mkdir @ -p /opt/a/b /opt/a/c -m 750", "mkdir -p @/opt/a/b @/opt/a/c && chmod 750 @/opt/a/b @/opt/a/c"),
    ("mkdir @ /opt/d", "mkdir @/opt/d"),
    ("mv @ /etc/big /bin/app /opt/d", "mv @/etc/big @/bin/app @/opt/d"),
    ("mv @ /opt/d/big /etc/passwd", "mv @/opt/d/big @/etc/passwd"),
    ("ln @ /opt/d/app /bin/other", "ln @/opt/d/app @/bin/other"),
    ("ln @ -sf ../opt/d/app /bin/other", "ln -sf ../opt/d/app @/bin/other && touch -h -d @1600000000 @/bin/other"),
    ("ln @ -s /x/y /opt", "ln -s /x/y @/opt && touch -h -d @1600000000 @/opt/y"),
    ("chmod @ u+x,go-w,o=X /etc/motd", "chmod u+x,go-w,o=X @/etc/motd"),
    ("chmod @ -R a+rX,g-s /opt /lib", "chmod -R a+rX,g-s @/opt @/lib"),
    ("setfattr @ -n user.new -v 0x610062 /lib/a", "setfattr -n user.new -v 0x610062 @/lib/a"),
    ("setfattr @ -x user.color /lib/a", "setfattr -x user.color @/lib/a"),
    ("rm @ -r /var /etc/group-", "rm -r @/var @/etc/group-"),
];

/// Everything that find knows of a tree; the times of directories, which commands set to the
/// present, excepted.
pub fn listing(directory: &Path, tree: &str) -> String {
    let format = "%P|%y|%m|%l|%n";
    let script = format!("find . -type d -printf '{format}\\n' -o -printf '{format}|%s|%Ts\\n' | LC_ALL=C sort");
    run(&directory.join(tree), &format!("{script}; getfattr -hdR -m ^user . | grep ."))
}

/// jffs2dump knows every node, and has nothing against any.
fn judge(directory: &Path, image: &str, options: &str) {
    let told = run(directory, &format!("jffs2dump -c {options} {image} 2>&1"));
    assert!(told.matches("Inode").count() > 3 && told.matches("Dirent").count() > 3, "{image}: {told}");
    let complaints: Vec<&str> = told.lines().filter(|line| line.to_lowercase().contains("wrong")).collect();
    assert!(complaints.is_empty(), "{image} {options}: {complaints:?}");
}

#[test]
fn commands_do_to_an_image_what_they_do_to_a_directory() {
    let directory = with_trees();
    let path = directory.path();
    let binary = env!("CARGO_BIN_EXE_nandkit");
    run(path, "cp -a tree mirror");
    for (_, theirs) in STEPS {
        run(path, &theirs.replace("@/", "mirror/"));
    }
    let expected = listing(path, "mirror");
    assert!(
        expected.contains("user.new") && expected.contains("etc/motd|f|741|") && !expected.contains("group-"),
        "{expected}"
    );
    let before = noise(3 << 14, 9);
    for (number, (mkfs, options, judged)) in [
        ("-e 16K --size 1M", "", "-l"),
        ("-e 128K --size 2M -n --endian big --compress lzo", "--erase-size 128K --compress lzo", "-b"),
        ("-e 64K --compress none", "--size 2M --compress none", "-l"),
        ("-e 16K -n --size 1M", "--erase-size 16K --page-size 512 --oob-size 16", "-l -d 512 -o 16"),
        (
            "-e 128K -n --size 2M --compress rtime",
            "--erase-size 128K --page-size 2048 --oob-size 64 --compress size",
            "-l -d 2048 -o 64",
        ),
        ("-e 16K --size 1M", "--offset 48K --size 1M --compress priority", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let image = format!("i{number}");
        let words: Vec<&str> = mkfs.split(' ').collect();
        succeeds(path, &[&["mkfs", "jffs2", "--from", "tree", &image], words.as_slice()].concat());
        if judged.ends_with(|last: char| last.is_ascii_digit()) {
            let sizes: Vec<usize> = judged.split(' ').filter_map(|word| word.parse().ok()).collect();
            let plain = fs::read(path.join(&image)).expect("reads");
            let pages = plain.chunks(sizes[0]).flat_map(|page| page.iter().copied().chain(vec![0xFF; sizes[1]]));
            fs::write(path.join(&image), pages.collect::<Vec<u8>>()).expect("writes");
        }
        if judged.is_empty() {
            let plain = fs::read(path.join(&image)).expect("reads");
            fs::write(path.join(&image), [&before[..], &plain, &before].concat()).expect("writes");
        }
        run(path, &format!("chmod 604 {image}"));
        for (ours, _) in STEPS {
            let line = ours.replace('@', &format!("{image} {options}"));
            run(path, &format!("SOURCE_DATE_EPOCH=1600000000 {binary} {line}"));
        }
        let opened = options.split_once("--compress").map_or(options, |(opened, _)| opened);
        run(path, &format!("{binary} check {image} {opened} && {binary} extract {image} out{number} {opened}"));
        let found = listing(path, &format!("out{number}"));
        assert_eq!(found, expected, "{mkfs} {options}");
        run(path, &format!("diff -r --no-dereference -x pipe mirror out{number}"));
        assert_eq!(fs::metadata(path.join(&image)).expect("there").permissions().mode() & 0o777, 0o604, "{image}");
        if judged.is_empty() {
            let now = fs::read(path.join(&image)).expect("reads");
            assert!(now.starts_with(&before) && now.ends_with(&before), "outside the region nothing changes");
            assert_eq!(now.len(), 2 * before.len() + (1 << 20));
        } else {
            judge(path, &image, judged);
        }
    }
    assert_eq!(
        fs::read_dir(path).expect("lists").flatten().filter(|entry| entry.path().extension().is_some()).count(),
        0
    );
}

#[test]
fn jffs2dump_knows_every_node_of_our_images() {
    let directory = with_trees();
    let path = directory.path();
    for order in ["little", "big"] {
        for compress in ["zlib", "lzo", "rtime", "none", "zlib,lzo,rtime"] {
            let words = ["mkfs", "jffs2", "--from", "tree", "--force", "i", "--endian", order, "--compress", compress];
            let option = if order == "big" { "-b" } else { "-l" };
            succeeds(path, &[&words[..], &["--summary", "-e", "8K"]].concat());
            judge(path, "i", option);
            let info = run(path, &format!("jffs2dump -c {option} i"));
            assert!(info.matches("Inode Sum").count() > 1, "{info}");
            succeeds(path, &words);
            judge(path, "i", option);
        }
    }
    // The judge has eyes.
    let mut image = fs::read(path.join("i")).expect("reads");
    crate::common::jffs2::flip(&mut image, b"passwd");
    fs::write(path.join("i"), image).expect("writes");
    assert!(std::panic::catch_unwind(|| judge(path, "i", "-b")).is_err());
}

#[test]
fn an_image_is_changed_whole_or_not_at_all() {
    let directory = with_trees();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "16K", "--size", "512K", "i"]);
    let good = fs::read(path.join("i")).expect("reads");
    fs::write(path.join("huge"), noise(600_000, 7)).expect("a file");
    run(path, "ln -s i link && head -c 100 huge > junk && mkdir folder && mv huge folder");
    let refused = |arguments: &[&str], status: i32, expected: &[&str]| {
        let outcome = nandkit(path, arguments);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(status), ""), "{arguments:?}: {}", outcome.stderr);
        for part in expected {
            assert!(outcome.stderr.contains(part), "{part:?} is not in {arguments:?}: {}", outcome.stderr);
        }
    };
    for (arguments, expected) in [
        (
            vec!["put", "i", "-r", "folder", "/", "--compress", "none"],
            vec!["585.9 KiB", "are free", "Nothing was changed", "--size"],
        ),
        (vec!["put", "i", "folder", "/"], vec!["-r"]),
        (vec!["put", "i", "big", "/no/where"], vec!["/no/where", "not found"]),
        (vec!["put", "i", "big", "/lib64"], vec!["/lib64", "exists already"]),
        (vec!["rm", "i", "/etc/group", "/etc/init"], vec!["/etc/init", "-r"]),
        (vec!["rm", "i", "-r", "/"], vec!["invalid argument"]),
        (vec!["mv", "i", "/etc", "/etc/init"], vec!["/etc", "invalid argument"]),
        (vec!["mv", "i", "-n", "/etc/passwd", "/etc/group"], vec!["exists already"]),
        (vec!["mkdir", "i", "/etc"], vec!["/etc", "exists already"]),
        (vec!["ln", "i", "/etc", "/x"], vec!["is a directory"]),
        (vec!["chmod", "i", "u+q", "/etc"], vec!["u+q", "octal"]),
        (vec!["chown", "i", "nobody-of-this-name", "/etc"], vec!["/etc/passwd"]),
        (vec!["chown", "i", "70000", "/etc"], vec!["70000", "65535"]),
        (vec!["setfattr", "i", "-n", "user.x", "-v", "0x123", "/etc"], vec!["0x123", "even"]),
        (vec!["setfattr", "i", "-x", "user.none", "/etc"], vec!["no such attribute"]),
        (vec!["put", "junk", "big", "/"], vec!["junk"]),
        (vec!["rm", "i", "/etc/group", "--compress", "lzma"], vec!["lzma", "zlib"]),
    ] {
        refused(&arguments, 2, &expected);
        assert!(fs::read(path.join("i")).expect("reads") == good, "{arguments:?}");
    }
    let told = succeeds(path, &["rm", "i", "--dry-run", "/etc/group", "/etc/passwd"]);
    assert!(told.starts_with("would remove /etc/group\nwould remove /etc/passwd\n"), "{told}");
    assert!(fs::read(path.join("i")).expect("reads") == good);
    // One writer at a time, and none while somebody reads.
    let reader = File::open(path.join("i")).expect("opens");
    reader.lock_shared().expect("locks");
    refused(&["rm", "i", "/etc/group"], 2, &["in use"]);
    reader.unlock().expect("unlocks");
    // A name, which the mount sees, and a file's data, which only reading the inode tells.
    let word = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().expect("four bytes"));
    let mut inodes = (0..good.len() - 68).step_by(4).filter(|at| word(*at) == 0xE002_1985);
    let data = inodes.find(|at| word(at + 48) > 100).expect("a file's data") + 68;
    let name = good.windows(6).position(|window| window == b"passwd").expect("the name");
    for place in [name, data] {
        let mut damaged = good.clone();
        damaged[place] ^= 0x10;
        fs::write(path.join("d"), &damaged).expect("writes");
        refused(&["rm", "d", "/etc/group"], 1, &["damaged", "--repair"]);
        assert!(fs::read(path.join("d")).expect("reads") == damaged);
        succeeds(path, &["rm", "d", "--even-if-damaged", "/etc/group"]);
    }
    // Through a link, the file that it leads to.
    let report = json(path, &["chown", "link", "web:adm", "/bin", "--json"]);
    assert_eq!((&report["changes"][0]["detail"], &report["dry_run"]), (&"33:4".into(), &false.into()), "{report}");
    assert!(path.join("link").is_symlink() && succeeds(path, &["ls", "-l", "i"]).contains(" 33 4 "));
    // And out again.
    succeeds(path, &["get", "i", "/etc/passwd"]);
    succeeds(path, &["get", "i", "-r", "/etc", "out"]);
    run(path, "cmp passwd tree/etc/passwd && diff -r tree/etc out && [ $(stat -c %Y passwd) = 1600000000 ]");
    refused(&["get", "i", "/etc/passwd"], 2, &["--force"]);
    assert_eq!(
        fs::metadata(path.join("i")).expect("there").uid(),
        fs::metadata(path.join("big")).expect("there").uid()
    );
}

/// 32 blocks of 16 KiB, filled so far that the new content has room only where the old one was.
#[test]
fn a_nearly_full_image_takes_a_file_again_and_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/kept"), noise(270_000, 1)).expect("a file");
    fs::write(path.join("tree/again"), noise(130_000, 2)).expect("a file");
    succeeds(
        path,
        &["mkfs", "jffs2", "--from", "tree", "i", "--erase-size", "16KiB", "--size", "512KiB", "--compress", "none"],
    );
    for round in 3..40 {
        fs::write(path.join("again"), noise(130_000, round)).expect("a file");
        succeeds(path, &["put", "i", "again", "/again", "--compress", "none"]);
    }
    let good = fs::read(path.join("i")).expect("reads");
    fs::write(path.join("more"), noise(180_000, 1)).expect("a file");
    for _ in 0..3 {
        let outcome = exits(path, &["put", "i", "more", "/more", "--compress", "none"], 2);
        for part in ["the files take 175.8 KiB", "are free", "Nothing was changed"] {
            assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr);
        }
        assert!(fs::read(path.join("i")).expect("reads") == good);
    }
    succeeds(path, &["get", "i", "-r", "/", "out"]);
    run(path, "cmp out/kept tree/kept && cmp out/again again");
    succeeds(path, &["rm", "i", "/again"]);
    succeeds(path, &["put", "i", "more", "/more", "--compress", "none"]);
    succeeds(path, &["check", "i"]);
}

/// A limit on the size of files, beyond which a write ends the process, stands in for kill -9 in
/// the middle.
#[test]
fn what_a_killed_command_leaves_goes_with_the_next_one() {
    let directory = with_trees();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "16K", "--size", "2M", "v.img"]);
    let before = fs::read(path.join("v.img")).expect("reads");
    let names = || {
        let entries = fs::read_dir(path).expect("reads").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let usual = names();
    let command = format!("ulimit -f 100; exec {} mkdir v.img /new", env!("CARGO_BIN_EXE_nandkit"));
    let output = Command::new("sh").args(["-c", &command]).current_dir(path).output().expect("sh runs");
    assert_eq!(output.status.code(), None, "a signal ends it: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(), [&[".v.img.nandkit-new".to_owned()], &usual[..]].concat());
    assert!(fs::read(path.join("v.img")).expect("reads") == before);
    succeeds(path, &["mkdir", "v.img", "/new"]);
    assert_eq!(names(), usual);
    assert_eq!(succeeds(path, &["ls", "v.img", "/"]).lines().filter(|line| *line == "new").count(), 1);
}

#[test]
fn a_slash_behind_a_link_removes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "mkdir -p tree/d && echo x > tree/d/f && ln -s d tree/to-directory && ln -s d/f tree/to-file");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "64K", "--size", "1M", "i"]);
    let before = fs::read(path.join("i")).expect("reads");
    for name in ["/to-directory/", "/to-file/", "/d/f/"] {
        for more in [&[][..], &["-r"]] {
            tells(path, &[&["rm", "i", name], more].concat(), 2, "cannot remove: Not a directory");
            // As rm(1) has it.
            let theirs = Command::new("rm").args(more).arg(format!("tree{name}")).env("LC_ALL", "C").output();
            let theirs = theirs.expect("rm runs");
            assert!(!theirs.status.success() && path.join("tree").join(&name[1..name.len() - 1]).exists());
        }
    }
    assert!(fs::read(path.join("i")).expect("reads") == before);
    succeeds(path, &["rm", "i", "-r", "/d/"]);
    assert_eq!(succeeds(path, &["ls", "i"]), "to-directory\nto-file\n");
}
