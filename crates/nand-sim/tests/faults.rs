//! Bad blocks, failures, bit errors and torn states, as a driver above the chip sees them.

use std::collections::BTreeSet;

use nandkit_flash::wrap::StatsFlash;
use nandkit_flash::{ErrorKind, Flash, FlashError, Interrupt, PageProgram, PageRead, TornErase, TornPage};
use nandkit_nand_sim::{
    BitErrorSpec, ChipSpec, ContentChip, CopybackReach, DescribedChip, FailureScript, MarkerPages, ShadowChip, Store,
};
use nandkit_units::{
    BlockIndex, Content, Context, Described, Description, Done, Generator, Nanos, PageAddress, Payload, ReadInto,
};

const DATA: [u8; 2048] = [0x3C; 2048];
const OOB: [u8; 64] = [0x81; 64];

fn program<F: Flash>(chip: &mut F, block: u32, page: u32) -> Result<Done, FlashError> {
    chip.program(&Context::default(), PageAddress::new(block, page), PageProgram::new(Payload::Bytes(&DATA), &OOB))
}

type PageBytes = ([u8; 2048], [u8; 64]);

fn read_at<F: Flash>(chip: &F, at: PageAddress, instant: Nanos) -> (Result<Done, FlashError>, PageBytes) {
    let (mut data, mut oob) = ([0; 2048], [0; 64]);
    let read = PageRead { column: 0, data: ReadInto::Bytes(&mut data), oob: &mut oob };
    let result = chip.read(&Context::at(instant), at, read);
    (result, (data, oob))
}

fn read<F: Flash>(chip: &F, block: u32, page: u32) -> (Result<Done, FlashError>, PageBytes) {
    read_at(chip, PageAddress::new(block, page), Nanos::ZERO)
}

