//! Correct reports of damage: 20,000 damaged images, and what is reported of each.
//!
//! Damage that the format reveals is reported where it is; data that were not damaged are
//! delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::common::{assert_finds_room, mount, run};
use nandkit_jffs2::layout::{ByteOrder, Dirent, Header, Xattr, node_type};
use nandkit_jffs2::testing::Owner;
use nandkit_jffs2::{DamageKind, Ino, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::listing::{self, Listing};
use nandkit_testkit::rounds::count;
use nandkit_testkit::trees;
use nandkit_units::random::Random;
use nandkit_vfs::check::{Kind as _, Report};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// Number of damaged images of each kind of flash; more by `NANDKIT_ROUNDS`.
const IMAGES: u64 = 700;
const BLANK_BLOCKS: usize = 3;

/// The big-endian cleanmarker in the OOB of 512-byte pages, from this byte on.
const OOB_MARKER: [u8; 8] = [0x19, 0x85, 0x20, 0x03, 0, 0, 0, 8];
const OOB_MARKER_AT: usize = 8;

/// A node of the image as it was made.
struct Node {
    start: usize,
    end: usize,
    kind: u16,
    /// Number of bytes before its data, name or entries.
    fixed: usize,
    /// Number of bytes without the padding after it.
    length: usize,
    /// The paths that its loss may change, with everything below them.
    paths: BTreeSet<String>,
}

struct Made {
    bytes: Vec<u8>,
    erase_size: usize,
    nand: bool,
    nodes: Vec<Node>,
    /// The byte of a node with the bit that marks it obsolete.
    accurate: usize,
    shown: Listing,
}

impl Made {
    fn flash(&self, bytes: Vec<u8>) -> RamFlash {
        if !self.nand {
            return RamFlash::nor(bytes, self.erase_size as u32);
        }
        let mut flash = RamFlash::nand(bytes, self.erase_size as u32, 512, 16);
        // As `flash_erase -j` leaves each block.
        let of_block = self.erase_size / 512 * 16;
        for oob in Arc::make_mut(&mut flash.oob).chunks_mut(of_block) {
            oob[OOB_MARKER_AT..][..OOB_MARKER.len()].copy_from_slice(&OOB_MARKER);
        }
        flash
    }

    /// Makes an image of 200 files of every kind.
    fn new(scratch: &Path, order: &str, erase_size: usize, nand: bool) -> Self {
        let root = scratch.join("root");
        let table = trees::plant_all_kinds(&root, 200, 11, 8);
        for number in 0..3 {
            drop(std::os::unix::net::UnixListener::bind(root.join(format!("d{number}/socket"))).unwrap());
        }
        std::fs::create_dir(root.join("empty")).unwrap();
        let text = |name: &str| scratch.join(name).to_str().unwrap().to_string();
        let (image, summed, erase) = (text("image"), text("summed"), erase_size.to_string());
        let (root, table) = (root.to_str().unwrap(), table.to_str().unwrap());
        let mut arguments = vec!["-r", root, "-D", table, "-o", &image, "-e", &erase, order, "--with-xattr", "-q"];
        arguments.extend(nand.then_some("-n"));
        run("mkfs.jffs2", &arguments);
        let mut bytes = std::fs::read(&image).unwrap();
        if !nand {
            run("sumtool", &["-i", &image, "-o", &summed, "-e", &erase, order]);
            bytes = std::fs::read(&summed).unwrap();
        }
        bytes.resize(bytes.len().next_multiple_of(erase_size) + BLANK_BLOCKS * erase_size, 0xFF);
        let mut made = Self {
            bytes,
            erase_size,
            nand,
            nodes: Vec::new(),
            accurate: if order == "-l" { 3 } else { 2 },
            shown: Listing::new(),
        };
        let volume = mount(made.flash(made.bytes.clone()), MountOptions::default()).unwrap();
        made.shown = without_links(listing::of_volume(&volume));
        assert!(volume.check(false).unwrap().findings.is_empty());
        let of_kind = |kind: &str| made.shown.values().filter(|text| text.split(' ').next() == Some(kind)).count();
        let kinds = ["Regular", "Symlink", "CharacterDevice", "BlockDevice", "Fifo", "Socket"];
        assert!(kinds.map(of_kind).iter().sum::<usize>() >= 200 && kinds.iter().all(|kind| of_kind(kind) >= 3));
        assert!(of_kind("Directory") > 20);
        made.nodes = nodes(&made, &volume, if order == "-l" { ByteOrder::Little } else { ByteOrder::Big });
        made
    }
}

/// Removes the link counts from a listing: a lost name changes the count at the other name.
fn without_links(listing: Listing) -> Listing {
    let words = |text: &str| text.split(' ').filter(|word| !word.starts_with('x')).collect::<Vec<_>>().join(" ");
    listing.into_iter().map(|(path, text)| (path, words(&text))).collect()
}

fn nodes(made: &Made, volume: &Jffs2<RamFlash>, order: ByteOrder) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut names: Vec<(Dirent, String)> = Vec::new();
    let mut all = Vec::new();
    for (number, block) in volume.catalogue().blocks.iter().enumerate() {
        for node in &block.nodes {
            let start = number * made.erase_size + node.offset as usize;
            let header = Header::decode(order, &made.bytes[start..]).unwrap();
            if header.check(order).is_err() {
                continue;
            }
            if header.node_type == node_type::DIRENT {
                let dirent = Dirent::decode(order, &made.bytes[start..]).unwrap();
                let name = &made.bytes[start + 40..start + 40 + usize::from(dirent.name_length)];
                names.push((dirent, String::from_utf8(name.to_vec()).unwrap()));
            }
            all.push((start, node.length as usize, header, node.owner()));
        }
    }
    let mut paths: BTreeMap<Ino, BTreeSet<String>> = BTreeMap::from([(Ino(1), BTreeSet::from([String::new()]))]);
    for _ in 0..5 {
        for (dirent, name) in &names {
            for parent in paths.get(&dirent.parent).cloned().unwrap_or_default() {
                paths.entry(dirent.inode).or_default().insert(format!("{parent}/{name}"));
            }
        }
    }
    let with_xattrs =
        || made.shown.iter().filter(|(_, text)| text.contains('=')).map(|(path, _)| path.clone()).collect();
    for (start, length, header, owner) in all {
        let touched = match (header.node_type, owner) {
            (node_type::DIRENT, _) => {
                let dirent = Dirent::decode(order, &made.bytes[start..]).unwrap();
                paths[&dirent.inode].clone()
            }
            (node_type::XATTR | node_type::XREF, _) => with_xattrs(),
            (_, Owner::Inode(inode)) => paths[&inode].clone(),
            _ => BTreeSet::new(),
        };
        let kind = header.node_type;
        let fixed = match kind {
            node_type::DIRENT => 40,
            node_type::INODE => 68,
            node_type::XATTR | node_type::SUMMARY => 32,
            node_type::XREF => 28,
            _ => 12,
        };
        let mut whole = header.total_length as usize;
        if kind == node_type::XATTR {
            // The length of these includes the padding after the value.
            let found = Xattr::decode(order, &made.bytes[start..]).unwrap();
            whole = 32 + usize::from(found.name_length) + 1 + usize::from(found.value_length);
        }
        nodes.push(Node { start, end: start + length, kind, fixed, length: whole, paths: touched });
    }
    nodes
}

