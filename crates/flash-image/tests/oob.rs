//! Layouts of OOB and ECC: against encoders that lay out pages as the sources describe, bit by bit
//! or byte by byte; errors in every code word; detection of a dump's layout; dumps read and
//! written.

use std::sync::Arc;

use nandkit_codec::ecc::{Bch, Correction, Hamming, HammingOrder};
use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_flash_image::oob::{self, CodewordState, OobLayout};
use nandkit_flash_image::{DumpFlash, ImageLayout, OobPlacement};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, PageAddress};

fn bytes(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.reverse_bits()).collect()
}

/// The parity of bits stored with the lowest bit first, in the same order.
fn low_first(code: &Bch, message: &[u8]) -> Vec<u8> {
    reversed(&code.encode(&reversed(message)))
}

/// The parity as Linux's `nand_bch` writes it: that of erased data is erased.
fn linux(code: &Bch, message: &[u8]) -> Vec<u8> {
    let erased = code.encode(&vec![0xFF; message.len()]);
    code.encode(message).iter().zip(erased).map(|(byte, erased)| byte ^ erased ^ 0xFF).collect()
}

/// A page with erased free bytes, as Linux's software codes write it.
fn linux_page(data: &[u8], oob_size: usize, step: usize, first: usize, ecc: &dyn Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut oob = vec![0xFF; oob_size];
    let made: Vec<u8> = data.chunks(step).flat_map(ecc).collect();
    oob[first..first + made.len()].copy_from_slice(&made);
    [data, &oob].concat()
}

/// Qualcomm's page, chunk by chunk, as qcom-nandc-pagify makes it.
fn qcom_page(data: &[u8], oob_size: usize, chunk: usize, code: &Bch) -> Vec<u8> {
    let mut page = Vec::new();
    for part in data.chunks(516) {
        let mut part = part.to_vec();
        part.resize(516, 0xFF);
        let begins = page.len();
        page.extend_from_slice(&part[..2048 % chunk]);
        page.push(0xFF);
        page.extend_from_slice(&part[2048 % chunk..]);
        page.extend(code.encode(&part));
        page.resize(begins + chunk, 0xFF);
    }
    page.resize(data.len() + oob_size, 0xFF);
    page
}

/// i.MX's page as a string of bits. Before the controller gets it, Linux exchanges the data byte at
/// the position of the mark with the first metadata byte.
fn gpmi_page(data: &[u8], oob_size: usize, code: &Bch) -> Vec<u8> {
    let (chunks, parity) = (data.len() / 512, code.parity_bits());
    let bits = |bytes: &[u8], count: usize| -> Vec<bool> {
        (0..count).map(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1).collect()
    };
    let packed = |bits: &[bool]| -> Vec<u8> {
        bits.chunks(8).map(|byte| (0..).zip(byte).map(|(bit, set)| u8::from(*set) << bit).sum()).collect()
    };
    // The number of bits before the mark that are not data: metadata and the parities of all chunks
    // but the last.
    let place = data.len() * 8 - 80 - (chunks - 1) * parity;
    let mut payload = bits(data, data.len() * 8);
    let mut metadata = vec![true; 80];
    for bit in 0..8 {
        metadata[bit] = payload[place + bit];
        payload[place + bit] = true;
    }
    let mut page = Vec::new();
    for (number, chunk) in payload.chunks(4096).enumerate() {
        let mut message = if number == 0 { metadata.clone() } else { Vec::new() };
        message.extend_from_slice(chunk);
        page.extend_from_slice(&message);
        page.extend(bits(&low_first(code, &packed(&message)), parity));
    }
    page.resize((data.len() + oob_size) * 8, true);
    packed(&page)
}