fn kind<T>(result: Result<T, FlashError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

#[test]
fn factory_bad_blocks_carry_their_mark_and_keep_it() {
    for (marker, offset) in [
        (MarkerPages::First, 0),
        (MarkerPages::FirstOrSecond, 5),
        (MarkerPages::Last, 0),
        (MarkerPages::FirstAndLast, 1),
    ] {
        let mut spec = ChipSpec::default();
        spec.bad_blocks.enabled = true;
        spec.bad_blocks.factory_max = 60;
        spec.bad_blocks.marker = marker;
        spec.bad_blocks.marker_offset = offset;
        let mut chip = ContentChip::new(&spec, 11).unwrap();
        let mut pages_with_marks = BTreeSet::new();
        let mut bad = 0;
        for block in 0..256 {
            let marks: Vec<u32> =
                (0..64).filter(|page| read(&chip, block, *page).1.1[offset as usize] != 0xFF).collect();
            assert_eq!(chip.is_bad(BlockIndex(block)), !marks.is_empty(), "{marker:?} block {block}");
            if !marks.is_empty() {
                bad += 1;
                assert_eq!(kind(program(&mut chip, block, 0)), Some(ErrorKind::BadBlock));
                assert_eq!(kind(chip.erase(&Context::default(), BlockIndex(block))), Some(ErrorKind::BadBlock));
                assert_eq!(chip.erase_count(BlockIndex(block)), 0);
                assert!(marks.contains(&0) || !read(&chip, block, marks[0]).1.1.is_empty());
                pages_with_marks.insert(marks);
            }
        }
        assert!(bad > 5, "the seed draws some");
        let expected: &[&[u32]] = match marker {
            MarkerPages::First => &[&[0]],
            MarkerPages::FirstOrSecond => &[&[0], &[1]],
            MarkerPages::Last => &[&[63]],
            MarkerPages::FirstAndLast => &[&[0, 63]],
        };
        assert_eq!(pages_with_marks.iter().map(Vec::as_slice).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_block_marked_by_the_host_shows_the_mark_too() {
    let mut chip = ContentChip::new(&ChipSpec::default(), 1).unwrap();
    program(&mut chip, 3, 0).unwrap();
    for _ in 0..2 {
        chip.mark_bad(&Context::default(), BlockIndex(3)).unwrap();
    }
    assert!(chip.is_bad(BlockIndex(3)));
    let marks = [0, 1].map(|page| read(&chip, 3, page).1.1[0]);
    assert!(marks.contains(&0), "{marks:?}");
    assert_eq!(read(&chip, 3, 0).1.0, DATA, "what was there can still be read");
    assert_eq!(kind(chip.mark_bad(&Context::default(), BlockIndex(256))), Some(ErrorKind::Misuse));
    assert!(chip.is_bad(BlockIndex(256)));
}

#[test]
fn scripted_failures_happen_where_the_script_says_and_the_block_stays_failing() {
    let mut spec = ChipSpec::default();
    spec.rules.copyback = CopybackReach::Device;
    let mut chip = ContentChip::new(&spec, 1).unwrap();
    chip.script_failures(FailureScript {
        programs: [3].into(),
        pages: [PageAddress::new(5, 1)].into(),
        erases: [2].into(),
        blocks: [BlockIndex(9)].into(),
    });
    program(&mut chip, 0, 0).unwrap();
    program(&mut chip, 0, 1).unwrap();
    let error = program(&mut chip, 0, 2).unwrap_err();
    assert_eq!((error.kind, error.at), (ErrorKind::ProgramFailed, PageAddress::new(0, 2)));
    assert!(error.completed > Nanos::ZERO, "failures take time");
    assert_eq!(read(&chip, 0, 0).1, (DATA, OOB), "valid pages can be moved away");
    let (result, bytes) = read(&chip, 0, 2);
    assert!(result.is_err() || bytes != (DATA, OOB), "the failed page is undefined");
    assert_eq!(kind(program(&mut chip, 0, 3)), Some(ErrorKind::ProgramFailed));
    assert_eq!(kind(chip.erase(&Context::default(), BlockIndex(0))), Some(ErrorKind::EraseFailed));

    program(&mut chip, 5, 0).unwrap();
    let copy = chip.copyback().unwrap().copy(&Context::default(), PageAddress::new(5, 0), PageAddress::new(5, 1), None);
    assert_eq!(kind(copy), Some(ErrorKind::ProgramFailed));
    assert_eq!(kind(chip.erase(&Context::default(), BlockIndex(1))), Some(ErrorKind::EraseFailed), "the second erase");
    chip.erase(&Context::default(), BlockIndex(2)).unwrap();
    assert_eq!(kind(chip.erase(&Context::default(), BlockIndex(9))), Some(ErrorKind::EraseFailed));
    assert!(!chip.is_bad(BlockIndex(9)), "only the host marks it");
    let counters = chip.write_counters();
    assert_eq!((counters.program_failures, counters.erase_failures), (3, 3));
}

#[test]
fn worn_blocks_begin_to_fail() {
    let mut spec = ChipSpec::default();
    spec.endurance.cycles = 100;
    spec.failures.enabled = true;
    let mut chip = ShadowChip::new(&spec, 5).unwrap();
    let mut lives = Vec::new();
    for block in 0..256 {
        let mut erases = 0;
        while erases < 1000 && chip.erase(&Context::default(), BlockIndex(block)).is_ok() {
            erases += 1;
        }
        lives.push(erases);
    }
    assert!(lives.iter().all(|life| (100..300).contains(life)), "{lives:?}");
    assert!(lives.iter().collect::<BTreeSet<_>>().len() > 20, "blocks differ");
    let mut again = ShadowChip::new(&spec, 5).unwrap();
    let life = (0..).find(|_| again.erase(&Context::default(), BlockIndex(77)).is_err()).unwrap();
    assert_eq!(life, lives[77], "whatever order blocks are used in");
}

#[test]
fn programs_fail_at_every_position_sooner_or_later() {
    let mut spec = ChipSpec::default();
    spec.geometry.pages_per_block = 8;
    spec.geometry.blocks = 4096;
    spec.failures.enabled = true;
    spec.failures.program_probability = 0.01;
    let mut chip = ShadowChip::new(&spec, 5).unwrap();
    let mut failed = BTreeSet::new();
    let mut count = 0;
    for block in 0..4096 {
        for page in 0..8 {
            match program(&mut chip, block, page) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::ProgramFailed);
                    failed.insert(page);
                    count += 1;
                    break;
                }
            }
        }
    }
    assert_eq!(failed.len(), 8);
    let expected = 4096.0 * (1.0 - 0.99f64.powi(8));
    assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count}, expected {expected}");
}

