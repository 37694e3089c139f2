//! How mounts end, and what becomes of an image that somebody moves, removes, or for which there is
//! no room.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::mounted::Mount;
use crate::common::{noise, succeeds, tells};

fn with_image() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("empty")).expect("a directory");
    succeeds(directory.path(), &["mkfs", "jffs2", "--from", "empty", "-e", "64K", "--size", "12M", "i"]);
    directory
}

fn sh(directory: &Path, command: &str) -> bool {
    Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .env("NOISE", noise::file())
        .status()
        .expect("sh runs")
        .success()
}

fn cat(directory: &Path, name: &str) -> String {
    succeeds(directory, &["cat", "i", name])
}

#[test]
fn umount_returns_when_the_image_is_whole() {
    let directory = with_image();
    let path = directory.path();
    fs::create_dir(path.join("mnt")).expect("a directory");
    for round in 0..5 {
        // In the background: nobody else waits for it.
        succeeds(path, &["mount", "i", "mnt", "--rw"]);
        // By another process: one that another test is about to start would have this one's open
        // file for a moment, and the volume were busy.
        assert!(sh(path, &format!("printf 'round {round}' > mnt/f")));
        succeeds(path, &["umount", "mnt"]);
        assert_eq!(cat(path, "f"), format!("round {round}"));
    }
    tells(path, &["umount", "mnt"], 2, "no image is mounted there by nandkit");
    succeeds(path, &["mount", "i", "mnt"]);
    let user = fs::File::open(path.join("mnt/f")).expect("open");
    tells(path, &["umount", "mnt"], 1, "it is in use");
    succeeds(path, &["umount", "--lazy", "mnt"]);
    drop(user);
}

#[test]
fn an_image_below_its_own_mount_point_is_changed_like_others() {
    let directory = with_image();
    let path = directory.path();
    fs::create_dir(path.join("mnt")).expect("a directory");
    fs::rename(path.join("i"), path.join("mnt/i")).expect("renamed");
    let mount = Mount::start(path, "mnt/i", &["--rw"]);
    fs::write(path.join("mnt/f"), "new").expect("written");
    assert!(sh(path, "sync mnt/f"));
    assert_eq!(mount.unmount(), Some(0));
    assert_eq!(succeeds(path, &["cat", "mnt/i", "f"]), "new");
}

#[test]
fn an_image_that_is_moved_away_is_not_changed_and_programs_are_told() {
    let directory = with_image();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    fs::write(path.join("mnt/f"), "kept").expect("written");
    assert!(sh(path, "sync mnt/f"));
    fs::rename(path.join("i"), path.join("elsewhere")).expect("renamed");
    fs::write(path.join("mnt/g"), "in memory").expect("taken into memory");
    assert!(!sh(path, "sync mnt/g 2> /dev/null"), "nothing says that the image is gone");
    assert!(fs::write(path.join("mnt/h"), "x").is_err(), "what cannot be kept is taken");
    fs::rename(path.join("elsewhere"), path.join("i")).expect("renamed");
    std::thread::sleep(Duration::from_millis(1100));
    fs::write(path.join("mnt/h"), "x").expect("it is back");
    assert!(sh(path, "sync mnt/h"));
    assert_eq!(mount.unmount(), Some(1), "the failure is told at the end");
    assert_eq!((cat(path, "f"), cat(path, "g"), cat(path, "h")), ("kept".into(), "in memory".into(), "x".into()));
}

