//! `calibrate`: a card file that is a device, and files of this machine that stay as they are.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{refused, succeeds};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Bytes of a file that is large enough: nine units of 1 MiB.
const LENGTH: usize = 9 << 20;

fn image(directory: &Path) -> Vec<u8> {
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at / 7 % 251) as u8).collect();
    fs::write(directory.join("disk.img"), &bytes).expect("a file");
    bytes
}

#[track_caller]
/// A series of a result: the mean of each size.
fn means(result: &Value, direction: &str, placing: &str) -> Vec<(u64, u64)> {
    let series = result["calibration"]["series"].as_array().expect("a list");
    let found = series.iter().find(|series| series["direction"] == direction && series["placing"] == placing);
    let points = found.and_then(|series| series["points"].as_array());
    let figure = |point: &Value, name: &str| point[name].as_u64().expect("a number");
    points.into_iter().flatten().map(|point| (figure(point, "bytes"), figure(point, "mean_ns"))).collect()
}

#[test]
fn a_calibrated_card_is_a_device_with_the_same_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let shown = succeeds(here, &["calibrate", "card-b", "--quick", "-o", "mine.toml"]);
    for part in ["at least 32 units open", "in one unit", "anywhere", "64 KiB", "MB/s"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let first = json(&succeeds(here, &["calibrate", "card-b", "--quick", "--json"]));
    let again = json(&succeeds(here, &["calibrate", "mine.toml", "--quick", "--json"]));
    for placing in ["sequential", "in-unit", "spread"] {
        for direction in ["read", "write"] {
            let (first, again) = (means(&first, direction, placing), means(&again, direction, placing));
            assert!(first.len() >= 6 && first.len() == again.len(), "{direction} {placing}");
            for (one, other) in first.into_iter().zip(again) {
                assert!(one.0 == other.0 && one.1.abs_diff(other.1) * 100 <= one.1, "{one:?} {other:?}");
            }
        }
    }
    let short = ["--fs", "f2fs", "--workload", "postmark-small", "--seeds", "1", "--json"];
    let compared = json(&succeeds(here, &[&["compare", "--device", "mine.toml"][..], &short].concat()));
    let stack = compared["records"][0]["stack"].as_str().expect("a title");
    assert!(stack.contains("mine"), "{stack}");
    refused(here, &["calibrate", "card-b", "--quick", "-o", "mine.toml"], &["mine.toml: the file exists", "--force"]);
    succeeds(here, &["calibrate", "sd-lexar-16", "--quick", "-o", "mine.toml", "--force", "--name", "other"]);
    assert!(fs::read_to_string(here.join("mine.toml")).expect("reads").starts_with("name = \"other\""));
}

#[test]
fn open_units_are_shown_with_their_step() {
    let directory = tempfile::tempdir().expect("a directory");
    let shown = succeeds(directory.path(), &["calibrate", "sd-lexar-16", "--quick"]);
    assert!(shown.contains("\n5 units open") && shown.contains("closing a whole unit: 374"), "{shown}");
    let step = shown.lines().find(|line| line.trim_start().starts_with("6 ")).expect("six streams");
    let open = shown.lines().find(|line| line.trim_start().starts_with("5 ") && !line.contains("open")).expect("five");
    assert!(step.contains("####") && !open.contains('#'), "{shown}");
    let settings = ["calibrate", "sd-lexar-16", "--quick", "--json", "--set", "stack.device.open_units.count=3"];
    let three = json(&succeeds(directory.path(), &settings));
    assert_eq!(three["calibration"]["open_units"]["count"], 3, "{three}");
}

#[test]
fn a_file_is_read_and_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let bytes = image(here);
    let read = json(&succeeds(here, &["calibrate", "disk.img", "--unit", "1M", "--quick", "--json"]));
    assert!(fs::read(here.join("disk.img")).expect("reads") == bytes, "the file has changed");
    assert!(read["calibration"]["open_units"].is_null() && read["card"].is_null(), "{read}");
    for placing in ["sequential", "in-unit", "spread"] {
        let times = means(&read, "read", placing);
        assert!(times.len() >= 4 && times.iter().all(|(_, mean_ns)| *mean_ns > 100), "{placing}: {times:?}");
        assert!(means(&read, "write", placing).is_empty());
    }
    let all = ["calibrate", "disk.img", "--unit", "1M", "--quick"];
    refused(here, &[&all[..], &["-o", "c.toml"]].concat(), &["--out", "expected --write"]);
    refused(here, &[&all[..], &["--write"]].concat(), &["destroys what disk.img holds", "expected --yes"]);
    assert!(fs::read(here.join("disk.img")).expect("reads") == bytes, "the file has changed");
    succeeds(here, &[&all[..], &["--write", "--yes", "-o", "c.toml"]].concat());
    let after = fs::read(here.join("disk.img")).expect("reads");
    assert!(after.len() == bytes.len() && after != bytes, "nothing was written");
    let card = fs::read_to_string(here.join("c.toml")).expect("reads");
    assert!(card.contains("size = 1048576") && card.contains("measured by nandkit calibrate"), "{card}");
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    image(here);
    refused(here, &["calibrate", "disk.img"], &["disk.img: too small to calibrate: 9 MiB are 2 units of 4 MiB"]);
    refused(here, &["calibrate", "disk.img", "--unit", "5000"], &["a unit of 5000 bytes; expected"]);
    refused(here, &["calibrate", "disk.img", "--ftl", "fast"], &["--ftl", "no emulated device"]);
    refused(here, &["calibrate", "disk.img", "-o", "card"], &["--out: card", ".toml"]);
    refused(here, &["calibrate", "."], &["expected a plain file or a block device"]);
    refused(here, &["calibrate", "./nothing"], &["./nothing", "No such file"]);
    refused(here, &["calibrate", "/dev/zero"], &["expected a plain file or a block device"]);
    refused(here, &["calibrate", "sd-lexar"], &["did you mean \"sd-lexar-16\"", "by its path"]);
    let held = File::options().read(true).write(true).open(here.join("disk.img")).expect("opens");
    held.lock().expect("locks");
    refused(here, &["calibrate", "disk.img", "--unit", "1M"], &["it is in use"]);
    drop(held);
    fs::write(here.join("chip.toml"), "preset = 'slc-256m'\nfile = 'x.nand'\n").expect("a file");
    refused(here, &["calibrate", "chip.toml"], &["x.nand holds a chip"]);
    assert!(!here.join("x.nand").exists());
    // What stands at its end is no whole sector.
    let odd = File::options().write(true).open(here.join("disk.img")).expect("opens");
    odd.write_all_at(b"x", LENGTH as u64).expect("writes");
    drop(odd);
    succeeds(here, &["calibrate", "disk.img", "--unit", "1M", "--quick"]);
}

