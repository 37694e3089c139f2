//! `nandkit compare` of records that are there already.

use std::process::Command;

#[test]
fn records_of_a_command_on_several_stacks_stand_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (name, stack) in [("jffs2.json", &["--fs", "jffs2"][..]), ("fat.json", &["--fs", "fat", "--ftl", "fast"])] {
        let done = Command::new(env!("CARGO_BIN_EXE_nandkit"))
            .args(["exec", "--json", "--device", "nandsim-32m-16k"])
            .args(stack)
            .args(["--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero | tr '\\0' x > f; done"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        std::fs::write(path.join(name), done.stdout).unwrap();
    }
    let told = crate::common::exits(path, &["compare", "jffs2.json", "fat.json"], 0);
    assert!(told.stdout.contains("jffs2") && told.stdout.contains("fast"), "{}", told.stdout);
    let told = crate::common::nandkit(path, &["compare", "--json", "jffs2.json", "fat.json"]);
    let json: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(json["records"].as_array().unwrap().len(), 2);
    assert!(!json["verdicts"].as_array().unwrap().is_empty(), "{json:#}");
    std::fs::write(path.join("empty"), "").unwrap();
    std::fs::write(path.join("other"), "{}").unwrap();
    for (arguments, expected) in [
        (&["compare", "none"][..], "none: No such file"),
        (&["compare", "empty"], "the file holds no record"),
        (&["compare", "other"], "line 1"),
        (&["compare", "jffs2.json", "--fs", "fat"], "cannot be used with"),
    ] {
        let told = crate::common::nandkit(path, arguments);
        assert!(told.status == Some(2) && told.stderr.contains(expected), "{arguments:?}: {}", told.stderr);
    }
}
