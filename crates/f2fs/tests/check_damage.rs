//! Plants one fault in a sound volume with valid checksums: the check finds exactly that fault,
//! with its inode and block. The expectation says whether fsck.f2fs reports it too.

use crate::faults::{Case, DIRECTORIES, Expected, Fsck, INODES, NODES, TABLES, VOLUME};
use crate::made::{all_kinds, block_of, clock, complaints, kind_of, node_of};
use crate::planted::Planted;
use crate::witness::made_with;
use nandkit_f2fs::FindingKind::Segment;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::{check, repair};
use nandkit_vfs::check::Report;

fn base() -> Planted {
    made_with("extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found", &all_kinds(480))
}

/// Repairs the volume: then it is sound to us and to fsck.f2fs, and has all files except those that
/// are lost.
fn repaired(name: &str, planted: &mut Planted, before: u64, path: &std::path::Path, wrong: &mut Vec<String>) {
    let repair = match repair(vec![planted.device()], clock(), Waiting::Refused) {
        Ok(repair) => repair,
        Err(error) => {
            wrong.push(format!("{name}: no repair: {error}"));
            return;
        }
    };
    for (at, bytes) in &repair.blocks {
        planted.block(*at).copy_from_slice(bytes);
    }
    let again = check(vec![planted.device()], clock()).unwrap();
    let told = |report: &Report| -> Vec<String> { report.findings.iter().map(ToString::to_string).collect() };
    if !again.findings.is_empty() || !repair.after.findings.is_empty() {
        wrong.push(format!("{name}: repaired, and {:?}\n   {:?}", told(&again), told(&repair.after)));
    }
    planted.write(path);
    let complaints = complaints(path);
    if !complaints.is_empty() {
        wrong.push(format!("{name}: repaired, and fsck.f2fs: {complaints:?}"));
    }
    let kept = inodes_of(&again);
    if kept + u64::from(DROPPED.contains(&name)) != before {
        wrong.push(format!("{name}: {kept} of {before} inodes, dropped {:?}", repair.report.dropped));
    }
}

fn inodes_of(report: &Report) -> u64 {
    ["files", "directories", "other_inodes"].map(|name| report.count(name)).iter().sum()
}

/// Faults by which an inode is lost, because it cannot be decoded.
const DROPPED: [&str; 3] = ["no kind", "size of the extra attributes", "link without a target"];

fn run(cases: &[Case]) {
    let base = base();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let mut wrong = Vec::new();
    let sound = check(vec![base.device()], clock()).unwrap();
    let inodes = inodes_of(&sound);
    let mut planted = base.clone();
    for (name, fsck, plant) in cases {
        planted.become_again(&base);
        let mut expected = plant(&mut planted);
        let report = check(vec![planted.device()], clock()).unwrap();
        let mut found: Expected =
            report.faults().map(|found| (kind_of(found), node_of(found), block_of(found))).collect();
        expected.sort();
        found.sort();
        // For segments, the inode is that of the first block.
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(f, e)| f.0 == e.0 && f.2 == e.2 && (f.1 == e.1 || f.0 == Segment));
        if !same {
            let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            wrong.push(format!("{name}: expected {expected:?}, found {found:?}\n    {}", told.join("\n    ")));
        }
        for finding in report.faults() {
            if let (Some(inode), Some(shown)) = (node_of(finding), finding.paths.first()) {
                let shown = String::from_utf8_lossy(shown);
                if !["name with a slash", "name twice", "node that is no inode"].contains(name)
                    && base.nid(&shown) != inode
                {
                    wrong.push(format!("{name}: {shown} is not inode {}", inode.0));
                }
            }
        }
        planted.write(&path);
        let told = complaints(&path);
        if told.is_empty() != (*fsck == Fsck::Silent) {
            wrong.push(format!("{name}: fsck.f2fs, expected {fsck:?}: {:?}", told.first()));
        }
        repaired(name, &mut planted, inodes, &path, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn faults_of_superblocks_and_checkpoint_are_found() {
    run(VOLUME);
}

#[test]
fn faults_of_the_tables_are_found() {
    run(TABLES);
}

#[test]
fn faults_of_nodes_and_addresses_are_found() {
    run(NODES);
}

#[test]
fn faults_of_inodes_and_attributes_are_found() {
    run(INODES);
}

#[test]
fn faults_of_directories_are_found() {
    run(DIRECTORIES);
}
