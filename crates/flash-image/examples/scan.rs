//! How fast a dump is read, and what is found in it: `cargo run --release -p nandkit-flash-image --example scan -- FILE [BLOCK_SIZE [PAGE OOB]]`.

use std::path::Path;
use std::time::Instant;

use nandkit_flash::{Flash, PageRead};
use nandkit_flash_image::{DumpOptions, Image, ImageLayout, detect, regions};
use nandkit_units::{BlockIndex, Context};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u32>().ok());
    let path = arguments.first().ok_or("expected: FILE [BLOCK_SIZE [PAGE OOB]]")?;
    let image = Image::open(Path::new(path), &DumpOptions::read_only())?;
    let gigabytes = image.bytes().len() as f64 / 1e9;

    let start = Instant::now();
    let candidates = detect::candidates(image.bytes());
    println!("{} candidates in {:?}; the best by themselves:", candidates.len(), start.elapsed());
    for candidate in detect::by_layout(&candidates).into_iter().take(3) {
        println!("  {:4} {}: {}", candidate.points, candidate.layout.describe(), candidate.evidence.join("; "));
    }
    let block_size = number(1).unwrap_or(128 << 10);
    let layout = match (number(2), number(3)) {
        (Some(page), Some(oob)) if oob > 0 => ImageLayout::nand_oob(block_size, page, oob),
        _ => ImageLayout::nor(block_size),
    };
    let device = image.view(layout)?;
    let geometry = *device.geometry();
    let mut page = vec![0; geometry.page_size.min(65_536) as usize];
    for round in ["first", "second"] {
        let start = Instant::now();
        let mut sum = 0u64;
        for block in (0..geometry.blocks).map(BlockIndex) {
            for at in (0..geometry.pages_per_block).map(|page| block.page(page)) {
                for column in (0..geometry.page_size).step_by(page.len()) {
                    device.read(&Context::default(), at, PageRead::bytes(column, &mut page))?;
                    sum += u64::from(page.first().copied().unwrap_or(0));
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{round} pass by Flash::read: {:.2} GB/s ({sum})", gigabytes / seconds);
    }
    let start = Instant::now();
    let zero_copy = (0..geometry.blocks).filter_map(|block| device.block_bytes(BlockIndex(block)));
    let words: u64 =
        zero_copy.flat_map(|bytes| bytes.as_chunks::<8>().0).fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    println!("block_bytes, every word looked at: {:.2} GB/s ({words})", gigabytes / start.elapsed().as_secs_f64());
    let start = Instant::now();
    let found = regions::regions(&device, &[], Vec::new());
    println!("{} regions in {:?}", found.len(), start.elapsed());
    for region in found.iter().take(20) {
        println!(
            "  {:#010x} {:#010x} {:12} {} ({})",
            region.offset, region.size, region.name, region.kind, region.source
        );
    }
    Ok(())
}
