//! Power cuts at every request of a workload: what was synced is there, what was not is old or new, a rename is atomic, and the repaired
//! volume is clean to our checker (always) and to fsck.vfat (on a sample).

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_fat::{Fat, FatKind, MountOptions, check};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{AttributeChange, ErrorKind, FileSystem, InodeNumber, NewNode, RenameFlags, Result};

type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// What may be found after a cut. A file is named by the versions that its content had since the last sync.
#[derive(Default)]
struct Oracle {
    now: Tree,
    /// States of each path since the last sync: absent, a directory, or a content.
    allowed: BTreeMap<String, Vec<Option<Option<Vec<u8>>>>>,
    /// Pairs of paths of which not both may be gone, nor both be there with one content: renames since the last sync.
    renames: Vec<(String, String, Vec<u8>)>,
    counter: u8,
}

impl Oracle {
    fn set(&mut self, path: &str, state: Option<Option<Vec<u8>>>) {
        let old = self.now.get(path).cloned();
        self.allowed.entry(path.into()).or_insert_with(|| vec![old]).push(state.clone());
        match state {
            Some(state) => self.now.insert(path.into(), state),
            None => self.now.remove(path),
        };
    }

    fn synced(&mut self) {
        self.allowed.clear();
        self.renames.clear();
    }
}

fn parent_of<D: nandkit_block::BlockDevice>(fat: &Fat<D>, path: &str) -> Result<(InodeNumber, String)> {
    match path.split_once('/') {
        Some((directory, name)) => Ok((fat.lookup(fat.root(), directory.as_bytes())?, name.into())),
        None => Ok((fat.root(), path.into())),
    }
}

