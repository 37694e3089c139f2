//! JFFS2 on the emulated chip: factory bad blocks, blocks that grow bad, programs and erases that
//! fail, bit errors that are corrected, and power cuts with torn pages. What was synced is there
//! after each.

use nandkit_flash::Flash;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript, PageOrder};
use nandkit_testkit::clock;
use nandkit_testkit::durability::flash_cuts::{FormatOnFlash, Run};
use nandkit_testkit::durability::{History, Promise, State, describe, observe, step};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause};
use nandkit_vfs::{Changes, Result};

/// Pages of 2 KiB, 8 to the block, so that blocks come and go. Three blocks at the most are bad
/// from the factory; one bit in 10,000 is wrong, of which the code corrects eight in 512 bytes.
fn spec() -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.page_size = 2048;
    spec.geometry.oob_size = 64;
    spec.geometry.pages_per_block = 8;
    spec.geometry.blocks = 44;
    spec.rules.order = PageOrder::Consecutive;
    // The cleanmarker is a program of its own.
    spec.rules.partial_programs = 2;
    spec.bad_blocks.enabled = true;
    spec.bad_blocks.factory_max = 3;
    spec.ecc.correctable_bits = 8;
    spec.bit_errors.enabled = true;
    spec.bit_errors.base = 1e-4;
    spec.bit_errors.shape = 0;
    spec
}

fn options(separation: &str) -> MountOptions {
    let separation = separation.parse().expect("a separation");
    let write = WriteOptions { compression: CompressionMode::None, separation, ..WriteOptions::default() };
    MountOptions { write, ..MountOptions::default() }
}

#[derive(Clone, Debug)]
struct Mount(MountOptions);

impl FormatOnFlash for Mount {
    type Mounted<D: Flash> = Jffs2<D>;

    fn mount<D: Flash>(&self, device: D) -> Result<Jffs2<D>> {
        Jffs2::mount(device, clock(), self.0.clone())
    }

    /// Asserts what the method of this name in `jffs2/tests/promise.rs` asserts.
    fn contradicts_nothing<D: Flash + Clone>(&self, volume: &Jffs2<D>, mounted_from: &D, what: &str) {
        volume.catalogue().recount().unwrap_or_else(|error| panic!("{what}: {error}"));
        let other = MountOptions { use_summaries: !self.0.use_summaries, read_only: true, ..self.0.clone() };
        let other = Self(other).mount(mounted_from.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(observe(volume) == observe(&other), "{what}: by the other way {:#?}", describe(&observe(&other)));
    }
}

/// An empty volume on a chip.
fn formatted(spec: &ChipSpec, seed: u64, options: &MountOptions) -> ContentChip {
    let chip = ContentChip::new(spec, seed).expect("a chip");
    Jffs2::format(chip, clock(), options.clone()).expect("formats").into_flash()
}

fn bad_blocks(chip: &ContentChip) -> u32 {
    (0..chip.geometry().blocks).filter(|block| chip.is_bad(BlockIndex(*block))).count() as u32
}

#[test]
fn programs_and_erases_that_fail_lose_nothing() {
    let (mut failures, mut corrected, mut factory) = ((0, 0, 0), 0, 0);
    for (seed, separation) in (1..=6).zip(["none", "dac:regions=2", "none", "dac:regions=3", "none", "none"]) {
        let options = options(separation);
        let mut chip = formatted(&spec(), seed, &options);
        let bad = bad_blocks(&chip);
        factory += bad;
        // A program that fails at every place that a block has, a few times around; then erases.
        let mut random = Random::new(seed, "failures");
        let programs = (0..6).map(|number| 200 + number * 211 + random.below(200)).collect();
        let erases = (0..3).map(|number| 60 + number * 37 + random.below(30)).collect();
        chip.script_failures(FailureScript { programs, erases, ..FailureScript::default() });
        let mut fs = Jffs2::mount(chip, clock(), options.clone()).expect("mounts");
        let (mut history, mut random) = (History::new(State::empty()), Random::new(seed, "what to do"));
        for number in 0..800 {
            step(&mut fs, &mut history, &mut random).expect("a step");
            if number % 100 == 99 {
                fs.sync(None).expect("syncs");
                let counters = *fs.counters().expect("counts");
                failures.0 += counters.program_failures;
                failures.1 += counters.retired;
                fs = Jffs2::mount(fs.into_flash(), clock(), options.clone()).expect("mounts again");
                let (state, found) = (history.now(), observe(&fs));
                assert!(
                    state.is(&found),
                    "seed {seed}, {separation}, step {number}: {:?}, expected {state:?}",
                    describe(&found)
                );
                fs.catalogue().recount().expect("sums fit their nodes");
            }
        }
        let chip = fs.into_flash();
        failures.2 += bad_blocks(&chip) - bad;
        corrected += chip.read_counters().corrected;
    }
    assert!(failures.0 >= 15 && failures.1 >= 15 && u64::from(failures.2) >= failures.1, "{failures:?}");
    assert!(corrected > 3_000 && factory >= 3, "{corrected} reads, {factory} blocks");
}

#[test]
fn what_was_synced_is_there_after_each_cut_of_the_chip() {
    let mut cuts = Vec::new();
    for (seed, separation) in (1..=3).zip(["none", "dac:regions=3", "none"]) {
        let mut spec = spec();
        // By chance, and so in what a cut left as well.
        spec.failures.enabled = true;
        spec.failures.program_probability = 5e-4;
        spec.failures.erase_probability = 5e-3;
        let options = options(separation);
        let chip = formatted(&spec, seed, &options);
        let promise = if separation == "none" { Promise::InOrder } else { Promise::SyncedOnly };
        cuts.extend(Run { format: Mount(options), promise, seed, steps: 400, every: 40 }.cut(chip));
    }
    for cause in [Cause::UserData, Cause::Metadata, Cause::Cleaning, Cause::Recovery] {
        let of_cause = cuts.iter().filter(|cut| cut.1 == cause).count();
        assert!(of_cause >= 8, "{cause:?}: {of_cause} of {} cuts", cuts.len());
    }
    assert!(cuts.len() > 600, "{}", cuts.len());
}
