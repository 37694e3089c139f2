//! Regions of dumps of whole devices, planted and hostile.

use crate::common::{jffs2_like, plain_crc, with_oob, zip_crc};
use nandkit_flash::Flash;
use nandkit_flash_image::regions::{Region, RegionSource, Signature, parse_mtdparts, regions, select};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout};
use nandkit_units::random::Random;
use proptest::prelude::*;

/// Recognizes a header as [`jffs2_like`] makes it.
fn node_signature(bytes: &[u8]) -> Option<Signature> {
    let (head, sum) = (bytes.get(..8)?, *bytes.get(8..12)?.first_chunk()?);
    let (kind, sum) = match head {
        [0x85, 0x19, ..] => ("JFFS2, little-endian", u32::from_le_bytes(sum)),
        [0x19, 0x85, ..] => ("JFFS2, big-endian", u32::from_be_bytes(sum)),
        _ => return None,
    };
    (plain_crc(0, head) == sum).then(|| Signature { is_blockwise: true, ..Signature::new("jffs2", kind, None) })
}

fn find(image: Vec<u8>) -> Vec<Region> {
    regions(&DumpFlash::from_bytes(image, ImageLayout::nor(65_536)).unwrap(), &[node_signature], Vec::new())
}

/// Offset, size and name of each region.
fn short(regions: &[Region]) -> Vec<(u64, u64, &str)> {
    regions.iter().map(|region| (region.offset, region.size, region.name.as_str())).collect()
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn table(image: &mut [u8], sector: usize, entries: &[(u8, u32, u32)]) {
    for (index, &(kind, first, sectors)) in entries.iter().enumerate() {
        let at = sector * 512 + 446 + index * 16;
        image[at + 4] = kind;
        put(image, at + 8, &first.to_le_bytes());
        put(image, at + 12, &sectors.to_le_bytes());
    }
    put(image, sector * 512 + 510, &[0x55, 0xAA]);
}

#[test]
fn primary_and_logical_partitions() {
    let mut image = vec![0; 1 << 20];
    table(&mut image, 0, &[(0x83, 100, 50), (0x0C, 8, 64), (0x05, 200, 1000), (0x83, 2000, 9999)]);
    table(&mut image, 200, &[(0x83, 10, 20), (0x05, 100, 100)]);
    table(&mut image, 300, &[(0x82, 5, 6), (0x05, 0, 100)]);
    let found = find(image.clone());
    let expected = [
        (8 * 512, 64 * 512, "mbr2"),
        (100 * 512, 50 * 512, "mbr1"),
        (210 * 512, 20 * 512, "mbr5"),
        (305 * 512, 6 * 512, "mbr6"),
        (2000 * 512, 48 * 512, "mbr4"),
    ];
    assert_eq!(short(&found), expected);
    assert!(found[4].notes[0].contains("the dump ends after 24576") && found[1].kind == "MBR type 0x83");
    assert_eq!(select(&found, "mbr6").unwrap().offset, 305 * 512);
    assert_eq!(select(&found, "2").unwrap().name, "mbr5");
    assert!(select(&found, "boot").unwrap_err().to_string().contains("expected 0 to 4 or one of mbr2, mbr1"));
    // The boot sector of a file system has the same signature.
    put(&mut image, 446, b"Non-system disk or disk error");
    assert_eq!(find(image), []);
}

fn gpt(sector: usize) -> Vec<u8> {
    let mut image = vec![0; 4 << 20];
    table(&mut image, 0, &[(0xEE, 1, u32::MAX)]);
    let mut entries = vec![0; 128 * 128];
    for (index, (first, last, name)) in
        [(300u64, 399u64, "rootfs"), (100, 199, "boot"), (400, 1 << 60, "")].into_iter().enumerate()
    {
        let at = index * 128;
        put(
            &mut entries,
            at,
            &[0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7],
        );
        put(&mut entries, at + 32, &first.to_le_bytes());
        put(&mut entries, at + 40, &last.to_le_bytes());
        name.encode_utf16()
            .enumerate()
            .for_each(|(unit, value)| put(&mut entries, at + 56 + 2 * unit, &value.to_le_bytes()));
    }
    put(&mut image, 2 * sector, &entries);
    let mut header = vec![0; 92];
    put(&mut header, 0, b"EFI PART\0\0\x01\0");
    put(&mut header, 12, &92u32.to_le_bytes());
    put(&mut header, 72, &2u64.to_le_bytes());
    put(&mut header, 80, &128u32.to_le_bytes());
    put(&mut header, 84, &128u32.to_le_bytes());
    put(&mut header, 88, &zip_crc(&entries).to_le_bytes());
    let crc = zip_crc(&header);
    put(&mut header, 16, &crc.to_le_bytes());
    put(&mut image, sector, &header);
    image
}

#[test]
fn guid_partition_tables_with_both_sector_sizes() {
    for sector in [512, 4096] {
        let found = find(gpt(sector));
        let size = sector as u64;
        assert_eq!(short(&found)[..2], [(100 * size, 100 * size, "boot"), (300 * size, 100 * size, "rootfs")]);
        assert_eq!((found[2].name.as_str(), found[2].offset + found[2].size), ("gpt3", 4 << 20));
        assert_eq!(found[0].kind, "GPT type ebd0a0a2-b9e5-4433-87c0-68b6b72699c7");
        let mut damaged = gpt(sector);
        damaged[2 * sector + 56] ^= 1;
        assert!(find(damaged).iter().all(|region| region.notes.iter().any(|note| note.contains("checksum"))));
        let mut broken = gpt(sector);
        broken[sector + 80] = 0xFF;
        assert!(find(broken).iter().all(|region| region.source != RegionSource::Gpt));
    }
}

/// Flash, offset, size, name.
type Part = (String, u64, Option<u64>, String);

#[test]
fn texts_of_mtd_partitions() {
    let part = |text: &str| -> Option<Vec<Part>> {
        let found = parse_mtdparts(text)?;
        Some(found.into_iter().map(|part| (part.mtd_id, part.offset, part.size, part.name)).collect())
    };
    let item = |id: &str, offset, size, name: &str| (id.to_owned(), offset, size, name.to_owned());
    assert_eq!(
        part("mtdparts=spi0.0:256k(u-boot)ro,64k(env),0x300000(kernel),-(rootfs) console=ttyS0").unwrap(),
        [
            item("spi0.0", 0, Some(256 << 10), "u-boot"),
            item("spi0.0", 256 << 10, Some(64 << 10), "env"),
            item("spi0.0", 320 << 10, Some(3 << 20), "kernel"),
            item("spi0.0", 3392 << 10, None, "rootfs"),
        ]
    );
    assert_eq!(
        part("mtdparts=a:b.nand:1M@2M(x),1M;nor:2m").unwrap(),
        [
            item("a:b.nand", 2 << 20, Some(1 << 20), "x"),
            item("a:b.nand", 3 << 20, Some(1 << 20), ""),
            item("nor", 0, Some(2 << 20), "")
        ]
    );
    for wrong in [
        "",
        "mtdparts=",
        "mtdparts=nand",
        "nand:",
        "nand:(x)",
        "nand:0(x)",
        "nand:1M(x",
        "nand:-(x),1M(y)",
        "nand:1Q",
        "nand:99999999999999999999",
        "nand:0xFFFFFFFFFFFFG(x)",
        "$mtdparts",
    ] {
        assert_eq!(part(wrong), None, "{wrong}");
    }
}

/// Each text is valid by itself; together they name more partitions than any flash has.
#[test]
fn many_texts_make_no_more_regions_than_a_flash_has() {
    let mut data = vec![0; 1 << 20];
    for text in 0..20 {
        put(&mut data, text << 15, format!("mtdparts=nand{text}:{}-", "1k,".repeat(200)).as_bytes());
    }
    let found = find(data);
    let in_texts = found.iter().filter(|region| matches!(region.source, RegionSource::MtdParts { .. })).count();
    assert_eq!(in_texts, 256);
}

/// A dump with a bootloader's environment at 128 KiB, and its partitions.
fn with_environment(flags: usize, big: bool) -> (Vec<u8>, Vec<u8>) {
    let mut random = Random::new(3, "regions");
    let mut image = vec![0xFF; 2 << 20];
    random.fill(&mut image[..100_000]);
    let mut environment = vec![0; 0x4000 - 4 - flags];
    put(
        &mut environment,
        0,
        b"baudrate=115200\0mtdids=nand0=nand\0mtdparts=mtdparts=nand:128k(u-boot),128k(env),1m(data),-(rest)\0",
    );
    let crc = zip_crc(&environment);
    put(&mut image, 128 << 10, &if big { crc.to_be_bytes() } else { crc.to_le_bytes() });
    put(&mut image, (128 << 10) + 4 + flags, &environment);
    let files = jffs2_like(16 << 10, 64, big, &mut random);
    put(&mut image, 256 << 10, &files);
    (image, files)
}

#[test]
fn partitions_of_an_environment_count_data_bytes() {
    for (flags, big) in [(0, false), (1, true)] {
        let (data, files) = with_environment(flags, big);
        let dump = with_oob(&data, 512, 16, &mut Random::new(4, "oob"));
        let layout = ImageLayout::nand_oob(16 << 10, 512, 16);
        let device = DumpFlash::from_bytes(dump.clone(), layout.clone()).unwrap();
        let found = regions(&device, &[node_signature], Vec::new());
        let parts: Vec<&Region> =
            found.iter().filter(|region| matches!(region.source, RegionSource::MtdParts { .. })).collect();
        let names: Vec<&str> = parts.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["u-boot", "env", "data", "rest"]);
        assert!(
            matches!(&parts[0].source, RegionSource::MtdParts { mtd_id, in_environment: true, .. } if mtd_id == "nand")
        );
        assert_eq!((parts[3].offset, parts[3].size), ((1 << 20) + (256 << 10), (2 << 20) - (1 << 20) - (256 << 10)));
        let data = select(&found, "data").unwrap();
        let region = layout.region(data.offset, Some(data.size)).unwrap();
        let device = DumpFlash::new(Image::from_bytes(dump, None).unwrap(), region).unwrap();
        assert_eq!(device.geometry().blocks, 64);
        let mut found = vec![0; files.len()];
        device.read_data(0, &mut found).unwrap();
        assert!(found == files);
    }
    // With a flipped bit it is still a text, but no environment.
    let (mut data, _) = with_environment(0, false);
    data[(128 << 10) + 4 + 300] ^= 1;
    let found = find(data);
    assert!(matches!(found[0].source, RegionSource::MtdParts { in_environment: false, .. }), "{found:?}");
}

