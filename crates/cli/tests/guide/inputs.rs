//! The three dumps of the guide page "I have a dump", made by hand and by nandkit.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::common::noise::noise;
use crate::common::{nandkit, succeeds};

/// The time of all that is made, in seconds since 1970.
pub const TIME: &str = "1700000000";

/// Bytes of the router's flash that are its volume's.
pub const ROUTER_VOLUME: Range<usize> = 0x11_0000..0x1E_0000;
/// Bytes of the kernel in its partition, with its header.
pub const ROUTER_KERNEL_BYTES: usize = 64 + 300_000;
/// Bytes of the SquashFS in its partition.
pub const ROUTER_SQUASHFS_BYTES: usize = 200_000;
/// Bytes of the phone's largest file.
pub const FILM_BYTES: u32 = 900_000;

/// The router's network settings.
pub fn network(address: &str) -> String {
    format!("config interface 'lan'\n\toption proto 'static'\n\toption ipaddr '{address}'\n")
}

/// A tree of files in `tree`, each of the one time.
fn tree(directory: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = directory.join("tree").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        fs::write(&path, content).expect("writes");
    }
    let make_old = |path: &Path| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(TIME.parse().expect("a number"));
        fs::File::open(path).and_then(|file| file.set_modified(time)).expect("sets the time");
    };
    let mut folders = vec![directory.join("tree")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("lists").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => make_old(&entry),
            }
        }
        make_old(&folder);
    }
}

/// Takes away what a dump was made of.
fn tidied(directory: &Path, name: &str) -> Vec<u8> {
    let bytes = fs::read(directory.join(name)).expect("reads");
    for entry in fs::read_dir(directory).expect("lists").map(|entry| entry.expect("an entry").path()) {
        let removed = if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
        removed.expect("removes");
    }
    bytes
}

fn padded(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    assert!(bytes.len() <= length);
    bytes.resize(length, 0xFF);
    bytes
}

/// A U-Boot environment: a checksum, and variables that end in zeroes (U-Boot, `env_internal.h`).
fn environment(variables: &[&str], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = variables.iter().flat_map(|line| [line.as_bytes(), b"\0"].concat()).collect();
    bytes.resize(length - 4, 0);
    [&crc32fast::hash(&bytes).to_le_bytes()[..], &bytes].concat()
}

/// A kernel behind the header of U-Boot's legacy images (U-Boot, `image.h`).
fn kernel() -> Vec<u8> {
    let code = noise(300_000, 1);
    let mut header =
        [0x2705_1956_u32, 0, 1_700_000_000, code.len() as u32, 0x8000_0000, 0x8000_0000].map(u32::to_be_bytes).concat();
    header.extend(crc32fast::hash(&code).to_be_bytes());
    // Linux, MIPS, a kernel, LZMA.
    header.extend([5, 5, 2, 3]);
    header.extend(b"MIPS OpenWrt Linux-6.6");
    header.resize(64, 0);
    let sum = crc32fast::hash(&header);
    header[4..8].copy_from_slice(&sum.to_be_bytes());
    [header, code].concat()
}

/// A superblock of SquashFS 4 (Linux, `squashfs_fs.h`), and bytes.
fn squashfs() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [0x7371_7368_u32, 700, 1_700_000_000, 0x4_0000, 12] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [4_u16, 18, 0, 1, 4, 0] {
        bytes.extend(number.to_le_bytes());
    }
    let end = ROUTER_SQUASHFS_BYTES as u64;
    for number in [0, end, end - 8, u64::MAX, end - 4000, end - 3000, end - 2000, end - 1000] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(noise(200_000 - bytes.len() as u32, 2));
    bytes
}

