//! Mounts by a user who is not root, by way of fusermount3. Needs root to become that user, and to
//! give everybody the kernel's device as udev does.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{on_disk, succeeds};

/// Runs a script as user 65534; it finds the program in `$N`.
fn as_nobody(directory: &Path, script: &str) -> (Option<i32>, String) {
    fs::write(directory.join("script"), script).expect("a script");
    let machine = "mount -t tmpfs none /dev && mknod -m 666 /dev/fuse c 10 229 && mknod -m 666 /dev/null c 1 3 && if [ -e fuse.conf ]; then mount --bind fuse.conf /etc/fuse.conf; fi && if [ -e as-root ]; then sh ./as-root & fi && exec setpriv --reuid 65534 --regid 65534 --clear-groups sh ./script 2>&1";
    let output = Command::new("timeout")
        .args(["-k", "5", "60", "unshare", "-m", "sh", "-c", machine])
        .current_dir(directory)
        .env("N", env!("CARGO_BIN_EXE_nandkit"))
        // It may be below `/dev`.
        .env_remove("TMPDIR")
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// An image and a mount point that belong to that user.
fn with_image() -> tempfile::TempDir {
    let directory = on_disk();
    let path = directory.path();
    fs::create_dir(path.join("mnt")).expect("a directory");
    succeeds(path, &["mkfs", "jffs2", "--from", "mnt", "-e", "64K", "--size", "4M", "i"]);
    for name in ["mnt", "i", ""] {
        std::os::unix::fs::chown(path.join(name), Some(65_534), Some(65_534)).expect("another owner");
    }
    directory
}

#[test]
fn nobody_mounts_changes_and_unmounts() {
    let directory = with_image();
    let path = directory.path();
    let script = r#"set -e
        "$N" mount i mnt --rw
        grep " $PWD/mnt fuse.nandkit rw" /proc/mounts | grep -q user_id=65534
        echo hello > mnt/f; mkdir mnt/d; mv mnt/f mnt/d/f; ln -s d/f mnt/l; cat mnt/l; stat -c %u mnt/d/f
        cd mnt/d; status=0; "$N" umount ../../mnt 2> "$OLDPWD/told" || status=$?; cd ../..
        echo "status $status"; cat told
        "$N" umount mnt
        "$N" cat i d/f
        "$N" mount i mnt; cat mnt/d/f; fusermount3 -u mnt"#;
    let (status, told) = as_nobody(path, script);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.starts_with("hello\n65534\nstatus 1\n") && told.ends_with("hello\nhello\n"), "{told}");
    // The program's own words.
    assert!(told.contains("fusermount3: failed to unmount") && told.contains("it is in use"), "{told}");
    succeeds(path, &["check", "i"]);
}

#[test]
fn owners_that_are_shown_cannot_be_changed_by_nobody() {
    let directory = with_image();
    let script = r#"set -e
        "$N" mount i mnt --rw --uid 65534 --gid 65534
        echo x > mnt/f; chown 65534 mnt/f
        if chown 1 mnt/f; then exit 9; fi
        if chgrp 1 mnt/f; then exit 9; fi
        stat -c %u:%g mnt/f
        "$N" umount mnt"#;
    let (status, told) = as_nobody(directory.path(), script);
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(told.matches("Operation not permitted").count(), 2, "{told}");
    assert!(told.ends_with("65534:65534\n"), "{told}");
}

#[test]
fn nobody_runs_commands_on_emulated_stacks() {
    let directory = with_image();
    let script = r#"set -e
        for fs in jffs2 fat; do
            "$N" exec --fs $fs --device nandsim-32m-16k -- sh -c 'id -u; echo x > y; sync y; cat y' 2> told
            grep -q "device time" told
        done
        status=0; "$N" exec --device ram -- sh -c 'exit 7' 2> told || status=$?; echo $status"#;
    let (status, told) = as_nobody(directory.path(), script);
    assert_eq!((status, told.as_str()), (Some(0), "65534\nx\n65534\nx\n7\n"));
}

#[test]
fn others_are_let_in_where_fuse_conf_allows_it() {
    let directory = with_image();
    let path = directory.path();
    fs::write(path.join("fuse.conf"), "# nothing\n").expect("a file");
    let (status, told) = as_nobody(path, r#"exec "$N" mount i mnt --allow-other"#);
    assert_eq!(status, Some(2), "{told}");
    assert!(
        told.contains("user_allow_other") && told.contains("expected a line user_allow_other in /etc/fuse.conf"),
        "{told}"
    );
    fs::write(path.join("fuse.conf"), "user_allow_other\n").expect("a file");
    // Root, who is not the one who mounts, looks in.
    let look = "until [ -e mnt/f ]; do sleep 0.1; done; cat mnt/f > seen.new; mv seen.new seen";
    fs::write(path.join("as-root"), look).expect("a script");
    let script = r#"set -e
        "$N" mount i mnt --rw --allow-other --uid 65534 --gid 65534
        grep " $PWD/mnt fuse.nandkit " /proc/mounts | grep -q default_permissions,allow_other
        echo hello > mnt/f
        until [ -e seen ]; do sleep 0.1; done
        "$N" umount mnt; cat seen"#;
    let (status, told) = as_nobody(path, script);
    assert_eq!((status, told.as_str()), (Some(0), "hello\n"));
}