/// One random operation, on the file system and, where it succeeded or may have begun, on the oracle.
fn step<D: nandkit_block::BlockDevice>(fat: &mut Fat<D>, oracle: &mut Oracle, random: &mut Random) -> Result<()> {
    const NAMES: [&str; 9] = [
        "a",
        "a rather long name for a file.txt",
        "C",
        "dir/x",
        "dir/y",
        "dir/another long name that needs slots",
        "sub/z",
        "sub/x",
        "b",
    ];
    let path = NAMES[random.below(NAMES.len() as u64) as usize];
    let (directory, name) = match parent_of(fat, path) {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::NotFound => {
            let directory = path.split_once('/').unwrap().0;
            oracle.set(directory, Some(None));
            let root = fat.root();
            fat.changes().unwrap().create(root, directory.as_bytes(), &NewNode::DIRECTORY)?;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let existing = oracle.now.get(path).cloned().flatten();
    oracle.counter = oracle.counter.wrapping_add(1);
    match random.below(8) {
        // Replaced by a new content: truncate and write; every prefix of it may be found.
        0 | 1 => {
            let content = vec![oracle.counter; 1 + random.below(3000) as usize];
            let inode = match existing {
                Some(_) => fat.lookup(directory, name.as_bytes())?,
                None => {
                    oracle.set(path, Some(Some(Vec::new())));
                    fat.changes().unwrap().create(directory, name.as_bytes(), &NewNode::FILE)?
                }
            };
            oracle.set(path, Some(Some(Vec::new())));
            fat.changes().unwrap().set_attributes(inode, &AttributeChange { size: Some(0), ..Default::default() })?;
            oracle.set(path, Some(Some(content.clone())));
            fat.changes().unwrap().write(inode, 0, Payload::Bytes(&content))?;
        }
        2 if existing.is_some() => {
            let mut content = existing.unwrap();
            let inode = fat.lookup(directory, name.as_bytes())?;
            let more = vec![oracle.counter; 1 + random.below(2500) as usize];
            let at = content.len() as u64;
            content.extend_from_slice(&more);
            oracle.set(path, Some(Some(content)));
            fat.changes().unwrap().write(inode, at, Payload::Bytes(&more))?;
        }
        3 if existing.is_some() => {
            let mut content = existing.unwrap();
            content.truncate(random.below(content.len() as u64 + 1) as usize);
            let inode = fat.lookup(directory, name.as_bytes())?;
            let change = AttributeChange { size: Some(content.len() as u64), ..Default::default() };
            oracle.set(path, Some(Some(content)));
            fat.changes().unwrap().set_attributes(inode, &change)?;
        }
        4 if existing.is_some() => {
            oracle.set(path, None);
            fat.changes().unwrap().remove(directory, name.as_bytes())?;
        }
        5 | 6 if existing.is_some() => {
            let content = existing.unwrap();
            let other = NAMES[random.below(NAMES.len() as u64) as usize];
            let Ok((to, other_name)) = parent_of(fat, other) else { return Ok(()) };
            if other == path {
                return Ok(());
            }
            oracle.renames.push((path.into(), other.into(), content.clone()));
            oracle.set(other, Some(Some(content)));
            oracle.set(path, None);
            let from = (directory, name.as_bytes());
            fat.changes().unwrap().rename(from, (to, other_name.as_bytes()), RenameFlags::Replace)?;
        }
        7 if random.below(3) == 0 => {
            fat.changes().unwrap().sync(None)?;
            oracle.synced();
        }
        _ => {}
    }
    Ok(())
}

fn tree<D: nandkit_block::BlockDevice>(fat: &Fat<D>) -> Tree {
    let mut found = Tree::new();
    let mut queue = vec![(fat.root(), String::new())];
    while let Some((directory, prefix)) = queue.pop() {
        let mut entries = Vec::new();
        fat.read_dir(directory, 0, &mut |entry| {
            entries.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.inode, entry.kind));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        for (name, inode, kind) in entries {
            let path = format!("{prefix}{name}");
            let content = match kind {
                nandkit_vfs::FileKind::Directory => {
                    queue.push((inode, format!("{path}/")));
                    None
                }
                _ => Some(read_all(fat, inode)),
            };
            assert!(found.insert(path.clone(), content).is_none(), "{path} twice");
        }
    }
    found
}

/// Whether a file's content can come from the versions that it had: the size is one of theirs, and each sector is of one version (or was
/// zero, or was written over by a later one) at that place.
fn plausible(content: &[u8], versions: &[&Vec<u8>]) -> bool {
    versions.iter().any(|version| version.len() == content.len())
        && content.chunks(512).enumerate().all(|(sector, part)| {
            let start = sector * 512;
            versions.iter().any(|version| version.get(start..start + part.len()) == Some(part))
        })
}

fn judge(found: &Tree, oracle: &Oracle, what: &str) {
    let paths: BTreeSet<&String> = found.keys().chain(oracle.now.keys()).chain(oracle.allowed.keys()).collect();
    for path in paths {
        let seen = found.get(path);
        match oracle.allowed.get(path) {
            None => assert_eq!(seen, oracle.now.get(path), "{what}: {path} was synced and not touched since"),
            Some(states) => {
                let versions: Vec<&Vec<u8>> = states.iter().flatten().flatten().collect();
                let good = match seen {
                    None => states.contains(&None),
                    Some(None) => states.contains(&Some(None)),
                    Some(Some(content)) => plausible(content, &versions),
                };
                let lengths: Vec<_> = states.iter().map(|s| s.as_ref().map(|s| s.as_ref().map(Vec::len))).collect();
                let length = seen.map(|s| s.as_ref().map(Vec::len));
                assert!(good, "{what}: {path} is {length:?}, which it never was: {lengths:?}");
            }
        }
    }
    // The last rename since the sync whose names nothing else touched: exactly one of both names has the content.
    for (from, to, content) in &oracle.renames {
        let touched = |path: &String| oracle.allowed.get(path).map_or(0, Vec::len);
        if touched(from) == 2 && touched(to) == 2 {
            let has = |path: &String| found.get(path) == Some(&Some(content.clone()));
            assert!(
                has(from) != has(to) || oracle.allowed[to][0] == Some(Some(content.clone())),
                "{what}: rename {from} to {to}: {} {}",
                has(from),
                has(to)
            );
        }
    }
}

struct Case {
    kind: FatKind,
    options: MountOptions,
    seed: u64,
    steps: u32,
}

/// Runs the workload until the cut; returns the device as the cut left it, or `None` where the workload ended before.
fn run_until_cut(case: &Case, base: &RamDevice, plan: DeviceCutPlan) -> (CutDevice<RamDevice>, Oracle, bool) {
    let mut fat = Fat::mount(CutDevice::new(base.clone(), plan), clock(), case.options).unwrap();
    let mut oracle = Oracle::default();
    let mut random = Random::new(case.seed, "cuts");
    let mut cut = false;
    for _ in 0..case.steps {
        if let Err(error) = step(&mut fat, &mut oracle, &mut random) {
            assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
            cut = true;
            break;
        }
    }
    (fat.into_device(), oracle, cut)
}

fn cut_everywhere(case: &Case, plans: &[(DeviceCutMoment, Survival)], fsck_every: u64) -> u64 {
    let bytes = match case.kind {
        FatKind::Fat12 => 1 << 20,
        FatKind::Fat16 => 3 << 20,
        FatKind::Fat32 => 36 << 20,
    };
    let base = volume(case.kind, 512, Some(512), bytes);
    let (device, _, cut) = run_until_cut(case, &base, DeviceCutPlan::NONE);
    assert!(!cut);
    let requests = device.requests();
    let mut cuts = 0;
    for request in 1..=requests {
        for &(moment, survival) in plans {
            let plan = DeviceCutPlan::at(request, moment, survival, case.seed + request);
            let what = format!("{:?} seed {} {:?}: {plan}", case.kind, case.seed, case.options.cache);
            let (mut device, oracle, _) = run_until_cut(case, &base, plan);
            device.power_on();
            device.set_plan(DeviceCutPlan::NONE);
            let mut fat = Fat::mount(device, clock(), case.options).unwrap_or_else(|error| panic!("{what}: {error}"));
            judge(&tree(&fat), &oracle, &what);
            fat.unmount().unwrap();
            let mut device = fat.into_device();
            let report = check(&mut device, &clock()).unwrap();
            assert!(report.is_clean(), "{what}: {:?}", report.findings);
            cuts += 1;
            if cuts % fsck_every == 0 {
                assert_clean(&device, &what);
            }
        }
    }
    cuts
}

const IN_ORDER: [(DeviceCutMoment, Survival); 2] =
    [(DeviceCutMoment::Inside, Survival::All), (DeviceCutMoment::After, Survival::All)];
const VOLATILE: [(DeviceCutMoment, Survival); 3] = [
    (DeviceCutMoment::Before, Survival::None),
    (DeviceCutMoment::Inside, Survival::Prefix),
    (DeviceCutMoment::Inside, Survival::Subset),
];

fn cuts(kind: FatKind, steps: u32) {
    // More by `NANDKIT_FAT_CUT_ROUNDS=50 cargo test -p nandkit-fat --test power_cuts`.
    let rounds = std::env::var("NANDKIT_FAT_CUT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut cuts = 0;
    for (seed, options) in
        (0..rounds).flat_map(|n| [(3 * n, WRITE_THROUGH), (3 * n + 1, WRITE_BACK), (3 * n + 2, WRITE_BACK)])
    {
        let case = Case { kind, options, seed: seed + 100_000 * kind as u64, steps };
        cuts += cut_everywhere(&case, &IN_ORDER, 60);
        cuts += cut_everywhere(&case, &VOLATILE, 60);
        // In-order devices need no barriers.
        let case = Case { options: MountOptions { barriers: false, ..options }, ..case };
        cuts += cut_everywhere(&case, &IN_ORDER, 60);
    }
    println!("{kind:?}: {cuts} cuts");
}

#[test]
fn fat12_survives_cuts_at_every_request() {
    cuts(FatKind::Fat12, 80);
}

#[test]
fn fat16_survives_cuts_at_every_request() {
    cuts(FatKind::Fat16, 80);
}

#[test]
fn fat32_survives_cuts_at_every_request() {
    cuts(FatKind::Fat32, 20);
}