/// The damage done to an image.
#[derive(Debug)]
struct Harm {
    class: &'static str,
    /// The first damaged byte.
    at: usize,
    /// The addresses where a finding is expected; empty if nothing reveals the damage.
    witnessed: Vec<usize>,
    /// The damaged bytes.
    range: std::ops::Range<usize>,
}

fn flip(made: &Made, bytes: &mut [u8], random: &mut Random, live: bool) -> Harm {
    let at = if live {
        let node = &made.nodes[random.index(made.nodes.len())];
        // Header, fixed part and the rest of a node are hit with equal probability.
        match random.index(3) {
            0 => node.start + random.index(12),
            1 => node.start + random.index(node.fixed),
            _ => node.start + random.index(node.length),
        }
    } else {
        random.index(bytes.len())
    };
    bytes[at] ^= 1 << random.index(8);
    let node = made.nodes.iter().find(|node| (node.start..node.end).contains(&at));
    let Some(node) = node else {
        let class = "blank";
        return Harm { class, at, witnessed: vec![at & !3], range: at..at + 1 };
    };
    let class = match (at - node.start, node.kind) {
        (_, node_type::SUMMARY) => "summary",
        (_, node_type::CLEANMARKER) => "cleanmarker",
        (_, node_type::PADDING) => "padding",
        (offset, _) if offset >= node.length => "padding",
        (0..12, _) => "header",
        (offset, _) if offset < node.fixed => "node",
        (_, node_type::DIRENT) => "name",
        _ => "data",
    };
    if at == node.start + made.accurate && (bytes[at] ^ made.bytes[at]) == 0x20 {
        // The mark that makes a node obsolete in place is allowed on NOR, and reported if a summary
        // or NAND contradicts it.
        let block = at / made.erase_size * made.erase_size..(at / made.erase_size + 1) * made.erase_size;
        let is_listed = made.nodes.iter().any(|node| node.kind == node_type::SUMMARY && block.contains(&node.start));
        let is_kept = !matches!(node.kind, node_type::SUMMARY | node_type::CLEANMARKER | node_type::PADDING);
        let is_witnessed = made.nand || is_listed && is_kept;
        let class = if is_witnessed { "obsolete mark" } else { "obsolete mark, unlisted" };
        return Harm { class, at, witnessed: Vec::from_iter(is_witnessed.then_some(node.start)), range: at..at + 1 };
    }
    let behind = at - node.start >= node.length;
    let told = node.start + if behind { node.length } else { 0 };
    Harm { class, at, witnessed: vec![told], range: at..at + 1 }
}

