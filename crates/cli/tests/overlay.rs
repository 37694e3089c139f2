//! Overlays: the image stays as it is, and the changes go into it as a whole or nowhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::mounted::{Mount, dead_mount};
use crate::common::{exits, fsck_vfat, nandkit, noise, succeeds, tells};

fn sh(directory: &Path, command: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let status = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .env("NOISE", noise::file())
        .current_dir(directory)
        .status();
    assert!(status.expect("sh runs").success(), "{command}");
}

/// Makes one byte another one, whatever it was.
fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("read");
    bytes[at] ^= 0xFF;
    fs::write(file, bytes).expect("written");
}

/// An image `i` with a small tree, and a copy of it.
fn with_image(is_jffs2: bool) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    sh(
        path,
        "mkdir -p tree/d && echo old > tree/d/changed && echo gone > tree/gone && head -c 200000 $NOISE > tree/large",
    );
    match is_jffs2 {
        true => drop(succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "64K", "--size", "4M", "i"])),
        false => sh(path, "mkfs.vfat -C i 8192 > /dev/null && mcopy -s -i i tree/d tree/gone tree/large ::"),
    }
    sh(path, "cp i before");
    directory
}

fn change(directory: &Path) {
    let mount = Mount::start(directory, "i", &["--overlay", "o"]);
    sh(
        directory,
        "echo new > mnt/d/changed && rm mnt/gone && mkdir mnt/e && dd if=$NOISE of=mnt/e/added bs=300000 skip=1 count=1 status=none && cp mnt/e/added .",
    );
    assert_eq!(mount.unmount(), Some(0));
    assert_eq!(fs::read(directory.join("i")).expect("read"), fs::read(directory.join("before")).expect("read"));
}

#[test]
fn changes_stay_beside_the_image_until_they_are_applied() {
    for is_jffs2 in [true, false] {
        let directory = with_image(is_jffs2);
        let path = directory.path();
        change(path);
        assert!(succeeds(path, &["ls", "i"]).contains("gone"));
        assert_eq!(succeeds(path, &["cat", "i", "d/changed", "--overlay", "o"]), "new\n");
        let told = nandkit(path, &["overlay", "diff", "i", "o"]);
        assert_eq!((told.stdout.as_str(), told.status), ("M d/changed\nA e\nD gone\n", Some(1)), "{}", told.stderr);
        let told = nandkit(path, &["overlay", "diff", "i", "o", "--json"]);
        let changes: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!((&changes[2]["path"], &changes[2]["change"], told.status), (&"/gone".into(), &"D".into(), Some(1)));
        let room = fs::metadata(path.join("o")).expect("there");
        assert!(std::os::unix::fs::MetadataExt::blocks(&room) * 512 < 2_000_000, "the overlay is not sparse");
        // Another mount goes on with it.
        let mount = Mount::start(path, "i", &["--overlay", "o"]);
        sh(path, "cmp mnt/e/added added && echo more > mnt/more");
        assert_eq!(mount.unmount(), Some(0));
        succeeds(path, &["check", "i", "--overlay", "o"]);
        succeeds(path, &["overlay", "apply", "i", "o"]);
        assert!(!path.join("o").exists());
        succeeds(path, &["check", "i"]);
        if !is_jffs2 {
            fsck_vfat(path, "i");
        }
        let mount = Mount::start(path, "i", &[]);
        sh(path, "cmp mnt/e/added added && grep -q new mnt/d/changed && grep -q more mnt/more && test ! -e mnt/gone");
        assert_eq!(mount.unmount(), Some(0));
    }
}

#[test]
fn what_was_synced_into_an_overlay_outlives_a_killed_process() {
    let directory = with_image(true);
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--overlay", "o"]);
    sh(path, "echo kept > mnt/kept && sync mnt/kept && echo lost > mnt/lost");
    let dead = dead_mount();
    mount.signal("KILL");
    mount.wait();
    sh(path, "umount -l mnt");
    drop(dead);
    assert_eq!(succeeds(path, &["cat", "i", "kept", "--overlay", "o"]), "kept\n");
    succeeds(path, &["check", "i", "--overlay", "o"]);
    succeeds(path, &["overlay", "discard", "o"]);
    assert!(!path.join("o").exists());
    assert!(!succeeds(path, &["ls", "i"]).contains("kept"));
}

#[test]
fn an_overlay_belongs_to_one_image() {
    let directory = with_image(true);
    let path = directory.path();
    change(path);
    sh(path, "cp o again && cp i other && echo nonsense > text");
    flip(&path.join("other"), 70_000);
    for (arguments, expected) in [
        (&["ls", "other", "--overlay", "o"][..], "expected the image for which the overlay was made"),
        (&["overlay", "apply", "other", "o"], "expected the image for which the overlay was made"),
        (&["overlay", "diff", "i", "text"], "text"),
        (&["overlay", "discard", "text"], "expected an overlay"),
        (&["overlay", "discard", "nothing"], "nothing"),
        (&["ls", "i", "--overlay", "nothing"], "nothing"),
        (&["rm", "other", "gone", "--overlay", "o"], "expected the image for which the overlay was made"),
    ] {
        tells(path, arguments, 2, expected);
    }
    assert!(path.join("text").exists() && path.join("o").exists() && !path.join("nothing").exists());
    succeeds(path, &["overlay", "apply", "i", "o"]);
    assert!(!path.join("o").exists());
    // Of an overlay that was never applied, nobody can say that an image has its changes.
    exits(path, &["overlay", "apply", "i", "again"], 2);
    assert!(path.join("again").exists());
}

#[test]
fn an_overlay_on_a_full_disk_goes_on_once_there_is_room() {
    let directory = with_image(true);
    let path = directory.path();
    sh(path, "mkdir small && mount -t tmpfs -o size=1m tmpfs small");
    let mount = Mount::start(path, "i", &["--overlay", "small/o"]);
    sh(path, "echo kept > mnt/kept && sync mnt/kept");
    sh(
        path,
        "dd if=$NOISE of=new bs=1500000 skip=1 count=1 status=none && cp new mnt/new && ! sync mnt/new 2> /dev/null",
    );
    sh(path, "! echo more > mnt/more 2> /dev/null");
    sh(path, "mount -o remount,size=64m small && sleep 1.1 && echo more > mnt/more && sync mnt/more");
    assert_eq!(mount.unmount(), Some(1), "the failure is told at the end");
    sh(path, "cp small/o o && umount small");
    for (name, expected) in
        [("kept", b"kept\n".to_vec()), ("more", b"more\n".to_vec()), ("new", fs::read(path.join("new")).expect("read"))]
    {
        succeeds(path, &["get", "i", name, "got", "--overlay", "o", "--force"]);
        assert!(fs::read(path.join("got")).expect("read") == expected, "{name}");
    }
}

#[test]
fn an_overlay_without_changes_is_not_applied_to_another_image() {
    let directory = with_image(true);
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--overlay", "o"]);
    assert_eq!(mount.unmount(), Some(0));
    sh(path, "cp i other");
    flip(&path.join("other"), 70_000);
    exits(path, &["overlay", "apply", "other", "o"], 2);
    assert!(path.join("o").exists());
    succeeds(path, &["overlay", "apply", "i", "o"]);
}