/// Pieces of the formats that are recognized by their magic numbers.
fn magic_pieces(random: &mut Random) -> Vec<(&'static str, Vec<u8>)> {
    let mut block = |length: usize| {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        bytes
    };
    let mut squashfs = block(100_000);
    put(&mut squashfs, 0, b"hsqs");
    put(&mut squashfs, 12, &(1u32 << 17).to_le_bytes());
    put(&mut squashfs, 20, &4u16.to_le_bytes());
    put(&mut squashfs, 22, &17u16.to_le_bytes());
    put(&mut squashfs, 28, &4u16.to_le_bytes());
    put(&mut squashfs, 40, &99_000u64.to_le_bytes());
    // What is inside an image is its content, not a region.
    put(&mut squashfs, 51_200, &[0x1F, 0x8B, 8, 0]);
    let mut uimage = block(50_000);
    put(&mut uimage, 0, &[0x27, 0x05, 0x19, 0x56, 0, 0, 0, 0]);
    put(&mut uimage, 12, &(50_000u32 - 64).to_be_bytes());
    put(&mut uimage, 32, b"Linux-6.1\0");
    let crc = zip_crc(&uimage[..64]);
    put(&mut uimage, 4, &crc.to_be_bytes());
    let mut tree = block(70_000);
    for (field, value) in [0xD00D_FEED, 70_000, 56, 60_000, 40, 17, 16].into_iter().enumerate() {
        put(&mut tree, field * 4, &u32::to_be_bytes(value));
    }
    let mut cpio = vec![b'0'; 1000];
    put(&mut cpio, 0, b"070701");
    let mut ubi = vec![0xFF; 5 * 65_536];
    for counter in ubi.chunks_mut(65_536) {
        put(counter, 0, b"UBI#\x01\0\0\0");
        let crc = plain_crc(u32::MAX, &counter[..60]);
        put(counter, 60, &crc.to_be_bytes());
    }
    vec![("squashfs0", squashfs), ("uimage0", uimage), ("fdt0", tree), ("cpio0", cpio), ("ubi0", ubi)]
}