/// Flips a bit of a cleanmarker in the OOB, also of a blank block.
fn flip_cleanmarker(made: &Made, flash: &mut RamFlash, random: &mut Random) -> Harm {
    let block = random.index(made.bytes.len() / made.erase_size);
    let at = block * (made.erase_size / 512 * 16) + OOB_MARKER_AT + random.index(OOB_MARKER.len());
    Arc::make_mut(&mut flash.oob)[at] ^= 1 << random.index(8);
    let start = block * made.erase_size;
    Harm { class: "OOB cleanmarker", at: start, witnessed: vec![start], range: start..start }
}

fn lose_block(made: &Made, bytes: &mut [u8], random: &mut Random) -> Harm {
    let used = bytes.len() / made.erase_size - BLANK_BLOCKS;
    let start = random.index(used) * made.erase_size;
    let range = start..start + made.erase_size;
    let block = &mut bytes[range.clone()];
    let (class, witnessed) = match random.index(3) {
        0 => {
            block.fill(0xFF);
            ("block blanked", vec![])
        }
        1 => {
            block.fill(0);
            ("block zeroed", vec![start])
        }
        _ => {
            block.iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
            ("block of noise", vec![start])
        }
    };
    Harm { class, at: start, witnessed, range }
}

fn cut(made: &Made, bytes: &mut [u8], random: &mut Random) -> Harm {
    let node = &made.nodes[random.index(made.nodes.len())];
    let at = node.start + if random.index(4) == 0 { 0 } else { random.index(node.length) };
    let lost_some = bytes[at..node.start + node.length].iter().any(|byte| *byte != 0xFF);
    bytes[at..].fill(0xFF);
    let end = bytes.len();
    if at == node.start || !lost_some {
        return Harm { class: "tail cut between nodes", at, witnessed: vec![], range: at..end };
    }
    Harm { class: "tail cut in a node", at, witnessed: vec![node.start], range: at..end }
}

/// How an image was judged: nothing is reported; what is reported counts as harmless; or `nandkit
/// check` ends with exit status 1.
#[derive(Clone, Copy)]
enum DamageVerdict {
    Silent,
    Harmless,
    Told,
}

impl DamageVerdict {
    fn of(report: &Report) -> Self {
        match report.findings.as_slice() {
            [] => Self::Silent,
            _ if report.is_clean() => Self::Harmless,
            _ => Self::Told,
        }
    }
}

