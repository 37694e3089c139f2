//! `--oob-layout`: dumps with ECC are written, found, read corrected, changed and checked.

use std::fs;
use std::path::Path;

use crate::common::{exits, json, nandkit, succeeds, tells};
use serde_json::Value;

const PAGE: usize = 2048;

/// A dump with OOB and no ECC, and the tree in it: a file of noise that fills blocks, and one with
/// a text.
fn dump(directory: &Path) -> Vec<u8> {
    fs::create_dir_all(directory.join("tree/d")).expect("a directory");
    let noise: Vec<u8> = (0..400_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fs::write(directory.join("tree/a"), &noise).expect("a file");
    fs::write(directory.join("tree/d/b"), "b").expect("a file");
    let made =
        ["mkfs", "jffs2", "--from", "tree", "-e", "128K", "--oob=2048+64", "--size", "2M", "-x", "none", "plain"];
    succeeds(directory, &made);
    noise
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

#[test]
fn a_dump_with_ecc_is_written_found_corrected_and_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let noise = dump(path);
    for (layout, spare, correctable) in [
        ("linux-hamming-2048-64", 64, 1),
        ("linux-bch4-2048-64", 64, 4),
        ("gpmi-bch8-2048-64", 64, 8),
        ("qcom-bch8-2048-128", 128, 8),
    ] {
        let _ = fs::remove_file(path.join("raw"));
        let told = json(path, &["export", "plain", "raw", "--oob-layout", layout, "--for", "programmer", "--json"]);
        let mut raw = fs::read(path.join("raw")).expect("read");
        assert_eq!((told["oob_size"].as_u64(), raw.len()), (Some(spare), 1024 * (PAGE + spare as usize)));
        // As many wrong bits as the code corrects, in one code word of every ninth page in use.
        let (stored, mut wrong) = (PAGE + spare as usize, 0);
        let in_use = |page: &usize| raw[page * stored..][..PAGE].iter().any(|byte| *byte != 0xFF);
        let pages: Vec<usize> = (0..160).step_by(9).filter(in_use).collect();
        for page in pages {
            (0..correctable).for_each(|bit| flip(&mut raw, (page * stored + 40 + 3 * bit) * 8 + bit));
            wrong += 1;
        }
        fs::write(path.join("raw"), &raw).expect("written");
        let info = json(path, &["info", "raw", "--json"]);
        assert_eq!(info["ecc"]["layout"], layout, "{info}");
        assert_eq!(info["ecc"]["bits_corrected"].as_u64(), Some(wrong * correctable as u64), "{layout}");
        assert_eq!(info["ecc"]["codewords_corrected"].as_u64(), Some(wrong), "{layout}");
        assert_eq!(info["ecc"]["codewords_uncorrectable"].as_u64(), Some(0), "{layout}");
        let text = succeeds(path, &["info", "raw"]);
        assert!(text.contains(&format!("{wrong} bits corrected")) || correctable > 1, "{text}");
        assert!(text.contains(layout), "{text}");
        let _ = fs::remove_file(path.join("got"));
        succeeds(path, &["get", "raw", "a", "got"]);
        assert!(fs::read(path.join("got")).expect("read") == noise, "{layout}");
        let told = json(path, &["check", "raw", "--json"]);
        assert_eq!(told["ecc_codewords_uncorrectable"].as_u64(), Some(0), "{layout}");

        // What is written gets its ECC, and nothing else changes.
        fs::write(path.join("new"), vec![0x5A; 5000]).expect("written");
        succeeds(path, &["put", "raw", "new", "/d/new"]);
        let changed = fs::read(path.join("raw")).expect("read");
        let pages = changed.chunks(stored).zip(raw.chunks(stored)).filter(|(a, b)| a != b).count();
        assert!((1..20).contains(&pages), "{layout}: {pages} pages changed");
        let info = json(path, &["info", "raw", "--json"]);
        assert_eq!(info["ecc"]["codewords_uncorrectable"].as_u64(), Some(0), "{layout}");
        let _ = fs::remove_file(path.join("got"));
        succeeds(path, &["get", "raw", "d/new", "got"]);
        assert!(fs::read(path.join("got")).expect("read") == vec![0x5A; 5000], "{layout}");
        // Exported again it holds no wrong bit, and no ECC where data alone is asked for.
        let _ = fs::remove_file(path.join("again"));
        let told = json(path, &["export", "raw", "again", "--for", "programmer", "--json"]);
        assert_eq!(told["bits_corrected"].as_u64(), Some(wrong * correctable as u64), "{layout}");
        let info = json(path, &["info", "again", "--json"]);
        assert_eq!((&info["ecc"]["layout"], info["ecc"]["bits_corrected"].as_u64()), (&layout.into(), Some(0)));
    }
}

#[test]
fn what_cannot_be_corrected_is_told_by_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let noise = dump(path);
    succeeds(path, &["export", "plain", "raw", "--oob-layout", "linux-bch4-2048-64"]);
    let mut raw = fs::read(path.join("raw")).expect("read");
    // In the middle of the file that fills blocks.
    let place =
        raw.windows(32).position(|window| *window == noise[200_000..200_032]).expect("the data are not compressed");
    (0..12).for_each(|bit| flip(&mut raw, place * 8 + 11 * bit));
    fs::write(path.join("raw"), &raw).expect("written");
    let outcome = exits(path, &["check", "raw", "--json"], 1);
    let told: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(told["ecc_codewords_uncorrectable"].as_u64(), Some(1));
    let findings = told["findings"].as_array().expect("findings");
    let uncorrectable: Vec<&Value> = findings.iter().filter(|finding| finding["kind"] == "uncorrectable").collect();
    assert!(
        !uncorrectable.is_empty() && uncorrectable.iter().all(|finding| finding["files"][0]["path"] == "/a"),
        "{told}"
    );
    let outcome = nandkit(path, &["check", "raw"]);
    assert!(outcome.stderr.contains("1 code words have more bit errors"), "{}", outcome.stderr);
}

