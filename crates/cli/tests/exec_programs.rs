//! Programs that people have, on emulated stacks: git, tar, rsync, SQLite through power cuts, fio
//! with verification.
//!
//! `NANDKIT_ROUNDS=200 cargo test --release -p nandkit-cli --test all exec_programs` makes as many
//! cuts of each database as `docs/design/soaks.md` tells of.

use nandkit_testkit::rounds;
use std::path::Path;
use std::process::Command;

use crate::common::{exits, nandkit};

const STACKS: [&[&str]; 6] = [
    &["--fs", "jffs2", "--device", "nandsim-32m-16k"],
    &["--fs", "ubifs", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-128k", "--ftl", "fast"],
    &["--fs", "f2fs", "--device", "slc-256m", "--ftl", "block-map"],
    // 300 MiB of the drive: a whole one takes seconds to be made and to be mounted behind each cut.
    &[
        "--fs",
        "f2fs",
        "--device",
        "p3-ssd",
        "--set",
        "stack.device.geometry.dies=4",
        "--set",
        "stack.device.geometry.channels=2",
        "--set",
        "stack.device.geometry.blocks=400",
    ],
];

/// Transactions of several pages, each acknowledged outside the volume once it is committed.
/// `synchronous=extra` syncs the directory as well after the journal of a rollback is removed,
/// which commits a transaction; without it SQLite promises no durability of the last one
/// (sqlite.org/pragma.html, synchronous).
const DATABASE: &str = r#"sqlite3 db "pragma journal_mode=$MODE; pragma synchronous=extra; create table t(a integer primary key, b blob)" > /dev/null || exit 1
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  sqlite3 db "pragma synchronous=extra; begin; insert into t(b) values(randomblob(3000)); update t set b=randomblob(2000) where a=$i/2; commit" > /dev/null || exit 1
  echo $i >> "$OLDPWD/acked-$NANDKIT_CUT"
done"#;

/// The database is whole, and holds each transaction that was acknowledged.
const INTEGRITY: &str = r#"touch "$OLDPWD/acked-$NANDKIT_CUT"
acked=$(wc -l < "$OLDPWD/acked-$NANDKIT_CUT")
test -e db || test "$acked" = 0 || { echo "no database, and $acked acknowledged"; exit 1; }
told=$(sqlite3 db "pragma integrity_check" 2>&1); test "$told" = ok || { echo "$told"; exit 1; }
rows=$(sqlite3 db "select count(*) from t" 2> /dev/null || echo 0)
test "$rows" -ge "$acked" || { echo "$rows rows, and $acked acknowledged"; exit 1; }"#;

#[test]
fn sqlite_keeps_what_it_acknowledged_through_power_cuts() {
    // On six stacks and in two modes each.
    let cuts = rounds::count(5);
    for stack in STACKS {
        for mode in ["wal", "delete"] {
            let directory = tempfile::tempdir().expect("a directory");
            let (load, check) = (format!("MODE={mode}\n{DATABASE}"), INTEGRITY);
            let random = format!("random:{cuts}");
            let arguments =
                [&["exec"], stack, &["--cut-at", &random, "--check", check, "--", "sh", "-c", &load]].concat();
            let outcome = nandkit(directory.path(), &arguments);
            // The load is not the same each time, so that a step may not be reached.
            assert!(matches!(outcome.status, Some(0 | 1)), "{stack:?} {mode}: {}", outcome.stderr);
            assert!(outcome.stdout.contains(" 0 failed"), "{stack:?} {mode}: {}", outcome.stdout);
            assert!(!outcome.stdout.contains(" 0 survived"), "{stack:?} {mode}: {}", outcome.stdout);
        }
    }
}

/// A repository with a history, in a directory.
fn repository(directory: &Path) {
    let script = r#"git init -q origin && cd origin && git config user.email a@b.c && git config user.name n
        for i in $(seq 25); do mkdir -p d$((i % 5)); seq $i 900 > d$((i % 5))/f$i; echo $i >> log; git add . && git commit -qm "$i" || exit 1; done"#;
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).status().expect("sh runs");
    assert!(made.success());
}

