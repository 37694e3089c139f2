//! `nandkit doctor`, on machines that lack something. Needs root, and util-linux for what they
//! lack.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::mounted::cleaning_dead_mounts;
use crate::common::{ProgramRun, nandkit, on_disk, succeeds};
use serde_json::Value;

/// A script of sh in which `$N` is the program.
fn sh(directory: &Path, script: &str) -> ProgramRun {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(directory).env("N", env!("CARGO_BIN_EXE_nandkit"));
    // It may be below `/dev`, which some scripts hide.
    command.env_remove("TMPDIR");
    let output = command.stdin(Stdio::null()).output().expect("sh runs");
    ProgramRun {
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn with_image() -> tempfile::TempDir {
    let directory = on_disk();
    fs::create_dir(directory.path().join("mnt")).expect("a directory");
    succeeds(directory.path(), &["mkfs", "jffs2", "--from", "mnt", "-e", "64K", "--size", "1M", "i"]);
    // Others may use it, too.
    assert_eq!(sh(directory.path(), "chmod 755 . && chown 65534 mnt").status, Some(0));
    directory
}

/// A machine on which everybody may open the device; what is to be done there follows, and a quote.
const OPEN: &str =
    "unshare -m sh -c 'mount -t tmpfs none /dev && mknod -m 666 /dev/fuse c 10 229 && mknod -m 666 /dev/null c 1 3 &&";
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

#[test]
fn what_a_mount_lacks_is_told_with_what_to_do_and_what_works_without() {
    let directory = with_image();
    let path = directory.path();
    let no_device = "unshare -m sh -c 'mount -t tmpfs none /dev && WORD'";
    let no_right = "setpriv --bounding-set -sys_admin WORD";
    let no_run = "touch none && chmod 644 none; OPEN mount --bind none /usr/bin/fusermount3 && BOTH NOBODY WORD'";
    let both = if Path::new("/usr/bin/fusermount").exists() { "mount --bind none /usr/bin/fusermount &&" } else { "" };
    let no_run = no_run.replace("OPEN", OPEN).replace("BOTH", both).replace("NOBODY", NOBODY);
    for (lacking, expected) in [
        (no_device, &["there is no /dev/fuse", "modprobe fuse", "--device /dev/fuse"][..]),
        (no_right, &["CAP_SYS_ADMIN", "--cap-add SYS_ADMIN"]),
        (&no_run, &["fusermount3", "Debian package fuse3"]),
    ] {
        let doctor = sh(path, &lacking.replace("WORD", "\"$N\" doctor"));
        assert_eq!(doctor.status, Some(0), "{}", doctor.stderr);
        assert!(doctor.stdout.contains("mount, exec   not possible"), "{lacking}: {}", doctor.stdout);
        let json = sh(path, &lacking.replace("WORD", "\"$N\" doctor --json")).stdout;
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["fuse"], false);
        for command in ["mount i mnt", "mount i mnt --foreground", "exec --device ram -- true"] {
            let outcome = sh(path, &lacking.replace("WORD", &format!("\"$N\" {command}")));
            assert_eq!(outcome.status, Some(2), "{lacking}, {command}: {}", outcome.stderr);
            for part in expected.iter().chain(&["serve", "check", "extract", "put"]) {
                assert!(outcome.stderr.contains(part), "{command}, {part}: {}", outcome.stderr);
                assert!(doctor.stdout.contains(part), "{part}: {}", doctor.stdout);
            }
        }
        // What is said to work does.
        let outcome = sh(path, &lacking.replace("WORD", "\"$N\" check i"));
        assert_eq!(outcome.status, Some(0), "{lacking}: {}", outcome.stderr);
    }
    for (user, expected) in [("", "root may mount"), (NOBODY, "fusermount3 can mount for this user")] {
        let told = sh(path, &format!("{OPEN} {user} \"$N\" doctor'")).stdout;
        assert!(told.contains("mount, exec   possible") && told.contains(expected), "{told}");
    }
}

#[test]
fn a_refusal_says_what_would_be_right() {
    let directory = with_image();
    // What fusermount3 says is told, and that it is not set-user-id.
    let copied =
        "cp /usr/bin/fusermount3 . && export PATH=\"$PWD:$PATH\"; OPEN NOBODY \"$N\" mount i mnt --foreground'";
    let outcome = sh(directory.path(), &copied.replace("NOBODY", NOBODY).replace("OPEN", OPEN));
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("fusermount3: mount failed: Operation not permitted"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("set-user-id"), "{}", outcome.stderr);
}

#[test]
fn a_mount_whose_process_has_gone_is_known_though_its_number_is_used_again() {
    let directory = with_image();
    let path = directory.path();
    let point = path.join("mnt").canonicalize().expect("a path").display().to_string();
    // The number is that of a process that lives, and began at another time.
    let source = format!("nandkit:{}:1", std::process::id());
    let mount =
        format!("exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 {source} mnt");
    let _cleaning = cleaning_dead_mounts();
    assert_eq!(sh(path, &mount).status, Some(0));
    assert!(succeeds(path, &["doctor"]).contains(&format!("{point}: a mount of process")));
    let cleaned = succeeds(path, &["doctor", "--clean"]);
    let line = cleaned.lines().find(|line| line.starts_with(&point)).expect("the mount is told");
    assert!(line.ends_with("which no longer exists; removed"), "{line}");
    assert!(fs::read_dir(path.join("mnt")).is_ok());
}

#[test]
fn directories_that_a_killed_exec_left_are_removed_and_no_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let temporary = path.join("tmp");
    for name in ["nandkit-exec-full", "nandkit-exec-other", "nandkit-exec-empty", "nandkit-docs"] {
        fs::create_dir_all(temporary.join(name)).expect("a directory");
    }
    fs::write(temporary.join("nandkit-exec-full/f"), "x").expect("a file");
    fs::write(temporary.join("nandkit-exec-file"), "").expect("a file");
    std::os::unix::fs::chown(temporary.join("nandkit-exec-other"), Some(65_534), None).expect("another owner");
    let program = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandkit"));
        command.args(words).current_dir(path).env("TMPDIR", &temporary);
        command
    };
    let exec = ["exec", "--device", "ram", "--", "sh", "-c", "touch \"$OLDPWD/ready\"; exec sleep 60"];
    let mut child = program(&exec).stderr(Stdio::null()).spawn().expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    while !path.join("ready").exists() {
        assert!(Instant::now() < end, "the command does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let names = || {
        let entries = fs::read_dir(&temporary).expect("a listing").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let found = |clean: &[&str]| -> (Value, Value) {
        let output = program(&[&["doctor", "--json"], clean].concat()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (value["left_directories"].clone(), value["dead_mounts"].clone())
    };
    let empty = temporary.join("nandkit-exec-empty").display().to_string();
    // That of the living process is not among them, neither where its mount is seen nor where only
    // its directory is.
    assert_eq!(found(&[]).0, serde_json::json!([{"path": empty, "removed": false}]));
    let hidden = program(&["doctor", "--json"]).get_program().to_owned();
    let mut elsewhere = Command::new("unshare");
    let script = "umount -l \"$TMPDIR\"/nandkit-exec-??????; exec \"$N\" doctor --json";
    elsewhere.args(["-m", "sh", "-c", script]).env("N", hidden).env("TMPDIR", &temporary).current_dir(path);
    let output = elsewhere.stderr(Stdio::null()).output().expect("unshare runs");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["left_directories"], serde_json::json!([{"path": empty, "removed": false}]));
    let _cleaning = cleaning_dead_mounts();
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let (left, dead) = found(&["--clean"]);
    assert_eq!(left.as_array().map(Vec::len), Some(2), "{left}");
    assert!(left.as_array().expect("a list").iter().all(|one| one["removed"] == true), "{left}");
    assert!(dead.as_array().expect("a list").iter().any(|one| one["removed"] == true), "{dead}");
    assert_eq!(names(), ["nandkit-docs", "nandkit-exec-file", "nandkit-exec-full", "nandkit-exec-other"]);
    assert_eq!(nandkit(path, &["doctor"]).status, Some(0));
}
