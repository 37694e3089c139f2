//! The page-mapped layer's write amplification under uniform overwrites is what theory says.

use nandkit_block::BlockDevice;
use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::Rule;
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{AddressChip, ChipSpec};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Lba, Payload};

const PAGES_PER_BLOCK: u32 = 64;
const BLOCKS: u32 = 2048;

/// Pages programmed for each that the host wrote, in steady state.
fn measured(victim: Rule, spare: f64) -> f64 {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (512, 512, 16);
    (geometry.blocks, geometry.pages_per_block) = (BLOCKS, PAGES_PER_BLOCK);
    let options = PageMapOptions {
        spare: Spare::Ratio(spare),
        victim: victim.into(),
        separation: Separation::None,
        journal: None,
        seed: 3,
        ..Default::default()
    };
    let mut device = PageMapFtl::format(AddressChip::new(&spec, 1).unwrap(), options).unwrap();
    let pages = device.geometry().sectors;
    let mut random = Random::new(3, "uniform");
    let data = Payload::Described(Described { length: 512, ..Described::default() });
    let write = |device: &mut PageMapFtl<AddressChip>, page: u64| {
        device.write(&Context::default(), Lba(page), data).unwrap();
    };
    (0..pages).for_each(|page| write(&mut device, page));
    (0..4 * pages).for_each(|_| write(&mut device, random.below(pages)));
    let before = *device.counters();
    (0..4 * pages).for_each(|_| write(&mut device, random.below(pages)));
    device.check().unwrap();
    device.counters().since(&before).waf().unwrap()
}

/// FIFO: Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR 2012). With a = physical / user, a share x of a block is still valid when it comes round, where x = exp(-a (1 - x)).
fn fifo(spare: f64) -> f64 {
    let a = 1.0 + spare;
    let valid = (0..10_000).fold(0.5f64, |x, _| (-a * (1.0 - x)).exp());
    1.0 / (1.0 - valid)
}

/// d-choices, random at d = 1: the fixed point of the mean field of Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives"
/// (SIGMETRICS 2013), by integrating its equations from a filled device on. `x[j]` is the share of blocks with `j` valid pages; a victim's pages and the host's next ones fill a block.
fn d_choices(d: u32, spare: f64) -> f64 {
    let b = PAGES_PER_BLOCK as usize;
    let used = 1.0 / (1.0 + spare);
    let mut x = vec![0.0; b + 2];
    (x[0], x[b]) = (1.0 - used, used);
    let step = 0.2 / b as f64;
    let mut moved = 0.0;
    for _ in 0..(20.0 / step) as usize {
        // The chance that the best of d has j valid pages: all have at least j, and not all more.
        let mut chosen = vec![0.0; b + 1];
        let (mut at_least, mut more) = (0.0f64, 0.0f64);
        for j in (0..=b).rev() {
            at_least += x[j];
            let all = at_least.clamp(0.0, 1.0).powi(d as i32);
            chosen[j] = all - more;
            more = all;
        }
        moved = chosen.iter().enumerate().map(|(j, chance)| j as f64 * chance).sum();
        let writes = (b as f64 - moved) / (used * b as f64);
        for j in 0..=b {
            let overwritten = (j + 1) as f64 * x[j + 1] - j as f64 * x[j];
            x[j] += step * (f64::from(j == b) - chosen[j] + writes * overwritten);
        }
    }
    b as f64 / (b as f64 - moved)
}

/// Within 1 %, on a device of 131,072 pages: where the last superblocks count, `nandkit reproduce theory` will take a larger one.
#[test]
fn fifo_is_its_closed_form() {
    for spare in [0.15, 0.28] {
        let (found, expected) = (measured(Rule::Fifo, spare), fifo(spare));
        assert!((found / expected - 1.0).abs() < 0.01, "spare {spare}: {found} of {expected}");
    }
}

#[test]
fn random_and_d_choices_are_their_mean_field() {
    for (d, spare) in [(1, 0.28), (2, 0.15), (5, 0.28), (10, 0.15)] {
        let rule = if d == 1 { Rule::Random } else { Rule::DChoices { d } };
        let (found, expected) = (measured(rule, spare), d_choices(d, spare));
        assert!((found / expected - 1.0).abs() < 0.01, "d {d}, spare {spare}: {found} of {expected}");
        println!("d {d}, spare {spare}: {found:.3} of {expected:.3}");
    }
    // Random is known in closed form, too: (1 + spare) / spare.
    assert!((d_choices(1, 0.28) / (1.28 / 0.28) - 1.0).abs() < 1e-3);
}

/// Greedy lies below ten choices, by a little.
#[test]
fn greedy_is_below_ten_choices() {
    let (greedy, ten) = (measured(Rule::Greedy, 0.15), d_choices(10, 0.15));
    assert!(greedy < ten && greedy > 0.95 * ten, "{greedy} of {ten}");
}
