//! F2FS images that are changed, without a mount, in place and beside an overlay; fsck.f2fs, diff
//! and tar are the judges.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::mounted::{Mount, dead_mount};
use crate::common::{exits, fsck_f2fs, nandkit, on_disk, run, succeeds, tells};

/// Neither fsck.f2fs nor `nandkit check` has a complaint of the image.
fn both_checks_are_content(directory: &Path) {
    fsck_f2fs(directory, "i");
    succeeds(directory, &["check", "i"]);
}

/// A tree, and an image of 100 MiB with it.
fn with_image(features: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    run(
        directory.path(),
        &format!(
            "mkdir -p tree/a/b && seq 200000 > tree/a/numbers && for i in $(seq 300); do echo $i > tree/a/b/$i; done && truncate -s 100M i \
             && mkfs.f2fs -q -O {features} i >/dev/null && sload.f2fs -P -f tree -t / i >/dev/null"
        ),
    );
    directory
}

/// As Android makes userdata.
const FEATURES: &str =
    "encrypt,quota,verity,extra_attr,inode_checksum,sb_checksum,project_quota,casefold,compression -C utf8";

#[test]
fn commands_change_a_volume_as_the_tools_of_their_names_change_a_tree() {
    let directory = with_image(FEATURES);
    let path = directory.path();
    let before = fs::read(path.join("i")).expect("an image");
    let both: [(&[&str], &str); 9] = [
        (&["rm", "i", "/a/b/7"], "rm tree/a/b/7"),
        (&["mv", "i", "/a/b/8", "/a/eight"], "mv tree/a/b/8 tree/a/eight"),
        (&["mkdir", "i", "/new"], "mkdir tree/new"),
        (&["put", "i", "tree/a/numbers", "/new/copy"], "cp -p tree/a/numbers tree/new/copy"),
        (&["put", "i", "-r", "tree/a", "/again"], "cp -a tree/a tree/again"),
        (&["ln", "i", "-s", "a/numbers", "/link"], "ln -s a/numbers tree/link"),
        (&["ln", "i", "/a/eight", "/ate"], "ln tree/a/eight tree/ate"),
        (&["chmod", "i", "-R", "g+w", "/a/b"], "chmod -R g+w tree/a/b"),
        (&["rm", "i", "-r", "/a/b"], "rm -r tree/a/b"),
    ];
    succeeds(path, &["rm", "i", "/a/b/7", "--dry-run"]);
    assert!(fs::read(path.join("i")).expect("an image") == before, "--dry-run changes nothing");
    for (words, command) in both {
        succeeds(path, words);
        run(path, command);
        both_checks_are_content(path);
        succeeds(path, &["extract", "i", "out"]);
        run(path, "diff -r --no-dereference tree out && rm -r out");
    }
    succeeds(path, &["setfattr", "i", "-n", "user.name", "-v", "value", "/a/numbers"]);
    succeeds(path, &["extract", "i", "--to-tar", "out.tar"]);
    assert!(run(path, "tar tvf out.tar --xattrs").contains("new/copy"));
    both_checks_are_content(path);
    let outcome = nandkit(path, &["put", "i", "-", "/no/such/directory"]);
    assert!(matches!(outcome.status, Some(1 | 2)), "{}", outcome.stderr);
}

#[test]
fn a_mounted_volume_is_changed_in_place_and_in_an_overlay() {
    let directory = with_image(FEATURES);
    let path = directory.path();
    let before = fs::read(path.join("i")).expect("an image");
    let mount = Mount::start(path, "i", &["--overlay", "over"]);
    run(path, "rm -r mnt/a/b && echo new > mnt/new");
    assert_eq!(mount.unmount(), Some(0));
    assert!(fs::read(path.join("i")).expect("an image") == before, "the changes are beside it");
    assert_eq!(succeeds(path, &["ls", "i", "--overlay", "over"]), "a\nnew\n");
    let mount = Mount::start(path, "i", &["--rw"]);
    for root in ["mnt", "tree"] {
        run(
            path,
            &format!(
                "cd {root} && cp -a a copy && rm -r a/b && mv copy/b other && seq 100000 >> a/numbers && truncate -s 50M sparse && ln a/numbers hard && sync sparse"
            ),
        );
    }
    run(path, "diff -r --no-dereference tree mnt");
    assert_eq!(mount.unmount(), Some(0));
    both_checks_are_content(path);
    let mount = Mount::start(path, "i", &[]);
    run(path, "diff -r --no-dereference tree mnt && tar cf - -C mnt --exclude=. . | tar --compare -f - -C tree");
    assert_eq!(mount.unmount(), Some(0));
}

