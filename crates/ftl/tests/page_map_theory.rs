//! The page-mapped layer's write amplification under uniform overwrites agrees with theory.

use nandkit_block::BlockDevice;
use nandkit_cleaning::separation::Separation;
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{AddressChip, ChipSpec};
use nandkit_theory::{self as theory, Device};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Lba, Payload};

const PAGES_PER_BLOCK: u32 = 64;
const BLOCKS: u32 = 2048;

/// Pages programmed per page that the host writes, in steady state.
fn measured(victim: &str, spare: f64) -> f64 {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (512, 512, 16);
    (geometry.blocks, geometry.pages_per_block) = (BLOCKS, PAGES_PER_BLOCK);
    let options = PageMapOptions {
        spare: Spare::Ratio(spare),
        victim: victim.parse().unwrap(),
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

fn device(spare: f64) -> Device {
    Device::new(PAGES_PER_BLOCK, spare).unwrap()
}

/// Agreement within 1 % on a device of 131,072 pages. `nandkit reproduce theory` will take a larger
/// one where the last superblocks matter.
#[test]
fn fifo_is_its_closed_form() {
    for spare in [0.15, 0.28] {
        let (found, expected) = (measured("fifo", spare), theory::fifo(&device(spare)));
        assert!((found / expected - 1.0).abs() < 0.01, "spare {spare}: {found} of {expected}");
    }
}

#[test]
fn random_and_d_choices_are_their_mean_field() {
    for (d, spare) in [(1, 0.28), (2, 0.15), (5, 0.28), (10, 0.15)] {
        let rule = if d == 1 { "random".to_owned() } else { format!("d-choices:d={d}") };
        let (found, expected) = (measured(&rule, spare), theory::d_choices(&device(spare), d));
        assert!((found / expected - 1.0).abs() < 0.01, "d {d}, spare {spare}: {found} of {expected}");
        println!("d {d}, spare {spare}: {found:.3} of {expected:.3}");
    }
}

#[test]
fn greedy_is_the_limit_of_many_choices() {
    for spare in [0.15, 0.28] {
        let (found, expected) = (measured("greedy", spare), theory::greedy(&device(spare)));
        assert!((found / expected - 1.0).abs() < 0.01, "spare {spare}: {found} of {expected}");
        println!("greedy, spare {spare}: {found:.3} of {expected:.3}");
    }
}
