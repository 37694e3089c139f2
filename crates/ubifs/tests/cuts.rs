//! Power cuts: at each step of a run, whole and torn, and in the recovery behind it.

use nandkit_testkit::durability::{History, State};
use nandkit_testkit::rounds;
use nandkit_ubifs::layout::node_type;
use nandkit_ubifs::{BuildOptions, LebBytes};

use crate::cut_runs::{judged, mount, run};
use crate::nodes::{is_of_type, nodes};
use crate::repair::repaired;
use crate::strict_lebs::{Cut, StrictLebs};
use crate::write::shapes;

/// Cuts of a run at every `every`th step, and of the recovery behind each at a few of its steps.
fn cut(name: &str, options: &BuildOptions, seed: u64, every: u64) -> u64 {
    let options =
        BuildOptions { leb_count_max: 44, journal_size: Some(6 * u64::from(options.leb_size)), ..options.clone() };
    let empty = StrictLebs::formatted(&options);
    let start = || History::new(State::empty());
    let mut cuts = 0;
    for at in (seed % every..).step_by(every as usize) {
        let is_torn = at.is_multiple_of(2);
        let cut = Cut { left: Some(at), units: (at % 3) as u32, is_torn };
        let (left, history) = run(empty.copy(cut), start(), seed);
        let Some(history) = history else { break };
        leave(name, at / every, &left);
        let what = format!("{name}, seed {seed}, step {at}, torn {is_torn}");
        let (_, after) = judged(&left, &history, &what);
        cuts += 1;
        drop(after);
        for step in 0..6 {
            let cut = Cut { left: Some(step * 3 + at % 3), units: 1, is_torn: !is_torn };
            let again = left.copy(cut);
            let again_left = again.clone();
            if mount(again).is_ok() {
                break;
            }
            judged(&again_left, &history, &format!("{what}, again after {}", step * 3 + at % 3));
            cuts += 1;
        }
    }
    cuts
}

/// Writes a volume for other judges, if `NANDKIT_CUT_IMAGES` names a directory: as many of each
/// shape as `NANDKIT_CUT_SAMPLE` says, from all over the run.
fn leave(name: &str, number: u64, left: &StrictLebs) {
    /// About so many cuts has a run at the least.
    const RUN: u64 = 60;
    let Some(directory) = std::env::var_os("NANDKIT_CUT_IMAGES") else { return };
    let count: u64 = std::env::var("NANDKIT_CUT_SAMPLE").unwrap().parse().unwrap();
    let shape = if name.contains("2 KiB") { "large" } else { "small" };
    if name != "NOR" && number.is_multiple_of((RUN / count).max(1)) && number / (RUN / count).max(1) < count {
        let path = std::path::Path::new(&directory).join(shape).join(format!("{number:04}.ubifs"));
        let image = left.image();
        // Each third one has lost its index, and is repaired.
        let image = if number / (RUN / count).max(1) % 3 == 2 { without_index(image) } else { image };
        std::fs::write(path, image.bytes).unwrap();
    }
}

/// The repaired volume of one whose index nodes are all damaged.
fn without_index(mut image: LebBytes) -> LebBytes {
    for (at, length) in nodes(&image.bytes) {
        if is_of_type(&image.bytes[at..at + length], node_type::INDEX) {
            image.bytes[at + length - 1] ^= 0x55;
        }
    }
    repaired(&image, "without an index").unwrap().0
}

#[test]
fn what_was_synced_is_there_after_cuts() {
    for (seed, (name, options)) in shapes().into_iter().enumerate() {
        let cuts = cut(name, &options, seed as u64 + 1, 400 / rounds::count(28).clamp(1, 400));
        assert!(cuts > 10, "{name}: {cuts}");
    }
}