/// A page of this layout, made by an independent encoder, with erased free bytes.
fn made(name: &str, data: &[u8]) -> Vec<u8> {
    let bch = |bits, t, polynomial| Bch::new(bits, t, polynomial).unwrap();
    let hamming = Hamming::new(256, HammingOrder::Linux).unwrap();
    let hamming = |step: &[u8]| hamming.encode(step).to_vec();
    let (bch4, bch8) = (bch(13, 4, None), bch(13, 8, None));
    let halves: Vec<[u8; 3]> = data.chunks(256).map(|half| hamming(half).try_into().unwrap()).collect();
    match name {
        "linux-hamming-512-16" => {
            let ([a, b, c], [d, e, f]) = (halves[0], halves[1]);
            [data, &[a, b, c, d, 0xFF, 0xFF, e, f], &[0xFF; 8]].concat()
        }
        "smartmedia-512-16" => {
            let ([b, a, c], [e, d, f]) = (halves[0], halves[1]);
            [data, &[0xFF; 8], &[d, e, f, 0xFF, 0xFF, a, b, c]].concat()
        }
        "linux-hamming-2048-64" => linux_page(data, 64, 256, 40, &hamming),
        "linux-hamming-4096-128" => linux_page(data, 128, 256, 80, &hamming),
        "linux-bch4-2048-64" => linux_page(data, 64, 512, 64 - 28, &|step| linux(&bch4, step)),
        "linux-bch8-2048-64" => linux_page(data, 64, 512, 64 - 52, &|step| linux(&bch8, step)),
        "linux-bch8-4096-224" => linux_page(data, 224, 512, 224 - 104, &|step| linux(&bch8, step)),
        "omap-bch8-2048-64" => {
            // The constant in the driver, not the one that follows from an erased step.
            let constant = [0xEF, 0x51, 0x2E, 0x09, 0xED, 0x93, 0x9A, 0xC2, 0x97, 0x79, 0xE5, 0x24, 0xB5];
            linux_page(data, 64, 512, 2, &|step| {
                bch8.encode(step).iter().zip(constant).map(|(byte, constant)| byte ^ constant).chain([0xFF]).collect()
            })
        }
        "gpmi-bch8-2048-64" => gpmi_page(data, 64, &bch8),
        "gpmi-bch16-4096-224" => gpmi_page(data, 224, &bch(13, 16, None)),
        "gpmi-bch18-4096-256" => gpmi_page(data, 256, &bch(13, 18, None)),
        "qcom-bch4-2048-64" => qcom_page(data, 64, 528, &bch4),
        "qcom-bch8-2048-128" => qcom_page(data, 128, 532, &bch8),
        "brcm-bch4-2048-64" => {
            let code = bch(14, 4, Some(0x5803));
            let part = |step: &[u8]| [&[0xFF; 9][..], &code.encode(&[step, &[0xFF; 9]].concat())].concat();
            let oob: Vec<u8> = data.chunks(512).flat_map(part).collect();
            [data, &oob].concat()
        }
        "marvell-bch16-2048-64" => {
            // Halves of bytes, the low one first.
            let halves = |bytes: &[u8]| bytes.iter().map(|byte| byte.rotate_left(4)).collect::<Vec<_>>();
            let message = [data, &[0xFF; 32]].concat();
            let ecc = halves(&bch(15, 16, Some(0x8003)).encode(&halves(&message)));
            [&message, &ecc[..], &[0xFF; 2]].concat()
        }
        "sunxi-bch16-2048-64" => {
            let code = bch(14, 16, Some(0x5803));
            let part = |step: &[u8]| [&[0xFF; 4][..], &low_first(&code, &[step, &[0xFF; 4]].concat())].concat();
            let oob: Vec<u8> = data.chunks(1024).flat_map(part).collect();
            [data, &oob].concat()
        }
        "mtk-bch12-4096-256" | "mtk-bch32-4096-256" => {
            let (step, code) =
                if name.contains("12") { (512, bch(13, 12, None)) } else { (1024, bch(14, 32, Some(0x4443))) };
            let chunk = |step: &[u8]| {
                let chunk = [step, &[0xFF; 8]].concat();
                [&chunk[..], &low_first(&code, &chunk)].concat()
            };
            let mut page: Vec<u8> = data.chunks(step).flat_map(chunk).collect();
            page.resize(4096 + 256, 0xFF);
            page
        }
        other => panic!("no encoder is written for {other}"),
    }
}

fn flip(page: &mut [u8], bit: usize) {
    page[bit / 8] ^= 1 << (bit % 8);
}

