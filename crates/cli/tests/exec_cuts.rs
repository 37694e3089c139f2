//! `nandkit exec --cut-at`: what was synced survives power cuts, and a loss is told.

use crate::common::{exits, json, nandkit, tells};

const STACKS: [&[&str]; 3] = [
    &["--fs", "jffs2", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-128k", "--ftl", "fast"],
];

/// Writes files one after the other, and notes outside the volume which ones were synced.
const LOAD: &str = r#"for i in 1 2 3 4 5 6 7 8; do
  head -c 5000 /dev/zero | tr '\0' "$i" > f$i && sync f$i . && echo $i >> "$OLDPWD/acked-$NANDKIT_CUT" || exit 1
done"#;

/// Each file that was synced is there with its content.
const CHECK: &str = r#"touch "$OLDPWD/acked-$NANDKIT_CUT"
for i in $(cat "$OLDPWD/acked-$NANDKIT_CUT"); do
  test "$(head -c 5000 /dev/zero | tr '\0' "$i" | cksum)" = "$(cksum < f$i)" || { echo "f$i is not what was synced"; exit 1; }
done"#;

#[test]
fn what_was_synced_survives_and_the_record_counts_it() {
    for stack in STACKS {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments =
            [&["exec"], stack, &["--cut-at", "random:12", "--check", CHECK, "--json", "--", "sh", "-c", LOAD]].concat();
        let record = json(directory.path(), &arguments);
        let cuts = record["cuts"].as_array().expect("cuts");
        assert_eq!(cuts.len(), 12, "{stack:?}");
        assert!(record["steps"].as_u64() >= Some(16), "{stack:?}: {}", record["steps"]);
        assert!(cuts.iter().all(|cut| cut["verdict"] == "survived" && cut["cut"].is_string()), "{stack:?}: {record}");
        let acknowledged = std::fs::read_dir(directory.path()).expect("listed").count();
        assert!(acknowledged >= 12, "the load and the check share a number: {acknowledged}");
    }
}

#[test]
fn a_loss_is_told_with_the_cut_that_shows_it_again() {
    let directory = tempfile::tempdir().expect("a directory");
    // Nothing is synced, and all is expected.
    let load = "for i in 1 2 3 4 5 6 7 8 9; do dd if=$NOISE of=f$i bs=9000 skip=$i count=1 status=none; done";
    let check = "test -s f9 || { echo f9 is missing; exit 3; }";
    let arguments =
        [&["exec"], STACKS[0], &["--cut-at", "random:8", "--check", check, "--", "sh", "-c", load]].concat();
    let outcome = exits(directory.path(), &arguments, 1);
    assert!(outcome.stdout.contains("the check ended with 3: f9 is missing"), "{}", outcome.stdout);
    let first = outcome.stdout.lines().next().and_then(|line| line.split('/').next()).expect("a cut").to_owned();
    let again = [&["exec"], STACKS[0], &["--cut-at", &first, "--check", check, "--", "sh", "-c", load]].concat();
    let outcome = nandkit(directory.path(), &again);
    assert_eq!(outcome.status, Some(1), "{first}: {}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("1 power cuts in"), "{}", outcome.stdout);
}

/// The classic mistake: the data are never synced, only what says that they are there. Linux loses
/// them on FAT (`fat_file_fsync` writes the marker's own data) and F2FS (the marker's node alone is
/// recovered); JFFS2 writes at once.
#[test]
fn data_behind_a_synced_marker_are_lost_where_the_host_had_them_in_memory() {
    let load = "head -c 60000 /dev/zero | tr '\\0' x > data; echo done > marker; sync marker
for i in 1 2 3 4; do head -c 9000 $NOISE > f$i; sync f$i; done";
    let check = "test ! -s marker || test \"$(tr -d x < data | wc -c) $(wc -c < data)\" = '0 60000' || { echo no data; exit 3; }";
    for (stack, host, is_lost) in [
        (&["--fs", "fat", "--device", "nandsim-32m-16k"][..], "default", true),
        (&["--fs", "f2fs", "--device", "nandsim-256m", "--ftl", "page-map"], "default", true),
        (STACKS[0], "default", false),
        (STACKS[1], "none", false),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments =
            [&["exec"], stack, &["--host", host, "--cut-at", "random:10", "--check", check, "--", "sh", "-c", load]]
                .concat();
        let outcome = nandkit(directory.path(), &arguments);
        // A command of several processes does not take the same steps each time: a step may not be
        // reached, and the status says so.
        let is_told = outcome.status == Some(i32::from(is_lost)) || outcome.stdout.contains("not reached");
        let (found, survived) = (outcome.stdout.contains("no data"), outcome.stdout.contains(" survived, "));
        assert!(found == is_lost && survived && is_told, "{stack:?} {host}: {outcome:?}");
    }
}

#[test]
fn a_cut_that_is_not_reached_is_no_pass_and_mistakes_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [&["exec"], STACKS[0], &["--cut-at", "99999", "--", "sh", "-c", "echo x > f"]].concat();
    let outcome = exits(directory.path(), &arguments, 1);
    assert!(outcome.stdout.contains("not reached"), "{}", outcome.stdout);
    // Without --check every file is read.
    let arguments = [&["exec"], STACKS[1], &["--cut-at", "2@after", "--", "sh", "-c", "echo x > f; sync f"]].concat();
    exits(directory.path(), &arguments, 0);
    for (arguments, status, expected) in [
        (&["exec", "--cut-at", "0", "--", "true"][..], 2, "expected the number of a step"),
        (&["exec", "--cut-at", "random:0", "--", "true"], 2, "random:1 to"),
        (&["exec", "--cut-at", "5@noon", "--", "true"], 2, "expected the number of a step"),
        (&["exec", "--device", "ram", "--cut-at", "5", "--", "true"], 2, "expected a chip"),
        (&["exec", "--cut-at", "5", "--", "sh", "-c", "exit 9"], 9, "fails without a power cut"),
        (&["exec", "--check", "true", "--", "true"], 2, "--cut-at"),
        (&["exec", "--fs", "model", "--cut-at", "5", "--", "true"], 2, "expected --fs f2fs or fat or jffs2"),
        // What writes elsewhere is never cut, and that is no pass.
        (&["exec", "--cut-at", "random:5", "--", "true"], 2, "nothing to cut"),
    ] {
        tells(directory.path(), arguments, status, expected);
    }
}

#[test]
fn nobody_learns_of_a_cut_and_nobody_survives_it() {
    // Each acknowledgement follows a sync whatever came of it, as careless loads do; workers go on
    // in the background, one in a session of its own.
    let load = r#"setsid sh -c 'while echo x; do sleep 0.05; done > daemon 2> /dev/null' &
        (for i in 1 2 3 4 5 6 7 8 9; do dd if=$NOISE of=b$i bs=3000 skip=$i count=1 status=none; sync b$i; done) &
        for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; sync f$i; echo $i >> "$OLDPWD/acked-$NANDKIT_CUT"; done"#;
    let check = r#"touch "$OLDPWD/acked-$NANDKIT_CUT"
        for i in $(cat "$OLDPWD/acked-$NANDKIT_CUT"); do test "$(cat f$i)" = $i || { echo "f$i was acknowledged"; exit 1; }; done"#;
    for stack in &STACKS[..2] {
        // Of each stack its own: what one acknowledged at a step, the other never had.
        let directory = tempfile::tempdir().expect("a directory");
        let arguments =
            [&["exec"], *stack, &["--cut-at", "random:10", "--check", check, "--", "sh", "-c", load]].concat();
        let outcome = nandkit(directory.path(), &arguments);
        assert!(matches!(outcome.status, Some(0 | 1)), "{stack:?}: {}", outcome.stderr);
        // The load is not the same each time, so that a step may not be reached; what was
        // acknowledged is there.
        assert!(!outcome.stdout.contains("was acknowledged"), "{stack:?}: {}", outcome.stdout);
        assert!(!outcome.stdout.contains(" 0 survived"), "{stack:?}: {}", outcome.stdout);
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("read");
    let id = std::process::id();
    assert!(!mounts.contains(&format!("nandkit:{id}:")), "a mount is left");
}
