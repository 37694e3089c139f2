//! Pages of results: `--html` and `nandkit report`.

use std::process::Command;

use crate::common::{exits, nandkit};

const TINY: [&str; 9] = ["compare", "--fs", "fat", "--device", "nandsim-32m-16k", "--ftl", "fast", "--workload", "fax"];

/// Reads a page as XML and its data as JSON, and says how many sections, plots and records it has.
const READ: &str = "
import json, sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
data = [json.loads(e.text) for e in root.iter('script') if e.get('type') == 'application/json']
plots = [e for e in root.iter('svg') if e.get('role') == 'img' and e.find('title') is not None and e.find('desc') is not None]
print(len(list(root.iter('section'))), len(plots) > 0, len(list(root.iter('svg'))) == len(plots), len(data[0]))
";

#[test]
fn a_comparison_becomes_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let told = exits(path, &[&TINY[..], &["--seeds", "2", "--html", "a.html", "--out", "out"]].concat(), 0);
    assert!(told.stdout.contains("fax"), "{}", told.stdout);
    let page = std::fs::read_to_string(path.join("a.html")).unwrap();
    let read = Command::new("python3").args(["-c", READ, "a.html"]).current_dir(path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "1 True True 2\n", "{read:?}");
    assert!(!page.replace("http-equiv", "").contains("http"), "no address in it");
    // From the records that were kept: the same but for title and sentences.
    exits(path, &["report", "out/runs.jsonl", "--html", "b.html"], 0);
    exits(path, &["report", "out/runs.jsonl", "--html", "c.html"], 0);
    let read = |name: &str| std::fs::read(path.join(name)).unwrap();
    assert_eq!(read("b.html"), read("c.html"));
    let told = nandkit(path, &["report", "out/runs.jsonl", "--html", "b.html"]);
    assert!(told.status == Some(2) && told.stderr.contains("--force"), "{}", told.stderr);
    exits(path, &["report", "out/runs.jsonl", "--html", "b.html", "--force"], 0);
    let told = exits(path, &["report", "out/runs.jsonl", "--against", "out/runs.jsonl"], 0);
    assert!(told.stdout.starts_with("Of 0 figures"), "{}", told.stdout);
}

#[test]
fn names_in_records_are_texts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let told = exits(path, &[&TINY[..], &["--seeds", "1", "--out", "out"]].concat(), 0);
    assert!(told.stdout.contains("fax"), "{}", told.stdout);
    let line = std::fs::read_to_string(path.join("out/runs.jsonl")).unwrap();
    let hostile = line.replacen("\"workload\":\"", "\"workload\":\"</script><script>alert(1)</script>", 1);
    assert_ne!(hostile, line);
    std::fs::write(path.join("hostile.jsonl"), hostile).unwrap();
    exits(path, &["report", "hostile.jsonl", "--html", "a.html"], 0);
    let page = std::fs::read_to_string(path.join("a.html")).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    for (text, expected) in [("", "no record in it"), ("[1]", "entry 1"), ("{}", "line 1")] {
        std::fs::write(path.join("bad"), text).unwrap();
        let told = nandkit(path, &["report", "bad", "--html", "bad.html"]);
        assert!(told.status == Some(2) && told.stderr.contains(expected), "{text}: {}", told.stderr);
        assert!(!path.join("bad.html").exists());
    }
}