/// Pages that Armada's controller wrote: of zeroes and of 0xFF (devjoseph-me/unknown-bch), and an
/// erase counter header of UBI, of which the first 16 bytes of the ECC are published
/// (MarvellEmbeddedProcessors/u-boot-marvell issue 25).
#[test]
fn marvells_hardware_writes_the_same_pages() {
    let mut ubi = vec![0; 2048];
    ubi[..5].copy_from_slice(b"UBI#\x01");
    for (at, byte) in [(15, 1), (18, 8), (22, 16), (60, 0x7F), (61, 0x58), (62, 0x53), (63, 0x19)] {
        ubi[at] = byte;
    }
    let layout = oob::named("marvell-bch16-2048-64").unwrap();
    for (data, expected) in [
        (vec![0; 2048], "eeabf96263a3cb9e09d538f44b4ada0e6466b2666aba9fec1aae3aaae72a"),
        (vec![0xFF; 2048], "7b3201d7636f38f1c784a1ab8dbe3f7184827199089fac7b52abefa31ef3"),
        (ubi, "3a4959224364b8358e8daff4d4027ed1"),
    ] {
        // A page of only 0xFF stays erased here; the independent encoder is compared with what the
        // hardware wrote.
        let page = match nandkit_units::is_erased(&data) {
            true => made(layout.name(), &data),
            false => layout.encode_page(&data, &[0xFF; 64], &[0xFF; 2112]),
        };
        let ecc: String = page[2080..2110].iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(ecc.starts_with(expected), "{ecc} is not {expected}");
    }
}

#[test]
fn every_layout_writes_what_its_sources_say_and_reads_it_back() {
    let mut random = Random::new(1, "layouts");
    for layout in oob::all() {
        let (page, spare) = (layout.page_size() as usize, layout.oob_size() as usize);
        let blank = vec![0xFF; page + spare];
        let mut half = bytes(page, &mut random);
        half[page / 2..].fill(0xFF);
        for data in [bytes(page, &mut random), vec![0; page], half] {
            let raw = layout.encode_page(&data, &vec![0xFF; spare], &blank);
            assert!(raw == made(layout.name(), &data), "{}", layout.name());
            let read = layout.decode(&raw);
            assert!(read.data == data && nandkit_units::is_erased(&read.oob), "{}", layout.name());
            assert!(read.codewords.iter().all(|state| state.bits() == Some(0)), "{}", layout.name());
        }
        // A page without programmed bytes is erased on the flash, also with some fallen bits.
        assert!(layout.encode_page(&blank[..page], &blank[page..], &blank) == blank);
        let mut fallen = blank.clone();
        flip(&mut fallen, 77);
        flip(&mut fallen, page * 4);
        let read = layout.decode(&fallen);
        assert!(nandkit_units::is_erased(&read.data), "{}", layout.name());
        let erased: u32 = read.codewords.iter().map(|state| matches!(state, CodewordState::Erased(_)) as u32).sum();
        assert_eq!(erased as usize, layout.codewords(), "{}", layout.name());
    }
}

/// The free bytes of the OOB are returned, also without data, and the mark is where it is looked
/// for.
#[test]
fn free_bytes_and_marks_are_kept() {
    let mut random = Random::new(2, "layouts");
    for layout in oob::all() {
        let (page, spare) = (layout.page_size() as usize, layout.oob_size() as usize);
        let blank = vec![0xFF; page + spare];
        let mut free = vec![0xFF; spare];
        for (byte, into) in free.iter_mut().enumerate().filter(|(byte, _)| layout.keeps_oob(*byte)) {
            *into = byte as u8 ^ 0x5A;
        }
        let name = layout.name();
        assert!(free.iter().filter(|byte| **byte != 0xFF).count() >= 6, "{name}");
        for data in [bytes(page, &mut random), vec![0xFF; page]] {
            let raw = layout.encode_page(&data, &free, &blank);
            let read = layout.decode(&raw);
            assert!((&read.data, &read.oob) == (&data, &free), "{name}");
            let mark = if page == 512 { 5 } else { 0 };
            if !name.starts_with("mtk") {
                assert_eq!(raw[page + mark], free[mark], "{name}");
            }
        }
    }
}

