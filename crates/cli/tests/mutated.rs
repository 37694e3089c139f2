//! Inputs with damage: `info`, `ls`, `check` and `extract` end, and with a status of their own.
//! More by
//! `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-cli --test all mutated::`.

use std::fs;
use std::path::Path;
use std::process::Command;

use nandkit_testkit::rounds::in_parallel;

use crate::common::noise::{noise, splitmix64};
use crate::common::succeeds;
use crate::dumps::parts::{block, cleanmarker, code, file};

/// No command may take longer, on a busy machine.
const SECONDS_MAX: &str = "120";

fn run(directory: &Path, command: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(directory).output();
    let output = output.expect("sh runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A whole flash: code, an environment with `mtdparts`, a JFFS2 and settings behind it.
fn router() -> Vec<u8> {
    let mut environment = b"mtdparts=mtdparts=nor0:32k(boot),16k(env),64k(rootfs),-(nvram)\0bootdelay=1\0\0".to_vec();
    environment.resize(0x4000 - 4, 0);
    let sum = crc32fast::hash(&environment).to_le_bytes();
    let first =
        block(0x1000, &[&cleanmarker(true), &file("config", 2, 1, b"a=1\n"), &file("noise", 3, 2, &code(2000))]);
    let free = block(0x1000, &[&cleanmarker(false)]).repeat(15);
    let nvram = block(0x1000, &[b"NVRAM\0mac=00:11:22:33:44:55\0"]);
    [block(0x8000, &[&code(0x6000)]), sum.to_vec(), environment, first, free, nvram].concat()
}

/// The inputs: every format, wrapper, table and text, small.
fn inputs(path: &Path) -> Vec<(String, Vec<u8>)> {
    fs::create_dir_all(path.join("tree/d")).expect("makes");
    for (name, length) in [("tree/a", 30_000), ("tree/d/b", 5), ("tree/d/c", 70_000)] {
        fs::write(path.join(name), noise(length, length)).expect("writes");
    }
    run(path, "ln -s a tree/link");
    fs::write(path.join("router"), router()).expect("writes");
    let nand = ["mkfs", "jffs2", "--from", "tree", "-e", "16K", "--oob=512+16", "--size", "512K", "nand"];
    succeeds(path, &nand);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "128K", "--endian", "big", "--summary", "summary"]);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "128K", "--oob=2048+64", "plain"]);
    succeeds(path, &["export", "plain", "ecc", "--oob-layout", "gpmi-bch8-2048-64", "--for", "programmer"]);
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "--size", "64M", "--sparse", "f2fs"]);
    run(
        path,
        "mkfs.vfat -C fat 1440 >/dev/null && MTOOLS_SKIP_CHECK=1 mcopy -s -i fat tree/a tree/d ::/ && \
         for form in 'gzip -c' 'xz -c' 'zstd -qc' 'lz4 -qc' 'lz4 -qlc' 'bzip2 -c'; do $form router > \"${form% *}.${form##*-}\"; done && \
         qemu-img convert -f raw -O qcow2 -c fat qcow2 && hexdump -C router > hexdump && xxd router > xxd && \
         dd if=router of=swapped conv=swab status=none",
    );
    // A partition of FAT16 from sector 128 on.
    let mut disk = vec![0; 0x1_0000];
    disk[450] = 6;
    disk[454..462].copy_from_slice(&[128, 0, 0, 0, 0x40, 0x0B, 0, 0]);
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk.extend(fs::read(path.join("fat")).expect("reads"));
    fs::write(path.join("disk"), disk).expect("writes");
    let names =
        "router nand summary ecc f2fs fat disk gzip.c xz.c zstd.qc lz4.qc lz4.qlc bzip2.c qcow2 hexdump xxd swapped";
    names.split(' ').map(|name| (name.to_owned(), fs::read(path.join(name)).expect(name))).collect()
}

/// Damages bytes in a few of the ways that occur: bits, fields, stretches, and what is cut off.
fn damage(bytes: &mut Vec<u8>, state: &mut u64) {
    let mut below = |bound: usize| (splitmix64(state) % bound.max(1) as u64) as usize;
    for _ in 0..=below(8) {
        // Headers stand at the beginning more often than elsewhere.
        let length = if below(2) == 0 { bytes.len().min(4096) } else { bytes.len() };
        let at = below(length);
        match below(6) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = below(256) as u8,
            2 => {
                let value = [0, 1, u32::MAX, 0x7FFF_FFFF, below(1 << 30) as u32][below(5)];
                let word = if below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            3 => {
                let (end, value) = ((at + 1 + below(6000)).min(bytes.len()), [0, 0xFF, 0x5A][below(3)]);
                bytes[at..end].fill(value);
            }
            4 => {
                let from = below(bytes.len());
                let count = below(5000).min(bytes.len() - from).min(bytes.len() - at);
                bytes.copy_within(from..from + count, at);
            }
            _ if bytes.len() > 64 => bytes.truncate(at.max(64)),
            _ => {}
        }
    }
}

#[test]
fn every_command_that_reads_ends_on_every_input() {
    let made = tempfile::tempdir().expect("a directory");
    let inputs = inputs(made.path());
    in_parallel(34, |round| {
        let mut state = round;
        splitmix64(&mut state);
        let (name, whole) = &inputs[round as usize % inputs.len()];
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut state);
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("dump"), &bytes).expect("writes");
        for command in [&["info", "dump"][..], &["ls", "-R", "dump"], &["check", "dump"], &["extract", "dump", "out"]] {
            let mut limited = Command::new("timeout");
            limited.args(["-s", "KILL", SECONDS_MAX, env!("CARGO_BIN_EXE_nandkit")]).args(command);
            let output = limited.current_dir(directory.path()).output().expect("timeout runs");
            let status = output.status.code();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(status, Some(0..=2)), "{name}, {command:?}: status {status:?}: {told}");
            // Whoever refuses says why.
            assert!(status == Some(0) || !told.is_empty(), "{name}, {command:?}: status {status:?} without a word");
        }
    });
}
