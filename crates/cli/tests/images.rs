//! Chips in files and FAT images, from the command line.

use std::fs;

use crate::common::{exits, json, refused, succeeds};
use serde_json::Value;

const SPEC: &str = "workload = \"fax:faxes=3\"\n[stack.device]\npreset = \"nandsim-32m-128k\"\n";

fn here() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("s.toml"), SPEC).expect("a file");
    directory
}

#[test]
fn a_chip_lives_from_run_to_run() {
    let directory = here();
    let path = directory.path();
    let first = json(path, &["run", "s.toml", "--device-file", "c.nand", "--json"]);
    assert_eq!(first[0]["spec"]["stack"]["device"]["file"], "c.nand");
    let once = json(path, &["info", "c.nand", "--json"]);
    assert_eq!((&once["image"], &once["volume"]["kind"]), (&"chip".into(), &"FAT16".into()), "{once}");
    assert_eq!(once["translation_layer"], serde_json::json!({"kind": "block-map", "clean": true}));
    // The other way to say it, and the chip from the file alone.
    succeeds(path, &["run", "s.toml", "--set", "stack.device.file=c.nand", "--seed", "2"]);
    let compared = ["compare", "--device-file", "c.nand", "--policy", "merge", "--workload", "fax:faxes=3"];
    let third = json(path, &[&compared[..], &["--host", "none", "--json"]].concat());
    assert_eq!(third["records"][0]["spec"]["stack"]["device"]["geometry"]["blocks"], 256, "the record is resolved");
    let thrice = json(path, &["info", "c.nand", "--json"]);
    for value in ["last_instant_ns", "programmed_pages"] {
        assert!(thrice[value].as_u64() > once[value].as_u64(), "{value}: {once} {thrice}");
    }
    assert_eq!(json(path, &["check", "c.nand", "--json"])["findings"], serde_json::json!([]));
    let text = succeeds(path, &["info", "c.nand"]);
    for part in ["nandsim-32m-128k", "erases per block", "bad blocks", "last instant", "block-map", "FAT16", "free"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn one_chip_takes_one_run() {
    let directory = here();
    let path = directory.path();
    let one = "expected one run";
    refused(path, &["compare", "--device-file", "c.nand", "--workload", "fax"], &["5 runs", "c.nand", one]);
    let two_seeds = ["compare", "--device-file", "c.nand", "--policy", "merge", "--workload", "fax", "--seeds", "2"];
    refused(path, &two_seeds, &["2 runs", one]);
    let grid = format!("{SPEC}[grid]\nstack.ftl.policy = [\"merge\", \"limit\"]\n");
    fs::write(path.join("g.toml"), grid).expect("a file");
    refused(path, &["run", "g.toml", "--device-file", "c.nand", "--jobs", "1"], &["2 runs", one]);
    assert!(!path.join("c.nand").exists());
    // A file for each run is as good as memory, on any number of threads.
    let grid = format!("{SPEC}[grid]\nstack.device.file = [\"a.nand\", \"b.nand\"]\n");
    fs::write(path.join("g.toml"), grid).expect("a file");
    succeeds(path, &["run", "g.toml", "--jobs", "2"]);
    assert!(path.join("a.nand").exists() && path.join("b.nand").exists());
}

#[test]
fn files_that_are_no_such_chip_are_refused_and_untouched() {
    let directory = here();
    let path = directory.path();
    succeeds(path, &["run", "s.toml", "--device-file", "c.nand"]);
    let good = fs::read(path.join("c.nand")).expect("reads");
    let other =
        ["compare", "--device", "slc-256m", "--device-file", "c.nand", "--policy", "merge", "--workload", "fax"];
    refused(path, &other, &["c.nand", "another chip", "geometry.blocks is 256, asked for 2048", "expected"]);
    refused(path, &["compare", "--device", "ram", "--device-file", "c.nand"], &["--device-file", "expected a chip"]);
    assert!(fs::read(path.join("c.nand")).expect("reads") == good);
    let mut version = good;
    version[8] = 7;
    fs::write(path.join("v.nand"), &version).expect("writes");
    for arguments in [vec!["run", "s.toml", "--device-file", "v.nand"], vec!["info", "v.nand"], vec!["check", "v.nand"]]
    {
        refused(path, &arguments, &["v.nand", "version 7, expected version 1"]);
    }
    assert!(fs::read(path.join("v.nand")).expect("reads") == version);
    refused(path, &["run", "s.toml", "--device-file", "s.toml"], &["s.toml", "begins with \"workload", "\"NANDKJRN\""]);
    refused(path, &["info", "s.toml"], &["s.toml", "begins with \"workload", "expected an emulated chip"]);
    refused(path, &["info", "nowhere"], &["nowhere", "cannot read"]);
    refused(path, &["check", "."], &["not a regular file"]);
    assert_eq!(fs::read_to_string(path.join("s.toml")).expect("reads"), SPEC);
}

#[test]
fn a_new_chip_has_its_name_once_it_is_complete() {
    let directory = here();
    let path = directory.path();
    let long = ["run", "s.toml", "--device-file", "c.nand", "--set", "workload=phone:days=1000000"];
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_nandkit"))
        .args(long)
        .current_dir(path)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary runs");
    let temporary = path.join("c.nand.new");
    while !fs::read(&temporary).is_ok_and(|bytes| bytes.starts_with(b"NANDKJRN")) {
        assert_eq!(child.try_wait().expect("waits"), None, "the run goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!path.join("c.nand").exists());
    // Nobody else makes the chip meanwhile.
    refused(path, &["run", "s.toml", "--device-file", "c.nand"], &["c.nand.new", "in use"]);
    child.kill().expect("ends");
    child.wait().expect("ended");
    assert!(!path.join("c.nand").exists());
    // What was left is no obstacle.
    succeeds(path, &["run", "s.toml", "--device-file", "c.nand"]);
    assert!(path.join("c.nand").exists() && !temporary.exists());
    // A file of somebody else's is.
    fs::write(&temporary, "my notes").expect("writes");
    fs::remove_file(path.join("c.nand")).expect("removes");
    refused(path, &["run", "s.toml", "--device-file", "c.nand"], &["c.nand.new", "another file"]);
    assert_eq!(fs::read_to_string(&temporary).expect("reads"), "my notes");
}

#[test]
fn files_that_are_damaged_or_in_use_are_refused() {
    let directory = here();
    let path = directory.path();
    succeeds(path, &["run", "s.toml", "--device-file", "c.nand"]);
    let good = fs::read(path.join("c.nand")).expect("reads");
    let commands = |name| [vec!["run", "s.toml", "--device-file", name], vec!["info", name], vec!["check", name]];
    for length in [8, 100, 4096, good.len() / 2, good.len() - 1] {
        fs::write(path.join("t.nand"), &good[..length]).expect("writes");
        for arguments in commands("t.nand") {
            refused(path, &arguments, &["t.nand"]);
        }
        assert_eq!(fs::read(path.join("t.nand")).expect("reads").len(), length, "a look changes nothing");
    }
    // Records that became zeroes: the first block's with one, and all of the pages. Behind 4096
    // bytes the chip has a header of 65,536, then 256 blocks' records.
    let (blocks, pages) = (4096 + 65_536, 4096 + 65_536 + 256 * 32);
    let record = good.iter().skip(blocks).position(|byte| *byte != 0).expect("a record") / 32 * 32 + blocks;
    for (hole, message, place) in [
        (record..record + 32, "has lost its record) is", format!("at byte {record} of the file")),
        (pages..good.len(), "(the first without one is page 0) is 0, expected", "at byte ".to_string()),
    ] {
        let mut damaged = good.clone();
        damaged[hole].fill(0);
        fs::write(path.join("t.nand"), &damaged).expect("writes");
        for arguments in commands("t.nand") {
            refused(path, &arguments, &["t.nand", "damaged chip image", message, &place]);
        }
        assert!(fs::read(path.join("t.nand")).expect("reads") == damaged);
    }
    // The lock of whoever has the file open.
    let file = fs::File::open(path.join("c.nand")).expect("opens");
    file.lock().expect("locks");
    for arguments in commands("c.nand") {
        refused(path, &arguments, &["c.nand", "in use"]);
    }
    file.unlock().expect("unlocks");
    assert!(fs::read(path.join("c.nand")).expect("reads") == good);
    succeeds(path, &["info", "c.nand"]);
}

#[test]
fn a_run_that_fails_leaves_no_chip_behind() {
    let directory = here();
    let path = directory.path();
    let arguments = ["run", "s.toml", "--device-file", "c.nand", "--set", "workload=overwrite:files=1000"];
    refused(path, &arguments, &["does not fit"]);
    assert!(!path.join("c.nand").exists());
}

/// The smallest FAT12 volume of 64 sectors of 512 bytes, with nothing on it: fields as Microsoft's
/// FAT specification, version 1.03, has them.
fn fat_image() -> Vec<u8> {
    let mut image = vec![0_u8; 64 * 512];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0xEB, 0x3C, 0x90]);
    put(3, b"MSDOS5.0");
    // Sector size, sectors per cluster, reserved sectors, FATs, root entries, sectors, media,
    // sectors per FAT.
    put(11, &[0, 2, 1, 1, 0, 2, 16, 0, 64, 0, 0xF8, 1, 0]);
    put(24, &[32, 0, 2, 0]);
    put(36, &[0x80, 0, 0x29, 1, 2, 3, 4]);
    put(43, b"NO NAME    FAT12   ");
    put(510, &[0x55, 0xAA]);
    for fat in [512, 1024] {
        put(fat, &[0xF8, 0xFF, 0xFF]);
    }
    image
}

#[test]
fn fat_images_are_shown_and_checked() {
    let directory = here();
    let path = directory.path();
    let good = fat_image();
    fs::write(path.join("f.img"), &good).expect("writes");
    let info = json(path, &["info", "f.img", "--json"]);
    assert_eq!(info["volume"]["kind"], "FAT12");
    assert_eq!(info["volume"]["free_bytes"], info["volume"]["total_bytes"]);
    assert!(succeeds(path, &["info", "f.img"]).contains("clusters of 512 B"));
    assert!(succeeds(path, &["check", "f.img"]).contains("0 files in 1 directories"));
    // Cluster 2 is in use and belongs to nobody, in one of the two FATs only.
    let mut bad = good;
    bad[515] = 0xFF;
    bad[516] = 0x0F;
    fs::write(path.join("f.img"), &bad).expect("writes");
    let outcome = exits(path, &["check", "f.img"], 1);
    for finding in ["FatCopiesDiffer", "LostClusters"] {
        assert!(outcome.stdout.contains(finding), "{}", outcome.stdout);
    }
    let outcome = exits(path, &["check", "f.img", "--json"], 1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(fs::read(path.join("f.img")).expect("reads") == bad);
    // A boot sector that promises more than there is: what is there is read, and the rest is told.
    let mut short = fat_image();
    short.truncate(16 * 512);
    fs::write(path.join("f.img"), &short).expect("writes");
    assert!(succeeds(path, &["info", "f.img"]).contains("are in the image: files after them cannot be read"));
    refused(path, &["check", "f.img"], &["f.img"]);
}

#[test]
fn files_of_fat_volumes_are_read_as_they_are_and_on_chips() {
    let directory = here();
    let path = directory.path();
    let sh = |command: &str| {
        let output =
            std::process::Command::new("sh").args(["-c", command]).current_dir(path).output().expect("sh runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/long name.text"), vec![7; 70_000]).expect("a file");
    sh("truncate -s 4M v.img && mkfs.vfat v.img > /dev/null && mcopy -i v.img -s tree ::tree");
    assert_eq!(succeeds(path, &["ls", "-R", "v.img"]), "tree\ntree/long name.text\n");
    succeeds(path, &["extract", "v.img", "out"]);
    sh("diff -r tree out/tree");
    // The same volume in a partition of a disk, and on a chip.
    sh("truncate -s 1M disk && cat v.img >> disk");
    assert_eq!(succeeds(path, &["ls", "disk", "--offset", "1M"]), "tree\n");
    succeeds(path, &["run", "s.toml", "--device-file", "c.nand"]);
    let names = succeeds(path, &["ls", "-R", "c.nand"]);
    succeeds(path, &["extract", "c.nand", "chip"]);
    assert!(!names.is_empty());
    for name in names.lines() {
        assert!(path.join("chip").join(name).exists(), "{name}");
    }
    refused(path, &["ls", "c.nand", "--erase-size", "16K"], &["--erase-size", "chip"]);
    refused(path, &["cat", "v.img", "tree", "--versions"], &["/tree", "is a directory"]);
    assert_eq!(succeeds(path, &["ls", "v.img", "--deleted"]), "");
}
