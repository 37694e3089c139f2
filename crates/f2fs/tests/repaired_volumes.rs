//! Repairs of volumes that lost more than a field: the root directory, quota files, the end of the
//! volume; flags that make files unreadable; nodes among data.

use crate::faults::entry_of_many;
use crate::made::{all_kinds, clock, complaints};
use crate::planted::{BLOCK, Planted};
use crate::witness::made_with;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::write::{WritableVolume, WriteOptions};
use nandkit_f2fs::{BlockAddress, F2fs, Log, MountOptions, NodeId, check, repair};
use nandkit_testkit::listing::{self, Listing};
use nandkit_units::Clock;
use nandkit_vfs::NewNode;
use nandkit_vfs::path::write_file;

fn base(features: &str) -> Planted {
    made_with(features, &all_kinds(700))
}

fn tree(planted: &Planted) -> Listing {
    listing::of_volume(&F2fs::mount(planted.device(), Clock::default(), MountOptions::default()).unwrap())
}

fn repaired(planted: &Planted) -> Planted {
    let before = check(vec![planted.device()], clock()).unwrap();
    assert!(!before.is_clean());
    let repair = repair(vec![planted.device()], clock(), Waiting::Refused).unwrap();
    let mut copy = planted.clone();
    for (at, bytes) in &repair.blocks {
        copy.block(*at).copy_from_slice(bytes);
    }
    let again = check(vec![copy.device()], clock()).unwrap();
    assert_eq!((again.findings, repair.after.findings), (Vec::new(), Vec::new()));
    let scratch = tempfile::tempdir().unwrap();
    copy.write(&scratch.path().join("image"));
    assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new());
    copy
}

#[test]
fn a_root_that_is_lost_is_made_anew_and_its_names_come_back() {
    type Plant = fn(&mut Planted);
    let plants: [(&str, Plant); 4] = [
        ("nothing in the NAT", |planted| {
            planted.write_state(|state| {
                state.nat_journal.retain(|(nid, _)| *nid != NodeId::ROOT);
            });
            planted.nat(NodeId::ROOT, |entry| *entry = Default::default());
        }),
        ("zeroes in its place", |planted| {
            let at = planted.at(NodeId::ROOT);
            planted.block(at).fill(0);
        }),
        ("another size of the extra attributes", |planted| {
            planted.inode(NodeId::ROOT, |block| block[360] = 255);
        }),
        ("marked as a file", |planted| {
            planted.head(NodeId::ROOT, |head| head.mode = (head.mode.get() & 0o7777 | 0o100_000).into());
        }),
    ];
    for features in
        ["extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found", "quota,extra_attr,project_quota", ""]
    {
        let sound = base(features);
        for (name, plant) in plants.iter().filter(|(name, _)| !name.contains("extra") || features.contains("extra")) {
            println!("{features}: {name}");
            let mut planted = sound.clone();
            plant(&mut planted);
            let mended = repaired(&planted);
            assert_eq!(tree(&mended), tree(&sound), "{features}: {name}");
        }
    }
}

/// `1:12809` of `repair_hostile`: the NAT's bitmap selects the other copy of its first block, which
/// is empty. All nodes still exist.
#[test]
fn a_volume_whose_nat_names_the_wrong_copy_is_whole_behind_a_repair() {
    let sound = base("quota,extra_attr,project_quota");
    let mut planted = sound.clone();
    planted.write_state(|state| nandkit_f2fs::testing::bits::msb_first::set(&mut state.nat_map, 0, true));
    planted.write_state(|state| state.nat_journal.clear());
    let mended = repaired(&planted);
    assert_eq!(tree(&mended), tree(&sound));
}

#[test]
fn the_superblock_names_no_quota_file_whose_inode_is_lost() {
    let sound = base("quota,extra_attr,project_quota");
    for kind in 0..3 {
        let mut planted = sound.clone();
        let nid = NodeId(planted.volume().superblock().0.quota_inodes[kind].get());
        let at = planted.at(nid);
        planted.block(at).fill(0);
        let mended = repaired(&planted);
        assert_eq!(tree(&mended), tree(&sound));
        let volume = F2fs::mount(mended.device(), Clock::default(), MountOptions::default()).unwrap();
        let named = volume.superblock().0.quota_inodes.map(|field| field.get() != 0);
        assert_eq!(named, [0, 1, 2].map(|other| other != kind));
        let mut volume =
            WritableVolume::mount(vec![mended.device()], Clock::default(), WriteOptions::default()).unwrap();
        write_file(&mut volume, b"new", &NewNode::FILE, &[7; 50_000]).unwrap();
        volume.sync().unwrap();
    }
}

/// An old copy of a node, whose segment holds data by now, is in the NAT again.
#[test]
fn a_node_among_data_is_copied_to_a_segment_of_its_own() {
    let sound = base("extra_attr,inode_checksum");
    let mut planted = sound.clone();
    let nid = planted.nid("many/1-n");
    let block = { planted.block(sound.at(nid)) }.to_vec();
    let log = planted.state.logs[Log::WarmData.index()];
    let place = BlockAddress(planted.geometry.segment_start(log.segment).0 + 500);
    planted.block(place).copy_from_slice(&block);
    planted.nat(nid, |entry| entry.address = place.0.into());
    let mended = repaired(&planted);
    assert_eq!(tree(&mended), tree(&sound));
}

