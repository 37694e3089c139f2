//! FAT volumes that commands change, and changes that go into an overlay. mkfs.vfat makes the
//! volumes; fsck.vfat, mtools and the same commands on a directory of the machine are the judges.

use std::fs;
use std::path::Path;

use crate::common::noise::noise;
use crate::common::{exits, fsck_vfat, run, succeeds, tells};

/// A directory with what is to be put: files of many lengths, two names of one file, and what FAT
/// does not hold.
fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "mkdir -p over/dcim/100NANDK over/empty");
    for number in 0..40 {
        let name = format!("over/dcim/100NANDK/A picture with a long name, number {number}.jpeg");
        fs::write(path.join(name), noise(number * 977, number)).expect("a file");
    }
    fs::write(path.join("over/README.TXT"), "first\n").expect("a file");
    fs::write(path.join("big"), noise(300_000, 3)).expect("a file");
    run(path, "ln over/README.TXT over/second && ln -s README.TXT over/third && mkfifo over/pipe");
    touch(path);
    directory
}

/// Reading a file changes when it was read last, which FAT keeps.
fn touch(directory: &Path) {
    run(directory, "find over big | xargs -d '\\n' touch -h -d @1600000000");
}

/// What changes an image, and what changes a directory in the same way.
const STEPS: [(&str, &str); 8] = [
    ("put @ -r over /", "cp -r over/. @/ && rm @/pipe @/third"),
    ("put @ big /dcim", "cp big @/dcim"),
    ("put @ - /README.TXT < big", "cat big > @/README.TXT"),
    ("mkdir @ -p /new/a/b", "mkdir -p @/new/a/b"),
    ("mv @ /dcim/big /new/a", "mv @/dcim/big @/new/a"),
    ("mv @ /second /README.TXT", "mv @/second @/README.TXT"),
    (
        "rm @ -r /empty '/dcim/100NANDK/A picture with a long name, number 7.jpeg'",
        "rm -r @/empty @/dcim/100NANDK/*number?7.jpeg",
    ),
    ("put @ big '/a name whose letters é and ß are no ASCII'", "cp big '@/a name whose letters é and ß are no ASCII'"),
];

#[test]
fn commands_do_to_a_fat_volume_what_they_do_to_a_directory() {
    let directory = with_tree();
    let path = directory.path();
    let binary = env!("CARGO_BIN_EXE_nandkit");
    run(path, "mkdir mirror");
    for (_, theirs) in STEPS {
        run(path, &theirs.replace("@/", "mirror/"));
    }
    for (image, mkfs) in [("f12", "-C f12 4000"), ("f16", "-F 16 -C f16 40000"), ("f32", "-F 32 -s 1 -C f32 40000")] {
        run(path, &format!("mkfs.vfat {mkfs} > /dev/null && chmod 604 {image}"));
        for (ours, _) in STEPS {
            let line = ours.replace('@', image);
            run(path, &format!("SOURCE_DATE_EPOCH=1600000000 {binary} {line}"));
            fsck_vfat(path, image);
        }
        run(path, &format!("{binary} check {image} && {binary} extract {image} out-{image}"));
        run(path, &format!("diff -r mirror out-{image}"));
        // What another reader finds is the same.
        run(path, &format!("mkdir m-{image} && mcopy -s -n -i {image} '::/*' m-{image} && diff -r mirror m-{image}"));
        let listed = succeeds(path, &["ls", "-l", image, "/new/a"]);
        assert!(listed.contains("2020-09-13 12:26"), "the time comes along: {listed}");
        assert_eq!(run(path, &format!("stat -c %a {image}")), "604\n");
    }
}

