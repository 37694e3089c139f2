//! Images that are too large to be written anew: they are changed where they are, through a
//! journal. fsck.f2fs and fsck.vfat are the judges.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::{exits, fsck_f2fs, fsck_vfat, names, nandkit, on_disk, succeeds};

fn run(directory: &Path, command: &str) -> String {
    crate::common::run(directory, &format!("set -e; {command}"))
}

/// A judge of an image in a directory.
type Judge = fn(&Path, &str);

/// How an image `i` of 300 MiB is made, most of it holes, and how its judge is asked.
const IMAGES: [(&str, Judge); 2] = [
    ("truncate -s 300M i && mkfs.f2fs -q i > /dev/null", fsck_f2fs),
    ("mkfs.vfat -F 32 -C i 307200 > /dev/null", fsck_vfat),
];

fn with_image(make: &str) -> tempfile::TempDir {
    let directory = on_disk();
    run(directory.path(), make);
    run(
        directory.path(),
        "mkdir -p tree/d && seq 9000 > tree/d/numbers && head -c 3000000 $NOISE > tree/large && ln i hard",
    );
    directory
}

#[test]
fn a_large_image_is_changed_where_it_is() {
    for (make, judge) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        let before = fs::metadata(path.join("i")).expect("an image");
        for words in [
            &["put", "i", "tree", "/", "--recursive"][..],
            &["mkdir", "i", "/e"],
            &["put", "i", "tree/large", "/e/again"],
            &["mv", "i", "/d/numbers", "/e/moved"],
            &["rm", "i", "/large"],
        ] {
            succeeds(path, words);
            judge(path, "i");
        }
        run(path, "cp --sparse=always i before");
        succeeds(path, &["rm", "i", "-r", "/e", "--dry-run"]);
        run(path, "cmp i before && rm before");
        let after = fs::metadata(path.join("i")).expect("an image");
        assert_eq!((before.ino(), before.len()), (after.ino(), after.len()), "{make}");
        assert!(after.blocks() * 512 < 40 << 20, "{make}: the holes are gone, {} KiB", after.blocks() / 2);
        assert!(names(path).iter().all(|name| !name.contains("journal")), "{:?}", names(path));
        // The other name is the same file.
        succeeds(path, &["extract", "hard", "out"]);
        run(
            path,
            "cmp out/e/again tree/large && cmp out/e/moved tree/d/numbers && test ! -e out/large && test -d out/d",
        );
    }
}

#[test]
fn a_change_that_fails_leaves_a_large_image_as_it_was() {
    let elsewhere = tempfile::tempdir().expect("a directory");
    run(elsewhere.path(), "yes x | head -c 330000000 > huge");
    let huge = elsewhere.path().join("huge");
    for (make, judge) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        succeeds(path, &["put", "i", "tree", "/", "--recursive"]);
        run(path, "cp --sparse=always i before");
        for words in [
            // The first of them would go.
            &["rm", "i", "/large", "/nothing"][..],
            &["put", "i", huge.to_str().expect("a name"), "/huge"],
            &["mv", "i", "/large", "/no/such/directory/large"],
        ] {
            exits(path, words, 2);
        }
        run(path, "cmp i before");
        judge(path, "i");
    }
}

#[test]
fn a_disk_without_room_is_told_before_a_large_image_is_changed() {
    for (make, judge) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        // Without holes: where memory is the disk, a look into one takes room.
        run(path, "mkdir small && mount -t tmpfs -o size=306m tmpfs small && cp --sparse=never i small/i");
        run(path, "cat $NOISE $NOISE > more");
        let before = run(path, "cksum < small/i");
        let outcome = nandkit(path, &["put", "small/i", "more", "/more"]);
        let journals = names(&path.join("small"));
        let (after, status) = (run(path, "cksum < small/i"), outcome.status);
        run(path, "mount -o remount,size=330m small");
        let again = nandkit(path, &["put", "small/i", "more", "/more"]);
        run(path, "cp --sparse=always small/i i.new && mv i.new i && umount small");
        judge(path, "i");
        assert_eq!(status, Some(2), "{make}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("No space left"), "{make}: {}", outcome.stderr);
        assert_eq!((journals, after), (vec!["i".to_owned()], before), "{make}");
        assert_eq!(again.status, Some(0), "{make}: {}", again.stderr);
        succeeds(path, &["get", "i", "/more", "got"]);
        run(path, "cmp got more");
    }
}

#[test]
fn an_overlay_takes_the_changes_of_a_large_image() {
    for (make, judge) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        let before = run(path, "cksum < i");
        succeeds(path, &["put", "i", "tree", "/", "--recursive", "--overlay", "o"]);
        succeeds(path, &["rm", "i", "/large", "--overlay", "o"]);
        succeeds(path, &["put", "i", "tree/large", "/d/again", "--overlay", "o"]);
        assert_eq!(run(path, "cksum < i"), before, "{make}");
        let room = fs::metadata(path.join("o")).expect("an overlay").blocks() * 512;
        assert!(room < 40 << 20, "{make}: {room}");
        succeeds(path, &["overlay", "apply", "i", "o"]);
        judge(path, "i");
        succeeds(path, &["get", "i", "/d/again", "got"]);
        run(path, "cmp got tree/large");
    }
}
