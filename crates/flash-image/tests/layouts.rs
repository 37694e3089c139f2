//! Layout arithmetic against a dump written page by page in the order of its bytes.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_flash_image::{BadMarker, DumpFlash, Image, ImageLayout, OobPlacement};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, FlashKind, PageAddress, Payload, ReadInto};
use proptest::prelude::*;

/// Data and OOB of every page of a device.
type Pages = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

fn random_pages(layout: &ImageLayout, blocks: u32, random: &mut Random) -> Pages {
    let mut bytes = |length: u32| {
        let mut bytes = vec![0; length as usize];
        random.fill(&mut bytes);
        bytes
    };
    (0..blocks)
        .map(|block| {
            let left_out = layout.missing.contains(&block);
            let mut page = |length| if left_out { vec![0xFF; length as usize] } else { bytes(length) };
            let mut page = || (page(layout.page_size), page(layout.oob_size));
            (0..layout.block_size / layout.page_size).map(|_| page()).collect()
        })
        .collect()
}

/// The files that hold these pages, written from the first byte to the last.
fn files(layout: &ImageLayout, pages: &Pages, before: &[u8], after: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut image, mut spare) = (before.to_vec(), vec![0; layout.oob_offset as usize]);
    for (_, block) in pages.iter().enumerate().filter(|(index, _)| !layout.missing.contains(&(*index as u32))) {
        let mut behind = Vec::new();
        for (data, oob) in block {
            image.extend_from_slice(data);
            match layout.oob {
                OobPlacement::None => {}
                OobPlacement::AfterPage => image.extend_from_slice(oob),
                OobPlacement::AfterBlock => behind.extend_from_slice(oob),
                OobPlacement::Separate => spare.extend_from_slice(oob),
            }
        }
        image.extend_from_slice(&behind);
    }
    image.extend_from_slice(after);
    (image, (layout.oob == OobPlacement::Separate).then_some(spare))
}

