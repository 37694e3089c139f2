//! Images of ubinize and of our own builder. Judge: ubinize of mtd-utils.

use nandkit_flash::Flash;
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_ubi::build::{ImageHeaders, VolumeContent, build};
use nandkit_ubi::layout::{EcHeader, HEADER_SIZE, VolumeRecord, VolumeType, flag};
use nandkit_ubi::probe::Survey;
use nandkit_ubi::{Geometry, probe};
use nandkit_vfs::probe::{Depth, Fit};

use crate::common::{GEOMETRIES, attach, content, headers, read, two_volumes, ubinize};

#[test]
fn our_images_equal_those_of_ubinize() {
    let directory = tempfile::tempdir().expect("a directory");
    let (kernel, rootfs) = (content(300_000), content(100_001));
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("kernel"), &kernel).expect("written");
    std::fs::write(file("rootfs"), &rootfs).expect("written");
    let description = format!(
        "[k]\nmode=ubi\nimage={}\nvol_id=0\nvol_type=static\nvol_name=kernel\nvol_alignment=1\n\
         [r]\nmode=ubi\nimage={}\nvol_id=4\nvol_size=2MiB\nvol_type=dynamic\nvol_name=rootfs\n\
         vol_flags=autoresize\nvol_alignment=1024\n",
        file("kernel").display(),
        file("rootfs").display()
    );
    for (geometry, options) in GEOMETRIES {
        let theirs = ubinize(directory.path(), options, &description);
        let lebs = |bytes: usize, leb: u32| bytes.div_ceil(leb as usize) as u32;
        let leb_size = geometry.leb_size();
        let data_pad = leb_size % 1024;
        let rootfs_record = VolumeRecord {
            alignment: 1024,
            data_pad,
            flags: flag::AUTORESIZE,
            ..VolumeRecord::new("rootfs", VolumeType::Dynamic, lebs(2 << 20, leb_size - data_pad))
        };
        let kernel_record = VolumeRecord::new("kernel", VolumeType::Static, lebs(kernel.len(), leb_size));
        let volumes = [
            VolumeContent { number: 0, record: kernel_record, content: &kernel },
            VolumeContent { number: 4, record: rootfs_record, content: &rootfs },
        ];
        let ours = build(&headers(geometry), &volumes).expect("volumes that fit");
        assert!(ours == theirs, "{geometry:?}: first difference at {:?}", difference(&ours, &theirs));
        let ubi = attach(theirs, geometry).expect("a device");
        assert_eq!(ubi.damage(), []);
        assert_eq!(*ubi.geometry(), geometry);
        assert!(read(&ubi, "kernel").expect("static content") == kernel);
        let whole = read(&ubi, "rootfs").expect("dynamic content");
        assert!(whole.starts_with(&rootfs) && whole[rootfs.len()..].iter().all(|byte| *byte == 0xFF));
        assert!(ubi.check().expect("a check").findings.is_empty());
    }
}

fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    one.iter().zip(other).position(|(one, other)| one != other).or((one.len() != other.len()).then_some(one.len()))
}

/// The devices in bytes without OOB.
fn surveys(bytes: Vec<u8>) -> Vec<Survey> {
    probe::devices(&RamFlash::nor(bytes, 512), 0, Depth::Thorough, None)
}

fn first(bytes: Vec<u8>) -> Survey {
    surveys(bytes).into_iter().next().expect("a device")
}

#[test]
fn devices_end_where_something_else_begins() {
    let (boot, other) = (content(3 << 16), content(5 << 16));
    for (geometry, _) in GEOMETRIES {
        let image = two_volumes(geometry, &content(40_000), &content(100_000));
        let blank = vec![0xFF; 2 * geometry.peb_size as usize];
        let begin = boot.len() as u64;
        let end = begin + (image.len() + blank.len()) as u64;
        // A boot loader in front, another partition behind.
        let dump = [&boot[..], &image, &blank, &other].concat();
        let found = surveys(dump);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].range.clone(), found[0].peb_size), (begin..end, geometry.peb_size));
        // The same image in two places, as devices with two slots have it.
        let ranges: Vec<_> = surveys(image.repeat(2)).into_iter().map(|survey| survey.range).collect();
        let half = image.len() as u64;
        assert_eq!(ranges, [0..half, half..2 * half]);
        // Another image behind it, with a sequence number of its own.
        let headers = ImageHeaders { image_sequence: 5, ..headers(geometry) };
        let volume =
            VolumeContent { number: 0, record: VolumeRecord::new("x", VolumeType::Dynamic, 40), content: &other };
        let behind = build(&headers, &[volume]).expect("a volume that fits");
        let ranges: Vec<_> = surveys([&image[..], &behind].concat()).into_iter().map(|survey| survey.range).collect();
        assert_eq!(ranges, [0..half, half..half + behind.len() as u64]);
    }
}

#[test]
fn a_first_peb_without_its_first_header_belongs_to_the_device() {
    let (geometry, _) = GEOMETRIES[0];
    let mut image = two_volumes(geometry, &content(40_000), &content(100_000));
    image[10] ^= 1;
    assert_eq!(first(image.clone()).range, 0..image.len() as u64);
}

