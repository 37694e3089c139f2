//! Speed of the emulated chip: page programs, copies and erases per second.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_nand_sim::{ChipSpec, ContentChip, NandChip, ShadowChip, Store, presets};
use nandkit_units::{BlockIndex, Content, Context, Described, Description, Generator, PageAddress, Payload, ReadInto};

fn described(record: u64, length: u32) -> Payload<'static> {
    let description = Description { record, version: 1, offset: 0, generator: Generator::Record };
    Payload::Described(Described { description, length })
}

/// Fills the first `blocks` blocks in turn; each block is erased first.
fn program_blocks<S: Store>(chip: &mut NandChip<S>, blocks: u32, data: Payload<'_>) {
    let pages = chip.geometry().pages_per_block;
    let oob = [0x5A; 16];
    let mut context = Context::default();
    for block in 0..blocks {
        context.issued = chip.erase(&context, BlockIndex(block)).unwrap().completed;
        for page in 0..pages {
            let at = PageAddress::new(block, page);
            context.issued = chip.program(&context, at, PageProgram::new(data, &oob)).unwrap().completed;
        }
    }
}

/// Writes log blocks and merges them, as a block-mapped translation layer does: two operations per
/// page, a program and a copy.
fn merge_blocks(chip: &mut ShadowChip, blocks: u32) {
    let pages = chip.geometry().pages_per_block;
    let oob = [0x5A; 16];
    let mut context = Context::default();
    for block in 0..blocks / 2 {
        let (log, target) = (block * 2, block * 2 + 1);
        context.issued = chip.erase(&context, BlockIndex(log)).unwrap().completed;
        for page in 0..pages {
            let program = PageProgram::new(described(u64::from(page), 2048), &oob);
            context.issued = chip.program(&context, PageAddress::new(log, page), program).unwrap().completed;
        }
        context.issued = chip.erase(&context, BlockIndex(target)).unwrap().completed;
        let copyback = chip.copyback().unwrap();
        for page in 0..pages {
            let (from, to) = (PageAddress::new(log, page), PageAddress::new(target, page));
            context.issued = copyback.copy(&context, from, to, Some(&oob)).unwrap().completed;
        }
    }
}

fn shadow(criterion: &mut Criterion) {
    let spec = presets::load("k9l8g08u0m").unwrap();
    let mut group = criterion.benchmark_group("shadow");
    let pages = 1024 * 128;
    group.throughput(Throughput::Elements(pages));
    let mut chip = ShadowChip::new(&spec, 1).unwrap();
    group.bench_function("program+erase", |bencher| {
        bencher.iter(|| program_blocks(&mut chip, 1024, described(7, 2048)));
    });
    group.bench_function("program+copy+erase", |bencher| bencher.iter(|| merge_blocks(&mut chip, 1024)));
    group.throughput(Throughput::Elements(pages));
    group.bench_function("read description", |bencher| {
        let mut content = Content::new();
        let mut oob = [0; 16];
        bencher.iter(|| {
            for block in 0..1024 {
                for page in 0..128 {
                    let into = ReadInto::Content { content: &mut content, length: 2048 };
                    let read = PageRead { column: 0, data: into, oob: &mut oob };
                    black_box(chip.read(&Context::default(), PageAddress::new(block, page), read).unwrap());
                }
            }
        });
    });
    let slc = presets::load("slc-256m").unwrap();
    let mut chip = ShadowChip::new(&slc, 1).unwrap();
    group.throughput(Throughput::Elements(1024 * 64));
    group.bench_function("program+erase, partial programs allowed", |bencher| {
        bencher.iter(|| program_blocks(&mut chip, 1024, described(7, 2048)));
    });
    group.finish();
}

fn content(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("content");
    for (page_size, oob_size) in [(2048, 64), (16384, 1024)] {
        let mut spec = ChipSpec::default();
        spec.geometry.page_size = page_size;
        spec.geometry.oob_size = oob_size;
        spec.geometry.blocks = 4096;
        spec.rules.partial_programs = 1;
        let bytes: Vec<u8> = (0..page_size).map(|n| n as u8).collect();
        let blocks = (256 << 20) / page_size / 64;
        group.throughput(Throughput::Bytes(u64::from(blocks) * 64 * u64::from(page_size)));
        group.bench_function(format!("first program of fresh chip, {page_size}"), |bencher| {
            bencher.iter_batched(
                || ContentChip::new(&spec, 1).unwrap(),
                |mut chip| {
                    program_blocks(&mut chip, blocks, Payload::Bytes(&bytes));
                    chip
                },
                BatchSize::PerIteration,
            );
        });
        let mut chip = ContentChip::new(&spec, 1).unwrap();
        group.bench_function(format!("program+erase, {page_size}"), |bencher| {
            bencher.iter(|| program_blocks(&mut chip, blocks, Payload::Bytes(&bytes)));
        });
        group.bench_function(format!("read, {page_size}"), |bencher| {
            let mut into = vec![0; page_size as usize];
            bencher.iter(|| {
                for block in 0..blocks {
                    for page in 0..64 {
                        let at = PageAddress::new(block, page);
                        chip.read(&Context::default(), at, PageRead::bytes(0, &mut into)).unwrap();
                    }
                }
            });
        });
    }
    group.finish();
}

fn snapshot(criterion: &mut Criterion) {
    let mut spec = ChipSpec::default();
    spec.geometry.blocks = 256;
    let mut chip = ContentChip::new(&spec, 1).unwrap();
    program_blocks(&mut chip, 256, Payload::Bytes(&[1; 2048]));
    criterion.bench_function("snapshot of a full 32 MiB chip", |bencher| bencher.iter(|| black_box(chip.clone())));
    criterion.bench_function("snapshot, one erase and one program", |bencher| {
        bencher.iter(|| {
            let mut copy = chip.clone();
            copy.erase(&Context::default(), BlockIndex(3)).unwrap();
            copy.program(&Context::default(), PageAddress::new(3, 0), PageProgram::bytes(0, &[2; 2048])).unwrap();
            copy
        });
    });
}

criterion_group!(benches, shadow, content, snapshot);
criterion_main!(benches);
