//! Android's sparse images, with simg2img and img2simg (Debian package android-sdk-libsparse-utils)
//! as judges.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use nandkit_flash_image::ImageErrorKind;
use nandkit_flash_image::android_sparse::{is_sparse, pack, pack_file, unpack};
use nandkit_units::random::Random;

fn run(tool: &str, words: &[&Path]) {
    let status = Command::new(tool).args(words).status();
    let status = status.unwrap_or_else(|error| panic!("{tool} (Debian package android-sdk-libsparse-utils): {error}"));
    assert!(status.success(), "{tool}");
}

/// Runs of noise, of zeroes and of one word.
fn image(blocks: usize) -> Vec<u8> {
    let mut random = Random::new(5, "sparse");
    let mut bytes = Vec::new();
    while bytes.len() < blocks * 4096 {
        let length = random.between(1, 400) as usize * 4096;
        match random.below(3) {
            0 => bytes.resize(bytes.len() + length, 0),
            1 => bytes.extend((random.next_u64() as u32).to_le_bytes().repeat(length / 4)),
            _ => {
                let mut noise = vec![0; length];
                random.fill(&mut noise);
                bytes.extend(noise);
            }
        }
    }
    bytes.truncate(blocks * 4096);
    bytes
}

fn packed_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut to = Cursor::new(Vec::new());
    pack(&mut &bytes[..], bytes.len() as u64, &mut to).unwrap();
    to.into_inner()
}

fn unpacked(bytes: &[u8]) -> nandkit_flash_image::Result<Vec<u8>> {
    let mut to = Cursor::new(Vec::new());
    let report = unpack(&mut &bytes[..], &mut to, 1 << 30)?;
    let mut image = to.into_inner();
    image.resize(report.bytes as usize, 0);
    Ok(image)
}

#[test]
fn simg2img_unpacks_what_we_pack() {
    let directory = tempfile::tempdir().unwrap();
    let (sparse, whole) = (directory.path().join("sparse"), directory.path().join("whole"));
    let bytes = image(5000);
    let ours = packed_bytes(&bytes);
    assert!(is_sparse(&ours) && ours.len() < bytes.len());
    fs::write(&sparse, &ours).unwrap();
    run("simg2img", &[&sparse, &whole]);
    assert!(fs::read(&whole).unwrap() == bytes);
    assert!(unpacked(&ours).unwrap() == bytes);
}

#[test]
fn we_unpack_what_img2simg_packs() {
    let directory = tempfile::tempdir().unwrap();
    let (sparse, whole) = (directory.path().join("sparse"), directory.path().join("whole"));
    let bytes = image(3000);
    fs::write(&whole, &bytes).unwrap();
    run("img2simg", &[&whole, &sparse]);
    assert!(unpacked(&fs::read(&sparse).unwrap()).unwrap() == bytes);
}

#[test]
fn checksums_cover_holes_and_are_checked() {
    let mut sparse = packed_bytes(&image(1000));
    let whole = unpacked(&sparse).unwrap();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&whole);
    let chunks = u32::from_le_bytes(sparse[20..24].try_into().unwrap());
    sparse[20..24].copy_from_slice(&(chunks + 1).to_le_bytes());
    sparse.extend([0xC4, 0xCA, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
    sparse.extend(hasher.finalize().to_le_bytes());
    assert!(unpacked(&sparse).unwrap() == whole);
    *sparse.last_mut().unwrap() ^= 1;
    assert!(unpacked(&sparse).unwrap_err().detail.contains("checksum"));
}

#[test]
fn what_is_damaged_is_refused() {
    let good = packed_bytes(&image(300));
    for cut in [0, 3, 27, 28, 35, good.len() - 1] {
        assert_eq!(unpacked(&good[..cut]).unwrap_err().kind, ImageErrorKind::Corrupt, "{cut}");
    }
    let mut random = Random::new(9, "damage");
    for _ in 0..3000 {
        let mut bad = good.clone();
        for _ in 0..random.between(1, 4) {
            let at = random.below(200) as usize;
            bad[at] = random.next_u64() as u8;
        }
        // No panic, and never more than the allowed size.
        if let Ok(image) = unpacked(&bad) {
            assert!(image.len() <= 1 << 30);
        }
    }
    let mut huge = good.clone();
    huge[16..20].fill(0xFF);
    assert!(unpacked(&huge).unwrap_err().detail.contains("at most"));
}

/// Holes are not read: a file of 512 GiB with some blocks of data takes no time. A file without
/// large holes is packed as if it were bytes.
#[test]
fn holes_of_a_file_are_not_read() {
    let mut file = tempfile::tempfile().unwrap();
    let blocks = 1_u64 << 27;
    file.set_len(blocks * 4096).unwrap();
    for at in [0, 1, 100_000, blocks - 5] {
        std::os::unix::fs::FileExt::write_all_at(&file, &[at as u8 | 1; 4096], at * 4096).unwrap();
    }
    let mut to = Cursor::new(Vec::new());
    let report = pack_file(&mut file, blocks * 4096, &mut to).unwrap();
    let packed = to.into_inner();
    assert_eq!(report.bytes, blocks * 4096);
    assert!(report.chunks <= 8 && packed.len() < 8 * 4096, "{report:?}");
    let covered: u64 = chunks(&packed).iter().map(|(_, blocks)| u64::from(*blocks)).sum();
    assert_eq!(covered, blocks);
    let bytes = image(3000);
    let mut small = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&small, &bytes, 0).unwrap();
    let mut to = Cursor::new(Vec::new());
    pack_file(&mut small, bytes.len() as u64, &mut to).unwrap();
    assert!(to.into_inner() == packed_bytes(&bytes));
}

/// The type and number of blocks of each chunk.
fn chunks(packed: &[u8]) -> Vec<(u16, u32)> {
    let (mut at, mut found) = (28, Vec::new());
    while at < packed.len() {
        let word = |byte: usize| u32::from_le_bytes(packed[at + byte..][..4].try_into().unwrap());
        found.push((word(0) as u16, word(4)));
        at += word(8) as usize;
    }
    found
}
