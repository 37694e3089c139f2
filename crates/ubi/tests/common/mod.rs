//! Images for the tests: geometries in use, and volumes with content.

use std::path::Path;

use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::judges::must_run;
use nandkit_ubi::build::{ImageHeaders, VolumeContent, build};
use nandkit_ubi::layout::{VolumeRecord, VolumeType};
use nandkit_ubi::{Geometry, Ubi};
use nandkit_units::random::Random;
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::FileSystem;

/// Geometries with the options by which ubinize makes them: NAND with and without sub-pages, small
/// pages, NOR.
pub const GEOMETRIES: [(Geometry, &[&str]); 4] = [
    (
        Geometry { peb_size: 128 << 10, vid_offset: 2048, data_offset: 4096 },
        &["-p", "128KiB", "-m", "2048", "-s", "2048"],
    ),
    (
        Geometry { peb_size: 128 << 10, vid_offset: 512, data_offset: 2048 },
        &["-p", "128KiB", "-m", "2048", "-s", "512"],
    ),
    (Geometry { peb_size: 16 << 10, vid_offset: 512, data_offset: 1024 }, &["-p", "16KiB", "-m", "512"]),
    (Geometry { peb_size: 64 << 10, vid_offset: 64, data_offset: 128 }, &["-p", "64KiB", "-m", "1"]),
];

/// Headers with this geometry.
pub fn headers(geometry: Geometry) -> ImageHeaders {
    ImageHeaders { geometry, image_sequence: 77, erase_counter: 3 }
}

/// Bytes that no compression shortens and that are never erased flash.
pub fn content(length: usize) -> Vec<u8> {
    let mut random = Random::new(length as u64, "content");
    (0..length).map(|_| random.index(255) as u8).collect()
}

/// An image with a static volume `kernel` and a dynamic one, `rootfs`, of these contents.
pub fn two_volumes(geometry: Geometry, kernel: &[u8], rootfs: &[u8]) -> Vec<u8> {
    let lebs = |bytes: &[u8]| bytes.len().div_ceil(geometry.leb_size() as usize) as u32;
    let volumes = [
        VolumeContent {
            number: 0,
            record: VolumeRecord::new("kernel", VolumeType::Static, lebs(kernel)),
            content: kernel,
        },
        VolumeContent {
            number: 1,
            record: VolumeRecord::new("rootfs", VolumeType::Dynamic, lebs(rootfs) + 3),
            content: rootfs,
        },
    ];
    build(&headers(geometry), &volumes).expect("volumes that fit")
}

/// Attaches an image without OOB.
pub fn attach(image: Vec<u8>, geometry: Geometry) -> nandkit_vfs::Result<Ubi<RamFlash>> {
    Ubi::attach(RamFlash::nor(image, geometry.peb_size), Clock::starting_at(0))
}

/// The whole content of a volume.
pub fn read(ubi: &Ubi<RamFlash>, name: &str) -> nandkit_vfs::Result<Vec<u8>> {
    let inode = ubi.lookup(ubi.root(), name.as_bytes())?;
    let mut bytes = vec![0; ubi.stat(inode)?.size as usize];
    let length = ubi.read(inode, 0, ReadInto::Bytes(&mut bytes))?;
    assert_eq!(length, bytes.len());
    Ok(bytes)
}

/// Runs ubinize with these options and this description of volumes; returns the image.
pub fn ubinize(directory: &Path, options: &[&str], description: &str) -> Vec<u8> {
    let (input, output) = (directory.join("volumes.ini"), directory.join("image.ubi"));
    std::fs::write(&input, description).expect("a file can be written");
    let output_text = output.display().to_string();
    let input_text = input.display().to_string();
    let fixed = ["-Q", "77", "-e", "3", "-o", &output_text, &input_text];
    must_run("mtd-utils", "ubinize", options.iter().chain(&fixed));
    std::fs::read(output).expect("ubinize made an image")
}