#[test]
fn an_image_that_is_shortened_is_told_to_programs_and_ends_no_mount() {
    let directory = with_image();
    let path = directory.path();
    // Nothing that compresses: it is to lie behind what is left of the image.
    let content: Vec<u8> = (0..1u32 << 18).flat_map(|at| at.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect();
    let mount = Mount::start(path, "i", &["--rw"]);
    fs::write(path.join("mnt/f"), &content).expect("written");
    fs::write(path.join("mnt/first"), "at the beginning").expect("written");
    assert_eq!(mount.unmount(), Some(0));
    let whole = fs::read(path.join("i")).expect("read");
    for options in [&[][..], &["--rw"], &["--overlay", "changes"]] {
        let mount = Mount::start(path, "i", options);
        fs::OpenOptions::new().write(true).open(path.join("i")).expect("open").set_len(70_000).expect("cut off");
        let error = fs::read(path.join("mnt/f")).err().and_then(|error| error.raw_os_error());
        assert_eq!(error, Some(5), "{options:?}");
        assert_eq!(fs::read_dir(path.join("mnt")).expect("it lives").count(), 2, "{options:?}");
        if options == ["--rw"] {
            assert!(!sh(path, "(echo lost > mnt/g && sync mnt/g) 2> /dev/null"), "nothing says that the image is gone");
        }
        assert_eq!(fs::metadata(path.join("i")).expect("there").len(), 70_000, "it was written");
        // Where nothing was taken to be kept, nothing was lost.
        let status = mount.unmount();
        assert!(matches!(status, Some(0 | 1)), "{options:?}: {status:?}");
        fs::write(path.join("i"), &whole).expect("restored");
    }
    assert_eq!(cat(path, "first"), "at the beginning");
}

#[test]
fn a_disk_without_room_for_the_journal_stops_changes_and_loses_nothing() {
    let directory = with_image();
    let path = directory.path();
    fs::create_dir(path.join("small")).expect("a directory");
    assert!(sh(path, "mount -t tmpfs -o size=13m tmpfs small && cp i small/i && rm i"));
    let mount = Mount::start(path, "small/i", &["--rw"]);
    fs::write(path.join("mnt/f"), "kept").expect("written");
    assert!(sh(path, "sync mnt/f"));
    let large = "head -c 3000000 $NOISE > mnt/large && sync mnt/large";
    assert!(!sh(path, &format!("{large} 2> /dev/null")), "there is no room for its journal");
    assert!(fs::write(path.join("mnt/more"), "x").is_err());
    assert!(sh(path, "mount -o remount,size=64m small"));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(sh(path, &large.replace("large", "again")), "there is room again");
    assert_eq!(mount.unmount(), Some(1));
    succeeds(path, &["check", "small/i"]);
    assert_eq!(succeeds(path, &["cat", "small/i", "f"]), "kept");
    assert!(sh(path, "rm small/i; umount small"));
}

#[test]
fn a_signal_ends_a_mount_whose_directory_was_renamed_and_a_second_one_leaves_no_dead_mount() {
    let directory = with_image();
    let path = directory.path();
    fs::create_dir(path.join("above")).expect("a directory");
    fs::rename(path.join("i"), path.join("above/i")).expect("renamed");
    let mount = Mount::start(&path.join("above"), "i", &["--rw"]);
    fs::rename(path.join("above"), path.join("renamed")).expect("renamed");
    fs::write(path.join("renamed/mnt/f"), "x").expect("written");
    mount.signal("TERM");
    assert_eq!(mount.wait(), Some(0));
    assert_eq!(succeeds(path, &["cat", "renamed/i", "f"]), "x");

    let mount = Mount::start(&path.join("renamed"), "i", &["--rw"]);
    let user = fs::File::open(path.join("renamed/mnt/f")).expect("open");
    mount.signal("INT");
    // Two at once would be one.
    std::thread::sleep(Duration::from_secs(2));
    mount.signal("INT");
    // The first alone ends the mount as well, once nobody uses it.
    let giving_up = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(20));
        drop(user);
    });
    assert_eq!(mount.wait(), Some(130));
    drop(giving_up);
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read");
    let ours = path.canonicalize().expect("a path").display().to_string();
    assert!(!mounts.lines().any(|line| line.contains(&ours)), "a dead mount is left");
}

/// Starts `exec` with a command that says when it runs.
fn begin(directory: &Path, script: &str) -> std::process::Child {
    let ready = directory.join("ready");
    let _ = fs::remove_file(&ready);
    let script = script.replace("READY", "touch \"$OLDPWD/ready\"");
    // Whoever runs the tests may have signals ignored, as nohup and background jobs have, and
    // nandkit leaves those so.
    let child = Command::new("env")
        .args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_nandkit")])
        .args(["exec", "--fs", "jffs2", "--device", "nandsim-32m-16k", "--", "sh", "-c", &script])
        .current_dir(directory)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let end = Instant::now() + Duration::from_secs(60);
    while !ready.exists() {
        assert!(Instant::now() < end, "the command does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn exec_hands_signals_on_and_tells_what_the_command_cost() {
    let directory = tempfile::tempdir().expect("a directory");
    for (signal, script, expected) in [
        ("TERM", "trap 'echo ended > f; exit 5' TERM; READY; while :; do sleep 0.1; done", 5),
        ("HUP", "trap 'exit 6' HUP; READY; while :; do sleep 0.1; done", 6),
        ("TERM", "READY; while :; do sleep 0.1; done", 143),
        // Of the terminal's the command hears itself.
        ("INT", "READY; sleep 1; exit 7", 7),
        ("QUIT", "READY; sleep 1; exit 8", 8),
    ] {
        let child = begin(directory.path(), script);
        let id = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("kill runs").success());
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{signal}, {script}: {told}");
        assert!(told.contains("device time"), "{signal}: {told}");
    }
}

#[test]
fn holes_are_told() {
    use rustix::fs::{SeekFrom, seek};
    let directory = with_image();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let file = fs::File::options().read(true).write(true).create_new(true).open(path.join("mnt/f")).expect("made");
    std::os::unix::fs::FileExt::write_all_at(&file, b"first", 0).expect("written");
    std::os::unix::fs::FileExt::write_all_at(&file, b"second", 1 << 20).expect("written");
    file.set_len(3 << 20).expect("longer");
    let data = |from| seek(&file, SeekFrom::Data(from)).ok();
    let hole = |from| seek(&file, SeekFrom::Hole(from)).ok();
    assert_eq!((data(0), data(1 << 20), data((1 << 20) + 4096), data(3 << 20)), (Some(0), Some(1 << 20), None, None));
    // A piece of data may have zeroes around it.
    assert!((5..=4096).contains(&hole(0).expect("a hole")), "{:?}", hole(0));
    assert!(((1 << 20) - 4096..=1 << 20).contains(&data(8192).expect("data")), "{:?}", data(8192));
    assert!(((1 << 20) + 6..=(1 << 20) + 4096).contains(&hole(1 << 20).expect("a hole")), "{:?}", hole(1 << 20));
    assert_eq!((hole(2 << 20), hole(3 << 20)), (Some(2 << 20), None));
    drop(file);
    assert_eq!(mount.unmount(), Some(0));
}
