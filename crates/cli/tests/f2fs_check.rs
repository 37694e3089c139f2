//! `nandkit check` of F2FS images, and what `--repair` makes of them; fsck.f2fs and diff are the
//! judges.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{exits, fsck_f2fs, json, nandkit, run, succeeds};
use serde_json::Value;

/// An image of 100 MiB with 400 files in it, made by f2fs-tools.
fn with_image() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("many")).expect("a directory");
    for number in 0..400_u32 {
        fs::write(tree.join(format!("many/file {number}")), number.to_string().repeat(900)).expect("a file");
    }
    let features = "extra_attr,inode_checksum,sb_checksum,lost_found";
    run(
        directory.path(),
        &format!(
            "truncate -s 100M i && mkfs.f2fs -q -O {features} i >/dev/null && sload.f2fs -f tree -t / i >/dev/null"
        ),
    );
    directory
}

fn check(directory: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let outcome = nandkit(directory, &[&["check", "--json"], arguments].concat());
    let value = serde_json::from_str(&outcome.stdout);
    (outcome.status, value.unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr)))
}

/// The first block of the NAT: there are two copies, 512 blocks from each other.
fn nat_of(directory: &Path) -> u64 {
    let info = json(directory, &["info", "i", "--json"]);
    info["volume"]["areas"][2]["block"].as_u64().expect("a block")
}

/// Writes over entries of the NAT, in both copies of its first block: 9 bytes a node.
fn overwrite_nat(directory: &Path, nodes: std::ops::Range<u64>) {
    let nat = nat_of(directory);
    let file = OpenOptions::new().write(true).open(directory.join("i")).expect("a file");
    let noise = vec![0x5A; (nodes.end - nodes.start) as usize * 9];
    for copy in [nat, nat + 512] {
        file.write_all_at(&noise, copy * 4096 + nodes.start * 9).expect("bytes");
    }
}

/// Writes over the blocks of nodes, so that nothing of them is left.
fn overwrite_nodes(directory: &Path, nodes: std::ops::Range<u64>) {
    let nat = nat_of(directory);
    let file = OpenOptions::new().read(true).write(true).open(directory.join("i")).expect("a file");
    for node in nodes {
        let addresses = [nat, nat + 512].map(|copy| {
            let mut word = [0; 4];
            file.read_exact_at(&mut word, copy * 4096 + node * 9 + 5).expect("an address");
            u64::from(u32::from_le_bytes(word))
        });
        for address in addresses.into_iter().filter(|address| *address > nat) {
            file.write_all_at(&[0x5A; 4096], address * 4096).expect("bytes");
        }
    }
}

#[test]
fn a_sound_image_stays_what_it_is() {
    let directory = with_image();
    let path = directory.path();
    let (status, report) = check(path, &["i"]);
    assert_eq!((status, &report["format"], &report["findings"]), (Some(0), &"f2fs".into(), &serde_json::json!([])));
    assert_eq!((report["files"].as_u64(), report["directories"].as_u64()), (Some(400), Some(3)), "{report}");
    let (status, report) = check(path, &["i", "--repair", "out.img"]);
    assert_eq!((status, &report["repaired"]["dropped"]), (Some(0), &serde_json::json!([])), "{report}");
    fsck_f2fs(path, "out.img");
    succeeds(path, &["extract", "out.img", "out"]);
    run(path, "diff -r -x lost+found tree out && test $(stat -c %s i) = $(stat -c %s out.img)");
    assert_eq!(nandkit(path, &["check", "i", "--repair", "out.img"]).status, Some(2), "the file is there");
}

#[test]
fn damage_is_told_by_inode_and_address_and_repaired() {
    let directory = with_image();
    let path = directory.path();
    // Five nodes can be found by their own blocks.
    overwrite_nodes(path, 50..55);
    overwrite_nat(path, 50..60);
    let (status, report) = check(path, &["i"]);
    assert_eq!(status, Some(1), "{report}");
    let findings = report["findings"].as_array().expect("a list");
    let told = findings.iter().find(|finding| finding["kind"] == "NAT").expect("a finding of the NAT");
    assert!(told["detail"].as_str().is_some_and(|detail| detail.contains("node 5")), "{told}");
    assert!(findings.iter().any(|finding| finding["offset"].as_u64().is_some()), "{report}");
    let lost = nandkit(path, &["extract", "i", "lost"]).status;
    assert_eq!(lost, Some(1), "an extraction says that something is missing");

    let (status, report) = check(path, &["i", "--repair", "out.img"]);
    assert_eq!(status, Some(1), "{report}");
    assert_eq!(report["repaired"]["remaining"], serde_json::json!([]), "{report}");
    assert!(!report["repaired"]["mended"].as_array().expect("a list").is_empty(), "{report}");
    fsck_f2fs(path, "out.img");
    let (status, whole) = check(path, &["out.img"]);
    let held = &report["repaired"]["holds"];
    assert_eq!((status, held["sound"].as_bool()), (Some(0), Some(true)), "{report}");
    assert_eq!((&held["findings"], &held["files"]), (&serde_json::json!([]), &whole["files"]), "{report}");
    succeeds(path, &["extract", "out.img", "out"]);
    let told = run(path, "diff -r -x lost+found tree out || true");
    assert!(told.lines().all(|line| line.starts_with("Only in tree/many: file ")), "{told}");
    assert_eq!(told.lines().count(), 5, "{told}");
    let text = nandkit(path, &["check", "i", "--repair", "again.img"]);
    assert!(text.stdout.contains("put right: NAT: 5 nodes missing from the NAT"), "{}", text.stdout);
    run(path, "cmp out.img again.img");
}