#[test]
fn as_many_errors_as_the_code_says_are_corrected_and_one_more_is_told() {
    let mut random = Random::new(3, "layouts");
    for layout in oob::all() {
        let (page, spare) = (layout.page_size() as usize, layout.oob_size() as usize);
        let data = bytes(page, &mut random);
        let raw = layout.encode_page(&data, &vec![0xFF; spare], &vec![0xFF; page + spare]);
        for codeword in 0..layout.codewords() {
            let covered = layout.covered(codeword);
            let mut bits: Vec<usize> =
                covered.iter().flat_map(|range| range.start * 8 + 8..range.end * 8 - 8).collect();
            let mut drawn: Vec<usize> = Vec::new();
            for _ in 0..=layout.correctable() {
                drawn.push(bits.swap_remove(random.index(bits.len())));
            }
            // The position of a data bit on the flash, found by the change of the raw page.
            let stored = |bit: usize| {
                let mut changed = data.clone();
                flip(&mut changed, bit);
                let other = layout.encode_page(&changed, &vec![0xFF; spare], &vec![0xFF; page + spare]);
                let differs = (0..(page + spare) * 8).filter(|at| (raw[at / 8] ^ other[at / 8]) >> (at % 8) & 1 == 1);
                // The nearest changed bit is the data bit: the ECC follows its data, on an
                // interleaved page as on all others.
                differs.min_by_key(|at| at.abs_diff(bit)).unwrap()
            };
            let places: Vec<usize> = drawn.iter().map(|bit| stored(*bit)).collect();
            let mut bad = raw.clone();
            places[1..].iter().for_each(|place| flip(&mut bad, *place));
            let read = layout.decode(&bad);
            assert!(read.data == data, "{} code word {codeword}", layout.name());
            assert_eq!(
                read.codewords[codeword],
                CodewordState::Programmed(Correction::Corrected(layout.correctable())),
                "{}",
                layout.name()
            );
            flip(&mut bad, places[0]);
            let told = layout.decode(&bad).codewords[codeword];
            // One of hundreds of words with too many errors for a code of 4 bits looks like another
            // word; none of these does.
            assert_eq!(told, CodewordState::Programmed(Correction::Uncorrectable), "{} {codeword}", layout.name());
        }
    }
}

#[test]
fn a_dump_shows_its_layout_and_noise_shows_none() {
    let mut random = Random::new(4, "layouts");
    for layout in oob::all() {
        let (page, spare) = (layout.page_size() as usize, layout.oob_size() as usize);
        let mut dump = vec![0xFF; (page + spare) * 24];
        for raw in dump.chunks_mut(page + spare).take(9) {
            raw.copy_from_slice(&made(layout.name(), &bytes(page, &mut random)));
            flip(raw, random.index(page * 8));
        }
        let found = oob::find(&dump, 0, oob::all()).unwrap_or_else(|| panic!("{} is not found", layout.name()));
        assert_eq!(found.layout.name(), layout.name());
        assert!(found.right >= found.tried * 9 / 10);
    }
    let noise = bytes((2048 + 64) * 96, &mut random);
    assert_eq!(oob::find(&noise, 0, oob::all()), None);
    let mut plain = vec![0; (2048 + 64) * 96];
    assert_eq!(oob::find(&plain, 0, oob::all()), None);
    plain[40_000..].fill(0xFF);
    assert_eq!(oob::find(&plain, 0, oob::all()), None);
    assert_eq!(oob::find(&[], 0, oob::all()), None);
    // Data of even parities, a counter, with an erased OOB, which a Hamming code accepts as
    // correct.
    let even: Vec<u8> = (0..(2048 + 64) * 96_u32)
        .map(|at| if at % 2112 < 2048 { (at % 2112).wrapping_mul(2_654_435_761).to_le_bytes()[2] } else { 0xFF })
        .collect();
    assert_eq!(oob::find(&even, 0, oob::all()), None);
}