/// What is wrong with the report, if anything.
fn judge(made: &Made, harm: &Harm, volume: &Jffs2<RamFlash>, report: &Report) -> Result<DamageVerdict, String> {
    let told = |at: &usize| report.findings.iter().any(|finding| finding.offset == Some(*at as u64));
    if !harm.witnessed.iter().all(told) {
        let near: Vec<String> = report.findings.iter().map(|finding| finding.to_string()).take(5).collect();
        return Err(format!("nothing is told of {:#x?}, but {near:?}", harm.witnessed));
    }
    let shown = without_links(listing::of_volume(volume));
    let hit = made.nodes.iter().filter(|node| node.start < harm.range.end && harm.range.start < node.end);
    let may_differ: BTreeSet<&String> = hit.flat_map(|node| &node.paths).collect();
    for path in made.shown.keys().chain(shown.keys()) {
        let below = |top: &&&String| {
            path.as_str() == top.as_str() || path.strip_prefix(top.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if made.shown.get(path) != shown.get(path) && !may_differ.iter().any(|top| below(&top)) {
            return Err(format!("{path} was not damaged: {:?} became {:?}", made.shown.get(path), shown.get(path)));
        }
    }
    if harm.class == "data"
        && let Some(node) = made.nodes.iter().find(|node| node.start == harm.witnessed[0])
    {
        let mut named = report.findings.iter().filter(|finding| finding.offset == Some(node.start as u64));
        let path = named.find_map(|finding| finding.paths.first().cloned()).unwrap_or_default();
        if !node.paths.contains(&format!("/{}", String::from_utf8_lossy(&path))) {
            return Err(format!("of the file only {:?} is told", String::from_utf8_lossy(&path)));
        }
    }
    Ok(DamageVerdict::of(report))
}

fn one(made: &Made, number: usize) -> (&'static str, DamageVerdict) {
    let mut random = Random::new(number as u64, "damage");
    (0..8).for_each(|_| _ = random.next_u64());
    let mut bytes = made.bytes.clone();
    let harm = match number % 20 {
        0 => lose_block(made, &mut bytes, &mut random),
        1 | 2 => cut(made, &mut bytes, &mut random),
        // Half of the flips, 17 in each score, hit a node.
        case => flip(made, &mut bytes, &mut random, (number / 20 + case).is_multiple_of(2)),
    };
    let mut flash = made.flash(bytes);
    let harm = match number % 40 {
        // Takes the place of a flip in every other score.
        39 if made.nand => {
            flash = made.flash(made.bytes.clone());
            flip_cleanmarker(made, &mut flash, &mut random)
        }
        _ => harm,
    };
    let options = MountOptions { use_summaries: !number.is_multiple_of(3), ..MountOptions::default() };
    let judged = match mount(flash, options) {
        Ok(volume) => {
            let report = volume.check(false).unwrap();
            judge(made, &harm, &volume, &report)
        }
        // Nothing at all is left, and the error says so.
        Err(error) => {
            if made.nodes.iter().any(|node| node.end <= harm.at) {
                Err(error.to_string())
            } else {
                Ok(DamageVerdict::Told)
            }
        }
    };
    match judged {
        Ok(told) => (harm.class, told),
        Err(what) => panic!("image {number} ({}): {harm:?}: {what}", if made.nand { "NAND" } else { "NOR" }),
    }
}

#[test]
fn no_witnessed_damage_passes_in_silence_and_the_rest_is_delivered() {
    let scratch = tempfile::tempdir().unwrap();
    let (nor, nand) = (scratch.path().join("nor"), scratch.path().join("nand"));
    std::fs::create_dir_all(&nor).unwrap();
    std::fs::create_dir_all(&nand).unwrap();
    let mut classes: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for made in [Made::new(&nor, "-l", 16 << 10, false), Made::new(&nand, "-b", 16 << 10, true)] {
        let found: Vec<(&str, DamageVerdict)> =
            (0..count(IMAGES) as usize).into_par_iter().map(|number| one(&made, number)).collect();
        for (class, told) in found {
            classes.entry(class).or_default()[told as usize] += 1;
        }
    }
    println!("{:<24}{:>8}{:>10}{:>8}", "class", "silent", "harmless", "told");
    for (class, [silent, harmless, told]) in &classes {
        println!("{class:<24}{silent:>8}{harmless:>10}{told:>8}");
    }
    let silent: Vec<&str> = classes.iter().filter(|(_, counts)| counts[0] > 0).map(|(class, _)| *class).collect();
    // As docs/formats/jffs2.md says, these leave no trace unless a reference dangles.
    assert!(
        silent
            .iter()
            .all(|class| ["block blanked", "obsolete mark, unlisted", "tail cut between nodes"].contains(class)),
        "{silent:?}"
    );
    for class in
        ["header", "node", "name", "data", "summary", "blank", "padding", "tail cut in a node", "OOB cleanmarker"]
    {
        assert!(
            classes.get(class).is_some_and(|counts| counts[2] as u64 > count(IMAGES) / 500),
            "{class}: {classes:?}"
        );
    }
}

#[test]
fn a_repaired_volume_has_no_damaged_node_and_shows_what_the_damaged_one_did() {
    let scratch = tempfile::tempdir().unwrap();
    let made = Made::new(scratch.path(), "-l", 16 << 10, false);
    let (mut changed, mut found_again) = (0, 0);
    for number in 0..300 {
        let mut random = Random::new(number, "damage twice");
        let mut bytes = made.bytes.clone();
        for _ in 0..4 {
            flip(&made, &mut bytes, &mut random, true);
        }
        if number % 4 == 0 {
            lose_block(&made, &mut bytes, &mut random);
        }
        let scanned = MountOptions { use_summaries: false, ..MountOptions::default() };
        let volume = mount(made.flash(bytes), scanned.clone()).unwrap();
        let mut output = made.flash(vec![0; made.bytes.len()]);
        let repair = volume.repair(false, &mut output).unwrap();
        assert_finds_room(&repair);
        let repaired = mount(output, scanned).unwrap();
        let left = repaired.check(false).unwrap();
        let wrong: Vec<_> = left.findings.iter().filter(|finding| finding.kind != DamageKind::Missing.name()).collect();
        assert!(wrong.is_empty(), "{number}: {wrong:?}");
        let mut before = listing::of_volume(&volume);
        // Names of inodes of which no node is left are gone.
        before.retain(|_, text| text != "Corrupt");
        // Files that had lost their name have one again, perhaps a second one.
        let (mut after, mut before) = (without_links(listing::of_volume(&repaired)), without_links(before));
        let found = after.keys().any(|path| path.starts_with("/lost+found/"));
        after.retain(|path, _| !path.starts_with("/lost+found"));
        before.retain(|path, _| !path.starts_with("/lost+found"));
        listing::assert_same(&after, &before, &format!("image {number}"));
        found_again += usize::from(found);
        changed += usize::from(!repair.dropped.is_empty());
    }
    assert!(changed > 200 && found_again > 20, "{changed}, {found_again}");
}

/// mkfs.jffs2 makes cleanmarkers of any requested size; a repaired image has those of the
/// original's size.
#[test]
fn a_repair_keeps_the_size_of_cleanmarkers() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, image) = (scratch.path().join("root"), scratch.path().join("image"));
    std::fs::create_dir(&root).unwrap();
    let mut random = Random::new(3, "noise");
    let noise: Vec<u8> = (0..40_000).map(|_| random.next_u64() as u8).collect();
    std::fs::write(root.join("noise"), noise).unwrap();
    let (root, path) = (root.to_str().unwrap(), image.to_str().unwrap());
    for length in [12_usize, 20, 64] {
        let size = length.to_string();
        run("mkfs.jffs2", &["-r", root, "-o", path, "-e", "16384", "-l", "-c", &size, "-p65536", "-q"]);
        let mut bytes = std::fs::read(&image).unwrap();
        bytes[5000] ^= 4;
        let output = RamFlash::nor(vec![0; bytes.len()], 16 << 10);
        let volume = mount(RamFlash::nor(bytes.clone(), 16 << 10), MountOptions::default()).unwrap();
        let mut repaired = output;
        let repair = volume.repair(false, &mut repaired).unwrap();
        assert_eq!(repair.dropped.len(), 1, "{:?}", repair.dropped);
        assert_finds_room(&repair);
        for (before, after) in bytes.chunks(16 << 10).zip(repaired.data.chunks(16 << 10)) {
            let marker = Header::decode(ByteOrder::Little, after).unwrap();
            assert!(marker.node_type == node_type::CLEANMARKER && marker.check(ByteOrder::Little).is_ok());
            assert_eq!((marker.total_length as usize, &before[..length]), (length, &after[..length]));
        }
    }
}
