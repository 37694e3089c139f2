//! Images inside other forms: compressed, qcow2, sparse in parts, joined, swapped, as text. The
//! programs that write the forms are the judges.

use std::fs;
use std::path::Path;

use crate::common::{exits, nandkit, run, succeeds};

use super::parts::{block, cleanmarker, code, file};

/// A JFFS2 of two blocks with two files.
fn volume() -> Vec<u8> {
    let one = block(0x2000, &[&cleanmarker(false), &file("hello.txt", 2, 1, b"hello\n")]);
    [one, block(0x2000, &[&cleanmarker(false), &file("noise", 3, 2, &code(3000))])].concat()
}

fn with(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join(name), bytes).expect("writes");
    directory
}

/// Exit status 2 with all these words, and nothing else done.
fn refuses(directory: &Path, arguments: &[&str], words: &[&str]) {
    let outcome = exits(directory, arguments, 2);
    for word in words {
        assert!(outcome.stderr.contains(word), "{arguments:?} lacks '{word}': {}", outcome.stderr);
    }
}

const WRAPPED: [(&str, &str, &str); 8] = [
    ("gzip -c v > w", "gzip data", "gzip -dc w"),
    ("xz -c v > w", "xz data", "xz -dc w"),
    ("zstd -qc v > w", "zstd data", "zstd -dc w"),
    ("lz4 -qc v > w 2>/dev/null", "lz4 data", "lz4 -dc w"),
    ("lz4 -qlc v > w 2>/dev/null", "lz4 data", "lz4 -dc w"),
    ("bzip2 -c v > w", "bzip2 data", "bzip2 -dc w"),
    ("qemu-img convert -f raw -O qcow2 -c v w", "a qcow2 disk", "qemu-img convert -O raw w"),
    ("gzip -c v | xz -c > w", "xz data", "xz -dc w"),
];

#[test]
fn every_command_that_reads_opens_what_is_inside_and_those_that_write_say_what_to_do() {
    let directory = with("v", &volume());
    let path = directory.path();
    succeeds(path, &["export", "v", "plain", "--for", "nor"]);
    for (command, told, how) in WRAPPED {
        run(path, command);
        let before = fs::read(path.join("w")).expect("reads");
        let info = succeeds(path, &["info", "w"]);
        assert!(info.contains("jffs2") && info.contains(told), "{command}: {info}");
        assert_eq!(succeeds(path, &["ls", "w"]), "hello.txt\nnoise\n");
        assert_eq!(succeeds(path, &["cat", "w", "/hello.txt"]), "hello\n");
        succeeds(path, &["get", "w", "/noise", "got", "--force"]);
        assert!(fs::read(path.join("got")).expect("reads") == code(3000));
        succeeds(path, &["extract", "w", "out", "--merge"]);
        assert!(fs::read(path.join("out/noise")).expect("reads") == code(3000));
        succeeds(path, &["check", "w"]);
        succeeds(path, &["export", "w", "exported", "--for", "nor", "--force"]);
        assert!(fs::read(path.join("exported")).expect("reads") == fs::read(path.join("plain")).expect("reads"));
        fs::create_dir_all(path.join("mnt")).expect("makes");
        refuses(path, &["put", "w", "got", "/new"], &["can only be read", how]);
        refuses(path, &["rm", "w", "/noise"], &[how]);
        refuses(path, &["mount", "w", "mnt", "--rw"], &[how]);
        refuses(path, &["ls", "w", "--overlay", "over"], &[]);
        assert!(fs::read(path.join("w")).expect("reads") == before && !path.join("over").exists());
    }
}

#[test]
fn wrappers_that_are_cut_off_or_need_more_are_told() {
    let directory = with("v", &volume());
    let path = directory.path();
    for (command, _, how) in WRAPPED {
        run(path, command);
        let whole = fs::read(path.join("w")).expect("reads");
        let used = whole.iter().rposition(|byte| *byte != 0).expect("bytes");
        fs::write(path.join("w"), &whole[..used / 2]).expect("writes");
        for arguments in [&["info", "w"][..], &["ls", "w"], &["check", "w"], &["export", "w", "x"]] {
            refuses(path, arguments, &["w: "]);
        }
        refuses(path, &["rm", "w", "/noise"], &[how]);
        assert!(!path.join("x").exists());
    }
    run(path, "qemu-img create -q -f qcow2 -b v -F raw w");
    refuses(path, &["ls", "w"], &["backing file \"v\"", "qemu-img convert -O raw"]);
}