#[test]
fn formats_show_themselves() {
    let mut random = Random::new(5, "signatures");
    let mut pieces = magic_pieces(&mut random);
    pieces.push(("jffs2-0", jffs2_like(65_536, 12, true, &mut random)));
    let mut image = Vec::new();
    let mut starts = Vec::new();
    for (_, bytes) in &pieces {
        starts.push(image.len() as u64);
        image.extend_from_slice(bytes);
        image.resize(image.len().next_multiple_of(65_536), 0xFF);
    }
    let end = image.len() as u64;
    let found = find(image);
    assert_eq!(
        found.iter().map(|region| region.name.as_str()).collect::<Vec<_>>(),
        pieces.iter().map(|piece| piece.0).collect::<Vec<_>>()
    );
    assert_eq!(found.iter().map(|region| region.offset).collect::<Vec<_>>(), starts);
    let sizes: Vec<u64> = found.iter().map(|region| region.size).collect();
    assert_eq!(sizes[..3], [99_000, 50_000, 70_000]);
    assert_eq!((sizes[4], found[5].offset + sizes[5]), (5 * 65_536, end));
    assert!(found[0].kind.contains("xz") && found[1].kind.contains("Linux-6.1"), "{found:?}");
    assert!(found[4].kind.contains("blocks of 65536") && found[5].kind.contains("big-endian"), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_dumps_do_no_harm(seed in any::<u64>(), length in 1usize..20_000, places in prop::collection::vec((0usize..40, 0usize..9, any::<u64>()), 0..12)) {
        let mut random = Random::new(seed, "hostile");
        let mut pieces: Vec<Vec<u8>> = magic_pieces(&mut random).into_iter().map(|(_, bytes)| bytes).collect();
        pieces.extend([gpt(512)[512..1536].to_vec(), gpt(512)[..512].to_vec(), b"mtdparts=a:1M@0xFFFFFFFFFFFFFFFF(x),-(y)".to_vec(), b"mtdparts=a:-@5".to_vec()]);
        let mut image = vec![if seed % 2 == 0 { 0 } else { 0xFF }; length];
        for (sector, piece, damage) in places {
            let at = (sector * 512).min(length);
            let piece = &pieces[piece];
            let part = piece.len().min(length - at).min(1024);
            image[at..at + part].copy_from_slice(&piece[..part]);
            if part > 0 {
                image[at + damage as usize % part] ^= (damage >> 32) as u8;
            }
        }
        for layout in [ImageLayout::nor(4096), ImageLayout::nand_oob(4096, 512, 16)] {
            let device = DumpFlash::from_bytes(image.clone(), layout).unwrap();
            let capacity = device.geometry().capacity();
            for region in regions(&device, &[node_signature], Vec::new()) {
                prop_assert!(region.size > 0 && region.offset + region.size <= capacity, "{region:?}");
                let _ = device.layout().region(region.offset, Some(region.size));
            }
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "(mtdparts=)?[a-z:;,0-9xKMG@()\\-]{0,60}") {
        if let Some(parts) = parse_mtdparts(&text) {
            prop_assert!(!parts.is_empty());
        }
    }
}

/// Found by the fuzz target `flash-image-layout`: more missing blocks than there are before the
/// region's end.
#[test]
fn a_block_that_is_missing_twice_is_refused_and_not_an_overflow() {
    let layout = ImageLayout { missing: vec![0, 0, 1], ..ImageLayout::nand_oob(4096, 512, 16) };
    let region = layout.region(0, Some(8192)).unwrap();
    assert!(DumpFlash::from_bytes(vec![0xFF; 2 * 8 * 528], region).is_err());
}
