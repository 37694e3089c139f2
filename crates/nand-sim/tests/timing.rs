//! Closed sums: the time of a serial chip is the sum of the busy times, and overlapping dies end
//! exactly when the data sheet says.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_nand_sim::{ChipSpec, ContentChip, CopybackReach, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Nanos, PageAddress, Payload};

const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const ERASE: u64 = 1_500_000;
/// 2048 + 64 bytes of 25 ns.
const PAGE_TRANSFER: u64 = 52_800;

fn spec(dies: u32, channels: u32) -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.dies = dies;
    spec.geometry.channels = channels;
    spec
}

fn whole(data: &[u8]) -> PageProgram<'_> {
    PageProgram::new(Payload::Bytes(data), &[0xA5; 64])
}

#[test]
fn a_serial_chip_takes_the_sum_of_the_busy_times() {
    for (dies, channels, overlap) in [(1, 1, true), (4, 2, false)] {
        let mut spec = spec(dies, channels);
        spec.timing.overlap = overlap;
        spec.timing.command_ns = 300;
        spec.rules.copyback = CopybackReach::Device;
        let mut chip = ContentChip::new(&spec, 1).unwrap();
        let mut random = Random::new(3, "timing");
        let mut next_page = [0; 16];
        let (mut busy, mut context, mut expected) = (0, Context::default(), 0);
        for _ in 0..4000 {
            let block = random.below(16) as u32;
            let page = next_page[block as usize];
            // All operations are issued at time zero and queue.
            let (done, time) = match random.below(4) {
                _ if page == 64 => {
                    next_page[block as usize] = 0;
                    (chip.erase(&context, BlockIndex(block)).unwrap(), ERASE)
                }
                0 => {
                    let mut bytes = vec![0; random.below(2049) as usize];
                    let time = READ + bytes.len() as u64 * 25;
                    (chip.read(&context, PageAddress::new(block, 1), PageRead::bytes(0, &mut bytes)).unwrap(), time)
                }
                1 => {
                    next_page[block as usize] += 1;
                    let (from, to) = (PageAddress::new((block + 1) % 16, 0), PageAddress::new(block, page));
                    let done = chip.copyback().unwrap().copy(&context, from, to, Some(&[1; 16])).unwrap();
                    (done, READ + PROGRAM + 16 * 25)
                }
                _ => {
                    next_page[block as usize] += 1;
                    let done = chip.program(&context, PageAddress::new(block, page), whole(&[7; 2048])).unwrap();
                    (done, PROGRAM + PAGE_TRANSFER)
                }
            };
            assert_eq!(done.busy.0, time + 300);
            busy += done.busy.0;
            expected += time + 300;
            assert_eq!(done.completed.0, busy);
            context.cause = nandkit_units::Cause::Cleaning;
        }
        assert_eq!(busy, expected);
    }
}

#[test]
fn two_dies_on_one_channel_overlap_in_the_array_only() {
    let mut chip = ShadowChip::new(&spec(2, 1), 1).unwrap();
    let context = Context::default();
    let data = [1; 2048];
    // Blocks 0 and 1 lie on dies 0 and 1.
    let ends: Vec<u64> = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .map(|(block, page)| chip.program(&context, PageAddress::new(block, page), whole(&data)).unwrap().completed.0)
        .to_vec();
    let one = PAGE_TRANSFER + PROGRAM;
    assert_eq!(ends, [one, one + PAGE_TRANSFER, 2 * one, 2 * one + PAGE_TRANSFER]);
}

#[test]
fn two_channels_do_not_meet() {
    let mut chip = ShadowChip::new(&spec(2, 2), 1).unwrap();
    let context = Context::at(Nanos(5));
    for page in 0..10 {
        for block in 0..2 {
            let done = chip.program(&context, PageAddress::new(block, page), whole(&[1; 2048])).unwrap();
            assert_eq!(done.completed.0, 5 + u64::from(page + 1) * (PAGE_TRANSFER + PROGRAM));
        }
    }
}

#[test]
fn power_on_empties_the_schedule() {
    use nandkit_flash::Interrupt;
    let mut chip = ShadowChip::new(&spec(2, 1), 1).unwrap();
    for _ in 0..5 {
        chip.erase(&Context::default(), BlockIndex(0)).unwrap();
    }
    chip.power_on();
    assert_eq!(chip.erase(&Context::at(Nanos(10)), BlockIndex(0)).unwrap().completed.0, 10 + ERASE);
    assert_eq!(chip.erase_count(BlockIndex(0)), 6, "wear stays");
}