#[test]
fn what_cannot_be_repaired_is_said() {
    let directory = with_image();
    let path = directory.path();
    // The root itself is gone: it is made anew.
    let names = succeeds(path, &["ls", "-R", "i"]);
    overwrite_nodes(path, 3..4);
    let outcome = exits(path, &["check", "i", "--repair", "out.img"], 1);
    assert!(outcome.stdout.contains("it is made anew"), "{}", outcome.stdout);
    assert_eq!(succeeds(path, &["ls", "-R", "out.img"]), names);
    succeeds(path, &["check", "out.img"]);
    // A volume that was cut short has its length again.
    run(path, "cp out.img short && truncate -s 20000000 short");
    exits(path, &["check", "short", "--repair", "long"], 1);
    succeeds(path, &["check", "long"]);
    assert_eq!(
        fs::metadata(path.join("long")).expect("a file").len(),
        fs::metadata(path.join("i")).expect("a file").len()
    );
    // Neither checkpoint is whole.
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    file.write_all_at(&[0x5A; 100], 512 * 4096).expect("bytes");
    file.write_all_at(&[0x5A; 100], 1024 * 4096).expect("bytes");
    let outcome = exits(path, &["check", "i"], 1);
    assert!(outcome.stdout.contains("checkpoint"), "{}", outcome.stdout);
    assert_eq!(nandkit(path, &["check", "i", "--repair", "none.img"]).status, Some(2));
    assert!(!path.join("none.img").exists());
    run(path, "mkfs.vfat -C f 16384 >/dev/null");
    let outcome = nandkit(path, &["check", "f", "--repair", "none.img"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("this is fat"), "{}", outcome.stderr);
}

/// Bytes of superblocks, packs, SIT, NAT and of the first segment of nodes become others: every
/// command ends with a status that it knows, and what a repair calls whole is so to fsck.f2fs.
#[test]
fn commands_survive_what_is_in_an_image() {
    let directory = with_image();
    let path = directory.path();
    let whole = fs::read(path.join("i")).expect("an image");
    let areas = [(1024, 3072), (5120, 3072), (512 << 12, 9 << 12), (1024 << 12, 9 << 12), (1536 << 12, 4096)];
    let more = [(2560 << 12, 4096), (3072 << 12, 4096), (4096 << 12, 200 << 12)];
    let areas: Vec<(u64, u64)> = areas.into_iter().chain(more).collect();
    let image = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    for round in 0..6 {
        let mut changed = Vec::new();
        for _ in 0..[1, 4, 30][round % 3] {
            let (start, length) = areas[draw(areas.len() as u64) as usize];
            let at = start + draw(length);
            image.write_all_at(&[draw(256) as u8], at).expect("a byte");
            changed.push(at);
        }
        for words in [
            &["info", "i", "--segments"][..],
            &["ls", "-lR", "i"],
            &["check", "i"],
            &["extract", "i", "--to-tar", "tar", "--force"],
        ] {
            let outcome = nandkit(path, words);
            assert!(
                matches!(outcome.status, Some(0..=2)),
                "{round} {words:?}: {:?} {}",
                outcome.status,
                outcome.stderr
            );
        }
        let outcome = nandkit(path, &["check", "i", "--repair", "out.img"]);
        assert!(matches!(outcome.status, Some(0..=2)), "{round}: {:?} {}", outcome.status, outcome.stderr);
        if path.join("out.img").exists() {
            if !outcome.stdout.contains("still wrong") {
                fsck_f2fs(path, "out.img");
            }
            fs::remove_file(path.join("out.img")).expect("a file");
        }
        for at in changed {
            image.write_all_at(&whole[at as usize..][..1], at).expect("a byte");
        }
    }
}

/// Damage of the volume as a whole is reported in the same way as damage of a file.
#[test]
fn a_repair_tells_of_superblocks_and_of_a_volume_that_was_cut_short() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    succeeds(path, &["mkfs", "f2fs", "--size", "100M", "i"]);
    for (damage, told) in [
        ("cp i d && dd if=/dev/zero of=d bs=4096 count=1 conv=notrunc 2>/dev/null", "the second one is used"),
        ("head -c 80M i > d", "cut short"),
    ] {
        run(path, &format!("rm -f out; {damage}"));
        let checked = nandkit(path, &["check", "d"]);
        assert!(checked.status == Some(1) && checked.stdout.contains(told), "{}", checked.stdout);
        let repaired = nandkit(path, &["check", "d", "--repair", "out"]);
        let line = repaired.stdout.lines().find(|line| line.contains(told)).unwrap_or_default();
        assert!(repaired.status == Some(1) && !line.is_empty(), "{}{}", repaired.stdout, repaired.stderr);
        assert!(
            repaired.stdout.contains("put right: ") && !repaired.stdout.contains("still wrong"),
            "{}",
            repaired.stdout
        );
        fsck_f2fs(path, "out");
        succeeds(path, &["check", "out"]);
    }
}
