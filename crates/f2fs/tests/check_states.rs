//! States that are no faults, and damage beyond a single field: unclean volumes, lost sectors,
//! cycles, quotas, compressed clusters, casefolded names.

use crate::common;

use crate::common::{mkfs, plant, sload};
use crate::made::{all_kinds, block_of, clock, complaints, kind_of, new_image, node_of};
use crate::planted::{BLOCK, PACK, Planted};
use crate::witness;
use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use nandkit_block::{BlockDevice, ErrorKind as BlockErrorKind, Operation, RamDevice};
use nandkit_codec::compression::{Compression as Method, Compressor, Level};
use nandkit_f2fs::FindingKind::*;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::layout::dentry::Slot;
use nandkit_f2fs::layout::{DentryArea, DentryRoom};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{BlockAddress, FindingKind, Log, NodeId, check};
use nandkit_units::Lba;
use nandkit_vfs::ErrorKind;
use nandkit_vfs::check::{Finding, Report};

fn made_with(features: &str) -> Planted {
    witness::made_with(features, &all_kinds(700))
}

fn checked(planted: &Planted) -> Report {
    check(vec![planted.device()], clock()).unwrap()
}

fn kinds(report: &Report, harmless: bool) -> Vec<FindingKind> {
    let mut kinds: Vec<_> =
        report.findings.iter().filter(|found| found.is_harmless() == harmless).map(kind_of).collect();
    kinds.sort();
    kinds
}

#[test]
fn unclean_volumes_and_what_waits_behind_them_are_told_and_sound() {
    let mut planted = made_with("extra_attr,inode_checksum");
    let orphan = planted.nid("devices/pipe");
    planted.checkpoint(|head| head.flags = (head.flags.get() & !flag::UNMOUNTED | flag::FASTBOOT).into());
    // A node with an fsync mark where the warm node log continues.
    let (log, version) = (planted.state.logs[Log::WarmNode.index()], planted.state.head.version.get());
    let here = BlockAddress(planted.geometry.segment_start(log.segment).0 + u32::from(log.next));
    for (byte, word) in
        [(4072, 9), (4076, 9), (4080, 3), (4084, version as u32), (4088, (version >> 32) as u32), (4092, here.0 + 1)]
    {
        planted.set_word(here, byte, word);
    }
    let report = checked(&planted);
    assert_eq!(
        (kinds(&report, false), kinds(&report, true)),
        (vec![], vec![State, NotReplayed]),
        "{:?}",
        report.findings
    );
    assert!(report.is_clean());
    // Deleted while open: two names are gone, and the inode is an orphan.
    let mut planted = made_with("extra_attr");
    for directory in ["devices", "names"] {
        let name: &[u8] = if directory == "devices" { b"pipe" } else { b"hard link" };
        let nid = planted.nid(directory);
        planted.inline_area(nid, |area| {
            let slots = DentryArea::new(area).slots_from(0).find_map(|slot| match slot {
                Slot::Entry(entry) if entry.name == name => Some(entry.slot..entry.slot + name.len().div_ceil(8)),
                _ => None,
            });
            slots.unwrap().for_each(|slot| area[slot / 8] &= !(1 << (slot % 8)));
        });
    }
    planted.head(orphan, |head| head.links = 0.into());
    planted.write_state(|state| {
        state.orphans = vec![orphan];
        state.head.flags = (state.head.flags.get() & !flag::UNMOUNTED).into();
    });
    let report = checked(&planted);
    assert_eq!((kinds(&report, false), kinds(&report, true)), (vec![], vec![State, State]), "{:?}", report.findings);
}

#[test]
fn what_is_harmless_is_told_as_such() {
    let mut planted = made_with("extra_attr");
    let nid = planted.nid("kinds/film.mp4");
    planted.head(nid, |head| head.size = 5000.into());
    let here = planted.at(nid);
    let flags = planted.word(here, 4080);
    planted.set_word(here, 4080, flags ^ 1);
    let report = checked(&planted);
    assert_eq!((kinds(&report, false), kinds(&report, true)), (vec![], vec![Footer, Inode]), "{:?}", report.findings);
    assert!(report.findings.iter().all(|found| found.paths == [b"kinds/film.mp4".to_vec()]));
    // The same, with the flag that allows blocks past the size.
    planted.set_word(here, 4080, flags);
    planted.head(nid, |head| head.advise |= 0x10);
    assert_eq!(checked(&planted).findings, []);
}

