//! `nandkit serve`, with qemu-io, qemu-img, nbdinfo, nbdcopy and fio as judges.

use crate::common::{exits, tells};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that is told to end when it goes.
struct Serving {
    child: Child,
    uri: String,
}

impl Serving {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nandkit"))
            .args(["serve", "--socket", "disk.sock"])
            .args(arguments)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says where it listens once it does.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("nbd+unix:///"), "{line}");
        let uri = format!("nbd+unix:///?socket={}", directory.join("disk.sock").display());
        Self { child, uri }
    }

    /// Ends it as a power cut of the host does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as an init system does.
    fn end(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

/// Runs a judge, which must be content, and returns its output.
fn judge(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{err}");
    format!("{out}{err}")
}

const STACKS: [&[&str]; 3] = [
    &["--device", "nandsim-32m-128k"],
    &["--device", "nandsim-32m-16k", "--ftl", "fast", "--set", "stack.ftl.sector_size=512"],
    &["--device", "ram"],
];

#[test]
fn other_peoples_clients_get_back_what_they_wrote() {
    let content: Vec<u8> = (0..20_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for stack in STACKS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("in.bin"), &content).unwrap();
        let serving = Serving::start(path, stack);
        let uri = &*serving.uri;
        let info = judge(path, "nbdinfo", &["--json", uri]);
        for part in [
            "\"structured\": true",
            "\"can_multi_conn\": true",
            "\"can_fua\": true",
            "\"can_trim\": true",
            "base:allocation",
        ] {
            assert!(info.contains(part), "{part}: {info}");
        }
        judge(path, "nbdcopy", &["in.bin", uri]);
        judge(path, "nbdcopy", &[uri, "out.bin"]);
        let out = std::fs::read(path.join("out.bin")).unwrap();
        assert!(out[..content.len()] == content, "{stack:?}");
        // qemu-io compares patterns itself and says so.
        let patterns = [
            "write -P 0x5a 1000 70000",
            "read -P 0x5a 1000 70000",
            "write -z 5000 20000",
            "read -P 0 5000 20000",
            "read -P 0x5a 25000 46000",
            "discard 1M 2M",
            "read -P 0 1M 2M",
            "write -f -P 7 3M 64k",
            "flush",
            "aio_write -P 9 4M 128k",
            "aio_write -P 10 5M 128k",
            "aio_flush",
            "read -P 9 4M 128k",
            "read -P 10 5M 128k",
        ];
        let commands: Vec<&str> = patterns.iter().flat_map(|pattern| ["-c", pattern]).collect();
        let told = judge(path, "qemu-io", &[&["-f", "raw"], &commands[..], &[uri]].concat());
        assert!(!told.contains("verification failed") && !told.contains("error"), "{told}");
        judge(path, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, "copy.qcow2"]);
        judge(path, "qemu-img", &["compare", "-f", "raw", "-F", "qcow2", uri, "copy.qcow2"]);
        assert_eq!(serving.end(), Some(0));
        assert!(!path.join("disk.sock").exists(), "the socket file goes with its server");
    }
}

/// QEMU's own format on the export, checked by QEMU, and its benchmark with flushes in it.
#[test]
fn qemu_keeps_an_image_of_its_own_on_the_disk() {
    for stack in STACKS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let serving = Serving::start(path, stack);
        let uri = &*serving.uri;
        let told = judge(path, "qemu-img", &["info", "-f", "raw", uri]);
        assert!(told.contains("virtual size"), "{told}");
        judge(path, "qemu-img", &["create", "-f", "qcow2", uri, "20M"]);
        let commands = ["-c", "write -P 3 1M 10M", "-c", "discard 2M 1M", "-c", "read -P 3 3M 8M"];
        let told = judge(path, "qemu-io", &[&["-f", "qcow2"], &commands[..], &[uri]].concat());
        assert!(!told.contains("verification failed"), "{told}");
        let told = judge(path, "qemu-img", &["check", "-f", "qcow2", uri]);
        assert!(told.contains("No errors were found"), "{told}");
        let writes = ["bench", "-f", "raw", "-c", "2000", "-d", "16", "-w", "--flush-interval=100", "-s", "4096", uri];
        judge(path, "qemu-img", &writes);
        judge(path, "qemu-img", &["bench", "-f", "raw", "-c", "2000", "-d", "16", "-s", "4096", uri]);
        assert_eq!(serving.end(), Some(0));
    }
}

#[test]
fn clients_are_told_what_holds_nothing() {
    for stack in STACKS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let serving = Serving::start(path, stack);
        let uri = &*serving.uri;
        judge(
            path,
            "qemu-io",
            &["-f", "raw", "-c", "write -P 5 4M 1M", "-c", "discard 4608k 128k", "-c", "flush", uri],
        );
        let map = judge(path, "nbdinfo", &["--map", uri]);
        let parts: Vec<(u64, u64, bool)> = map
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                (words[0].parse().unwrap(), words[1].parse().unwrap(), words[3] == "data")
            })
            .collect();
        let holds = |at: u64| parts.iter().find(|(start, length, _)| (*start..start + length).contains(&at)).unwrap().2;
        for (at, expected) in [
            (0, false),
            ((4 << 20) - 1, false),
            (4 << 20, true),
            (4608 << 10, false),
            ((5 << 20) - 1, true),
            (5 << 20, false),
        ] {
            assert_eq!(holds(at), expected, "{stack:?}, byte {at}: {map}");
        }
        assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "{map}");
        assert_eq!(serving.end(), Some(0));
    }
}

