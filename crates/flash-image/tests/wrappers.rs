//! The wrappers in which images are distributed, with the programs that write them as judges. As
//! programs are started here, these tests are not part of `all`.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use std::sync::OnceLock;

use nandkit_codec::streams::Stream;
use nandkit_flash_image::qcow2::{Qcow2Report, is_qcow2, unpack};
use nandkit_flash_image::{Image, ImageErrorKind, Limits, Result, android_sparse, motorola, text, unpack_stream};
use nandkit_units::random::Random;
use proptest::prelude::*;

const LIMITS: Limits = Limits { length: 1 << 30, written: 1 << 30 };

fn run(directory: &Path, command: &str) {
    let output = Command::new("sh").args(["-c", command]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

fn disk(file: &[u8]) -> Result<(Vec<u8>, Qcow2Report)> {
    let mut to = Cursor::new(Vec::new());
    let report = unpack(file, &mut to, LIMITS)?;
    let mut bytes = to.into_inner();
    bytes.resize(report.bytes as usize, 0);
    Ok((bytes, report))
}

/// Noise, text, zeroes and holes: 3 MiB and half a cluster.
fn content() -> Vec<u8> {
    let mut random = Random::new(7, "qcow2");
    let mut bytes = vec![0; (3 << 20) + 1536];
    random.fill(&mut bytes[100_000..400_000]);
    for (at, byte) in bytes[(1 << 20)..(2 << 20)].iter_mut().enumerate() {
        *byte = (at / 100) as u8;
    }
    let end = bytes.len();
    random.fill(&mut bytes[end - 5000..]);
    bytes
}

#[test]
fn qcow2_of_every_kind_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = content();
    fs::write(path.join("raw"), &bytes).unwrap();
    for options in [
        "",
        "-o compat=0.10",
        "-o cluster_size=512",
        "-o cluster_size=2M",
        "-o lazy_refcounts=on",
        "-o extended_l2=on,cluster_size=64k",
        "-o preallocation=metadata",
        "-c",
        "-c -o cluster_size=4k",
        "-c -o compression_type=zstd",
        "-c -o compat=0.10",
    ] {
        run(path, &format!("qemu-img convert -f raw -O qcow2 {options} raw disk"));
        let file = fs::read(path.join("disk")).unwrap();
        assert!(is_qcow2(&file));
        let (ours, report) = disk(&file).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert!(ours == bytes, "{options}");
        assert_eq!(report, Qcow2Report { bytes: bytes.len() as u64, snapshots: 0 }, "{options}");
    }
}

#[test]
fn what_was_written_over_a_snapshot_is_read_and_the_snapshot_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("raw"), content()).unwrap();
    run(path, "qemu-img convert -f raw -O qcow2 -o extended_l2=on,cluster_size=128k raw disk");
    run(path, "qemu-img snapshot -c before disk");
    run(path, "qemu-io -c 'write -P 9 200k 5k' -c 'write -z 1M 64k' -c 'discard 300k 128k' disk");
    run(path, "qemu-img convert -O raw disk after");
    let (ours, report) = disk(&fs::read(path.join("disk")).unwrap()).unwrap();
    assert!(ours == fs::read(path.join("after")).unwrap());
    assert_eq!(report.snapshots, 1);
}

#[test]
fn what_needs_another_file_or_a_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("raw"), content()).unwrap();
    run(path, "qemu-img create -q -f qcow2 -b raw -F raw disk");
    let refused = |name: &str| disk(&fs::read(path.join(name)).unwrap()).unwrap_err().to_string();
    assert!(refused("disk").contains("backing file \"raw\""), "{}", refused("disk"));
    run(path, "qemu-img create -q -f qcow2 -o data_file=data,data_file_raw=on external 1M");
    assert!(refused("external").contains("external data file"), "{}", refused("external"));
    // qemu-img first measures how fast keys are made, and gives up on a busy machine.
    let locked = "qemu-img create -q -f qcow2 --object secret,id=s,data=abc -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=50 locked 1M";
    run(path, &format!("for try in 1 2 3 4 5 6 7 8 9; do {locked} && exit 0; done; exit 1"));
    assert!(refused("locked").contains("encrypted"), "{}", refused("locked"));
}