#[test]
fn a_dump_that_only_begins_with_compressed_data_is_a_dump() {
    let directory = with("kernel", &code(5000));
    let path = directory.path();
    for program in ["gzip -c", "xz -c", "zstd -qc", "lz4 -qc", "lz4 -qlc", "bzip2 -c"] {
        run(path, &format!("{program} kernel > packed 2>/dev/null"));
        let mut dump = block(0x8000, &[&fs::read(path.join("packed")).expect("reads")]);
        dump.extend(volume());
        fs::write(path.join("dump"), &dump).expect("writes");
        assert_eq!(succeeds(path, &["ls", "dump"]), "hello.txt\nnoise\n", "{program}");
        succeeds(path, &["rm", "dump", "--offset", "0x8000", "--size", "16K", "--erase-size", "8K", "/noise"]);
        assert_eq!(succeeds(path, &["ls", "dump"]), "hello.txt\n", "{program}");
    }
}

/// An F2FS volume with two files, as an image and in the chunks that fastboot sends.
fn in_chunks() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("makes");
    fs::write(path.join("tree/a.bin"), code(300_000)).expect("writes");
    fs::write(path.join("tree/b.bin"), code(300_001)).expect("writes");
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "--size", "64M", "v.img"]);
    run(path, "img2simg v.img v.simg && simg2simg v.simg v.chunk 300000");
    directory
}