#[test]
fn fio_verifies_several_clients_on_one_device() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let serving = Serving::start(path, &["--device", "nandsim-32m-128k"]);
    let uri = format!("--uri={}", serving.uri);
    let job = |name: &'static str, offset: &'static str| {
        vec![name, offset, "--size=8m", "--io_size=24m", "--bs=4k", "--rw=randwrite", "--iodepth=16", "--verify=crc32c"]
    };
    let (first, second) = (job("--name=a", "--offset=0"), job("--name=b", "--offset=16m"));
    let common = ["--ioengine=nbd", &uri, "--randseed=7", "--allrandrepeat=1"];
    let told = judge(path, "fio", &[&common[..], &first, &second].concat());
    assert!(told.contains("err= 0") && !told.contains("verify:"), "{told}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("odd.img"), [0; 1000]).unwrap();
    std::fs::write(path.join("file"), "not a socket").unwrap();
    for (arguments, expected) in [
        (&["--image", "none.img", "--socket", "s"][..], "none.img"),
        (&["--device", "nandsim", "--socket", "s"], "did you mean"),
        (&["--device", "ram"], "--port"),
        (&["--device", "ram", "--ftl", "fast", "--socket", "s"], "take no translation layer"),
        (&["--device", "ram", "--socket", "file"], "cannot listen"),
        (&["--device", "ram", "--socket", "no/s"], "cannot listen"),
        (&["--device", "ram", "--set", "workload.x=1", "--socket", "s"], "stack."),
        (&["--device", "ram", "--state", "ram.nand", "--socket", "s"], "cannot be kept in a file"),
        (&["--state", "odd.img", "--socket", "s"], "NANDKJRN"),
    ] {
        tells(path, &[&["serve"], arguments].concat(), 2, expected);
    }
    assert_eq!(std::fs::read(path.join("file")).unwrap(), b"not a socket");
}

#[test]
fn a_file_is_changed_only_where_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("disk.img"), vec![3; 1 << 20]).unwrap();
    let serving = Serving::start(path, &["--image", "disk.img"]);
    let output = Command::new("qemu-io").args(["-f", "raw", "-c", "write 0 512", &serving.uri]).output().unwrap();
    assert!(!output.status.success(), "a write to a file that is served unchanged");
    let told = judge(path, "nbdinfo", &["--json", &serving.uri]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let export = &told["exports"][0];
    assert_eq!((&export["is_read_only"], &export["can_zero"]), (&true.into(), &false.into()), "{told}");
    assert_eq!(serving.end(), Some(0));
    let serving = Serving::start(path, &["--image", "disk.img", "--rw"]);
    judge(path, "qemu-io", &["-f", "raw", "-c", "read -P 3 0 1M", "-c", "write -P 4 512 512", &serving.uri]);
    assert_eq!(serving.end(), Some(0));
    let changed = std::fs::read(path.join("disk.img")).unwrap();
    assert!(changed[512..1024].iter().all(|byte| *byte == 4) && changed[1024..].iter().all(|byte| *byte == 3));
}

#[test]
fn the_page_mapped_layer_is_served_from_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let serving = Serving::start(path, &["--device", "nandsim-32m-16k", "--ftl", "page-map"]);
    let commands = ["write -P 1 0 1M", "write -P 2 4097 70000", "discard 512k 64k", "flush", "read -P 2 4097 70000"];
    let zeroes = ["read -P 0 512k 64k", "read -P 1 576k 448k"];
    let commands: Vec<&str> = commands.into_iter().chain(zeroes).flat_map(|command| ["-c", command]).collect();
    let told = judge(path, "qemu-io", &[&["-f", "raw"], &commands[..], &[&serving.uri]].concat());
    assert!(!told.contains("verification failed"), "{told}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_killed_server_has_kept_what_was_flushed() {
    let protected = ["--set", "stack.ftl.power_loss_protection=true", "--set", "stack.ftl.write_buffer=2M"];
    let protected = [&["--ftl", "page-map"], &protected[..]].concat();
    for ftl in [&["--ftl", "block-map"][..], &["--ftl", "fast"], &["--ftl", "page-map"], &protected] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let io = |serving: &Serving, commands: &[&str]| {
            let commands: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
            let told =
                judge(path, "qemu-io", &[&["-f", "raw", "-t", "writeback"], &commands[..], &[&serving.uri]].concat());
            assert!(!told.contains("verification failed"), "{ftl:?}: {told}");
        };
        let state = [&["--state", "card.nand"], ftl].concat();
        let serving = Serving::start(path, &[&["--device", "nandsim-32m-16k"], &state[..]].concat());
        assert!(path.join("card.nand").exists(), "the file has its name from the start");
        exits(path, &[&["serve", "--socket", "other.sock"], &state[..]].concat(), 2);
        io(&serving, &["write -P 1 0 1M", "write -P 2 4097 70000", "discard 512k 64k", "flush"]);
        serving.kill();
        // The chip's own spec is in the file.
        let serving = Serving::start(path, &state);
        let flushed = ["read -P 1 0 4097", "read -P 2 4097 70000", "read -P 0 512k 64k", "read -P 1 576k 448k"];
        io(&serving, &flushed);
        io(&serving, &["write -f -P 3 4M 4k"]);
        serving.kill();
        let serving = Serving::start(path, &state);
        io(&serving, &[&flushed[..], &["read -P 3 4M 4k", "write -P 4 5M 4k"]].concat());
        assert_eq!(serving.end(), Some(0));
        let serving = Serving::start(path, &state);
        io(&serving, &[&flushed[..], &["read -P 3 4M 4k", "read -P 4 5M 4k"]].concat());
        assert_eq!(serving.end(), Some(0));
        let other = crate::common::nandkit(
            path,
            &[&["serve", "--socket", "s", "--device", "nandsim-32m-128k"], &state[..]].concat(),
        );
        assert!(other.status == Some(2) && other.stderr.contains("another chip"), "{}", other.stderr);
    }
}

