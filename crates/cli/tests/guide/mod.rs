//! The guide page "I have a dump": its commands, in its order, give the outputs that it shows.

mod inputs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{fsck_f2fs, nandkit, noise, succeeds};

/// What a page shows: a command, and the lines below it.
struct Step {
    command: String,
    shown: Vec<String>,
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/i-have-a-dump.md");
    fs::read_to_string(path).expect("the page")
}

/// The steps of the section with this heading: in blocks between ``` a line that begins with `$` is
/// a command, all others are what it prints.
fn steps(page: &str, heading: &str) -> Vec<Step> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect("the section");
    let mut steps: Vec<Step> = Vec::new();
    for line in section.split("```").skip(1).step_by(2).flat_map(|block| block.trim_matches('\n').lines()) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: Vec::new() }),
            (None, Some(step)) => step.shown.push(line.trim_end().to_owned()),
            (None, None) => panic!("'{line}' stands before any command"),
        }
    }
    steps
}

/// Whether the lines match the lines that are shown; `...` stands for any number of them, within a
/// line for any text.
fn fits(shown: &[String], told: &[&str]) -> bool {
    let line_fits = |shown: &str, told: &str| match shown.split_once("...") {
        Some((before, after)) => {
            told.strip_prefix(before).is_some_and(|rest| rest.ends_with(after)) && !before.is_empty()
        }
        None => shown == told,
    };
    match (shown.split_first(), told.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => (0..=told.len()).any(|skipped| fits(rest, &told[skipped..])),
        (Some((first, rest)), Some((line, further))) => line_fits(first, line) && fits(rest, further),
        _ => false,
    }
}

/// Runs the steps of a section, one behind the other in one shell, and compares what they print.
fn follow(directory: &Path, heading: &str) {
    let steps = steps(&page(), heading);
    assert!(steps.len() >= 6, "{heading}: {} commands", steps.len());
    let mark = "== end of a step ==";
    let line = |step: &Step| format!("{}\nstatus=$?; echo '{mark}'; (exit $status)\n", step.command);
    let script: String = std::iter::once("exec 2>&1\n".to_owned()).chain(steps.iter().map(line)).collect();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_nandkit"));
    let path =
        format!("{}:{}", program.parent().expect("a folder").display(), std::env::var("PATH").unwrap_or_default());
    let mut run = Command::new("sh");
    run.args(["-c", &script]).current_dir(directory).env("PATH", path).env("COLUMNS", "110");
    let output = run.env("SOURCE_DATE_EPOCH", inputs::TIME).env("TZ", "UTC").output().expect("sh runs");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    let end = format!("{mark}\n");
    let mut parts = told.split(&end);
    for step in &steps {
        let part = parts.next().unwrap_or_else(|| panic!("{heading}: '{}' ended the shell", step.command));
        let lines: Vec<&str> = part.lines().map(str::trim_end).collect();
        let shown = step.shown.join("\n");
        assert!(fits(&step.shown, &lines), "$ {}\n--- the page shows\n{shown}\n--- it prints\n{part}", step.command);
    }
}

fn read(directory: &Path, name: &str) -> Vec<u8> {
    fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_router_goes_from_its_dump_back_to_its_flash() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let router = inputs::router(path);
    follow(path, "A router");
    // Nothing but the volume is another one, and the kernel and the SquashFS came out whole.
    let (range, after) = (inputs::ROUTER_VOLUME, read(path, "flash-me.bin"));
    assert!(after[..range.start] == router[..range.start] && after[range.end..] == router[range.end..]);
    assert!(after[range.clone()] != router[range.clone()] && after[range] == read(path, "rootfs_data.bin"));
    assert!(router[0x3_0000..].starts_with(&read(path, "kernel.bin")));
    assert_eq!(read(path, "kernel.bin").len(), inputs::ROUTER_KERNEL_BYTES);
    assert_eq!(read(path, "rootfs.squashfs").len(), inputs::ROUTER_SQUASHFS_BYTES);
    for image in ["router.bin", "flash-me.bin"] {
        let text = succeeds(path, &["cat", image, "--region", "rootfs_data", "/etc/config/network"]);
        assert!(text.contains("192.168.7.1") && !text.contains("192.168.1.1"), "{image}: {text}");
    }
    assert_eq!(succeeds(path, &["cat", "rootfs_data.bin", "/etc/config/network"]), inputs::network("192.168.7.1"));
}

#[test]
fn a_nand_with_ecc_goes_from_its_dump_back_to_its_flash() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let sound = inputs::camera(path);
    follow(path, "A NAND dump with ECC");
    // Pages that nobody changed are as they were before any bit flipped.
    let after = read(path, "programmer.bin");
    assert_eq!(after.len(), sound.len());
    let pages = |bytes: &[u8]| bytes.chunks(2112).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let changed = pages(&after).iter().zip(pages(&sound)).filter(|(after, sound)| *after != sound).count();
    assert!((1..20).contains(&changed), "{changed} pages");
    for image in ["programmer.bin", "data.bin", "camera.bin"] {
        let more: &[&str] = if image == "data.bin" { &["--page-size", "2048"] } else { &[] };
        let hostname = succeeds(path, &[&["cat", image, "/etc/hostname"], more].concat());
        assert_eq!(hostname, "garden\n", "{image}");
        succeeds(path, &[&["check", image], more].concat());
    }
    // What nandwrite takes is the data alone.
    let data: Vec<u8> = read(path, "data.bin");
    succeeds(path, &["export", "programmer.bin", "again.bin", "--for", "nandwrite"]);
    assert!(read(path, "again.bin") == data && data.len() < sound.len() / 2);
}

#[test]
fn an_android_volume_goes_from_its_parts_back_to_fastboot() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let before = inputs::phone(path);
    follow(path, "An Android image in parts");
    let after = read(path, "userdata.img");
    assert!(after.len() == before.len() && after != before);
    fsck_f2fs(path, "userdata.img");
    let sparse = read(path, "userdata.simg");
    assert!(sparse.starts_with(&0xED26_FF3A_u32.to_le_bytes()) && sparse.len() < after.len() / 4);
    succeeds(path, &["export", "userdata.simg", "unpacked.img"]);
    assert!(read(path, "unpacked.img") == after);
    assert_eq!(succeeds(path, &["cat", "userdata.simg", "/misc/hosts"]), "127.0.0.1 localhost\n");
    let large = nandkit(path, &["get", "userdata.simg", "/media/film", "film"]);
    assert_eq!(large.status, Some(0), "{}", large.stderr);
    assert!(read(path, "film") == noise::noise(inputs::FILM_BYTES, 3));
}

#[test]
fn what_a_page_shows_is_compared() {
    let page =
        "# Page\n\n## One\n\ntext\n\n```\n$ a b\nfirst\n...\nlast\n$ c\n```\n\n## Two\n\n```\n$ d\nx ... z\n```\n";
    let one = steps(page, "One");
    assert_eq!(one.iter().map(|step| step.command.as_str()).collect::<Vec<_>>(), ["a b", "c"]);
    assert!(fits(&one[0].shown, &["first", "last"]) && fits(&one[0].shown, &["first", "1", "2", "last"]));
    for wrong in [&["first"][..], &["first", "last", "more"], &["last"], &[]] {
        assert!(!fits(&one[0].shown, wrong), "{wrong:?}");
    }
    assert!(fits(&one[1].shown, &[]) && !fits(&one[1].shown, &["more"]));
    let two = steps(page, "Two");
    assert!(fits(&two[0].shown, &["x y z"]) && !fits(&two[0].shown, &["x y"]) && !fits(&two[0].shown, &["y z"]));
}