fn without(planted: &Planted, blocks: &[BlockAddress]) -> Report {
    let lost = |at: &BlockAddress| {
        DeviceFault::new(Operation::Read, DeviceFaultWhen::Sector(Lba(at.0.into())), BlockErrorKind::Unreadable)
    };
    check(vec![FaultDevice::new(planted.device(), blocks.iter().map(lost))], clock()).unwrap()
}

#[test]
fn sectors_that_cannot_be_read_are_told_and_the_rest_is_checked() {
    let mut planted = made_with("extra_attr,inode_checksum");
    let sound = checked(&planted);
    let film = planted.nid("kinds/film.mp4");
    let big = planted.nid("sizes/of-9000000");
    let inode = planted.at(film);
    let report = without(&planted, &[inode]);
    assert_eq!((kinds(&report, false), report.faults().next().and_then(block_of)), (vec![Unreadable], Some(inode)));
    assert_eq!(report.count("files"), sound.count("files") - 1);
    let ssa = {
        let page = planted.page(big, 0);
        planted.geometry.ssa(planted.geometry.main(page).unwrap().0)
    };
    let report = without(&planted, &[ssa]);
    assert_eq!((kinds(&report, false), report.count("files")), (vec![Unreadable], sound.count("files")));
    // A block of a table: its content is lost, and the rest is there.
    let nat = planted.nat_place(NodeId(3000)).0;
    let report = without(&planted, &[nat]);
    assert!(
        kinds(&report, false).contains(&Unreadable) && report.count("files") > sound.count("files") - 600,
        "{:?}",
        report.findings
    );
    let many = planted.nid("many");
    let page = (10..300).map(|page| planted.page(many, page)).find(|page| page.0 != 0).unwrap();
    let report = without(&planted, &[page]);
    let faults = kinds(&report, false);
    assert!(
        faults.contains(&Unreadable) && faults.iter().all(|kind| matches!(kind, Unreadable | Unreached)),
        "{faults:?}"
    );
    assert_eq!(report.count("files"), sound.count("files"), "what has no name any more is found nevertheless");
    // Pack and superblock have a copy each, but mkfs leaves the other pack empty.
    let report = without(&planted, &[BlockAddress(0)]);
    assert_eq!(kinds(&report, false), [Superblock]);
    assert!(!without(&planted, &[BlockAddress(PACK as u32)]).is_clean());
    assert!(!without(&planted, &[BlockAddress(PACK as u32), BlockAddress(PACK as u32 + 512)]).is_clean());
}

#[test]
fn what_is_no_volume_is_refused_and_a_ruined_one_is_reported() {
    let planted = made_with("extra_attr,sb_checksum");
    let ruined = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = planted.bytes.clone();
        change(&mut bytes);
        check(vec![common::ram_of_bytes(&bytes)], clock())
    };
    let error = ruined(&|bytes| bytes.fill(0)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    let report = ruined(&|bytes| [1024, 5120].iter().for_each(|at| bytes[at + 100] ^= 1)).unwrap();
    assert_eq!(kinds(&report, false), [Superblock]);
    let report = ruined(&|bytes| [PACK, PACK + 512].iter().for_each(|at| bytes[at * BLOCK + 9] ^= 1)).unwrap();
    assert!(kinds(&report, false).contains(&Checkpoint) && report.count("files") == 0);
    let report = ruined(&|bytes| bytes.truncate(120 << 20)).unwrap();
    assert_eq!(kinds(&report, false), [CutShort]);
    let report = ruined(&|bytes| bytes.truncate(40 << 20)).unwrap();
    let of_files = |found: &&Finding| kind_of(found) == CutShort && !found.paths.is_empty();
    assert!(report.findings.iter().filter(of_files).count() > 3 && kinds(&report, false).contains(&CutShort));
}

