//! An empty terabyte costs hardly any memory, whatever the shape of its blocks. A process of its
//! own, as the test reads the resident size.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_nand_sim::{AddressStore, ChipSpec, ContentStore, DescribedStore, NandChip, ShadowStore, Store};
use nandkit_units::{Context, Nanos, PageAddress, Payload};

/// Resident bytes of this process: the second field of /proc/self/statm, in pages of 4 KiB.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn spec(page_size: u32, pages_per_block: u32) -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.page_size = page_size;
    spec.geometry.oob_size = page_size / 32;
    spec.geometry.pages_per_block = pages_per_block;
    spec.geometry.blocks = ((1u64 << 40) / u64::from(page_size) / u64::from(pages_per_block)) as u32;
    spec.geometry.dies = 8;
    spec.geometry.channels = 4;
    spec.bad_blocks.enabled = true;
    spec.bad_blocks.factory_max = spec.geometry.blocks / 50;
    spec.failures.enabled = true;
    spec.bit_errors.enabled = true;
    spec
}

fn empty_terabyte<S: Store>(page_size: u32, pages_per_block: u32) {
    let before = resident_bytes();
    let mut chip = NandChip::<S>::new(&spec(page_size, pages_per_block), 1).unwrap();
    assert_eq!(chip.geometry().capacity(), 1 << 40);
    // Used a little, far apart.
    let data = vec![0x11; page_size as usize];
    let last = chip.geometry().blocks - 1;
    for block in (0..=last)
        .step_by(last as usize / 16)
        .filter(|block| !chip.is_bad(nandkit_units::BlockIndex(*block)))
        .collect::<Vec<_>>()
    {
        let at = PageAddress::new(block, 0);
        chip.program(&Context::default(), at, PageProgram::new(Payload::Bytes(&data), &[1; 16])).unwrap();
        let done = chip.read(&Context::at(Nanos(7)), at, PageRead::oob(&mut [0; 16])).unwrap();
        assert!(done.completed > Nanos(7));
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{:?}, pages of {page_size}, {pages_per_block} per block: {} KiB resident", S::KIND, grown >> 10);
    assert!(grown < 16 << 20, "an empty terabyte takes {} KiB", grown >> 10);
}

/// Page size and pages per block: blocks of 128 KiB to 16 MiB.
const SHAPES: [(u32, u32); 5] = [(2048, 64), (512, 256), (4096, 128), (8192, 256), (16384, 1024)];
const STORES: [&str; 4] = ["shadow", "described", "content", "address"];
const CASE: &str = "NANDKIT_MEMORY_CASE";

fn run(case: &str) {
    let (page_size, pages_per_block) = SHAPES[case[1..].parse::<usize>().unwrap()];
    match &case[..1] {
        "s" => empty_terabyte::<ShadowStore>(page_size, pages_per_block),
        "a" => empty_terabyte::<AddressStore>(page_size, pages_per_block),
        "d" => empty_terabyte::<DescribedStore>(page_size, pages_per_block),
        _ => empty_terabyte::<ContentStore>(page_size, pages_per_block),
    }
}

/// Runs itself once per case, since memory that an earlier chip returned to the allocator but not
/// to the system would distort the figure.
fn main() {
    if let Ok(case) = std::env::var(CASE) {
        return run(&case);
    }
    let this = std::env::current_exe().unwrap();
    for case in STORES.iter().flat_map(|store| (0..SHAPES.len()).map(move |shape| format!("{}{shape}", &store[..1]))) {
        let status = std::process::Command::new(&this).env(CASE, &case).status().unwrap();
        assert!(status.success(), "case {case} takes too much");
    }
}