fn read(device: &dyn Flash, at: PageAddress) -> (Vec<u8>, Vec<u8>) {
    let geometry = device.geometry();
    let (mut data, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
    let into = PageRead { column: 0, data: ReadInto::Bytes(&mut data), oob: &mut oob };
    device.read(&Context::default(), at, into).unwrap();
    (data, oob)
}

fn expect(device: &DumpFlash, pages: &Pages) {
    assert_eq!(device.geometry().blocks as usize, pages.len());
    for (block, expected) in pages.iter().enumerate() {
        for (page, expected) in expected.iter().enumerate() {
            let at = PageAddress::new(block as u32, page as u32);
            assert!(read(device, at) == *expected, "{at}");
            if let Some(bytes) = device.page_bytes(at) {
                assert_eq!(bytes, expected.0);
            }
        }
        let data: Vec<u8> = expected.iter().flat_map(|(data, _)| data).copied().collect();
        if let Some(bytes) = device.block_bytes(BlockIndex(block as u32)) {
            assert_eq!(bytes, data);
        }
        let mut found = vec![0; data.len() - 3];
        device.read_data(block as u64 * data.len() as u64 + 3, &mut found).unwrap();
        assert_eq!(found, data[3..]);
    }
}

fn layouts() -> impl Strategy<Value = (ImageLayout, u32)> {
    let placements = [OobPlacement::None, OobPlacement::AfterPage, OobPlacement::AfterBlock, OobPlacement::Separate];
    let pages = prop::sample::select(vec![512u32, 1024, 2048]);
    (prop::sample::select(placements.to_vec()), pages, 1u32..5, 1u32..200, 1u32..7, 0u64..700, any::<[bool; 7]>())
        .prop_map(|(oob, page_size, pages, oob_size, blocks, offset, left_out)| {
            let oob_size = if oob == OobPlacement::None { 0 } else { oob_size };
            let missing = (0..blocks).filter(|&block| left_out[block as usize] && left_out[6]).collect::<Vec<_>>();
            let oob_offset = if oob == OobPlacement::Separate { offset / 2 } else { 0 };
            let layout = ImageLayout {
                offset,
                oob_offset,
                missing,
                marker: BadMarker::Ignore,
                ..ImageLayout::new(FlashKind::Nand, page_size * pages, page_size, oob_size, oob)
            };
            (layout, blocks)
        })
        .prop_filter("a dump of nothing", |(layout, blocks)| layout.missing.len() < *blocks as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every page reads as it was written, as does every region of whole blocks, and changes give
    /// exactly the file that a dump of the changed flash would be.
    #[test]
    fn pages_are_where_the_dump_has_them((layout, blocks) in layouts(), seed in any::<u64>(), behind in 0usize..300) {
        let mut random = Random::new(seed, "layouts");
        let mut pages = random_pages(&layout, blocks, &mut random);
        let before = vec![0xA5; layout.offset as usize];
        let after = vec![0x5A; behind];
        let stored = (u64::from(blocks) - layout.missing.len() as u64) * layout.stored_block();
        let layout = ImageLayout { size: Some(stored), ..layout };
        let (image, spare) = files(&layout, &pages, &before, &after);
        let open = |layout: &ImageLayout| {
            DumpFlash::new(Image::from_bytes(image.clone(), spare.clone()).unwrap(), layout.clone()).unwrap()
        };
        let mut device = open(&layout);
        expect(&device, &pages);
        for block in 0..blocks {
            assert_eq!(device.is_bad(BlockIndex(block)), layout.missing.contains(&block));
        }

        let (first, count) = (random.below(u64::from(blocks)) as u32, 1 + random.below(u64::from(blocks)) as u32);
        let size = u64::from(layout.block_size);
        let region = layout.region(u64::from(first) * size, Some(u64::from(count) * size)).unwrap();
        let end = blocks.min(first + count);
        if (first..end).any(|block| !layout.missing.contains(&block)) {
            expect(&open(&region), &pages[first as usize..end as usize].to_vec());
        }

        for _ in 0..20 {
            let at = PageAddress::new(random.below(u64::from(blocks)) as u32, random.below(pages[0].len() as u64) as u32);
            if device.is_bad(at.block) {
                continue;
            }
            let block = &mut pages[at.block.index()];
            if random.chance(0.4) {
                device.erase(&Context::default(), at.block).unwrap();
                block.iter_mut().for_each(|(data, oob)| {
                    data.fill(0xFF);
                    oob.fill(0xFF);
                });
            } else if block[at.page as usize].0.iter().all(|&byte| byte == 0xFF) {
                let (data, oob) = &mut block[at.page as usize];
                random.fill(data);
                random.fill(oob);
                device.program(&Context::default(), at, PageProgram::new(Payload::Bytes(data), oob)).unwrap();
            }
            if random.chance(0.2) {
                device.sync(&Context::default()).unwrap();
            }
        }
        expect(&device, &pages);
        let expected = files(&layout, &pages, &before, &after);
        let mut found = device.into_bytes();
        if let (Some(found), Some(expected)) = (&mut found.1, &expected.1) {
            // The bytes before the region are not the device's.
            found[..layout.oob_offset as usize].copy_from_slice(&expected[..layout.oob_offset as usize]);
        }
        assert!(found == expected);
    }

    /// Any numbers give an error, or a device on which every page can be read.
    #[test]
    fn no_layout_panics(
        numbers in any::<[u32; 6]>(), shift in 0u32..32, offset in any::<u64>(), size in any::<Option<u64>>(),
        missing in prop::collection::vec(0u32..9, 0..3), place in 0usize..4, length in 1usize..5000,
    ) {
        let oob = [OobPlacement::None, OobPlacement::AfterPage, OobPlacement::AfterBlock, OobPlacement::Separate][place];
        let layout = ImageLayout {
            write_unit: numbers[3] >> shift,
            offset: offset >> (shift * 2),
            size,
            oob_offset: u64::from(numbers[4]),
            missing: missing.clone(),
            bad: missing,
            marker: match numbers[5] % 3 {
                0 => BadMarker::Byte { offset: numbers[5] >> shift, pages: numbers[4] },
                1 => BadMarker::Auto,
                _ => BadMarker::Ignore,
            },
            ..ImageLayout::new(if place == 0 { FlashKind::Nor } else { FlashKind::Nand }, numbers[0] >> shift, 512 << (numbers[1] % 8), numbers[2] >> shift, oob)
        };
        let _ = layout.region(offset, size);
        let _ = layout.describe();
        let spare = (oob == OobPlacement::Separate).then(|| vec![0; 100]);
        if let Ok(device) = DumpFlash::new(Image::from_bytes(vec![0; length], spare).unwrap(), layout) {
            let geometry = *device.geometry();
            for block in [0, geometry.blocks - 1] {
                read(&device, PageAddress::new(block, geometry.pages_per_block - 1));
            }
            device.info();
        }
    }
}

#[test]
fn what_an_incomplete_last_block_lacks_is_erased_and_said() {
    let layout = ImageLayout::nand_oob(4 * 512, 512, 16);
    let device = DumpFlash::from_bytes(vec![0; 4 * 528 + 600], layout).unwrap();
    let info = device.info();
    assert_eq!((info.tail_bytes, info.geometry.blocks), (600, 2));
    assert!(info.notes.iter().any(|note| note.contains("600 of 2112 bytes")), "{:?}", info.notes);
    let (data, oob) = read(&device, PageAddress::new(1, 1));
    assert!(data[..72] == [0; 72] && data[72..].iter().all(|&byte| byte == 0xFF) && oob == [0xFF; 16]);
    let short = DumpFlash::from_bytes(vec![7; 3], ImageLayout::nor(65_536)).unwrap();
    assert_eq!((short.geometry().blocks, short.info().tail_bytes), (1, 3));
}

#[test]
fn the_file_grows_to_a_whole_block_only_for_what_is_written_there() {
    let layout = ImageLayout { marker: BadMarker::Ignore, ..ImageLayout::nand_oob(4 * 512, 512, 16) };
    let open = |layout: &ImageLayout| DumpFlash::from_bytes(vec![0; 4 * 528 + 600], layout.clone()).unwrap();
    let context = Context::default();
    let mut device = open(&layout);
    device.erase(&context, BlockIndex(1)).unwrap();
    assert_eq!(device.into_bytes().0.len(), 4 * 528 + 600);
    let mut device = open(&layout);
    device.program(&context, PageAddress::new(1, 2), PageProgram::bytes(0, &[1; 512])).unwrap();
    device.sync(&context).unwrap();
    assert_eq!(device.info().tail_bytes, 0);
    let bytes = device.into_bytes().0;
    assert_eq!(bytes.len(), 8 * 528);
    assert!(bytes[4 * 528 + 600..6 * 528].iter().all(|&byte| byte == 0xFF) && bytes[6 * 528] == 1);
    let mut region = open(&ImageLayout { size: Some(4 * 528 + 600), ..layout });
    let refused = region.program(&context, PageAddress::new(1, 2), PageProgram::bytes(0, &[1; 512])).unwrap_err();
    assert_eq!(refused.kind, nandkit_flash::ErrorKind::ReadOnly);
    // NOR: the page is the block, and the part of it that exists can be changed.
    let nor = ImageLayout { size: Some(6000), ..ImageLayout::nor(4096) };
    let mut region = DumpFlash::from_bytes(vec![0xFF; 9000], nor).unwrap();
    region.program(&context, PageAddress::new(1, 0), PageProgram::bytes(1900, &[0; 4])).unwrap();
    assert!(region.program(&context, PageAddress::new(1, 0), PageProgram::bytes(1901, &[0; 4])).is_err());
    let bytes = region.into_bytes().0;
    assert!(bytes.len() == 9000 && bytes[5996..6000] == [0; 4] && bytes[6000] == 0xFF);
}

#[test]
fn marks_by_convention_of_the_page_size() {
    // (page size, OOB size, the marker byte, page, block is bad)
    let cases = [
        (2048u32, 64u32, 0usize, 0u32, true),
        (2048, 64, 0, 1, true),
        (2048, 64, 1, 0, false),
        (2048, 64, 0, 2, false),
        (512, 16, 5, 1, true),
        (512, 16, 0, 0, false),
    ];
    for (page_size, oob_size, byte, page, bad) in cases {
        let layout = ImageLayout::nand_oob(page_size * 8, page_size, oob_size);
        let stored = layout.stored_block() as usize;
        let mut image = vec![0xFF; 12 * stored];
        image[5 * stored + page as usize * layout.stored_page() as usize + page_size as usize + byte] = 0;
        let device = DumpFlash::from_bytes(image, layout.clone()).unwrap();
        assert_eq!(device.info().bad_blocks, if bad { vec![5] } else { vec![] }, "{page_size} byte {byte} page {page}");
    }
    // A byte that marks every block bad is not a mark.
    let layout = ImageLayout::nand_oob(8 * 2048, 2048, 64);
    let image = vec![0; 12 * layout.stored_block() as usize];
    let info = DumpFlash::from_bytes(image.clone(), layout.clone()).unwrap().info();
    assert!(info.bad_blocks.is_empty() && info.notes.iter().any(|note| note.contains("12 of 12 blocks")), "{info:?}");
    let asked = ImageLayout { marker: BadMarker::Byte { offset: 3, pages: 1 }, ..layout };
    assert_eq!(DumpFlash::from_bytes(image, asked).unwrap().info().bad_blocks.len(), 12);
}

#[test]
fn a_mark_is_kept_where_drivers_look_for_it() {
    let layout = ImageLayout::nand_oob(8 * 512, 512, 16);
    let mut device = DumpFlash::from_bytes(vec![0xFF; 12 * layout.stored_block() as usize], layout.clone()).unwrap();
    device.mark_bad(&Context::default(), BlockIndex(7)).unwrap();
    let bytes = device.into_bytes().0;
    assert_eq!(bytes[7 * layout.stored_block() as usize + 512 + 5], 0);
    assert_eq!(DumpFlash::from_bytes(bytes, layout).unwrap().info().bad_blocks, [7]);
}

#[test]
fn impossible_layouts_are_refused_with_what_would_be_right() {
    let good = ImageLayout::nand_oob(8 * 2048, 2048, 64);
    let cases = [
        (ImageLayout { oob_size: 0, ..good.clone() }, "at least one with a placement"),
        (ImageLayout { oob: OobPlacement::None, ..good.clone() }, "no OOB bytes without"),
        (ImageLayout { block_size: 3000, ..good.clone() }, "whole number of pages"),
        (ImageLayout { page_size: 0, ..good.clone() }, "whole number of pages"),
        (ImageLayout { offset: 1 << 40, ..good.clone() }, "within the image's 40000 bytes"),
        (ImageLayout { size: Some(0), ..good.clone() }, "at least a byte"),
        (ImageLayout { missing: vec![3, 1], ..good.clone() }, "ascending"),
        (ImageLayout { bad: vec![900], ..good.clone() }, "below 3"),
        (ImageLayout { page_size: 2112, block_size: 2112 * 8, ..good.clone() }, "power of two"),
        (ImageLayout { write_unit: 300, ..good.clone() }, "divisor of page_size"),
        (ImageLayout { marker: BadMarker::Byte { offset: 64, pages: 1 }, ..good.clone() }, "a byte below 64"),
        (ImageLayout { marker: BadMarker::Byte { offset: 0, pages: 0 }, ..good.clone() }, "at least one page"),
        (ImageLayout { oob: OobPlacement::Separate, ..good.clone() }, "needs that file"),
    ];
    for (layout, expected) in cases {
        let error = DumpFlash::from_bytes(vec![0; 40_000], layout).unwrap_err().to_string();
        assert!(error.contains(expected), "'{error}' lacks '{expected}'");
    }
    let far = ImageLayout::new(FlashKind::Nand, 1 << 31, 512, u32::MAX, OobPlacement::Separate);
    assert_eq!(far.region(1 << 62, None).unwrap().oob_offset, u64::MAX);
    assert!(good.region(100, None).unwrap_err().to_string().contains("multiple of the block size 16384"));
    assert!(DumpFlash::from_bytes(Vec::new(), good).unwrap_err().to_string().contains("empty"));
}