#[test]
fn card_files_that_are_none_are_told_before_a_run() {
    const CURVES: [&str; 4] = ["read_sequential", "read_random", "write_sequential", "write_random"];
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let points = |points: &str| CURVES.map(|curve| format!("{curve} = {points}\n")).concat();
    for (text, expected) in [
        (points("[[4096, 9], [8192, 8]]"), &["[4096, 9] before [8192, 8]", "no request that takes less"][..]),
        (points("[[4096, 9]]"), &["curves.read_sequential is a list of 1", "at least two points"]),
        (points("[[4096, 0], [8192, 0]]"), &["[4096, 0]", "times above 0"]),
        (points("[[4096, 8], [8192, 9]]") + "[geometry]\nsector_size = 8192\n", &["whole sectors", "8192"]),
        (
            points("[[8192, 8], [16384, 9]]") + "[geometry]\nsector_size = 8192\n",
            &["stack.device", "blocks of 512 to 4096"],
        ),
        ("read_random = 3\n".to_string(), &["read_random = 3"]),
    ] {
        fs::write(here.join("card.toml"), format!("name = 'mine'\n[curves]\n{text}")).expect("a file");
        refused(here, &["compare", "--device", "card.toml", "--fs", "f2fs"], expected);
    }
}

/// The first run of the grid has all it needs; none is made.
#[test]
fn partial_collection_without_times_is_told_before_a_run() {
    const FLAT: &str = "[[4096, 9], [8192, 8]]";
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let curves = ["read_sequential", "read_random", "write_sequential", "write_random"];
    let points = |points: &str| curves.map(|curve| format!("{curve} = {points}\n")).concat();
    fs::write(here.join("falls.toml"), format!("name = 'mine'\n[curves]\n{}", points(FLAT))).expect("a file");
    fs::write(here.join("one.toml"), format!("name = 'mine'\n[curves]\n{}", points("[[4096, 9]]"))).expect("a file");
    let zero = points("[[4096, 0], [8192, 0]]");
    fs::write(here.join("zero.toml"), format!("name = 'mine'\n[curves]\n{zero}")).expect("a file");
    for (device, keys, expected) in [
        ("ram", "", &["stack.fs", "request times by size", "expected a card", "nandkit calibrate"][..]),
        ("slc-256m", "", &["stack.fs", "request times by size", "expected a card"]),
        ("ram", "reuse_curve = 'none.toml'", &["stack.fs.reuse_curve", "none.toml", "cannot read"]),
        ("card-c", "reuse_curve = 'falls.toml'", &["falls.toml", "no request that takes less"]),
        ("card-c", "reuse_curve = 'one.toml'", &["one.toml", "at least two points"]),
        ("card-c", "reuse_curve = 'zero.toml'", &["zero.toml", "times above 0"]),
    ] {
        let spec = format!(
            "workload = 'holes'\n[stack]\ndevice = '{device}'\n[stack.fs]\nkind = 'f2fs'\n{keys}\n\
             [grid]\n'stack.fs.reuse' = ['ssr', 'pgc']\n"
        );
        fs::write(here.join("s.toml"), spec).expect("a file");
        refused(here, &["run", "s.toml", "--out", "o"], expected);
        assert!(!here.join("o").exists(), "{device} {keys}: a run was made");
    }
}

#[test]
fn a_role_says_why_it_is_played_by_its_card() {
    let directory = tempfile::tempdir().expect("a directory");
    let shown = succeeds(directory.path(), &["devices", "card-c"]);
    for part in ["played by sd-pro-plus-128", "differs most", "not sd-pny-10", "curves.write_random"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let all = succeeds(directory.path(), &["devices"]);
    for name in ["card-a", "card-parts-fast", "sd-olpc-unusable", "sd-raspberry-128"] {
        assert!(all.lines().any(|line| line.starts_with(name)), "{name}: {all}");
    }
}