/// A chip whose pages have one wrong bit in 10,000 from the start.
fn erring(correctable_bits: u32) -> ContentChip {
    let mut spec = ChipSpec::default();
    spec.bit_errors = BitErrorSpec { enabled: true, base: 1e-4, shape: 0, ..spec.bit_errors };
    spec.ecc.correctable_bits = correctable_bits;
    if correctable_bits == 0 {
        spec.ecc.code_word_bytes = 0;
    }
    spec.rules.copyback = CopybackReach::Device;
    ContentChip::new(&spec, 4).unwrap()
}

fn flipped(bytes: &PageBytes) -> u32 {
    let data: u32 = bytes.0.iter().map(|byte| (byte ^ 0x3C).count_ones()).sum();
    data + bytes.1.iter().map(|byte| (byte ^ 0x81).count_ones()).sum::<u32>()
}

#[test]
fn ecc_corrects_up_to_its_strength_and_delivers_damage_beyond() {
    for correctable in [1, 2, 8] {
        let mut chip = erring(correctable);
        let (mut corrected, mut lost) = (0u32, 0u32);
        for at in (0..64).flat_map(|block| (0..64).map(move |page| (block, page))) {
            program(&mut chip, at.0, at.1).unwrap();
            let (result, bytes) = read(&chip, at.0, at.1);
            assert_eq!(read(&chip, at.0, at.1).1, bytes, "the same errors again");
            match result {
                Ok(done) => {
                    assert_eq!(bytes, (DATA, OOB));
                    assert!(u32::from(done.corrected_bits) <= correctable);
                    corrected += u32::from(done.corrected_bits > 0);
                }
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Uncorrectable);
                    assert!(error.completed > Nanos::ZERO);
                    let flips = flipped(&bytes);
                    assert!((1..100).contains(&flips), "{flips} flips with strength {correctable}");
                    lost += 1;
                }
            }
        }
        // Four words of 4224 bits with 0.4224 errors on average: a page is lost if one of them has
        // more errors than the code corrects.
        let mut term = (-0.4224f64).exp();
        let mut corrects = term;
        for errors in 1..=correctable {
            term *= 0.4224 / f64::from(errors);
            corrects += term;
        }
        let expected = 4096.0 * (1.0 - corrects.powi(4));
        assert!(
            (f64::from(lost) - expected).abs() <= 4.0 * expected.sqrt(),
            "strength {correctable}: {lost} lost, {expected} expected"
        );
        assert!(corrected > 1000);
        assert_eq!(chip.read_counters().uncorrectable, 2 * u64::from(lost));
        assert_eq!(chip.read_counters().corrected, 2 * u64::from(corrected));
    }
}

#[test]
fn without_ecc_damage_is_delivered_unannounced_and_erased_pages_are_clean() {
    let mut chip = erring(0);
    let damaged = (0..20).filter(|page| {
        program(&mut chip, 0, *page).unwrap();
        let (result, bytes) = read(&chip, 0, *page);
        result.unwrap();
        flipped(&bytes) > 0
    });
    assert!(damaged.count() > 10);
    assert_eq!(read(&chip, 0, 20).1, ([0xFF; 2048], [0xFF; 64]));
    assert!((0..20).all(|page| pristine(&chip, 0, page) == DATA), "what is stored stays as it was");
}

/// The bytes of a page without the overlay of errors.
fn pristine(chip: &ContentChip, block: u32, page: u32) -> [u8; 2048] {
    let mut bytes = [0; 2048];
    let place = chip.place(PageAddress::new(block, page)).unwrap();
    chip.store().read(place, 0, &mut ReadInto::Bytes(&mut bytes), &mut []).unwrap();
    bytes
}

