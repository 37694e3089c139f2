//! Where file systems meet: each where it belongs, under one host.

use std::collections::BTreeSet;

use crate::common::succeeds;
use serde_json::Value;

const SHORT: [&str; 4] = ["--workload", "postmark-small:transactions=20", "--seeds", "1"];

fn compared(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let text = succeeds(directory.path(), &[&["compare", "--json"], arguments, &SHORT].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn records(value: &Value) -> &Vec<Value> {
    value["records"].as_array().expect("a list")
}

#[test]
fn without_a_device_each_file_system_stands_where_it_belongs_and_the_output_says_so() {
    let value = compared(&[]);
    let places: BTreeSet<(String, String, String)> = records(&value)
        .iter()
        .map(|record| {
            let stack = &record["spec"]["stack"];
            let name = |part: &Value| part.as_str().unwrap_or_else(|| panic!("{part}: {record}")).to_string();
            (name(&stack["fs"]["kind"]), name(&stack["ftl"]["kind"]), name(&stack["device"]["preset"]))
        })
        .collect();
    let expected = [
        ("f2fs", "page-map", "k9l8g08u0m"),
        ("f2fs", "none", "sd-pny-10"),
        ("fat", "page-map", "k9l8g08u0m"),
        ("fat", "none", "sd-pny-10"),
        ("jffs2", "none", "k9l8g08u0m"),
        ("ubifs", "none", "k9l8g08u0m"),
    ];
    assert_eq!(places, expected.map(|(a, b, c)| (a.into(), b.into(), c.into())).into());
    let notes = value["notes"].to_string();
    for part in
        ["f2fs and fat", "page-mapped layer", "sd-pny-10", "jffs2 and ubifs", "The host: 4 MiB", "1 MiB", "5000 ms"]
    {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    for name in ["layers.fs.valid_blocks_over_time", "layers.fs.collected_lebs"] {
        assert!(value["metrics"].to_string().contains(name), "{name}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let text = succeeds(directory.path(), &[&["compare", "--fs", "fat,jffs2"], &SHORT[..]].concat());
    assert!(text.contains("The host: 4 MiB") && text.contains("made for bare flash"), "{text}");
}

/// What was written reaches the device in the measured phase under every file system, whoever
/// caches.
#[test]
fn file_systems_that_differ_have_one_host_and_everything_they_were_given_reaches_the_device() {
    let value = compared(&["--fs", "f2fs,fat", "--device", "nandsim-256m", "--ftl", "page-map"]);
    assert_eq!(records(&value).len(), 2);
    for record in records(&value) {
        assert_eq!(record["spec"]["stack"]["host"]["dirty"], 1 << 20, "{record}");
        // Of all causes: F2FS keeps files as small as these in their inodes, which are metadata.
        let programmed = record["bytes_programmed"].as_u64().expect("bytes");
        let written = record["user_bytes_written"].as_u64().expect("bytes");
        assert!(programmed > 0 && written > 0, "{programmed} of {written}: {record}");
        assert!(record["layers"]["workload"]["host_syncs"].is_u64(), "{record}");
    }
    let without = compared(&["--fs", "f2fs,fat", "--device", "nandsim-256m", "--ftl", "page-map", "--host", "none"]);
    assert!(records(&without).iter().all(|record| record["spec"]["stack"].get("host").is_none()));
    assert!(without["notes"].to_string().contains("No host"), "{}", without["notes"]);
    // One kind alone has it too, and workloads on blocks have none.
    let alone = compared(&["--fs", "fat", "--device", "nandsim-256m", "--ftl", "page-map"]);
    assert_eq!(records(&alone)[0]["spec"]["stack"]["host"]["dirty"], 1 << 20);
}

#[test]
fn a_host_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for (host, expected) in [("cash=4M", "cache"), ("dirty=1", "256 KiB"), ("much", "none, default, or cache=")] {
        let refused = crate::common::nandkit(directory.path(), &["compare", "--fs", "f2fs,fat", "--host", host]);
        assert!(refused.status == Some(2) && refused.stderr.contains(expected), "{host}: {}", refused.stderr);
    }
}
