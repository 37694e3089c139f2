//! `nandkit qtar`, judged by GNU tar and by the archives of `extract --to-tar`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{exits, json, refused, run, succeeds, tells};

/// A tree with what tar has forms of its own for.
fn tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).expect("made");
    let long = "n".repeat(180);
    for (name, length) in [("a", 5), ("deep/b", 70_000), ("deep/er/c", 0), (long.as_str(), 4097), ("large", 5 << 20)] {
        fs::write(root.join(name), vec![length as u8 | 1; length]).expect("written");
    }
    fs::hard_link(root.join("large"), root.join("deep/again")).expect("linked");
    symlink("../a", root.join("deep/link")).expect("linked");
    run(
        root,
        "mkfifo pipe && truncate -s 3M sparse && printf data | dd of=sparse bs=1M seek=1 conv=notrunc status=none",
    );
    run(root, "setfattr -n user.tag -v value a 2>/dev/null || true");
}

#[test]
fn archives_of_real_trees_are_what_gnu_tar_finds_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    tree(&path.join("made"));
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (number, from) in [path.join("made"), house, "/usr/share/doc/libc6/../libc-bin".into()].iter().enumerate() {
        let from = from.to_str().expect("text");
        for sparse in [&[][..], &["--sparse"]] {
            let archive = format!("{number}-{}.tar", sparse.len());
            let call = [&["qtar", "cf", &archive, from][..], sparse].concat();
            assert!(succeeds(path, &call).contains("were read ahead in the order of their"));
            run(path, &format!("tar --compare --file {archive} --directory {from}"));
            let one_by_one = [&["qtar", "cf", "one.tar", from, "--one-by-one", "--force"][..], sparse].concat();
            succeeds(path, &one_by_one);
            run(path, &format!("cmp {archive} one.tar"));
        }
    }
    // Out again, and listed.
    succeeds(path, &["qtar", "xf", "0-1.tar", "out"]);
    run(path, "tar --compare --file 0-0.tar --directory out");
    assert_eq!(succeeds(path, &["qtar", "tf", "0-0.tar"]), run(path, "tar tf 0-0.tar"));
    assert_eq!(json(path, &["qtar", "tf", "0-0.tar", "--json"])[1]["path"], "/a");
    run(path, "test $(wc -c < 0-0.tar) -gt $(wc -c < 0-1.tar)");
    let left = json(path, &["qtar", "cf", "some.tar", "made", "--exclude", "deep", "--exclude", "large", "--json"]);
    assert_eq!((&left["files"], &left["reading"]["files_ahead"]), (&3.into(), &3.into()), "{left}");
}

/// A chip with F2FS on a layer that remaps, and the house's documents on it.
fn chip(path: &Path) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let workload = format!("tree:{}", docs.display());
    let device = ["--device", "p3-ssd", "--fs", "f2fs", "--ftl", "page-map", "--device-file", "p.nand"];
    let call = [&["compare"][..], &device, &["--workload", &workload, "--seeds", "1", "--no-verify"]].concat();
    succeeds(path, &call);
}

#[test]
fn files_on_a_chip_that_remaps_become_one_and_the_chip_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    chip(path);
    // Nine gigabytes, most of it holes, which tar does not read; its time is in the sum as well.
    let sum = "tar --create --sparse --hole-detection=seek p.nand | sha256sum";
    let before = run(path, sum);
    succeeds(path, &["extract", "p.nand", "--to-tar", "plain.tar"]);
    let told = json(path, &["qtar", "cf", "shared.tar", "p.nand", "--json"]);
    run(path, "cmp plain.tar shared.tar");
    let reading = &told["reading"];
    assert_eq!((&reading["way"], &reading["windows"], &reading["refusals"]), (&"remap".into(), &1.into(), &0.into()));
    let one = json(path, &["qtar", "cf", "one.tar", "p.nand", "--one-by-one", "--json"]);
    run(path, "cmp plain.tar one.tar");
    let reads = |report: &serde_json::Value| report["reading"]["device"]["reads"].as_u64().expect("a number");
    assert!(reads(&told) < reads(&one), "{told} {one}");
    let files =
        reading["files_shared"].as_u64().expect("a number") + reading["files_direct"].as_u64().expect("a number");
    assert_eq!(Some(files), told["files"].as_u64(), "{told}");
    let small = ["qtar", "cf", "small.tar", "p.nand", "--memory", "1M", "--sparse"];
    assert!(succeeds(path, &small).contains("were joined into one in 1 groups"));
    run(path, "tar --extract --file small.tar --one-top-level=out && tar --compare --file plain.tar --directory out");
    assert_eq!(run(path, sum), before);
}

#[test]
fn an_image_without_remapping_is_read_one_by_one_and_that_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    tree(&path.join("made"));
    succeeds(path, &["mkfs", "f2fs", "--from", "made", "--size", "64M", "v.img"]);
    succeeds(path, &["extract", "v.img", "--to-tar", "plain.tar", "--path", "/deep"]);
    let call = ["qtar", "cf", "read.tar", "v.img", "--path", "/deep"];
    tells(path, &call, 0, "v.img: this device cannot remap: the files were read one by one");
    run(path, "cmp plain.tar read.tar");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("d")).expect("made");
    fs::write(path.join("d/a"), "a").expect("written");
    fs::write(path.join("there.tar"), "").expect("written");
    fs::write(path.join("v.img"), vec![7; 8192]).expect("written");
    for (arguments, parts) in [
        (&["qtar", "czf", "a.tar", "d"][..], &["unrecognized subcommand", "czf"][..]),
        (&["qtar", "cf", "a.tar"], &["DIR|IMAGE"]),
        (&["qtar", "cf", "a.tar", "d", "--posix"], &["--posix"]),
        (&["qtar", "cf", "there.tar", "d"], &["there.tar: the file exists", "--force"]),
        (&["qtar", "cf", "d", "d"], &["d: this is a directory"]),
        (&["qtar", "cf", "-", "d", "--json"], &["--json", "standard output"]),
        (&["qtar", "cf", "a.tar", "none"], &["none"]),
        (&["qtar", "cf", "a.tar", "d", "--region", "x"], &["--region", "d is a directory", "no option of images"]),
        (&["qtar", "cf", "a.tar", "d", "--path", "/a"], &["--path /a", "d is a directory"]),
        (&["qtar", "cf", "a.tar", "v.img", "--exclude", "x"], &["--exclude x", "v.img is an image"]),
        (&["qtar", "cf", "a.tar", "d", "--memory", "4K"], &["--memory 4096", "at least 1M"]),
        (&["qtar", "cf", "a.tar", "d", "--exclude", "../x"], &[".."]),
        (&["qtar", "xf", "v.img", "out"], &["v.img", "expected a tar archive"]),
        (&["qtar", "xf", "there.tar", "d"], &["d: the directory is not empty", "--merge"]),
        (&["qtar", "tf", "none.tar"], &["none.tar"]),
    ] {
        refused(path, arguments, parts);
        assert!(!path.join("a.tar").exists() && !path.join("out").exists(), "{arguments:?}");
    }
    // To standard output, where nobody is left to read it.
    run(path, &format!("{} qtar cf - d | head -c 100 > part", env!("CARGO_BIN_EXE_nandkit")));
    exits(path, &["qtar", "cf", "a.tar", "d"], 0);
}
