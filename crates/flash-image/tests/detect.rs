//! What the length and the marks of an image alone tell about its layout. What the content adds is
//! tested in the crates that know formats (`stack`, `cli/tests/erase_size.rs`).

use crate::common::{jffs2_like, with_oob};
use nandkit_flash_image::detect::{by_layout, candidates};
use nandkit_flash_image::{ImageLayout, OobPlacement};
use nandkit_units::random::Random;

/// Block size, page, OOB.
const NAND: [(usize, usize, usize); 6] = [
    (16 << 10, 512, 16),
    (128 << 10, 2048, 64),
    (256 << 10, 2048, 128),
    (256 << 10, 4096, 128),
    (512 << 10, 4096, 224),
    (1 << 20, 8192, 640),
];

#[test]
fn planted_layouts_are_among_the_candidates_and_marks_tell_the_oob() {
    for (seed, (block_size, page, oob)) in NAND.into_iter().enumerate() {
        for big in [false, true] {
            let mut random = Random::new(seed as u64, "detect");
            let image = with_oob(&jffs2_like(block_size, 13, big, &mut random), page, oob, &mut random);
            let expected = ImageLayout::nand_oob(block_size as u32, page as u32, oob as u32);
            let all = candidates(&image);
            let planted =
                all.iter().find(|candidate| candidate.layout == expected).unwrap_or_else(|| panic!("{expected:?}"));
            assert!(planted.evidence.iter().any(|why| why.contains("bad-block mark")), "{:?}", planted.evidence);
            let best = &by_layout(&all)[0].layout;
            assert_eq!((best.page_size, best.oob_size), (expected.page_size, expected.oob_size), "{expected:?}");
        }
    }
}

#[test]
fn every_erase_size_without_oob_is_a_candidate_also_of_a_dump_that_ends_in_a_block() {
    for block_size in [4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10] {
        let mut image = jffs2_like(block_size, 13, false, &mut Random::new(1, "detect"));
        image.truncate(image.len() - 1000);
        let all = candidates(&image);
        assert!(all.iter().any(|candidate| candidate.layout == ImageLayout::nor(block_size as u32)), "{block_size}");
    }
}

#[test]
fn the_oob_shows_in_noise_and_none_is_found_where_none_is() {
    let mut random = Random::new(7, "noise");
    let mut noise = vec![0; 3 << 20];
    random.fill(&mut noise);
    for (block_size, page, oob) in
        [(16 << 10, 512, 16), (128 << 10, 2048, 64), (256 << 10, 4096, 224), (1 << 20, 8192, 640)]
    {
        let image = with_oob(&noise, page, oob, &mut random);
        let all = candidates(&image);
        let best = by_layout(&all)[0];
        let expected = ImageLayout::nand_oob(block_size, page as u32, oob as u32);
        assert_eq!(best.layout, expected, "{:?}", best.evidence);
    }
    assert_eq!(by_layout(&candidates(&noise))[0].layout.oob, OobPlacement::None);
    assert_eq!(candidates(&[0]), []);
}