/// Two directories that contain each other and that nothing else refers to.
#[test]
fn circles_of_directories_are_found() {
    let mut planted = made_with("extra_attr");
    let (one, other, root) = (planted.nid("devices"), planted.nid("links"), NodeId(3));
    let (socket, link) = (planted.nid("devices/socket"), planted.nid("links/1"));
    let page = planted.page(root, 0);
    for name in [&b"devices"[..], b"links"] {
        let slot = slot_of(planted.block(page), name);
        planted.block(page)[slot / 8] &= !(1 << (slot % 8));
    }
    // In each, one entry is redirected to the other directory.
    for (directory, name, target) in [(one, &b"socket"[..], other), (other, b"1", one)] {
        planted.head(directory, |head| (head.parent, head.links) = (target.0.into(), 3.into()));
        planted.inline_area(directory, |area| {
            let (room, slot) = (DentryRoom::of(area.len()), slot_of(area, name));
            let entry = room.entries + slot * 11;
            area[entry + 4..entry + 8].copy_from_slice(&target.0.to_le_bytes());
            area[entry + 10] = 2;
            let dots = room.entries + 11 + 4;
            area[dots..dots + 4].copy_from_slice(&target.0.to_le_bytes());
        });
    }
    planted.head(root, |head| head.links = (head.links.get() - 2).into());
    let report = checked(&planted);
    let mut lost: Vec<_> = report.findings.iter().map(|found| (kind_of(found), node_of(found).unwrap())).collect();
    lost.sort();
    let first = one.min(other);
    let mut expected = vec![(Unreached, first), (Unreached, socket), (Unreached, link)];
    expected.sort();
    assert_eq!(lost, expected, "{:?}", report.findings);
}

/// fsck.f2fs reports "wrong ext" for a file with inline content.
#[test]
fn an_extent_beside_content_in_the_inode_is_told_and_goes() {
    let mut planted = made_with("extra_attr");
    let nid = planted.nid("sizes/of-1");
    planted.head(nid, |head| head.extent.length = 0xC100.into());
    let report = checked(&planted);
    assert_eq!((kinds(&report, false), node_of(&report.findings[0])), (vec![Extent], Some(nid)));
    let repair = nandkit_f2fs::repair(vec![planted.device()], clock(), Waiting::Refused).unwrap();
    assert!(repair.after.is_clean(), "{:?}", repair.after.findings);
}