#[test]
fn a_command_runs_in_a_volume_on_an_emulated_chip() {
    let directory = with_image(FEATURES);
    let path = directory.path();
    let before = fs::read(path.join("i")).expect("an image");
    let tree = path.join("tree");
    let command = format!(
        "diff -r {} . && rm -r a/b && seq 50000 > new && sync new && ls > {}/told",
        tree.display(),
        path.display()
    );
    let outcome = exits(path, &["exec", "--image", "i", "--json", "--", "sh", "-c", &command], 0);
    assert_eq!(fs::read_to_string(path.join("told")).expect("a list"), "a\nnew\n");
    let record: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(record["spec"]["stack"]["fs"]["kind"], "f2fs", "{record}");
    assert!(fs::read(path.join("i")).expect("an image") == before, "the image stays as it is");
}

#[test]
fn what_a_killed_process_had_synced_is_there() {
    let directory = with_image(FEATURES);
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    run(
        path,
        "cp -r mnt/a/b mnt/kept && for at in mnt/kept/*; do sync $at; done && sync mnt/kept && echo lost > mnt/lost",
    );
    let dead = dead_mount();
    mount.signal("KILL");
    let _ = mount.wait();
    run(path, "umount -l mnt; rm -f i.nandkit-journal.new; true");
    drop(dead);
    let outcome = nandkit(path, &["extract", "i", "out"]);
    // fsynced names may wait behind the checkpoint, which a reader is told; a mount for changes
    // takes them over.
    assert!(outcome.status == Some(0), "{}", outcome.stderr);
    let mount = Mount::start(path, "i", &["--rw"]);
    run(path, "diff -r tree/a/b mnt/kept && touch mnt/now && sync mnt/now");
    assert_eq!(mount.unmount(), Some(0));
    both_checks_are_content(path);
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "mkdir mnt && truncate -s 100M i && mkfs.f2fs -q -O extra_attr,ro i >/dev/null");
    for words in [&["mkdir", "i", "/new"][..], &["mount", "i", "mnt", "--rw"], &["exec", "--image", "i", "--", "true"]]
    {
        tells(path, words, 2, "it was made to be read only");
    }
    let directory = with_image("extra_attr");
    let path = directory.path();
    // An entry of the NAT is damaged: changes need a word that they are wanted.
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    for copy in [2560, 3072] {
        file.write_all_at(&[0x5A; 9], copy * 4096 + 40 * 9).expect("bytes");
    }
    let before = fs::read(path.join("i")).expect("an image");
    tells(path, &["rm", "i", "/a/numbers"], 1, "damaged");
    assert!(fs::read(path.join("i")).expect("an image") == before);
}

#[test]
fn a_change_leaves_holes_and_a_failed_one_no_overlay() {
    let directory = on_disk();
    let path = directory.path();
    succeeds(path, &["mkfs", "f2fs", "--size", "512M", "i"]);
    succeeds(path, &["mkdir", "i", "/new"]);
    let kib: u64 = run(path, "du -k i | cut -f1").trim().parse().expect("a number");
    assert!(kib < 10_000, "{kib} KiB of 512 MiB are in use");
    both_checks_are_content(path);
    exits(path, &["rm", "i", "/nothing", "--overlay", "over"], 2);
    assert!(!path.join("over").exists());
    succeeds(path, &["mkdir", "i", "/newer", "--overlay", "over"]);
    exits(path, &["rm", "i", "/nothing", "--overlay", "over"], 2);
    assert!(succeeds(path, &["ls", "i", "--overlay", "over"]).contains("newer"));
    // What was kept stays, although nobody hears of it.
    run(
        path,
        &format!("{} mkdir i /kept --overlay unheard --json >/dev/full 2>&1; true", env!("CARGO_BIN_EXE_nandkit")),
    );
    assert!(succeeds(path, &["ls", "i", "--overlay", "unheard"]).contains("kept"));
    let failed = nandkit(path, &["setfattr", "i", "-n", "user.a", "-v", &"v".repeat(4500), "/new"]);
    assert!(failed.status == Some(2) && !failed.stderr.contains("--size"), "{}", failed.stderr);
}

/// The names are in the superblock.
#[test]
fn devices_in_another_order_than_the_volumes_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "truncate -s 64M d1 d2 d3 && mkfs.f2fs -q -f -c d2 -c d3 d1 >/dev/null");
    succeeds(path, &["ls", "d1", "--devices", "d2,d3"]);
    for command in ["ls", "check", "info"] {
        tells(path, &[command, "d1", "--devices", "d3,d2"], 2, "expected this order: d2, d3");
    }
}

#[test]
fn options_that_a_volume_of_f2fs_does_not_know_are_refused() {
    let directory = with_image("extra_attr");
    let path = directory.path();
    let before = fs::read(path.join("i")).expect("an image");
    fs::create_dir(path.join("mnt")).expect("a directory");
    for (words, says) in [
        (&["rm", "i", "/a/numbers", "--compress", "lzo"][..], "f2fs cannot compress data"),
        (&["mount", "i", "mnt", "--rw", "--compress", "zlib"], "f2fs cannot compress data"),
        (&["extract", "i", "--to-tar", "tar", "--no-owners"], "--no-owners"),
    ] {
        tells(path, words, 2, says);
    }
    assert!(fs::read(path.join("i")).expect("an image") == before && !path.join("tar").exists());
}