#[test]
fn retention_and_read_disturb_wear_a_page_out_and_an_erase_mends_it() {
    let bit_errors = BitErrorSpec {
        enabled: true,
        base: 0.0,
        wear: 0.0,
        wear_exponent: 0.0,
        retention: 1e-4,
        retention_wear_exponent: 0.0,
        retention_exponent: 1.0,
        disturb: 1e-6,
        disturb_exponent: 0.0,
        shape: 0,
    };
    let mut spec = ChipSpec { bit_errors, ..ChipSpec::default() };
    spec.ecc.correctable_bits = 4;
    let mut chip = ContentChip::new(&spec, 2).unwrap();
    program(&mut chip, 0, 0).unwrap();
    program(&mut chip, 1, 0).unwrap();
    read(&chip, 0, 0).0.unwrap();
    let years = |years: u64| Nanos::from_secs(years * 365 * 86_400);
    assert_eq!(kind(read_at(&chip, PageAddress::new(0, 0), years(1)).0), Some(ErrorKind::Uncorrectable));
    chip.erase(&Context::at(years(1)), BlockIndex(0)).unwrap();
    let fresh = PageProgram::new(Payload::Bytes(&DATA), &OOB);
    chip.program(&Context::at(years(1)), PageAddress::new(0, 0), fresh).unwrap();
    read_at(&chip, PageAddress::new(0, 0), years(1)).0.unwrap();
    let reads = (0..20_000).find(|_| read(&chip, 1, 0).0.is_err());
    assert!(reads.is_some_and(|reads| reads > 100), "read disturb comes late: {reads:?}");
}

#[test]
fn copyback_carries_errors_along_unless_the_die_corrects() {
    let mut spec = erring(8).spec().clone();
    let source = PageAddress::new(0, 0);
    let generations = |spec: &ChipSpec| {
        let mut chip = ContentChip::new(spec, 4).unwrap();
        program(&mut chip, 0, 0).unwrap();
        let mut from = source;
        (1..60u32).find(|block| {
            let to = PageAddress::new(*block, 0);
            chip.copyback().unwrap().copy(&Context::default(), from, to, None).unwrap();
            from = to;
            read(&chip, *block, 0).0.is_err()
        })
    };
    assert!(generations(&spec).is_some_and(|copies| (3..40).contains(&copies)), "{:?}", generations(&spec));
    spec.rules.copyback_corrects = true;
    assert_eq!(generations(&spec), None);
    spec.ecc.correctable_bits = 1;
    let mut chip = ContentChip::new(&spec, 4).unwrap();
    let refused = (0..64).find_map(|page| {
        program(&mut chip, 0, page).unwrap();
        let (from, to) = (PageAddress::new(0, page), PageAddress::new(1, page));
        chip.copyback().unwrap().copy(&Context::default(), from, to, None).err().map(|error| (error, from))
    });
    let (error, from) = refused.expect("at 1 bit some source is lost");
    assert_eq!((error.kind, error.at), (ErrorKind::Uncorrectable, from));
}

fn torn(torn: TornPage, block: u32, page: u32, chip: &mut ContentChip) {
    let program = PageProgram::new(Payload::Bytes(&DATA), &OOB);
    chip.interrupt_program(&Context::default(), PageAddress::new(block, page), program, torn).unwrap();
}

#[test]
fn torn_programs_leave_what_was_asked_for() {
    let mut chip = ContentChip::new(&ChipSpec::default(), 3).unwrap();
    torn(TornPage::Nothing, 0, 0, &mut chip);
    assert_eq!(read(&chip, 0, 0).1, ([0xFF; 2048], [0xFF; 64]));
    torn(TornPage::Whole, 0, 0, &mut chip);
    assert_eq!(read(&chip, 0, 0).1, (DATA, OOB));
    assert_eq!(kind(program(&mut chip, 0, 0)), Some(ErrorKind::Misuse));
    let mut cuts = BTreeSet::new();
    for block in 1..40 {
        torn(TornPage::Prefix, block, 0, &mut chip);
        let (result, (data, oob)) = read(&chip, block, 0);
        result.unwrap();
        let whole: Vec<u8> = data.into_iter().chain(oob).collect();
        let cut = whole.iter().position(|byte| *byte == 0xFF).unwrap();
        assert!((1..2112).contains(&cut) && whole[cut..].iter().all(|byte| *byte == 0xFF), "cut at {cut}");
        cuts.insert(cut);
    }
    assert!(cuts.len() > 30);
}