#[test]
fn a_hostile_qcow2_is_an_error_and_costs_no_more_than_it_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = content();
    fs::write(path.join("raw"), &bytes[..300_000]).unwrap();
    for options in ["-o cluster_size=4k", "-c -o cluster_size=4k", "-c -o compression_type=zstd"] {
        run(path, &format!("qemu-img convert -f raw -O qcow2 {options} raw disk"));
        let file = fs::read(path.join("disk")).unwrap();
        let last = file.iter().rposition(|byte| *byte != 0).unwrap();
        for length in (0..=last).filter(|length| *length < 200 || length % 997 == 0 || *length == last) {
            let cut = disk(&file[..length]);
            assert_eq!(cut.unwrap_err().kind, ImageErrorKind::Corrupt, "{options}, {length} of {}", file.len());
        }
        let mut random = Random::new(1, "damage");
        for _ in 0..1_000 {
            let mut damaged = file.clone();
            for _ in 0..random.between(1, 4) {
                let within = if random.below(2) == 0 { 112 } else { file.len() as u64 };
                let at = random.below(within) as usize;
                damaged[at] = random.next_u64() as u8;
            }
            let _ = disk(&damaged);
        }
        let limits = Limits { length: 1 << 20, written: 10_000 };
        let refused = unpack(&file, &mut Cursor::new(Vec::new()), limits).unwrap_err().to_string();
        assert!(refused.contains("more than 10000 bytes, which is the limit"), "{refused}");
        let refused = unpack(&file, &mut Cursor::new(Vec::new()), Limits { length: 1000, written: 1000 });
        assert!(refused.unwrap_err().to_string().contains("at most 1000 are expected"));
    }
}

/// The content of a wrapper of any format; `None` if it is not a wrapper.
fn inside(wrapper: &[u8]) -> Option<Result<Vec<u8>>> {
    let mut to = Cursor::new(Vec::new());
    if let Some(stream) = Stream::of(wrapper) {
        let length = unpack_stream(stream, wrapper, &mut to, LIMITS);
        return Some(length.map(|length| {
            let mut bytes = to.into_inner();
            bytes.resize(length.unwrap_or(0) as usize, 0);
            bytes
        }));
    }
    if is_qcow2(wrapper) {
        return Some(disk(wrapper).map(|(bytes, _)| bytes));
    }
    if motorola::is_wrapped(wrapper) {
        let found = motorola::inside(wrapper);
        return Some(found.map(|found| wrapper[found.range.start as usize..found.range.end as usize].to_vec()));
    }
    if text::is_text_dump(wrapper) {
        return Some(text::parse_text_dump(wrapper).map(|dump| dump.bytes));
    }
    let is_sparse = android_sparse::is_sparse(wrapper);
    is_sparse
        .then(|| Image::from_bytes(wrapper.to_vec(), None)?.unpack_sparse(None).map(|image| image.bytes().to_vec()))
}

/// A content, and each wrapped form of it with a name.
type Forms = (Vec<u8>, Vec<(&'static str, Vec<u8>)>);

/// One content in every form.
fn wrappers() -> &'static Forms {
    static MADE: OnceLock<Forms> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let bytes: Vec<u8> = content()[96 << 10..128 << 10].to_vec();
        fs::write(path.join("raw"), &bytes).unwrap();
        let commands = [
            "gzip -c raw",
            "xz -c raw",
            "zstd -qc raw",
            "lz4 -qc raw 2>/dev/null",
            "qemu-img convert -f raw -O qcow2 -o cluster_size=4k raw d && cat d",
            "qemu-img convert -f raw -O qcow2 -c raw d && cat d",
            "img2simg raw s && cat s",
            "hexdump -C raw",
            "xxd raw",
        ];
        let made = commands.map(|command| {
            run(path, &format!("({command}) > out"));
            (command, fs::read(path.join("out")).unwrap())
        });
        let mut made = made.to_vec();
        let mut single = vec![0; 512];
        single[..15].copy_from_slice(b"SINGLE_N_LONELY");
        single[256..259].copy_from_slice(b"img");
        single[504..508].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        single.extend(&bytes);
        single.resize(256 + single.len().next_multiple_of(4096), 0);
        let end = 512 + bytes.len().next_multiple_of(4096);
        single.resize(end + 256, 0);
        single[end..end + 15].copy_from_slice(b"LONELY_N_SINGLE");
        made.push(("SINGLE_N_LONELY", single));
        for (name, wrapper) in &made {
            assert!(inside(wrapper).unwrap().unwrap() == bytes, "{name}");
        }
        (bytes, made)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A truncated text is a shorter text; all other formats have an end that is missed.
    #[test]
    fn any_prefix_of_any_wrapper_is_an_error_and_no_panic(
        which in 0_usize..10,
        part in 0.0_f64..1.0,
        wrong in proptest::option::of((0.0_f64..1.0, any::<u8>())),
    ) {
        let (bytes, made) = wrappers();
        let (name, wrapper) = &made[which];
        // What follows the last used byte is padding.
        let used = wrapper.iter().rposition(|byte| *byte != 0).unwrap();
        let mut prefix = wrapper[..(used as f64 * part) as usize].to_vec();
        if let Some((place, value)) = wrong {
            let at = (prefix.len() as f64 * place) as usize;
            prefix.get_mut(at).into_iter().for_each(|byte| *byte ^= value);
            let _ = inside(&prefix);
            return Ok(());
        }
        match inside(&prefix) {
            None | Some(Err(_)) => {}
            Some(Ok(shorter)) => prop_assert!(text::is_text_dump(&prefix) && bytes.starts_with(&shorter), "{name}"),
        }
    }
}