#[test]
fn a_chunk_of_a_sparse_image_is_told_and_all_of_them_are_one_image() {
    let directory = in_chunks();
    let path = directory.path();
    let mut chunks: Vec<String> = fs::read_dir(path)
        .expect("lists")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| name.starts_with("v.chunk."))
        .collect();
    chunks.sort();
    assert!(chunks.len() >= 3, "{chunks:?}");
    for arguments in [&["ls", "v.chunk.0"][..], &["check", "v.chunk.0"], &["extract", "v.chunk.0", "part"]] {
        exits(path, arguments, 1);
    }
    let check = nandkit(path, &["check", "v.chunk.0"]);
    assert!(check.stdout.contains("missing part") && check.stdout.contains("b.bin"), "{}", check.stdout);
    let info = nandkit(path, &["info", "v.chunk.0"]);
    assert_eq!(info.status, Some(1), "{}", info.stderr);
    let told = &info.stdout;
    assert!(told.contains("one part of a split sparse image") && told.contains("--join"), "{told}");
    let info = nandkit(path, &["info", "v.chunk.0", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!((info.status, json["files_in_other_parts"].as_u64() > Some(0)), (Some(1), true), "{json}");
    refuses(path, &["ls", "v.chunk.1"], &["part of a split sparse image", "--join"]);
    // The first file in the middle, the others around it.
    let others = [&chunks[2..], &chunks[..1]].concat().join(",");
    succeeds(path, &["extract", "v.chunk.1", "out", "--join", &others]);
    run(path, "diff -r tree out");
    succeeds(path, &["check", "v.chunk.1", "--join", &others]);
    succeeds(path, &["check", "v.simg"]);
    let whole = succeeds(path, &["info", "v.chunk.1", "--join", &others, "--json"]);
    assert!(whole.contains("\"files_in_other_parts\": 0") || whole.contains("\"files_in_other_parts\":0"), "{whole}");
    succeeds(path, &["export", "v.chunk.1", "whole", "--join", &others]);
    succeeds(path, &["export", "whole", "again.simg", "--for", "fastboot"]);
    run(path, "cmp whole v.img && simg2img again.simg again.img && cmp again.img v.img");
    let taken = fs::metadata(path.join("again.simg")).expect("is there").len();
    assert!(taken < 8 << 20, "{taken} bytes");
    refuses(path, &["export", "v.img", "no", "--for", "nandwrite"], &["no file system for flash", "--for fastboot"]);
    refuses(path, &["export", "v.img", "no", "--oob-layout", "linux-bch4-2048-64"], &["which has no OOB"]);
    run(path, "mkfs.vfat -C odd 1023 > /dev/null");
    refuses(path, &["export", "odd", "no", "--for", "fastboot"], &["blocks of 4096"]);
    assert!(!path.join("no").exists());
    refuses(path, &["ls", "v.chunk.0", "--join", "v.chunk.1,v.chunk.1"], &["given twice"]);
    run(path, "cp v.chunk.1 again");
    refuses(path, &["ls", "v.chunk.0", "--join", "v.chunk.1,again"], &["parts 2 and 3 both give", "3 is again"]);
    refuses(path, &["ls", "v.chunk.0", "--join", "v.img"], &["v.img: --join: this is no Android sparse image"]);
    refuses(path, &["rm", "v.chunk.1", "/a.bin", "--join", &others], &["--join: joined files can only be read"]);
}

#[test]
fn parts_and_partitions_are_joined_in_order() {
    let directory = with("mtd0", &code(0x1_0000));
    let path = directory.path();
    fs::write(path.join("mtd1"), volume()).expect("writes");
    assert_eq!(succeeds(path, &["ls", "mtd0", "--join", "mtd1"]), "hello.txt\nnoise\n");
    let info = succeeds(path, &["info", "mtd0", "--join", "mtd1"]);
    assert!(info.contains("2 files joined in this order: 81920 bytes") && info.contains("at 0x10000"), "{info}");
    run(path, "cat mtd0 mtd1 | xz -c > packed && split -b 30000 packed packed.");
    assert_eq!(succeeds(path, &["cat", "packed.aa", "/hello.txt", "--join", "packed.ab,packed.ac"]), "hello\n");
    refuses(path, &["ls", "packed.aa", "--join", "packed.ac"], &["packed.aa: "]);
    run(path, "mkfs.vfat -C fat 1024 >/dev/null");
    refuses(path, &["ls", "fat", "--join", "mtd1"], &["whole volume of FAT", "--join"]);
    run(path, "head -c 8192 /dev/zero > z && img2simg z z.simg && : > empty");
    refuses(path, &["ls", "mtd0", "--join", "z.simg"], &["z.simg: --join: this is a part of an Android sparse image"]);
    run(path, "gzip -c z > z.gz && qemu-img convert -f raw -O qcow2 fat q");
    refuses(path, &["ls", "mtd0", "--join", "z.gz"], &["z.gz: --join: this is gzip data, and mtd0 is none"]);
    refuses(path, &["ls", "q", "--join", "mtd1"], &["q: --join: this is a whole qcow2 disk"]);
    refuses(path, &["ls", "mtd0", "--join", "empty"], &["empty"]);
    refuses(path, &["ls", "mtd0", "--join", "absent"], &["absent"]);
    refuses(path, &["ls", "mtd0", "--join", "mtd1", "--overlay", "over"], &["over"]);
    refuses(path, &["put", "mtd0", "z", "/z", "--join", "mtd1"], &["--join", "cat"]);
}

#[test]
fn headers_of_motorola_are_passed_over() {
    let directory = in_chunks();
    let path = directory.path();
    let header =
        |length: usize| block(length, &[b"SINGLE_N_LONELY"]).iter().map(|byte| byte & 0x7F).collect::<Vec<_>>();
    let zeroed = |mut bytes: Vec<u8>| {
        bytes[15..].fill(0);
        bytes
    };
    for (from, to) in [("v.simg", "moto.simg"), ("v.chunk.0", "moto.0"), ("v.chunk.1", "moto.1")] {
        let image = fs::read(path.join(from)).expect("reads");
        fs::write(path.join(to), [zeroed(header(4096)), image].concat()).expect("writes");
    }
    assert_eq!(succeeds(path, &["ls", "moto.simg"]), "a.bin\nb.bin\n");
    let info = succeeds(path, &["info", "moto.simg"]);
    assert!(info.contains("SINGLE_N_LONELY") && info.contains("an Android sparse image"), "{info}");
    let joined = nandkit(path, &["ls", "moto.0", "--join", "moto.1,v.chunk.2"]);
    assert_eq!(joined.stdout, "a.bin\nb.bin\n", "{}", joined.stderr);
    // A table of files, of which the longest is the image.
    let entry = |name: &str, bytes: &[u8]| {
        let mut entry = name.as_bytes().to_vec();
        entry.resize(248, 0);
        entry.extend((bytes.len() as u64).to_le_bytes());
        entry.extend(bytes);
        entry.resize(256 + bytes.len().next_multiple_of(4096), 0);
        entry
    };
    let table =
        [zeroed(header(256)), entry("index.xml", b"<x/>"), entry("fs.img", &volume()), entry("LONELY_N_SINGLE", b"")];
    fs::write(path.join("single"), table.concat()).expect("writes");
    assert_eq!(succeeds(path, &["cat", "single", "/hello.txt"]), "hello\n");
    assert!(succeeds(path, &["info", "single"]).contains("also holds index.xml"));
    let mut signed = b"MOTO\x13\x57\x9B\0MOT_PIV_FULL256".to_vec();
    signed.resize(128 << 10, 0);
    signed.extend(volume());
    fs::write(path.join("signed"), &signed).expect("writes");
    assert_eq!(succeeds(path, &["cat", "signed", "/hello.txt"]), "hello\n");
    refuses(path, &["rm", "signed", "/hello.txt"], &["Motorola"]);
    fs::write(path.join("signed"), &signed[..4000]).expect("writes");
    refuses(path, &["ls", "signed"], &["131072"]);
}

#[test]
fn swapped_dumps_are_named_and_read() {
    let directory = with("v", &[block(0x4000, &[&code(9000)]), volume()].concat());
    let path = directory.path();
    for (name, bits, other) in [("s16", "16", "32"), ("s32", "32", "16")] {
        let mut swapped = fs::read(path.join("v")).expect("reads");
        swapped.chunks_mut(if bits == "16" { 2 } else { 4 }).for_each(<[u8]>::reverse);
        fs::write(path.join(name), swapped).expect("writes");
        let info = succeeds(path, &["info", name]);
        assert!(info.contains("jffs2") && info.contains(&format!("--swap {bits}")), "{info}");
        refuses(path, &["ls", name], &[&format!("--swap {bits}")]);
        assert_eq!(succeeds(path, &["cat", name, "/hello.txt", "--swap", bits]), "hello\n");
        succeeds(path, &["check", name, "--swap", bits]);
        refuses(path, &["ls", name, "--swap", other], &[&format!("expected --swap {bits}")]);
        refuses(path, &["rm", name, "/noise", "--swap", bits], &["--swap", "can only be read"]);
        refuses(path, &["ls", "v", "--swap", bits], &["this is jffs2 without a swap", "expected no --swap"]);
    }
    refuses(path, &["ls", "s16", "--swap", "8"], &["16 or 32"]);
    fs::write(path.join("noise"), code(60_000)).expect("writes");
    refuses(path, &["ls", "noise", "--swap", "16"], &["no volume is found", "expected no --swap"]);
    refuses(path, &["ls", "noise"], &["holds no known format"]);
}

/// `md.b` as U-Boot prints it.
fn md(bytes: &[u8], group: usize) -> String {
    let line = |(number, line): (usize, &[u8])| {
        let word = |word: &[u8]| word.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        let words: Vec<String> = line.chunks(group).map(word).collect();
        let shown = |byte: &u8| if (0x20..0x7F).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(shown).collect();
        format!("{:08x}: {}    {text}\r\n", 0x8200_0000 + 16 * number, words.join(" "))
    };
    let lines: String = bytes.chunks(16).enumerate().map(line).collect();
    format!("U-Boot 2021.04\r\n\r\n=> md 0x82000000\r\n{lines}=> ")
}

/// `nand dump` of U-Boot, pages of 2048 and 64 bytes.
fn nand_dump(bytes: &[u8]) -> String {
    let page = |(number, page): (usize, &[u8])| {
        let half = |half: &[u8]| half.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let line = |line: &[u8]| format!("\t{}  {}\n", half(&line[..8]), half(&line[8..]));
        let lines: String = page.chunks(16).map(line).collect();
        format!("Page {:08x} dump:\n{lines}OOB:\n{}", 2048 * number, "\tff ff ff ff ff ff ff ff\n".repeat(8))
    };
    format!("=> nand dump 0\n{}", bytes.chunks(2048).enumerate().map(page).collect::<String>())
}

#[test]
fn texts_of_consoles_are_read_as_the_bytes_that_they_show() {
    let directory = with("v", &volume());
    let path = directory.path();
    for group in [1, 2, 4] {
        fs::write(path.join(format!("md{group}")), md(&volume(), group)).expect("writes");
    }
    fs::write(path.join("nand"), nand_dump(&volume())).expect("writes");
    run(path, "hexdump -C v > hexdump && hexdump v > words && xxd v > xxd && xxd -e v > xxd-e && xxd -g1 -a v > xxd-a");
    run(path, "gzip -c md1 > md1.gz");
    for name in ["md1", "md2", "md4", "nand", "hexdump", "words", "xxd", "xxd-e", "xxd-a", "md1.gz"] {
        assert_eq!(succeeds(path, &["ls", name]), "hello.txt\nnoise\n", "{name}");
        succeeds(path, &["get", name, "/noise", "got", "--force"]);
        assert!(fs::read(path.join("got")).expect("reads") == code(3000), "{name}");
        assert!(succeeds(path, &["info", name]).contains("a text dump of "), "{name}");
    }
    refuses(path, &["rm", "md1", "/noise"], &["as text"]);
    // A line that is lost, one that is garbled, and one whose columns differ.
    let text = md(&volume(), 1);
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    lines.remove(0x1800 / 16);
    lines[0x1900 / 16] = lines[0x1900 / 16].replacen("ff", "f?", 1);
    lines[10] = lines[10].replacen("    ", "    #", 1);
    fs::write(path.join("bad"), lines.concat()).expect("writes");
    let info = succeeds(path, &["info", "bad"]);
    assert!(info.contains("lines are missing in 2 places, 32 bytes in all"), "{info}");
    assert!(info.contains("1 lines begin like data but cannot be parsed"), "{info}");
    assert!(info.contains("the ASCII column differs from the digits"), "{info}");
    assert_eq!(succeeds(path, &["cat", "bad", "/hello.txt"]), "hello\n");
}
