//! What power cuts and damage leave behind: two PEBs with one LEB, torn headers and copies, lost
//! tables, missing PEBs. The rules are those of Linux' attach (`drivers/mtd/ubi/attach.c`).

use nandkit_ubi::layout::{HEADER_SIZE, VidHeader, VolumeRecord, VolumeType, checksum};
use nandkit_ubi::{Geometry, Leb, Peb};
use nandkit_vfs::check::Finding;

use crate::common::{GEOMETRIES, attach, content, headers, read, two_volumes};
use nandkit_ubi::build::{VolumeContent, build};

const GEOMETRY: Geometry = GEOMETRIES[2].0;
const PEB: usize = GEOMETRY.peb_size as usize;

/// The bytes of a PEB.
fn peb(image: &mut [u8], number: usize) -> &mut [u8] {
    &mut image[number * PEB..(number + 1) * PEB]
}

/// Changes the identifier header of a PEB.
fn change(image: &mut [u8], number: usize, change: impl FnOnce(&mut VidHeader)) {
    let place = &mut peb(image, number)[GEOMETRY.vid_offset as usize..][..HEADER_SIZE];
    let mut vid = VidHeader::decode((&*place).try_into().expect("64 bytes")).header().expect("a header");
    change(&mut vid);
    place.copy_from_slice(&vid.encode());
}

/// An image whose PEBs 2 and 3 are LEBs 0 and 1 of `rootfs`, and a copy of PEB 2 as PEB 4, with
/// other data, the given sequence number and copy flag.
fn with_copy(sequence: u64, is_copy: bool) -> Vec<u8> {
    let volume = VolumeContent {
        number: 0,
        record: VolumeRecord::new("rootfs", VolumeType::Dynamic, 8),
        content: &content(2 * GEOMETRY.leb_size() as usize),
    };
    let mut image = build(&headers(GEOMETRY), &[volume]).expect("a volume that fits");
    let copied = peb(&mut image, 2).to_vec();
    image.extend(copied);
    let data = &mut peb(&mut image, 4)[GEOMETRY.data_offset as usize..];
    data[..100].fill(b'N');
    let sum = checksum(data);
    change(&mut image, 2, |vid| vid.sequence = 5);
    let (data_size, data_checksum) = if is_copy { (GEOMETRY.leb_size(), sum) } else { (0, 0) };
    change(&mut image, 4, |vid| *vid = VidHeader { sequence, is_copy, data_size, data_checksum, ..*vid });
    image
}