/// A block marked bad with more pages of noise than are tried.
#[test]
fn a_bad_block_of_noise_hides_no_layout() {
    let mut random = Random::new(5, "layouts");
    let (layout, stored) = ("linux-bch8-2048-64", 2048 + 64);
    let mut dump = vec![0xFF; stored * 128];
    for raw in dump.chunks_mut(stored).take(64) {
        raw.copy_from_slice(&bytes(stored, &mut random));
    }
    dump[2048] = 0;
    for raw in dump.chunks_mut(stored).skip(64).take(3) {
        raw.copy_from_slice(&made(layout, &bytes(2048, &mut random)));
    }
    assert_eq!(oob::find(&dump, 0, oob::all()).map(|found| found.layout.name().to_owned()).as_deref(), Some(layout));
    // Without the mark nothing tells that the noise is not part of the dump.
    dump[2048] = 0xFF;
    assert_eq!(oob::find(&dump, 0, oob::all()), None);
}

const BLOCK: u32 = 128 << 10;

fn with_ecc(name: &str) -> ImageLayout {
    let layout = oob::named(name).unwrap();
    let (page, spare) = (layout.page_size(), layout.oob_size());
    ImageLayout { ecc: Some(layout), ..ImageLayout::nand_oob(BLOCK, page, spare) }
}

fn page_of(device: &DumpFlash, at: PageAddress) -> (Vec<u8>, Result<u16, ErrorKind>) {
    let mut data = vec![0; device.geometry().page_size as usize];
    let read = device.read(&Context::default(), at, PageRead::bytes(0, &mut data));
    let read = read.map(|done| done.corrected_bits).map_err(|error| error.kind);
    (data, read)
}

/// What is programmed through the device is on the flash with its ECC. What is not programmed stays
/// as it is, errors included.
#[test]
fn a_device_reads_corrected_and_writes_ecc() {
    let mut random = Random::new(5, "layouts");
    for name in ["linux-bch4-2048-64", "qcom-bch8-2048-128", "gpmi-bch8-2048-64", "linux-hamming-2048-64"] {
        let layout = with_ecc(name);
        let stored = layout.stored_page() as usize;
        let pages: Vec<Vec<u8>> = (0..64).map(|_| bytes(2048, &mut random)).collect();
        let mut dump: Vec<u8> = pages.iter().flat_map(|page| made(name, page)).collect();
        dump.resize(layout.stored_block() as usize * 3, 0xFF);
        // One wrong bit on page 1; on page 2, in its first bytes, more than any code corrects.
        flip(&mut dump, stored * 8 + 100);
        (0..40).for_each(|bit| flip(&mut dump, stored * 16 + 3 * bit));
        let before = dump.clone();
        let mut device = DumpFlash::from_bytes(dump, layout.clone()).unwrap();
        let at = |page| PageAddress::new(0, page);
        assert_eq!(page_of(&device, at(0)), (pages[0].clone(), Ok(0)), "{name}");
        assert_eq!(page_of(&device, at(1)), (pages[1].clone(), Ok(1)), "{name}");
        assert_eq!(page_of(&device, at(2)).1.unwrap_err(), ErrorKind::Uncorrectable, "{name}");
        let mut end = [0; 40];
        device.read(&Context::default(), at(2), PageRead::bytes(2008, &mut end)).unwrap();
        assert_eq!(end, pages[2][2008..], "the last code word of the page is right");
        assert_eq!((device.page_bytes(at(0)), device.block_bytes(BlockIndex(0))), (None, None));

        let report = device.ecc_report().unwrap().unwrap();
        let words = report.layout.codewords() as u64;
        assert_eq!((report.codewords, report.erased), (words * 192, words * 128), "{name}");
        assert_eq!((report.corrected, report.corrected_bits, report.uncorrectable), (1, 1, 1), "{name}");
        assert_eq!((report.listed[0].page, report.listed[0].codeword), (at(2), 0));
        // i.MX stores a byte of the last chunk where the first code word starts.
        let (first, last) = (&report.listed[0].data[0], report.listed[0].data.last().unwrap());
        let first = if name.starts_with("gpmi") { last } else { first };
        assert_eq!(first.start, 4096, "{name}");

        let data = bytes(2048, &mut random);
        let programmed = PageAddress::new(1, 5);
        device.program(&Context::default(), programmed, PageProgram::bytes(0, &data)).unwrap();
        assert_eq!(page_of(&device, programmed), (data.clone(), Ok(0)));
        let mut raw = vec![0; stored];
        device.stored_page(programmed, &mut raw).unwrap();
        assert!(raw == made(name, &data), "{name}");
        // Marking a page with uncorrectable data does not make the data correct.
        device.mark_bad(&Context::default(), BlockIndex(2)).unwrap();
        device.sync(&Context::default()).unwrap();
        assert_eq!(page_of(&device, programmed), (data.clone(), Ok(0)));
        let (after, _) = device.into_bytes();
        let differs: Vec<usize> =
            (0..192).filter(|page| after[page * stored..][..stored] != before[page * stored..][..stored]).collect();
        assert_eq!(differs, [64 + 5, 128], "{name}");
        assert!(after[(64 + 5) * stored..][..stored] == made(name, &data));
        let marked: Vec<usize> = (0..stored).filter(|byte| after[128 * stored + byte] != 0xFF).collect();
        // On i.MX the mark is in a code word, which gets its ECC.
        let more = if name.starts_with("gpmi") { 13 } else { 0 };
        assert_eq!((marked[0], marked.len()), (2048, 1 + more), "{name}");
        let device = DumpFlash::from_bytes(after, layout).unwrap();
        assert_eq!(device.info().bad_blocks, [2]);
    }
}

