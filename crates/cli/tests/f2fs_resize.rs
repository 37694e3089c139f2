//! `resize` of F2FS images, cut off at every point of its way to the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{fsck_f2fs, json, nandkit, succeeds};
use crate::f2fs_rescue::{same, with_image};
use nandkit_units::is_zeroed;
use nandkit_units::random::Random;

const BLOCK: usize = 4096;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
const JOURNAL: &str = "k.nandkit-journal";

#[test]
fn a_volume_gets_another_size_in_place() {
    let directory = with_image();
    let path = directory.path();
    for (size, bytes) in [("90M", 90 << 20), ("900M", 900 << 20), ("128M", 128 << 20)] {
        let told = json(path, &["resize", "i", size, "--json"]);
        assert_eq!(told["file_bytes"].as_u64(), Some(bytes), "{told}");
        assert_eq!(fs::metadata(path.join("i")).expect("a file").len(), bytes);
        fsck_f2fs(path, "i");
        succeeds(path, &["check", "i"]);
        let out = format!("out-{size}");
        succeeds(path, &["extract", "i", &out]);
        same(path, "tree", &out);
        fs::remove_dir_all(path.join(out)).expect("a directory");
    }
    // The file has its new length already, or still its old one: both are what a crash may leave.
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    file.set_len(300 << 20).expect("a length");
    succeeds(path, &["check", "i"]);
    succeeds(path, &["resize", "i", "128M"]);
    let before = fs::read(path.join("i")).expect("an image");
    let outcome = nandkit(path, &["resize", "i", "20M"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("the least is "), "{}", outcome.stderr);
    assert!(fs::read(path.join("i")).expect("an image") == before);
    succeeds(path, &["put", "i", "tree/big", "/more"]);
    fsck_f2fs(path, "i");
    fs::write(path.join("noise"), vec![0x5A; 3 << 20]).expect("a file");
    assert_eq!(nandkit(path, &["resize", "noise", "20M"]).status, Some(2));
}

/// The blocks of a file that are not zeroes.
type Blocks = BTreeMap<u64, Vec<u8>>;

fn blocks_of(file: &Path) -> Blocks {
    let (mut file, mut blocks) = (fs::File::open(file).expect("a file"), Blocks::new());
    for first in (0..).step_by(PIECE / BLOCK) {
        let mut piece = Vec::new();
        (&mut file).take(PIECE as u64).read_to_end(&mut piece).expect("bytes");
        if piece.is_empty() {
            break;
        }
        if !is_zeroed(&piece) {
            let all = (first..).zip(piece.chunks(BLOCK));
            blocks.extend(all.filter(|(_, block)| !is_zeroed(block)).map(|(at, block)| (at, block.to_vec())));
        }
    }
    blocks
}

fn segments(path: &Path) -> u64 {
    let info = json(path, &["info", "k", "--json"]);
    info["volume"]["segments"].as_u64().expect("a number")
}

/// One change of size of the image `i`, tried on `k`.
struct Change {
    size: &'static str,
    old: Blocks,
    /// The blocks that the change writes, with their content after it.
    changed: Blocks,
    /// Bytes of the file before the change, and after it.
    lengths: [u64; 2],
    segments: [u64; 2],
}

impl Change {
    /// Makes the change, and also keeps the changed image as `new`.
    fn new(path: &Path, size: &'static str) -> Self {
        let _ = fs::remove_file(path.join(JOURNAL));
        fs::copy(path.join("i"), path.join("k")).expect("a copy");
        let length = || fs::metadata(path.join("k")).expect("a file").len();
        let (old, before) = (blocks_of(&path.join("i")), (length(), segments(path)));
        succeeds(path, &["resize", "k", size]);
        let (new, after) = (blocks_of(&path.join("k")), (length(), segments(path)));
        fs::rename(path.join("k"), path.join("new")).expect("a name");
        let zeroes = vec![0; BLOCK];
        let block = |blocks: &Blocks, at: &u64| blocks.get(at).unwrap_or(&zeroes).clone();
        let all: BTreeSet<u64> =
            old.keys().chain(new.keys()).copied().filter(|at| at * (BLOCK as u64) < after.0).collect();
        let changed = all.into_iter().map(|at| (at, block(&new, &at))).filter(|(at, new)| block(&old, at) != *new);
        let changed = changed.collect();
        Self { size, old, changed, lengths: [before.0, after.0], segments: [before.1, after.1] }
    }

    /// Writes the old image to `k`, with this length and some of the changes, and the journal
    /// beside it.
    fn put(&self, path: &Path, length: u64, changes: &[(u64, &[u8])], journal: Option<&[u8]>) {
        let _ = fs::remove_file(path.join(JOURNAL));
        let file = fs::File::create(path.join("k")).expect("a file");
        file.set_len(length).expect("a length");
        let old = self.old.iter().map(|(at, block)| (*at, block.as_slice()));
        for (at, bytes) in old.chain(changes.iter().copied()) {
            file.write_all_at(bytes, at * BLOCK as u64).expect("a block");
        }
        journal.into_iter().for_each(|journal| fs::write(path.join(JOURNAL), journal).expect("a journal"));
    }

    /// The length of the file while the change is under way.
    fn longest(&self) -> u64 {
        self.lengths[0].max(self.lengths[1])
    }

    /// The volume in `k` is the old one or the new one, sound, with all files.
    fn judge(&self, path: &Path, is_new: bool, context: &str) {
        let told = nandkit(path, &["check", "k"]);
        assert_eq!(told.status, Some(0), "{context}: {}{}", told.stdout, told.stderr);
        assert_eq!(segments(path), self.segments[usize::from(is_new)], "{context}");
        succeeds(path, &["extract", "k", "out"]);
        same(path, "tree", "out");
        fs::remove_dir_all(path.join("out")).expect("a directory");
    }

    /// Lets a run die at its first write beyond the first `blocks` blocks of any file.
    fn die_behind(&self, path: &Path, blocks: u64) {
        let command = format!("ulimit -c 0; ulimit -f {}; exec \"$0\" resize k {}", blocks * 8, self.size);
        let status = Command::new("sh")
            .args(["-c", &command, env!("CARGO_BIN_EXE_nandkit")])
            .current_dir(path)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("sh runs");
        assert!(!status.success(), "{}: nothing was written behind block {blocks}", self.size);
    }

    /// The journal as a change leaves it, from a run that dies at a write to the image.
    fn journal(&self, path: &Path) -> Vec<u8> {
        let last = *self.changed.keys().next_back().expect("changes");
        self.put(path, self.longest(), &[], None);
        self.die_behind(path, last);
        fs::read(path.join(JOURNAL)).expect("a journal")
    }
}

/// Every point at which the power may go: before the journal is whole, for which cuts of it stand;
/// behind it, with any part of the changes in the image, torn within blocks; and behind these,
/// before and after the journal is gone and the file has its length.
#[test]
fn a_resize_that_is_cut_off_leaves_the_old_volume_or_the_new_one() {
    let directory = with_image();
    let path = directory.path();
    for size in ["200M", "90M"] {
        let change = Change::new(path, size);
        let (journal, longest) = (change.journal(path), change.longest());
        // Where the journal ends does not depend on the direction.
        let lengths: &[usize] = if size == "90M" { &[48, journal.len() - 1] } else { &[] };
        for &length in lengths {
            change.put(path, longest, &[], Some(&journal[..length]));
            change.judge(path, false, &format!("{size}: {length} bytes of {} of the journal", journal.len()));
        }
        let mut random = Random::new(1, size);
        for share in [if size == "90M" { 1.0 } else { 0.5 }] {
            let mut some: Vec<(u64, &[u8])> = Vec::new();
            for (at, block) in &change.changed {
                if random.chance(share) {
                    let torn = if random.chance(0.3) { 512 * random.below(8) as usize } else { BLOCK };
                    some.push((*at, &block[..torn]));
                }
            }
            change.put(path, longest, &some, Some(&journal));
            change.judge(path, true, &format!("{size}: {share} of the changes"));
            // Who writes next completes it.
            succeeds(path, &["resize", "k", size]);
            assert!(!path.join(JOURNAL).exists());
            let compared = Command::new("cmp").args(["k", "new"]).current_dir(path).status().expect("cmp runs");
            assert!(compared.success(), "{size}: {share} of the changes, completed");
        }
        let all: Vec<(u64, &[u8])> = change.changed.iter().map(|(at, block)| (*at, block.as_slice())).collect();
        change.put(path, longest, &all, None);
        change.judge(path, true, &format!("{size}: before the file has its length"));
        fsck_f2fs(path, "k");
        change.put(path, longest, &[], None);
        change.judge(path, false, &format!("{size}: the file alone is as long as it is to be"));
        fsck_f2fs(path, "k");
    }
}

/// A resize by a process that dies at a write, so that the order of its writes is its own.
#[test]
fn a_killed_resize_leaves_one_of_both_sizes() {
    let directory = with_image();
    let path = directory.path();
    for size in ["200M", "90M"] {
        let change = Change::new(path, size);
        let last = *change.changed.keys().next_back().expect("changes");
        let mut seen = [0, 0];
        for share in [0, 2] {
            change.put(path, change.longest(), &[], None);
            change.die_behind(path, last * share / 2);
            let is_new = path.join(JOURNAL).exists();
            seen[usize::from(is_new)] += 1;
            change.judge(path, is_new, &format!("{size}: no file beyond {} blocks", last * share / 2));
        }
        assert!(seen.iter().all(|count| *count > 0), "{size}: {seen:?}");
    }
    // The file could not even become longer.
    let change = Change::new(path, "200M");
    change.put(path, change.lengths[0], &[], None);
    change.die_behind(path, change.lengths[0] / BLOCK as u64);
    change.judge(path, false, "too long a file");
    assert_eq!(fs::metadata(path.join("k")).expect("a file").len(), change.lengths[0]);
}