#[test]
fn garbage_pages_fail_or_deliver_garbage_and_never_the_data() {
    let mut chip = ContentChip::new(&ChipSpec::default(), 3).unwrap();
    let (mut failed, mut delivered, mut both) = (0, 0, 0);
    for block in 0..100 {
        torn(TornPage::Garbage, block, 0, &mut chip);
        let reads: Vec<bool> = (0..16)
            .map(|_| {
                let (result, bytes) = read(&chip, block, 0);
                assert!(bytes.0 != DATA && bytes.1 != OOB);
                match result {
                    Ok(_) => true,
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Uncorrectable);
                        false
                    }
                }
            })
            .collect();
        match reads.iter().filter(|ok| **ok).count() {
            0 => failed += 1,
            16 => delivered += 1,
            _ => both += 1,
        }
    }
    assert!(failed > 15 && delivered > 15 && both > 15, "{failed} {delivered} {both}");
    chip.erase(&Context::default(), BlockIndex(0)).unwrap();
    program(&mut chip, 0, 0).unwrap();
    assert_eq!(read(&chip, 0, 0).1, (DATA, OOB), "an erase mends the page");
}

#[test]
fn weak_and_half_erased_blocks_must_be_erased_again() {
    let mut chip = ContentChip::new(&ChipSpec::default(), 3).unwrap();
    for block in 0..2 {
        (0..64).for_each(|page| {
            program(&mut chip, block, page).unwrap();
        });
    }
    chip.interrupt_erase(&Context::default(), BlockIndex(0), TornErase::Weak).unwrap();
    assert!((0..64).all(|page| read(&chip, 0, page).1 == ([0xFF; 2048], [0xFF; 64])), "it looks erased");
    program(&mut chip, 0, 0).unwrap();
    assert_eq!(kind(read(&chip, 0, 0).0), Some(ErrorKind::Uncorrectable));
    chip.interrupt_erase(&Context::default(), BlockIndex(1), TornErase::Half).unwrap();
    let pages: Vec<_> = (0..64).map(|page| read(&chip, 1, page)).collect();
    let erased = pages.iter().filter(|(_, bytes)| bytes.0 == [0xFF; 2048]).count();
    let kept = pages.iter().filter(|(result, bytes)| result.is_ok() && *bytes == (DATA, OOB)).count();
    assert!(erased > 8 && kept > 8 && 64 - erased - kept > 8, "{erased} erased, {kept} kept");
    for block in 0..2 {
        chip.erase(&Context::default(), BlockIndex(block)).unwrap();
        assert_eq!(chip.erase_count(BlockIndex(block)), 2, "a cut erase wears too");
        for page in 0..64 {
            program(&mut chip, block, page).unwrap();
            assert_eq!(read(&chip, block, page).1, (DATA, OOB));
        }
    }
}