#[test]
fn oob_bytes_that_are_ecc_are_refused() {
    let layout = with_ecc("linux-bch8-2048-64");
    let mut device = DumpFlash::from_bytes(vec![0xFF; layout.stored_block() as usize], layout).unwrap();
    let mut page = 0;
    let mut program = |byte: usize| {
        let mut oob = [0xFF; 64];
        oob[byte] = 0x85;
        page += 1;
        device.program(
            &Context::default(),
            PageAddress::new(0, page),
            PageProgram { oob: &oob, ..PageProgram::bytes(0, &[]) },
        )
    };
    assert!(program(2).is_ok() && program(11).is_ok());
    assert_eq!(program(12).unwrap_err().kind, ErrorKind::Misuse);
    let wrong = ImageLayout { ecc: Some(oob::named("linux-bch4-2048-64").unwrap()), ..ImageLayout::nand(BLOCK, 2048) };
    let error = DumpFlash::from_bytes(vec![0; 1 << 20], wrong).unwrap_err().to_string();
    assert!(error.contains("expected pages of 2048+64, with their OOB in the dump"), "{error}");
}

/// The OOB may also follow a block.
#[test]
fn the_placement_does_not_matter() {
    let mut random = Random::new(6, "layouts");
    let layout = ImageLayout { oob: OobPlacement::AfterBlock, ..with_ecc("gpmi-bch8-2048-64") };
    let pages: Vec<Vec<u8>> = (0..64).map(|_| bytes(2048, &mut random)).collect();
    let raw: Vec<Vec<u8>> = pages.iter().map(|page| made("gpmi-bch8-2048-64", page)).collect();
    let dump: Vec<u8> =
        raw.iter().flat_map(|raw| &raw[..2048]).chain(raw.iter().flat_map(|raw| &raw[2048..])).copied().collect();
    let device = DumpFlash::from_bytes(dump, layout).unwrap();
    for (number, page) in (0..).zip(&pages) {
        assert_eq!(page_of(&device, PageAddress::new(0, number)), (page.clone(), Ok(0)));
    }
}

const GOOD: &str = r#"
name = "mine"
title = "a layout"
sources = ["none"]
page_size = 512
oob_size = 16
code = { kind = "bch", field_bits = 13, correctable = 4, first_bit = "high", parity = "erased" }
[[group]]
spans = [{ is = "data", bytes = 512, codeword = 0 }, { is = "oob", bytes = 9 }, { is = "ecc", bytes = 7, codeword = 0 }]
"#;