#[test]
fn what_fat_does_not_hold_is_told_and_nothing_is_changed() {
    let directory = with_tree();
    let path = directory.path();
    run(path, "mkfs.vfat -C card 4000 > /dev/null");
    let outcome = exits(path, &["put", "card", "-r", "over", "/"], 0);
    for told in ["skipped /pipe", "skipped /third: a link, which this format does not hold"] {
        assert!(outcome.stderr.contains(told), "{told}: {}", outcome.stderr);
    }
    let good = fs::read(path.join("card")).expect("reads");
    fs::write(path.join("huge"), noise(4_200_000, 1)).expect("a file");
    for (arguments, expected) in [
        (vec!["chown", "card", "1000:1000", "/README.TXT"], "no owners"),
        (vec!["chmod", "card", "640", "/README.TXT"], "0640"),
        (vec!["ln", "card", "/README.TXT", "/other"], "no hard links"),
        (vec!["ln", "card", "-s", "/README.TXT", "/other"], "symbolic link"),
        (vec!["setfattr", "card", "-n", "user.x", "-v", "1", "/README.TXT"], "no extended attributes"),
        (vec!["put", "card", "huge", "/"], "are free"),
        (vec!["put", "card", "big", "/a:b"], "invalid name"),
    ] {
        tells(path, &arguments, 2, expected);
        assert!(fs::read(path.join("card")).expect("reads") == good, "{arguments:?}");
    }
    succeeds(path, &["chmod", "card", "a-w", "/README.TXT"]);
    assert!(run(path, "mattrib -i card ::/README.TXT").contains(" R "), "the attribute that FAT has");
}

/// The volume is one partition of a card; what is outside stays.
#[test]
fn a_partition_is_changed_and_the_rest_of_the_card_stays() {
    let directory = with_tree();
    let path = directory.path();
    run(path, "mkfs.vfat -C part 8000 > /dev/null");
    fs::write(path.join("before"), noise(1 << 20, 1)).expect("a file");
    run(path, "cat before part before > card");
    run(path, "cp card old");
    succeeds(path, &["put", "card", "--offset", "1M", "--size", "8000K", "-r", "over", "/"]);
    run(path, "cmp -n 1048576 card old && tail -c 1048576 card | cmp - before && ! cmp -s card old");
    run(path, "tail -c +1048577 card | head -c 8192000 > now");
    fsck_vfat(path, "now");
    assert!(run(path, "mdir -b -i now ::/dcim/100NANDK").contains("number 39.jpeg"));
}

/// As in an image, so in an overlay; and once it is applied the image is the one that was changed
/// directly.
#[test]
fn changes_go_into_an_overlay() {
    let directory = with_tree();
    let path = directory.path();
    run(path, "mkfs.vfat -C fat 4000 > /dev/null && mkdir small && cp -r over/README.TXT small");
    succeeds(path, &["mkfs", "jffs2", "--from", "small", "-e", "16K", "--size", "2M", "jffs2"]);
    let binary = env!("CARGO_BIN_EXE_nandkit");
    for image in ["fat", "jffs2"] {
        run(path, &format!("cp {image} direct && cp {image} untouched"));
        let tried = succeeds(path, &["put", image, "--overlay", "changes", "--dry-run", "-r", "over", "/"]);
        assert!(tried.contains("would create /dcim") && !path.join("changes").exists(), "{tried}");
        for line in ["put @ -r over /", "put @ big /dcim", "rm @ -r /empty"] {
            touch(path);
            run(path, &format!("SOURCE_DATE_EPOCH=1600000000 {binary} {}", line.replace('@', "direct")));
            touch(path);
            let beside = line.replace('@', &format!("{image} --overlay changes"));
            run(path, &format!("SOURCE_DATE_EPOCH=1600000000 {binary} {beside}"));
            run(path, &format!("cmp {image} untouched"));
        }
        // A change that fails leaves the overlay as it was.
        run(path, "cp changes kept");
        exits(path, &["rm", image, "--overlay", "changes", "/dcim/big", "/none"], 2);
        run(path, "cmp changes kept");
        let listed = succeeds(path, &["ls", "-R", image, "--overlay", "changes"]);
        assert!(listed.contains("dcim/big") && !listed.contains("empty"), "{listed}");
        succeeds(path, &["overlay", "apply", image, "changes"]);
        run(path, &format!("cmp {image} direct"));
    }
}