fn kinds(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn of_two_pebs_with_one_leb_the_newer_one_counts() {
    for (sequence, is_copy, expected) in [(6, false, 4), (6, true, 4), (4, false, 2), (4, true, 2)] {
        let ubi = attach(with_copy(sequence, is_copy), GEOMETRY).expect("a device");
        assert_eq!(ubi.volumes()[0].peb_of(Leb(0)), Some(Peb(expected)), "{sequence} {is_copy}");
        assert_eq!((ubi.damage(), ubi.counts().stale), (&[][..], 1));
    }
}

#[test]
fn a_copy_that_is_not_whole_loses() {
    let mut image = with_copy(6, true);
    peb(&mut image, 4)[GEOMETRY.data_offset as usize + 5000] ^= 1;
    let ubi = attach(image, GEOMETRY).expect("a device");
    assert_eq!(ubi.volumes()[0].peb_of(Leb(0)), Some(Peb(2)));
    assert_eq!(kinds(ubi.damage()), ["torn copy"]);
    assert!(ubi.check().expect("a check").is_clean());
    // A LEB that was written, not copied, has no checksum: it counts as it is.
    let mut image = with_copy(6, false);
    peb(&mut image, 4)[GEOMETRY.data_offset as usize + 5000] ^= 1;
    assert_eq!(attach(image, GEOMETRY).expect("a device").volumes()[0].peb_of(Leb(0)), Some(Peb(4)));
}

#[test]
fn equal_sequence_numbers_are_told() {
    let ubi = attach(with_copy(5, false), GEOMETRY).expect("a device");
    assert_eq!(ubi.volumes()[0].peb_of(Leb(0)), Some(Peb(2)));
    assert_eq!(kinds(ubi.damage()), ["ambiguous copies"]);
    assert!(!ubi.check().expect("a check").is_clean());
}

#[test]
fn a_missing_peb_costs_what_stood_in_it() {
    let (kernel, rootfs) = (content(40_000), content(50_000));
    let whole = two_volumes(GEOMETRY, &kernel, &rootfs);
    let leb = GEOMETRY.leb_size() as usize;
    for number in 2..whole.len() / PEB {
        let mut image = whole.clone();
        peb(&mut image, number).fill(0xFF);
        let ubi = attach(image, GEOMETRY).expect("a device");
        assert_eq!(ubi.damage(), []);
        let report = ubi.check().expect("a check");
        match number - 2 {
            lost @ 0..3 => {
                assert_eq!(kinds(&report.findings), ["missing data"], "PEB {number}");
                assert_eq!(report.findings[0].paths, [b"kernel".to_vec()]);
                assert!(read(&ubi, "kernel").expect_err("a LEB is missing").detail.contains(&format!("LEB {lost}")));
                assert!(read(&ubi, "rootfs").expect("untouched").starts_with(&rootfs));
            }
            lost => {
                // In a dynamic volume an unmapped LEB is nothing unusual.
                assert!(report.is_clean());
                let read = read(&ubi, "rootfs").expect("content");
                let lost = (lost - 3) * leb;
                let end = rootfs.len().min(lost + leb);
                assert!(read[..lost.min(read.len())] == rootfs[..lost.min(read.len())]);
                assert!(read.len() <= lost || read[lost..end].iter().all(|byte| *byte == 0xFF));
            }
        }
    }
}

#[test]
fn either_copy_of_the_volume_table_is_enough_and_without_both_names_are_lost() {
    let (kernel, rootfs) = (content(40_000), content(20_000));
    let whole = two_volumes(GEOMETRY, &kernel, &rootfs);
    for lost in [vec![0], vec![1], vec![0, 1]] {
        for is_gone in [true, false] {
            let mut image = whole.clone();
            for number in &lost {
                match is_gone {
                    true => peb(&mut image, *number).fill(0xFF),
                    false => peb(&mut image, *number)[GEOMETRY.data_offset as usize..][..2000].fill(0),
                }
            }
            let ubi = attach(image, GEOMETRY).expect("a device");
            let told = kinds(ubi.damage());
            assert_eq!(told.iter().filter(|kind| **kind == "volume table").count(), lost.len(), "{told:?}");
            let names = if lost.len() == 2 { ["volume-0", "volume-1"] } else { ["kernel", "rootfs"] };
            assert_eq!(told.contains(&"unknown volume"), lost.len() == 2);
            assert!(read(&ubi, names[0]).expect("static content") == kernel);
            assert!(read(&ubi, names[1]).expect("dynamic content").starts_with(&rootfs));
        }
    }
}

#[test]
fn damaged_headers_are_told_and_harmless_where_no_data_follow() {
    let whole = two_volumes(GEOMETRY, &content(40_000), &content(20_000));
    // The erase counter is lost, the data are not.
    let mut image = whole.clone();
    peb(&mut image, 2)[10] ^= 1;
    let ubi = attach(image, GEOMETRY).expect("a device");
    assert_eq!(kinds(ubi.damage()), ["erase counter lost"]);
    assert!(read(&ubi, "kernel").expect("content") == content(40_000));
    // The identifier is lost, and with it the LEB.
    let mut image = whole.clone();
    peb(&mut image, 2)[GEOMETRY.vid_offset as usize + 10] ^= 1;
    let ubi = attach(image, GEOMETRY).expect("a device");
    assert_eq!(kinds(&ubi.check().expect("a check").findings), ["damaged header", "missing data"]);
    // Cut off while the header was written.
    let mut image = [whole.clone(), whole[2 * PEB..3 * PEB].to_vec()].concat();
    let torn = image.len() / PEB - 1;
    peb(&mut image, torn)[GEOMETRY.vid_offset as usize + 30..].fill(0xFF);
    let ubi = attach(image, GEOMETRY).expect("a device");
    assert_eq!(kinds(ubi.damage()), ["torn header"]);
    assert!(ubi.check().expect("a check").is_clean());
}

#[test]
fn damaged_data_of_a_static_volume_are_told() {
    let mut image = two_volumes(GEOMETRY, &content(40_000), &content(20_000));
    peb(&mut image, 3)[GEOMETRY.data_offset as usize + 77] ^= 4;
    let report = attach(image, GEOMETRY).expect("a device").check().expect("a check");
    assert_eq!(kinds(&report.findings), ["damaged data"]);
    assert!(report.findings[0].detail.contains("LEB 1 of volume 'kernel', PEB 3"), "{}", report.findings[0]);
}

#[test]
fn an_interrupted_update_is_told() {
    let mut kernel = VolumeRecord::new("kernel", VolumeType::Static, 4);
    kernel.is_updating = true;
    let volume = VolumeContent { number: 0, record: kernel, content: &content(40_000) };
    let image = build(&headers(GEOMETRY), &[volume]).expect("a volume that fits");
    let report = attach(image, GEOMETRY).expect("a device").check().expect("a check");
    assert_eq!(kinds(&report.findings), ["interrupted update"]);
}