#[test]
fn a_file_that_does_not_add_up_says_where() {
    assert_eq!(OobLayout::from_toml(GOOD).map(Arc::new).unwrap().name(), "mine");
    let hamming = r#"{ kind = "hamming" }"#;
    let bch = r#"{ kind = "bch", field_bits = 13, correctable = 4, first_bit = "high", parity = "erased" }"#;
    let cases: &[(&str, &str, &str)] = &[
        (
            "bytes = 9 ",
            "bytes = 8 ",
            "the spans take 527 bytes of a page; expected 528 bytes, 512 of data and 16 of OOB",
        ),
        ("bytes = 9 ", "bytes = 10 ", "span \"ecc\" of 7 bytes begins at byte 522 and ends behind the page"),
        ("bytes = 9 ", "bits = 0 ", "expected at least a bit"),
        ("bytes = 9 ", "bytes = 9, bits = 72 ", "expected `bytes` or `bits`"),
        (
            "bytes = 9 ",
            "bytes = 9, at = 8 ",
            "span \"oob\" of 9 bytes at byte 512 is shown at byte 8, which ends behind 16 bytes",
        ),
        ("bytes = 9 ", "bytes = 9, place = 3 ", "unknown field `place`"),
        (
            "bytes = 512, codeword = 0 }",
            "bytes = 256, codeword = 0 }, { is = \"data\", bytes = 256, at = 255, codeword = 0 }",
            "data byte 255 is in two spans",
        ),
        (
            "bytes = 512, codeword = 0 }",
            "bytes = 256, codeword = 0 }, { is = \"unused\", bytes = 256, codeword = 0 }",
            "data byte 256 is in no span",
        ),
        (", codeword = 0 }]", " }]", "span \"ecc\" of 7 bytes at byte 521: expected `codeword`"),
        (", codeword = 0 }]", ", codeword = 1 }]", "code word 0 has 4096 bits and 0 bits of ECC"),
        (
            "bytes = 9 }, { is = \"ecc\", bytes = 7",
            "bytes = 10 }, { is = \"ecc\", bytes = 6",
            "code word 0 has 48 bits of ECC; expected 52, or up to 63 more",
        ),
        ("correctable = 4", "correctable = 90", "`code`: 90 correctable bits"),
        ("field_bits = 13", "field_bits = 12", "code word 0 has 512 bytes; expected at most"),
        ("field_bits = 13", "polynomial = 0x2000, field_bits = 13", "`code`: the polynomial 0x2000 is not primitive"),
        ("parity = \"erased\"", "parity = \"mask\"", "expected `mask`"),
        ("parity = \"erased\"", "parity = \"mask\", mask = \"00ff\"", "`mask` has 2 bytes; expected 7"),
        ("parity = \"erased\"", "parity = \"mask\", mask = \"0x\"", "expected two hexadecimal digits a byte"),
        ("parity = \"erased\"", "parity = \"strange\"", "unknown variant `strange`"),
        (bch, hamming, "code word 0 has 512 bytes and 7 of ECC; expected 512 and 3"),
        (
            "bytes = 512, codeword = 0 }, { is = \"oob\", bytes = 9 }",
            "bytes = 512, codeword = 0 }, { is = \"oob\", bits = 76 }, { is = \"unused\", bits = 4 }, { is = \"ecc\", bits = 8, codeword = 0 }, { is = \"unused\", bits = 8 }",
            "ends behind the page",
        ),
        ("page_size = 512", "page_size = 500", "pages of 500+16 bytes; expected a power of two"),
        ("[[group]]", "[[group]]\ncount = 4000000000", "12000000000 spans; expected at most 4096"),
        ("bytes = 9 ", "bytes = 9, codeword = 4000000000 ", "code word 4000000000; expected less than 4096"),
        ("[[group]]", "[[group]]\ncount = 0\nspans = []\n[[group]]", "mine"),
        ("name", "game", "unknown field `game`"),
    ];
    for (from, to, expected) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        match OobLayout::from_toml(&text) {
            Ok(layout) => assert_eq!((layout.name(), *expected), ("mine", "mine"), "{to}"),
            Err(error) => assert!(error.to_string().contains(expected), "{to}: {error}"),
        }
    }
    assert!(OobLayout::from_toml("[[").unwrap_err().to_string().contains("line 1"));
}