/// A volume that was cut short gets its full length again; lost parts of files are reported by
/// inode and become holes.
#[test]
fn a_volume_that_was_cut_short_is_whole_and_sound_behind_a_repair() {
    let sound = base("extra_attr,inode_checksum,quota");
    let volume = sound.geometry.main_end() as usize * BLOCK;
    for length in [100 << 20, 40 << 20, 30_000_000, 20_000_000, 16 << 20, 12 << 20, 8_000_000] {
        let mut cut = sound.clone();
        cut.bytes.truncate(length);
        let before = check(vec![cut.device()], clock()).unwrap();
        let repair = repair(vec![cut.device()], clock(), Waiting::Refused).unwrap();
        assert_eq!(repair.bytes, volume as u64);
        cut.bytes.resize(volume, 0);
        for (at, bytes) in &repair.blocks {
            cut.block(*at).copy_from_slice(bytes);
        }
        let again = check(vec![cut.device()], clock()).unwrap();
        assert_eq!((again.findings, repair.after.findings), (Vec::new(), Vec::new()), "{length}");
        let scratch = tempfile::tempdir().unwrap();
        cut.write(&scratch.path().join("image"));
        assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new(), "{length}");
        // Every file that lost something is either reported or missing completely.
        let (found, all) = (tree(&cut), tree(&sound));
        let named: Vec<String> = before
            .findings
            .iter()
            .filter_map(|found| Some(format!("/{}", String::from_utf8_lossy(found.paths.first()?))))
            .collect();
        let differs = |path: &&String| found.get(*path).is_some_and(|now| *now != all[*path]);
        let silent: Vec<&String> = found.keys().filter(|path| all.contains_key(*path)).filter(differs).collect();
        println!("{length}: {} of {} entries, {} changed, {} named", found.len(), all.len(), silent.len(), named.len());
        // Only one of a file's two names is reported.
        let is_told = |path: &String| named.contains(&path.replace("/sizes/of-9000000", "/kinds/hard link"));
        // Without the root's page there are no paths.
        assert!(length < 30_000_000 || silent.iter().all(|path| is_told(path)), "{length}: {silent:?}, {named:?}");
    }
}

/// Android's volumes have these features: one bit makes a plain file unreadable.
#[test]
fn marks_of_encryption_and_verity_without_their_attributes_go() {
    let sound = base("encrypt,verity,extra_attr,inode_checksum");
    for (path, bit) in [("many/1-n", 4), ("many/2-nn", 64), ("kinds/base.db", 4), ("attributes/small", 4), ("names", 4)]
    {
        let mut planted = sound.clone();
        let nid = planted.nid(path);
        planted.head(nid, |head| head.advise |= bit);
        let mended = repaired(&planted);
        assert_eq!(tree(&mended), tree(&sound), "{path}");
    }
}

/// A word past a quota file's end refers to another file's inode, which was claimed as data: that
/// file was dropped, found sound, named, and dropped again.
#[test]
fn an_address_behind_a_quota_file_takes_nobodys_inode() {
    let sound = base("quota,extra_attr,project_quota");
    for path in ["many/1-n", "many"] {
        let mut planted = sound.clone();
        let quota = NodeId(planted.volume().superblock().0.quota_inodes[0].get());
        let victim = sound.at(sound.nid(path));
        planted.inode(quota, |block| {
            let start = 360 + usize::from(u16::from_le_bytes([block[360], block[361]]));
            let pages = u64::from_le_bytes(block[16..24].try_into().unwrap()).div_ceil(BLOCK as u64) as usize;
            block[start + 4 * pages..][..4].copy_from_slice(&victim.0.to_le_bytes());
        });
        let mended = repaired(&planted);
        assert_eq!(tree(&mended), tree(&sound), "{path}");
    }
}

#[test]
fn a_root_that_is_lost_with_the_quota_files_has_its_names_again() {
    let sound = base("quota,extra_attr,project_quota");
    let mut planted = sound.clone();
    let quotas = planted.volume().superblock().0.quota_inodes.map(|field| NodeId(field.get()));
    for nid in quotas.into_iter().chain([NodeId::ROOT]) {
        let at = planted.at(nid);
        planted.block(at).fill(0);
    }
    let mended = repaired(&planted);
    assert_eq!(tree(&mended), tree(&sound));
}

/// A word refers to an old copy of another page of the same directory, before that page: the names
/// of the copy are removed, not the originals.
#[test]
fn of_two_pages_with_the_same_names_the_one_in_its_place_stays() {
    let sound = base("extra_attr,inode_checksum");
    let mut planted = sound.clone();
    let (directory, copy, ..) = entry_of_many(&mut planted);
    let is_it = |planted: &mut Planted, address: u32| (0..200).find(|page| planted.page(directory, *page).0 == address);
    let (page, hole) = (is_it(&mut planted, copy.0).unwrap(), is_it(&mut planted, 0).unwrap());
    let free = BlockAddress(planted.geometry.main_end() as u32 - 10);
    let bytes = { planted.block(copy) }.to_vec();
    planted.block(free).copy_from_slice(&bytes);
    planted.set_page(directory, page, free.0);
    planted.set_page(directory, hole, copy.0);
    let mended = repaired(&planted);
    assert_eq!(tree(&mended), tree(&sound));
}
