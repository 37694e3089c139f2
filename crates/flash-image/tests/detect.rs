//! Planted images are found with the layout by which they were made.

mod common;

use common::{jffs2_like, node_header, with_oob};
use nandkit_flash::{Flash, PageRead};
use nandkit_flash_image::detect::{self, ByteOrder, Match, Score, Scorer, sample_blocks};
use nandkit_flash_image::{Image, ImageLayout, OobPlacement};
use nandkit_units::Context;
use nandkit_units::random::Random;

/// Looks for node headers at the starts of blocks.
struct Nodes;

impl Scorer for Nodes {
    fn name(&self) -> &'static str {
        "nodes"
    }

    fn score(&self, device: &dyn Flash, layout: &ImageLayout) -> Score {
        let (mut little, mut big, mut other) = (0, 0, 0);
        for block in sample_blocks(device.geometry(), 64) {
            let mut head = [0; 12];
            device.read(&Context::default(), block.page(0), PageRead::bytes(0, &mut head)).unwrap();
            let length: [u8; 4] = head[4..8].try_into().unwrap();
            match head {
                [0xFF, ..] => {}
                _ if head == node_header(0xE002, u32::from_le_bytes(length), false) => little += 1,
                _ if head == node_header(0xE002, u32::from_be_bytes(length), true) => big += 1,
                _ => other += 1,
            }
        }
        let found = u32::max(little, big);
        if found == 0 {
            return Score::default();
        }
        // Of two block sizes that both fit the smaller one is right: nodes do not cross blocks.
        let size = layout.block_size.ilog2() * 5;
        Score {
            points: (1000 * found / (little + big + other)).saturating_sub(size),
            evidence: vec![format!("nodes at {found} of {} block starts", little + big + other)],
            byte_order: Some(if big > little { ByteOrder::Big } else { ByteOrder::Little }),
            ..Score::default()
        }
    }
}

fn detect(image: Vec<u8>) -> Vec<Match> {
    let image = Image::from_bytes(image, None).unwrap();
    detect::score(&image, &detect::candidates(image.bytes()), &[&Nodes])
}

#[test]
fn planted_images_are_found_with_their_layout() {
    // (block size, page, OOB)
    let cases = [
        (4 << 10, 0, 0),
        (16 << 10, 0, 0),
        (64 << 10, 0, 0),
        (128 << 10, 0, 0),
        (256 << 10, 0, 0),
        (16 << 10, 512, 16),
        (128 << 10, 2048, 64),
        (256 << 10, 2048, 128),
        (256 << 10, 4096, 128),
        (512 << 10, 4096, 224),
    ];
    for (seed, (block_size, page, oob)) in cases.into_iter().enumerate() {
        for big in [false, true] {
            let mut random = Random::new(seed as u64, "detect");
            let mut image = jffs2_like(block_size, 13, big, &mut random);
            if oob > 0 {
                image = with_oob(&image, page, oob, &mut random);
            }
            // A dump may end in the middle of a block.
            image.truncate(image.len() - 1000 * (seed % 2));
            let matches = detect(image);
            let best = matches.first().unwrap_or_else(|| panic!("nothing found: {block_size} {page}+{oob}"));
            let found = (best.layout.block_size as usize, best.layout.oob_size as usize, best.score.byte_order);
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            assert_eq!(found, (block_size, oob, Some(order)), "{matches:?}");
            assert_eq!(best.layout.oob != OobPlacement::None, oob > 0);
            assert!(oob == 0 || best.layout.page_size as usize == page);
            assert!(best.why.iter().any(|why| why.starts_with("nodes at")), "{:?}", best.why);
            if oob > 0 {
                assert!(best.why.iter().any(|why| why.contains("bad-block mark")), "{:?}", best.why);
            }
        }
    }
}

#[test]
fn nothing_is_found_in_noise_and_the_oob_shows_without_any_format() {
    let mut random = Random::new(7, "noise");
    let mut noise = vec![0; 3 << 20];
    random.fill(&mut noise);
    assert_eq!(detect(noise.clone()), []);
    assert_eq!(detect(vec![0xFF; 1 << 20]), []);
    assert_eq!(detect(vec![0]), []);
    for (page, oob, block) in [(512, 16, 16 << 10), (2048, 64, 128 << 10), (4096, 224, 256 << 10), (8192, 640, 1 << 20)]
    {
        let image = with_oob(&noise, page, oob, &mut random);
        let candidates = detect::candidates(&image);
        let best = detect::by_layout(&candidates)[0];
        let expected = ImageLayout::nand_oob(block, page as u32, oob as u32);
        assert_eq!(best.layout, expected, "{:?}", best.evidence);
    }
    let candidates = detect::candidates(&noise);
    assert_eq!(detect::by_layout(&candidates)[0].layout.oob, OobPlacement::None);
}