#[test]
fn git_clones_collects_and_checks_a_repository() {
    let directory = tempfile::tempdir().expect("a directory");
    repository(directory.path());
    let script = r#"set -e
        git clone -q --no-hardlinks "$OLDPWD/origin" r; cd r; git config user.email a@b.c; git config user.name n
        git gc -q; git fsck --strict; echo more >> log; git commit -qam more; git checkout -q HEAD~9; git checkout -q -
        git repack -adq; git fsck --full; test -z "$(git status --short)"; test "$(git log --oneline | wc -l)" = 26"#;
    for stack in STACKS {
        exits(directory.path(), &[&["exec"], stack, &["--", "sh", "-c", script]].concat(), 0);
    }
}

#[test]
fn fio_finds_what_it_wrote() {
    let directory = tempfile::tempdir().expect("a directory");
    for stack in STACKS {
        let fio = [
            "fio",
            "--name=v",
            "--filename=f",
            "--size=6m",
            "--rw=randrw",
            "--bsrange=512-64k",
            "--ioengine=psync",
            "--fsync=16",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            // No further loops: fio's own check of a second one, with all that is random repeated,
            // fails on any file system.
            "--allrandrepeat=1",
            "--randseed=7",
            "--minimal",
        ];
        exits(directory.path(), &[&["exec"], stack, &["--"], &fio[..]].concat(), 0);
    }
}

#[test]
fn tar_and_rsync_bring_back_what_a_format_can_hold() {
    let directory = tempfile::tempdir().expect("a directory");
    let make = r#"mkdir -p tree/a/b/c tree/empty back && seq 100000 > tree/a/large && : > tree/a/b/nothing && cd tree
        for i in $(seq 300); do echo $i > "a/b/c/a file with a long name, number $i"; done; echo x > "a/UPPER.TXT"; echo y > "a/ü €"
        test "$1" = fat || { ln a/large a/second; ln -s ../a empty/link; mkfifo pipe; mknod null c 1 3; chown 1000:2000 a/large; chmod 4711 a/large; chmod 1777 empty; }
        test "$1" = fat || { setfattr -n user.color -v green a/large; setfacl -m u:7:rx,d:g:9:rw a/b; }
        find . -depth -print0 | xargs -0 touch -h -d @1600000000"#;
    // Times of FAT are even seconds; what it does not hold is not asked for.
    let script = r#"set -e; mkdir t r; from="$OLDPWD"
        tar -C "$from/tree" $TAR -cf - . | tar -C t $TAR -xpf -
        rsync $RSYNC "$from/tree/" r/
        find . -type f -exec sync {} +
        for copy in t r; do told=$(rsync $RSYNC -c --delete --dry-run -i "$from/tree/" $copy/); test -z "$told" || { echo "$copy: $told"; exit 1; }; done
        tar -C r $TAR -cf - . | tar -C "$from/back" $TAR -xpf -
        told=$(rsync $RSYNC -c --delete --dry-run -i "$from/tree/" "$from/back/"); test -z "$told" || { echo "back: $told"; exit 1; }"#;
    for stack in STACKS {
        let (tar, rsync) = match stack[1] {
            "fat" => ("--no-same-owner", "-rt --modify-window=1"),
            // UBIFS holds no access control lists.
            "ubifs" => ("--xattrs", "-aHX"),
            _ => ("--xattrs --acls", "-aHAX"),
        };
        let sh = |script: &str| {
            let mut made = Command::new("sh");
            made.args(["-ec", script, "sh", stack[1]]).current_dir(directory.path());
            assert!(made.status().expect("sh runs").success(), "{script}");
        };
        sh("rm -rf tree back");
        sh(make);
        let script = format!("TAR='{tar}'; RSYNC='{rsync}'; {script}");
        exits(directory.path(), &[&["exec"], stack, &["--", "sh", "-c", &script]].concat(), 0);
    }
}