#[test]
fn descriptions_survive_in_described_and_shadow_stores() {
    let description = |record, version, offset| Description { record, version, offset, generator: Generator::Record };
    let cases = [
        (0, 0, 0, 2048),
        (12_345, 99, 4096, 2048),
        (u64::MAX, u32::MAX, 0, 2048),
        (1 << 31, 0, 0, 2048),
        (7, 1 << 20, 512, 2048),
        (7, 3, 100, 2048),
        ((1 << 31) - 1, (1 << 20) - 1, 1023 * 512, 2048),
        (5, 6, 0, 512),
    ];
    fn check<F: Flash>(chip: &mut F, page: u32, described: Described) {
        let at = PageAddress::new(1, page);
        let program = PageProgram::new(Payload::Described(described), &[9; 16]);
        chip.program(&Context::default(), at, program).unwrap();
        let to = PageAddress::new(2, page);
        chip.copyback().unwrap().copy(&Context::default(), at, to, Some(&[8; 4])).unwrap();
        for (at, oob_start) in [(at, 9), (to, 8)] {
            let (mut content, mut oob) = (Content::new(), [0; 16]);
            let into = ReadInto::Content { content: &mut content, length: described.length };
            let read = PageRead { column: 0, data: into, oob: &mut oob };
            chip.read(&Context::default(), at, read).unwrap();
            assert_eq!(content.described(), Some(described), "page {page}");
            assert_eq!((oob[0], oob[4]), (oob_start, 9));
            let mut expected = [0xFF; 2048];
            described.description.generate(&mut expected[..described.length as usize]);
            let mut bytes = [0; 2048];
            chip.read(&Context::default(), at, PageRead::bytes(0, &mut bytes)).unwrap();
            assert_eq!(bytes, expected, "page {page}");
            let mut part = [0; 700];
            chip.read(&Context::default(), at, PageRead::bytes(300, &mut part)).unwrap();
            assert_eq!(part, expected[300..1000]);
        }
    }
    let mut spec = ChipSpec::default();
    spec.rules.copyback = CopybackReach::Device;
    spec.geometry.write_unit = 512;
    let mut shadow = ShadowChip::new(&spec, 1).unwrap();
    let mut kept = DescribedChip::new(&spec, 1).unwrap();
    for (page, (record, version, offset, length)) in cases.into_iter().enumerate() {
        let described = Described { description: description(record, version, offset), length };
        check(&mut shadow, page as u32, described);
        check(&mut kept, page as u32, described);
    }
    // Erasing discards the pages, the wide ones too.
    shadow.erase(&Context::default(), BlockIndex(1)).unwrap();
    let mut bytes = [0; 2048];
    shadow.read(&Context::default(), PageAddress::new(1, 2), PageRead::bytes(0, &mut bytes)).unwrap();
    assert_eq!(bytes, [0xFF; 2048]);
    // A torn description is a prefix followed by erased bytes.
    let described = Described { description: description(1, 2, 0), length: 2048 };
    let program = PageProgram::new(Payload::Described(described), &[]);
    shadow.interrupt_program(&Context::default(), PageAddress::new(3, 0), program, TornPage::Prefix).unwrap();
    shadow.read(&Context::default(), PageAddress::new(3, 0), PageRead::bytes(0, &mut bytes)).unwrap();
    let mut whole = [0; 2048];
    described.description.generate(&mut whole);
    let cut = (0..=2048).rev().find(|cut| bytes[..*cut] == whole[..*cut]).unwrap();
    assert!(cut > 0 && cut < 2048 && bytes[cut..].iter().all(|byte| *byte == 0xFF));
}

/// The time of a failed operation does not include waiting for the die.
#[test]
fn a_failed_operation_counts_for_as_long_as_it_kept_the_die_busy() {
    let spec = ChipSpec::default();
    let mut chip = ContentChip::new(&spec, 1).unwrap();
    chip.script_failures(FailureScript { programs: [3].into(), erases: [1].into(), ..FailureScript::default() });
    let mut flash = StatsFlash::new(chip);
    let start = Context::default();
    let programs: Vec<_> =
        (0..3).map(|page| flash.program(&start, PageAddress::new(0, page), PageProgram::bytes(0, &DATA))).collect();
    let busy = programs[0].as_ref().unwrap().busy;
    let failed = programs[2].as_ref().unwrap_err();
    assert_eq!((failed.completed, failed.busy), (Nanos(busy.0 * 3), busy));
    assert_eq!(flash.snapshot().failed_ns, busy.0);
    let erase = flash.erase(&start, BlockIndex(1)).unwrap_err();
    assert_eq!(flash.snapshot().failed_ns, busy.0 + erase.busy.0);
    assert_eq!(erase.busy.0, spec.timing.erase_ns + spec.timing.command_ns);
}