/// What clients wrote is counted, and what it cost is told as `exec` tells it.
#[test]
fn a_server_tells_what_its_device_did() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (more, expected) in [(&["--json"][..], "\"record\""), (&[], "WAF by cause: ")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nandkit"))
            .args(["serve", "--socket", "disk.sock", "--device", "nandsim-32m-16k", "--once"])
            .args(more)
            .current_dir(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        let commands = ["-c", "write -P 1 0 1M", "-c", "write -P 2 512k 1M", "-c", "read 0 64k", "-c", "flush"];
        judge(path, "qemu-io", &[&["-f", "raw"], &commands[..], &["nbd+unix:///?socket=disk.sock"]].concat());
        let mut told = String::new();
        out.read_to_string(&mut told).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(child.wait().unwrap().success() && told.contains(expected), "{told}");
        if let Ok(told) = serde_json::from_str::<serde_json::Value>(&told) {
            assert_eq!(told["bytes_written"], 2 << 20);
            let figures = &told["record"];
            assert!(figures["bytes_programmed"].as_u64().unwrap() >= 2 << 20, "{told}");
            assert_eq!(figures["user_bytes_written"], 2 << 20);
            assert!(figures["latency_ns"]["write"]["count"].as_u64().unwrap() >= 2, "{told}");
        } else {
            assert!(told.contains("clients: ") && told.contains("2 MiB written"), "{told}");
        }
    }
}

/// A chip in a file is looked through before the first request: that time is in no request's
/// latency.
#[test]
fn the_first_request_does_not_wait_for_the_scan_of_the_chip() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for round in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nandkit"))
            .args([
                "serve",
                "--socket",
                "disk.sock",
                "--device",
                "nandsim-32m-16k",
                "--state",
                "card.nand",
                "--once",
                "--json",
            ])
            .current_dir(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        let commands = ["-c", "write -P 1 0 4k", "-c", "flush"];
        judge(path, "qemu-io", &[&["-f", "raw"], &commands[..], &["nbd+unix:///?socket=disk.sock"]].concat());
        let mut told = String::new();
        out.read_to_string(&mut told).unwrap();
        assert!(child.wait().unwrap().success(), "{told}");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let latency = &told["record"]["latency_ns"];
        // Eight pages of 512 bytes, a merge or two; the scan of 65,536 pages takes longer than a
        // hundred times that.
        for kind in ["read", "write", "flush"].iter().filter(|kind| !latency[**kind].is_null()) {
            let most = latency[*kind]["max"].as_u64().unwrap_or(0);
            assert!(most < 40_000_000, "round {round}, {kind}: {most} ns of {told}");
        }
    }
}

#[test]
fn a_file_of_any_length_is_served_and_keeps_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("odd.img"), [1; 1000]).unwrap();
    let serving = Serving::start(path, &["--image", "odd.img", "--rw"]);
    let info = judge(path, "nbdinfo", &["--size", &serving.uri]);
    assert_eq!(info.trim(), "1024");
    let command = |command: &str| judge(path, "qemu-io", &["-f", "raw", "-c", command, &serving.uri]);
    command("read -P 0 1000 24");
    command("read -P 1 0 1000");
    command("write -P 2 600 400");
    let beyond =
        Command::new("qemu-io").args(["-f", "raw", "-c", "write -P 2 900 124", &serving.uri]).output().unwrap();
    assert!(String::from_utf8_lossy(&beyond.stdout).contains("failed"), "{beyond:?}");
    command("discard 512 512");
    command("write -P 3 512 488");
    assert_eq!(serving.end(), Some(0));
    let expected = [&[1; 512][..], &[3; 488]].concat();
    assert!(std::fs::read(path.join("odd.img")).unwrap() == expected);
}