fn slot_of(area: &[u8], name: &[u8]) -> usize {
    let found = DentryArea::new(area).slots_from(0).find_map(|slot| match slot {
        Slot::Entry(entry) if entry.name == name => Some(entry.slot),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn quotas_that_count_wrongly_are_told() {
    let mut planted = made_with("extra_attr,quota,project_quota");
    assert_eq!(checked(&planted).findings, []);
    let file = planted.bytes.windows(4).position(|bytes| bytes == 0xD9C0_1F11_u32.to_le_bytes()).unwrap();
    let mut wrong = planted.clone();
    wrong.bytes[file + 5 * 1024 + 16 + 24] ^= 2;
    let report = checked(&wrong);
    assert_eq!(
        (kinds(&report, false), node_of(&report.findings[0])),
        (vec![Quota], Some(NodeId(4))),
        "{:?}",
        report.findings
    );
    for (what, at) in [("a record of nobody", 16 + 5 * 72 + 8), ("a count of records", 8)] {
        let mut stray = planted.clone();
        stray.bytes[file + 5 * 1024 + at] ^= 0x40;
        assert_eq!(kinds(&checked(&stray), false), [Quota], "{what}");
    }
    let mut looped = planted.clone();
    looped.bytes[file + 1024] = 1;
    assert_eq!(kinds(&checked(&looped), false), [Quota]);
    // Linux sets this flag where it mounted the volume without quotas.
    wrong.checkpoint(|head| head.flags = (head.flags.get() | flag::QUOTA_NEEDS_FSCK).into());
    let report = checked(&wrong);
    assert_eq!((kinds(&report, false), kinds(&report, true)), (vec![], vec![State, Quota]));
    // A file of another owner, which that owner's usage does not include.
    let nid = planted.nid("kinds/film.mp4");
    planted.head(nid, |head| head.uid = 77.into());
    assert_eq!(kinds(&checked(&planted), false), [Quota, Quota]);
}

/// A fault and how it is planted.
type PlantedCase<'a> = (&'a str, &'a dyn Fn(&mut Planted));

#[test]
fn quotas_that_count_wrongly_are_put_right() {
    let base = made_with("extra_attr,quota,project_quota,inode_checksum");
    let start = |magic: u32| base.bytes.windows(4).position(|bytes| bytes == magic.to_le_bytes()).unwrap();
    let (users, groups) = (start(0xD9C0_1F11), start(0xD9C0_1927));
    let cases: [PlantedCase<'_>; 7] = [
        ("a record", &|p| p.bytes[users + 5 * 1024 + 16 + 24] ^= 2),
        ("a record of nobody", &|p| p.bytes[users + 5 * 1024 + 16 + 5 * 72 + 8] = 0x40),
        ("a count of records", &|p| p.bytes[groups + 5 * 1024 + 8] = 9),
        ("an owner without a record, whose way has to grow", &|p| {
            let nid = p.nid("kinds/film.mp4");
            p.head(nid, |head| (head.uid, head.gid) = (0x7777_7777.into(), 0x6666_6666.into()));
        }),
        ("an owner that is none any more", &|p| {
            for name in ["kinds/film.mp4", "sizes/of-1"] {
                let nid = p.nid(name);
                p.head(nid, |head| head.gid = 5.into());
            }
        }),
        ("magic", &|p| p.bytes[groups] ^= 1),
        ("marked", &|p| {
            p.bytes[users + 5 * 1024 + 16 + 48] ^= 0x10;
            p.checkpoint(|head| head.flags = (head.flags.get() | flag::QUOTA_NEEDS_FSCK).into());
        }),
    ];
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    for (what, plant) in cases {
        let mut planted = base.clone();
        plant(&mut planted);
        assert_ne!(checked(&planted).findings, [], "{what}");
        let repair = nandkit_f2fs::repair(vec![planted.device()], clock(), Waiting::Refused).unwrap();
        for (at, bytes) in &repair.blocks {
            planted.block(*at).copy_from_slice(bytes);
        }
        assert_eq!((&repair.after.findings[..], &checked(&planted).findings[..]), (&[][..], &[][..]), "{what}");
        planted.write(&path);
        assert_eq!(complaints(&path), Vec::<String>::new(), "{what}");
    }
}

/// A file whose first cluster of four pages is compressed into one block; its inode and that
/// block's address.
fn compressed() -> (Planted, NodeId, BlockAddress) {
    let mut planted = made_with("extra_attr,compression,inode_checksum");
    let nid = planted.nid("sizes/of-3000000");
    let blocks: Vec<BlockAddress> = (0..4).map(|page| planted.page(nid, page)).collect();
    let text: Vec<u8> = (0..4 * BLOCK).map(|byte| (byte / 700) as u8).collect();
    let mut packed = vec![0; BLOCK - 24];
    let length = Compressor::new().compress(Method::Lzo, Level::LINUX, &text, &mut packed).unwrap();
    let checksum = nandkit_f2fs::layout::checksum(&packed[..length]);
    let block = planted.block(blocks[0]);
    block.fill(0);
    block[..4].copy_from_slice(&(length as u32).to_le_bytes());
    block[4..8].copy_from_slice(&checksum.to_le_bytes());
    block[24..24 + length].copy_from_slice(&packed[..length]);
    planted.head(nid, |head| (head.flags, head.extent.length) = ((head.flags.get() | 4).into(), 0.into()));
    planted.inode(nid, |block| {
        block[384] = 3;
        block[392..396].copy_from_slice(&[0, 2, 1, 0]);
    });
    for (page, address) in [(0, 0xFFFF_FFFE), (1, blocks[0].0), (2, u32::MAX), (3, u32::MAX)] {
        planted.set_page(nid, page, address);
    }
    planted.summary(blocks[0], |entry| entry.index = 1.into());
    blocks[1..].iter().for_each(|at| planted.mark(*at, false));
    (planted, nid, blocks[0])
}

#[test]
fn compressed_clusters_are_looked_into() {
    let (planted, nid, block) = compressed();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    planted.write(&path);
    assert_eq!((checked(&planted).findings, complaints(&path)), (vec![], vec![]));
    type Plant = fn(&mut Planted, NodeId, BlockAddress);
    let cases: [(&str, bool, FindingKind, Plant); 6] = [
        ("checksum", false, Compression, |p, _, at| p.block(at)[4] ^= 1),
        ("stream", false, Compression, |p, _, at| p.block(at)[40] ^= 0x55),
        ("length", false, Compression, |p, _, at| p.block(at)[2] = 9),
        ("method", false, Unsupported, |p, nid, _| p.inode(nid, |block| block[392] = 9)),
        ("saved blocks", false, Count, |p, nid, _| p.inode(nid, |block| block[384] = 9)),
        ("order of its blocks", false, Compression, |p, nid, at| {
            p.set_page(nid, 1, u32::MAX);
            p.set_page(nid, 2, at.0);
            p.summary(at, |entry| entry.index = 2.into());
        }),
    ];
    for (name, complains, kind, plant) in cases {
        let mut planted = planted.clone();
        plant(&mut planted, nid, block);
        let report = checked(&planted);
        assert_eq!(kinds(&report, false), [kind], "{name}: {:?}", report.findings);
        assert_eq!(node_of(&report.findings[0]), Some(nid), "{name}");
        planted.write(&path);
        assert_eq!(!complaints(&path).is_empty(), complains, "{name}: {:?}", complaints(&path));
    }
}

/// A cluster that lost a block cannot be decompressed, so it is dropped as a whole.
#[test]
fn a_compressed_cluster_without_one_of_its_blocks_is_a_hole_behind_a_repair() {
    let (mut planted, nid, _) = compressed();
    planted.set_page(nid, 1, 7);
    assert!(!checked(&planted).is_clean());
    let repair = nandkit_f2fs::repair(vec![planted.device()], clock(), Waiting::Refused).unwrap();
    for (at, bytes) in &repair.blocks {
        planted.block(*at).copy_from_slice(bytes);
    }
    assert_eq!((checked(&planted).findings, repair.after.findings), (vec![], vec![]));
    let scratch = tempfile::tempdir().unwrap();
    planted.write(&scratch.path().join("image"));
    assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new());
}

#[test]
fn names_without_case_have_hashes_of_folded_names() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
    plant(&source, 20);
    mkfs(&image, 100, "-O extra_attr,casefold -C utf8");
    sload(&image, &source);
    let mut planted = Planted::new(std::fs::read(&image).unwrap());
    assert_eq!(checked(&planted).findings, []);
    let nid = planted.nid("deep");
    planted.head(nid, |head| head.flags = (head.flags.get() | 0x4000_0000).into());
    // Lower-case names fold to themselves, except those with special letters.
    let report = checked(&planted);
    assert!(kinds(&report, false).is_empty(), "{:?}", report.findings);
    let mut loud = planted.clone();
    rename_first(&mut loud, nid, b"ER");
    let report = checked(&loud);
    assert!(kinds(&report, false).is_empty(), "hashed as it folds: {:?}", report.findings);
    loud.head(nid, |head| head.flags = (head.flags.get() & !0x4000_0000).into());
    assert_eq!(kinds(&checked(&loud), false), [Dentry]);
}

/// Renames the entry `er` of a directory without changing its hash.
fn rename_first(planted: &mut Planted, directory: NodeId, name: &[u8]) {
    let here = planted.at(directory);
    let change = |area: &mut [u8]| {
        let slot = slot_of(area, b"er");
        let at = DentryRoom::of(area.len()).names + slot * 8;
        area[at..at + name.len()].copy_from_slice(name);
    };
    if planted.block(here)[3] & 4 != 0 {
        planted.inline_area(directory, change);
    } else {
        let page = planted.page(directory, 0);
        change(planted.block(page));
    }
}

/// Devices are used in the volume's order.
#[test]
fn volumes_on_several_devices_are_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let source = path("source");
    plant(&source, 100);
    for (name, mib) in [("first", 32), ("second", 40), ("third", 130)] {
        std::fs::File::create(path(name)).unwrap().set_len(mib << 20).unwrap();
    }
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    common::run("mkfs.f2fs", &["-f", "-q", "-c", &text("second"), "-c", &text("third"), &text("first")]);
    let (status, told) = crate::made::run("sload.f2fs", &["-P", "-f", source.to_str().unwrap(), &text("first")]);
    assert!([0, 1].contains(&status), "{told}");
    let devices = |names: &[&str]| -> Vec<RamDevice> { names.iter().map(|name| common::ram_of(&path(name))).collect() };
    let report = check(devices(&["first", "second", "third"]), clock()).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.count("files") > 100);
    assert_eq!(check(devices(&["first"]), clock()).unwrap_err().kind, ErrorKind::InvalidArgument);
    assert!(devices(&["first"])[0].geometry().capacity() > 0);
}

/// For a segment in the journal, the SIT's own entry is only read while loading, but Linux and
/// fsck.f2fs refuse a volume if it is wrong.
#[test]
fn an_entry_below_the_journal_is_judged_too() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let options = MkfsOptions::default();
    let mut device = new_image(&path, 80 << 20);
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    drop(device);
    let mut planted = Planted::new(std::fs::read(&path).unwrap());
    let (segment, _) = planted.state.sit_journal[0];
    let (block, index) = planted.geometry.sit_block(segment);
    let second = nandkit_f2fs::testing::bits::msb_first::get(&planted.state.sit_map, block as usize);
    let at = planted.geometry.sit_place(block, second);
    planted.block(at)[index * 74 + 10..][..4].fill(0xFF);
    let report = check(vec![planted.device()], clock()).unwrap();
    assert!(report.findings.iter().any(|found| found.detail.contains("the journal has another entry")), "{report:?}");
    planted.write(&path);
    assert!(!complaints(&path).is_empty());
}