/// `router.bin`: boot loader, environment with `mtdparts`, kernel, SquashFS, JFFS2, NVRAM and
/// calibration on a NOR of 2 MiB.
pub fn router(directory: &Path) -> Vec<u8> {
    let dropbear = noise(500, 7);
    tree(
        directory,
        &[
            ("etc/config/network", network("192.168.1.1").as_bytes()),
            ("etc/config/wireless", b"config wifi-device 'radio0'\n\toption disabled '1'\n"),
            ("etc/dropbear/key", &dropbear),
            ("etc/shadow", b"root:$1$abc:19700:0:99999:7:::\n"),
        ],
    );
    let made =
        ["mkfs", "jffs2", "--from", "tree", "-e", "64K", "--size", "832K", "--endian", "big", "--owner", "0:0", "v"];
    succeeds(directory, &made);
    let parts =
        "mtdparts=spi0.0:128k(u-boot),64k(u-boot-env),512k(kernel),384k(rootfs),832k(rootfs_data),64k(nvram),64k(art)";
    let variables = ["bootcmd=bootm 0x9f030000", "bootdelay=3", parts];
    let router = [
        padded(noise(0x1_8000, 4), 0x2_0000),
        environment(&variables, 0x1_0000),
        padded(kernel(), 0x8_0000),
        padded(squashfs(), 0x6_0000),
        tidied(directory, "v"),
        padded(b"boardid=7\0et0macaddr=00:11:22:33:44:55\0\0".to_vec(), 0x1_0000),
        padded(noise(0x1000, 5), 0x1_0000),
    ]
    .concat();
    assert_eq!(router.len(), 2 << 20);
    fs::write(directory.join("router.bin"), &router).expect("writes");
    router
}

/// `camera.bin`: NAND of 2048 and 64 bytes as i.MX's controller writes it, with wrong bits in some
/// pages. Returns what it would be without them.
pub fn camera(directory: &Path) -> Vec<u8> {
    let (photo, program) = (noise(120_000, 8), noise(60_000, 9));
    tree(directory, &[("etc/hostname", b"camera\n"), ("photos/1.jpg", &photo), ("usr/bin/watch", &program)]);
    let plain =
        ["mkfs", "jffs2", "--from", "tree", "-e", "128K", "--oob=2048+64", "--size", "4M", "--owner", "0:0", "v"];
    succeeds(directory, &plain);
    succeeds(directory, &["export", "v", "w", "--oob-layout", "gpmi-bch8-2048-64", "--for", "programmer"]);
    let sound = tidied(directory, "w");
    let mut worn = sound.clone();
    // Up to three bits of a page that holds anything.
    for (number, page) in worn.chunks_mut(2112).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0xFF)) {
        (0..number % 4).for_each(|bit| page[100 + 300 * bit] ^= 1 << bit);
    }
    fs::write(directory.join("camera.bin"), worn).expect("writes");
    sound
}

/// `userdata.0`, `.1` and `.2`: an F2FS volume of Android's kind as the parts of a sparse image.
/// Returns the volume.
pub fn phone(directory: &Path) -> Vec<u8> {
    let film = noise(FILM_BYTES, 3);
    tree(
        directory,
        &[("app/base.apk", &film[..300_000]), ("media/film", &film), ("misc/hosts", b"127.0.0.1 localhost phone\n")],
    );
    let made = nandkit(directory, &["mkfs", "f2fs", "--from", "tree", "--size", "64M", "-g", "android", "v"]);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let volume = tidied(directory, "v");
    let blocks: Vec<&[u8]> = volume.chunks(4096).collect();
    let used: Vec<usize> = (0..blocks.len()).filter(|block| blocks[*block].iter().any(|byte| *byte != 0)).collect();
    for (part, share) in used.chunks(used.len().div_ceil(3)).enumerate() {
        fs::write(directory.join(format!("userdata.{part}")), sparse(&blocks, share)).expect("writes");
    }
    volume
}

/// A sparse image that gives some blocks of an image, and says of all others that they do not
/// matter (AOSP libsparse, `sparse_format.h`).
fn sparse(blocks: &[&[u8]], given: &[usize]) -> Vec<u8> {
    let (mut chunks, mut bytes, mut at) = (0_u32, Vec::new(), 0);
    let mut chunk = |kind: u16, count: usize, body: &[u8]| {
        if count > 0 {
            bytes.extend([kind.to_le_bytes(), [0; 2]].concat());
            bytes.extend([(count as u32).to_le_bytes(), (12 + body.len() as u32).to_le_bytes()].concat());
            bytes.extend(body);
            chunks += 1;
        }
    };
    for block in given {
        chunk(0xCAC3, block - at, &[]);
        chunk(0xCAC1, 1, blocks[*block]);
        at = block + 1;
    }
    chunk(0xCAC3, blocks.len() - at, &[]);
    let mut header = 0xED26_FF3A_u32.to_le_bytes().to_vec();
    header.extend([1_u16, 0, 28, 12].map(u16::to_le_bytes).concat());
    header.extend([4096, blocks.len() as u32, chunks, 0].map(u32::to_le_bytes).concat());
    [header, bytes].concat()
}