#[test]
fn the_size_of_pebs_is_found_from_headers() {
    for (geometry, _) in GEOMETRIES {
        for peb_size in [16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
            let geometry = Geometry { peb_size, ..geometry };
            // Short LEBs: the second half of each PEB is blank, as if PEBs were half as large.
            let image = two_volumes(geometry, &content(40), &content(peb_size as usize * 3));
            let blank = vec![0xFF; 2 * peb_size as usize];
            for image in [image.clone(), [image, blank].concat()] {
                let length = image.len() as u64;
                let survey = first(image);
                assert!(survey.is_sure(), "{survey:?}");
                assert_eq!(survey.likeness().layout.erase_size_fit, Fit::Proven);
                assert_eq!((survey.peb_size, survey.range), (peb_size, 0..length));
                assert_eq!((survey.vid_offset, survey.data_offset), (geometry.vid_offset, geometry.data_offset));
            }
        }
    }
}

#[test]
fn second_headers_show_the_size_of_pebs_where_first_ones_are_damaged_by_turns() {
    for (geometry, _) in GEOMETRIES {
        for odd in [0, 1] {
            let peb = geometry.peb_size as usize;
            let mut image = two_volumes(geometry, &content(peb * 3), &content(peb * 5));
            image.chunks_exact_mut(peb).skip(odd).step_by(2).for_each(|peb| peb[10] ^= 1);
            let length = image.len() as u64;
            let survey = first(image);
            assert_eq!((survey.peb_size, survey.range.clone()), (geometry.peb_size, 0..length), "{survey:?}");
        }
    }
}

#[test]
fn headers_that_fit_blocks_of_no_size_are_not_advised_another_size() {
    let (geometry, _) = GEOMETRIES[0];
    let mut image = vec![0xFF; 1 << 20];
    let ec = EcHeader { erase_counter: 1, vid_offset: u32::MAX - 3, data_offset: 8, image_sequence: 1 };
    image[..HEADER_SIZE].copy_from_slice(&ec.encode());
    let error = attach(image, geometry).expect_err("no headers that fit");
    assert!(error.detail.contains("fits blocks of no size"), "{error}");
}

#[test]
fn used_blocks_may_stand_behind_many_free_ones() {
    for (geometry, _) in GEOMETRIES {
        let geometry = Geometry { peb_size: 16 << 10, ..geometry };
        let image = two_volumes(geometry, &content(40_000), &content(100_000));
        let mut free = vec![0xFF; geometry.peb_size as usize];
        free[..64].copy_from_slice(&image[..64]);
        let pebs = 300 + image.len() as u32 / geometry.peb_size;
        let survey = first([free.repeat(300), image].concat());
        assert!(survey.is_sure() && survey.blocks.identified > 8, "{survey:?}");
        assert_eq!((survey.peb_size, survey.blocks.headed), (geometry.peb_size, pebs));
    }
}

#[test]
fn an_image_inside_a_volume_does_not_change_the_size_of_pebs() {
    let inner = Geometry { peb_size: 4096, vid_offset: 64, data_offset: 128 };
    let inside = two_volumes(inner, &content(9000), &content(30_000));
    for (geometry, _) in GEOMETRIES {
        let image = two_volumes(geometry, &content(10), &inside.repeat(4));
        let survey = first(image);
        assert_eq!(survey.peb_size, geometry.peb_size, "{geometry:?}");
    }
}

#[test]
fn bytes_that_are_no_ubi_are_not_taken_for_it() {
    let (geometry, _) = GEOMETRIES[0];
    let error = attach(content(1 << 20), geometry).expect_err("no headers");
    assert!(error.detail.contains("none of 8 blocks of 131072 bytes"), "{error}");
    assert_eq!(surveys(content(1 << 20)), []);
    let image = two_volumes(geometry, &content(10), &content(10));
    // With the wrong erase size headers do not fit, or stand where no header is expected.
    let small = Geometry { peb_size: 4096, ..geometry };
    let error = attach(image, small).expect_err("data do not fit");
    assert!(error.detail.contains("is the erase size right?"), "{error}");
}

#[test]
fn volumes_that_do_not_fit_are_refused() {
    let (geometry, _) = GEOMETRIES[3];
    let volume = |number, name, pebs, content| VolumeContent {
        number,
        record: VolumeRecord::new(name, VolumeType::Dynamic, pebs),
        content,
    };
    let long = content(geometry.leb_size() as usize + 1);
    for (volumes, part) in [
        (vec![volume(0, "a", 1, &[][..]), volume(0, "b", 1, &[])], "number 0"),
        (vec![volume(0, "a", 1, &[]), volume(1, "a", 1, &[])], "two volumes have the name 'a'"),
        (vec![volume(0, "", 1, &[])], "expected a name of 1 to 127 bytes"),
        (vec![volume(200, "a", 1, &[])], "expected one below 128"),
        (vec![volume(0, "a", 1, &long)], "do not fit in"),
    ] {
        let error = build(&headers(geometry), &volumes).expect_err("volumes that do not fit");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_device_is_returned_as_it_was() {
    let (geometry, _) = GEOMETRIES[2];
    let image = two_volumes(geometry, &content(500), &content(20_000));
    let pebs = image.len() / geometry.peb_size as usize;
    let flash = attach(image, geometry).expect("a device").into_flash();
    assert_eq!(flash.geometry().blocks as usize, pebs);
}