#[test]
fn layouts_that_do_not_fit_are_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    dump(path);
    let good = include_str!("../../../specs/oob/linux-bch4-2048-64.toml");
    fs::write(path.join("mine.toml"), good.replace("linux-bch4-2048-64", "mine")).expect("written");
    fs::write(path.join("short.toml"), good.replace("bytes = 34", "bytes = 30")).expect("written");
    for (arguments, expected) in [
        (&["export", "plain", "out", "--oob-layout", "linux-bch4-2048-46"][..], "did you mean \"linux-bch4-2048-64\""),
        (
            &["export", "plain", "out", "--oob-layout", "short.toml"],
            "the spans take 2108 bytes of a page; expected 2112 bytes",
        ),
        (&["export", "plain", "out", "--oob-layout", "there-is-none.toml"], "cannot read the layout"),
        (&["export", "plain", "out", "--oob-layout", "gpmi-bch18-4096-256"], "expected a layout for these"),
        (&["info", "plain", "--oob-layout", "linux-bch8-4096-224", "--page-size", "2K"], "expected no other"),
        (&["check", "plain", "--oob-layout", "short.toml"], "the spans take"),
    ] {
        tells(path, arguments, 2, expected);
        assert!(!path.join("out").exists());
    }
    succeeds(path, &["export", "plain", "out", "--oob-layout", "mine.toml"]);
    // By its own layout, by the shipped one that is found, and as it stands.
    for (layout, expected) in [(Some("mine.toml"), "mine"), (None, "linux-bch4-2048-64"), (Some("none"), "")] {
        let mut arguments = vec!["info", "out", "--json"];
        arguments.extend(layout.iter().flat_map(|layout| ["--oob-layout", *layout]));
        let info = json(path, &arguments);
        assert_eq!(info["ecc"]["layout"].as_str().unwrap_or(""), expected);
    }
}
