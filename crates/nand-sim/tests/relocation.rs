//! Relocation has the same content, counts, times and refusals as reads and programs of single
//! pages.

use nandkit_codec::page_tag::{TAG_BYTES, TagFormat};
use nandkit_flash::wrap::StatsFlash;
use nandkit_flash::{Flash, Move, PageProgram, PageRead};
use nandkit_nand_sim::{
    AddressStore, ChipSpec, ContentStore, DescribedStore, FailureScript, NandChip, ShadowStore, Store,
};
use nandkit_units::random::Random;
use nandkit_units::{
    Assembly, BlockIndex, Content, Context, Described, Description, Generator, Nanos, PageAddress, Payload, ReadInto,
};

const PAGES: u32 = 8;
const BLOCKS: u32 = 24;

fn spec(bit_errors: bool) -> ChipSpec {
    let mut spec = ChipSpec::default();
    (spec.geometry.page_size, spec.geometry.write_unit, spec.geometry.oob_size) = (2048, 2048, 64);
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (PAGES, BLOCKS);
    (spec.geometry.dies, spec.geometry.channels) = (4, 2);
    (spec.timing.overlap, spec.timing.bus_ps_per_byte) = (true, 2500);
    spec.bit_errors.enabled = bit_errors;
    spec
}

type Chip<S> = StatsFlash<NandChip<S>>;

/// A chip with pages in every third block, and defects in some blocks.
fn filled<S: Store>(seed: u64, bit_errors: bool) -> Chip<S> {
    let mut chip = NandChip::<S>::new(&spec(bit_errors), seed).unwrap();
    chip.script_failures(FailureScript { programs: [30].into(), ..FailureScript::default() });
    let format = TagFormat::new(2048);
    for at in (0..BLOCKS).step_by(3).flat_map(|block| (0..PAGES - 2).map(move |page| PageAddress::new(block, page))) {
        let number = u64::from(at.block.0 * 100 + at.page);
        let record = Description { record: number, version: 1, offset: 0, generator: Generator::Record };
        let data = Payload::Described(Described { description: record, length: 2048 });
        let oob = format.image(number << 8, number + 7);
        let _ = chip.program(&Context::default(), at, PageProgram::new(data, &oob));
    }
    chip.script_failures(FailureScript::default());
    StatsFlash::new(chip)
}

/// The content of a page, or the reason why it cannot be read.
fn page<S: Store>(chip: &Chip<S>, at: PageAddress) -> (Option<Vec<u8>>, Vec<u8>) {
    let (mut data, mut oob) = (vec![0; 2048], vec![0; if S::KIND == ShadowStore::KIND { 16 } else { 64 }]);
    let read = PageRead { column: 0, data: ReadInto::Bytes(&mut data), oob: &mut oob };
    let found = chip.read(&Context::default(), at, read).is_ok().then_some(data);
    (found, oob)
}

/// Moves the pages of a list one by one, as a layer does with what relocation does not move.
fn move_singly<S: Store>(chip: &mut Chip<S>, context: &Context, moves: &[Move], oob: &[u8]) -> (usize, Nanos) {
    let mut contents = Vec::new();
    let mut end = context.issued;
    for Move { from, .. } in moves {
        let (mut content, mut found) = (Content::new(), [0; TAG_BYTES]);
        let into = ReadInto::Content { content: &mut content, length: 2048 };
        let read = PageRead { column: 0, data: into, oob: &mut found };
        let Ok(done) = chip.read(context, *from, read) else { break };
        end = end.max(done.completed);
        contents.push(content);
    }
    let after = Context { issued: end, ..*context };
    let mut moved = 0;
    for ((Move { to, .. }, content), image) in moves.iter().zip(&contents).zip(oob.chunks(TAG_BYTES)) {
        let Ok(done) = chip.program(&after, *to, PageProgram::new(content.payload(), image)) else { break };
        end = end.max(done.completed);
        moved += 1;
    }
    (moved, end)
}

fn move_together<S: Store>(chip: &mut Chip<S>, context: &Context, moves: &[Move], oob: &[u8]) -> (usize, Nanos) {
    let from: Vec<PageAddress> = moves.iter().map(|one| one.from).collect();
    let mut tags = vec![0; from.len() * TAG_BYTES];
    let relocation = chip.relocation().unwrap();
    let fetched = relocation.fetch(context, &from, &mut tags);
    let after = Context { issued: fetched.done.completed, ..*context };
    let oob = &oob[..fetched.pages * TAG_BYTES];
    let placed = relocation.place(&after, &moves[..fetched.pages], 1, oob);
    assert!(fetched.failed.is_none() && placed.failed.is_none());
    (placed.pages, fetched.done.completed.max(placed.done.completed))
}

/// Moves sound pages into erased blocks both ways, on two chips.
fn both_ways_agree<S: Store>(keeps_content: bool) {
    for seed in 0..20 {
        let (mut one, mut other) = (filled::<S>(seed, false), filled::<S>(seed, false));
        let mut random = Random::new(seed, "relocation");
        let (mut next, mut now, format) = ([0; BLOCKS as usize], Nanos::ZERO, TagFormat::new(2048));
        let mut number = 100_000;
        for _ in 0..12 {
            // The failed program is in block 12, so its pages cannot be relocated.
            let sources: Vec<u32> = (0..BLOCKS).step_by(3).filter(|&block| block != 12).collect();
            let moves: Vec<Move> = (0..random.below(9))
                .filter_map(|_| {
                    let from = PageAddress::new(
                        sources[random.below(sources.len() as u64) as usize],
                        random.below(u64::from(PAGES - 2)) as u32,
                    );
                    let to = random.below(u64::from(BLOCKS) / 3) as u32 * 3 + 1;
                    let page = next[to as usize];
                    next[to as usize] += u32::from(page < PAGES);
                    (page < PAGES).then_some(Move::whole(from, PageAddress::new(to, page)))
                })
                .collect();
            let oob: Vec<u8> = (0..moves.len() as u64).flat_map(|at| format.image(at << 8, number + at)).collect();
            number += 100;
            let context = Context::at(now);
            let together = move_together(&mut one, &context, &moves, &oob);
            if keeps_content {
                assert_eq!(together, move_singly(&mut other, &context, &moves, &oob), "seed {seed}");
            }
            assert_eq!(together.0, moves.len(), "seed {seed}");
            now = Nanos(now.0 + random.below(2_000_000));
        }
        for at in (0..BLOCKS).flat_map(|block| (0..PAGES).map(move |page| PageAddress::new(block, page))) {
            if keeps_content {
                assert!(page(&one, at) == page(&other, at), "seed {seed}: {at}");
            }
        }
        if keeps_content {
            assert_eq!(one.inner().write_counters(), other.inner().write_counters());
            assert_eq!(one.inner().read_counters(), other.inner().read_counters());
            assert_eq!(one.snapshot().total(), other.snapshot().total());
        }
    }
}

#[test]
fn many_at_once_are_the_same_as_one_by_one() {
    both_ways_agree::<ContentStore>(true);
    both_ways_agree::<DescribedStore>(true);
    both_ways_agree::<ShadowStore>(true);
    // This store delivers no content that could be programmed elsewhere; its tags are tested below.
    both_ways_agree::<AddressStore>(false);
}

#[test]
fn tags_of_placed_pages_come_back_where_no_content_is_kept() {
    let mut chip = filled::<AddressStore>(1, false);
    let format = TagFormat::new(2048);
    let moves = [(0, 0, 1, 0), (3, 5, 1, 1), (0, 2, 4, 0)]
        .map(|(from, page, to, target)| Move::whole(PageAddress::new(from, page), PageAddress::new(to, target)));
    let from = moves.map(|one| one.from);
    let mut tags = [0; 3 * TAG_BYTES];
    let relocation = chip.relocation().unwrap();
    assert_eq!(relocation.fetch(&Context::default(), &from, &mut tags).pages, 3);
    let expected: Vec<u8> = [0u64, 305, 2].iter().flat_map(|number| format.image(number << 8, number + 7)).collect();
    assert_eq!(tags.as_slice(), expected);
    let new: Vec<u8> = (0..3).flat_map(|at| format.image(at << 8, 900 + at)).collect();
    assert_eq!(relocation.place(&Context::default(), &moves, 1, &new).pages, 3);
    for (one, image) in moves.iter().zip(new.chunks(TAG_BYTES)) {
        assert_eq!(page(&chip, one.to).1[..TAG_BYTES], *image, "{}", one.to);
    }
}

#[test]
fn what_could_go_wrong_is_left_to_single_operations() {
    let mut chip = filled::<ContentStore>(1, false);
    let at = PageAddress::new;
    let context = Context::default();
    let relocation = chip.relocation().unwrap();
    let mut fetch = |from: &[PageAddress]| relocation.fetch(&context, from, &mut vec![0; from.len() * 16]).pages;
    assert_eq!(fetch(&[at(0, 0), at(0, 7), at(3, 0)]), 1, "an erased page");
    assert_eq!(fetch(&[at(0, 0), at(0, 1), at(12, 0)]), 2, "a block in which a program failed");
    assert_eq!(fetch(&[at(BLOCKS, 0)]), 0, "outside");
    assert_eq!(relocation.fetch(&context, &[at(0, 0)], &mut [0; 65]).pages, 0, "more OOB than there is");
    let mut place = |from: PageAddress, to: PageAddress| {
        let run = relocation.place(&context, &[Move::whole(from, to)], 1, &[7; 16]);
        assert!(run.failed.is_none());
        run.pages
    };
    assert_eq!(place(at(0, 0), at(1, 1)), 0, "not the next page");
    assert_eq!(place(at(0, 0), at(3, 0)), 0, "over a programmed page");
    assert_eq!(place(at(0, 0), at(0, 6)), 0, "into its own block");
    assert_eq!(place(at(0, 0), at(BLOCKS, 0)), 0, "outside");
    assert_eq!(place(at(0, 0), at(1, PAGES)), 0, "behind the block");
    assert_eq!(place(at(0, 0), at(1, 0)), 1);
    chip.mark_bad(&context, BlockIndex(4)).unwrap();
    let run = chip.relocation().unwrap().place(&context, &[Move::whole(at(0, 0), at(4, 0))], 1, &[7; 16]);
    assert_eq!(run.pages, 0, "a bad block");
    let mut chip = filled::<ContentStore>(1, true);
    assert_eq!(chip.relocation().unwrap().fetch(&context, &[at(0, 0)], &mut [0; 16]).pages, 0, "bit errors");
}

/// A page made of parts of four other pages equals four reads programmed together.
#[test]
fn pages_made_of_parts_are_the_same_as_joined_reads() {
    fn agree<S: Store>(together: impl Fn(&mut Chip<S>, &[Move], &[u8])) {
        let (mut one, mut other) = (filled::<S>(2, false), filled::<S>(2, false));
        let at = PageAddress::new;
        let format = TagFormat::new(2048);
        // Parts in any order; then a page moved whole in parts, which stays a description if the
        // store keeps descriptions.
        let from = [(at(0, 0), 3), (at(3, 1), 0), (at(0, 0), 1), (at(6, 2), 2)];
        let whole = [0, 1, 2, 3].map(|part| (at(3, 4), part));
        for (target, sources) in (0..).zip([from, whole]) {
            let to = at(1, target);
            let moves = sources.map(|(from, part)| Move { from, part, to });
            let oob: Vec<u8> = (0..4).flat_map(|tag| format.image(tag << 8, 500 + tag)).collect();
            together(&mut one, &moves, &oob);
            let contents = moves.map(|Move { from, part, .. }| {
                let mut content = Content::new();
                let data = ReadInto::Content { content: &mut content, length: 512 };
                other.read(&Context::default(), from, PageRead { column: part * 512, data, oob: &mut [] }).unwrap();
                content
            });
            let parts: Vec<Payload<'_>> = contents.iter().map(Content::payload).collect();
            let mut buffer = Assembly::new();
            let data = Payload::joined(&parts, &mut buffer);
            other.program(&Context::default(), to, PageProgram::new(data, &oob)).unwrap();
            assert!(page(&one, to) == page(&other, to), "page {target}");
        }
        assert_eq!(one.inner().write_counters(), other.inner().write_counters());
    }
    let place = |moves: &[Move], oob: &[u8], relocation: &mut dyn nandkit_flash::Relocation| {
        assert_eq!(relocation.place(&Context::default(), moves, 4, oob).pages, 1);
    };
    agree::<ContentStore>(|chip, moves, oob| place(moves, oob, chip.relocation().unwrap()));
    agree::<DescribedStore>(|chip, moves, oob| place(moves, oob, chip.relocation().unwrap()));
}

/// A store without content returns the tags of a page made of parts. A group that does not fill one
/// page is refused.
#[test]
fn tags_of_pages_made_of_parts_come_back() {
    let mut chip = NandChip::<AddressStore>::new(&spec(false), 1).unwrap();
    let (at, format) = (PageAddress::new, TagFormat::new(2048));
    let oob =
        |first: u64| -> Vec<u8> { (0..4).flat_map(|tag| format.image((first + tag) << 8, first + tag)).collect() };
    let data = Payload::Described(Described { length: 2048, ..Described::default() });
    for page in 0..3 {
        let oob = oob(u64::from(page) * 10);
        chip.program(&Context::default(), at(0, page), PageProgram::new(data, &oob)).unwrap();
    }
    let relocation = chip.relocation().unwrap();
    assert!(!relocation.keeps_described());
    let mut found = [0; 2 * 4 * TAG_BYTES];
    assert_eq!(relocation.fetch(&Context::default(), &[at(0, 2), at(0, 0)], &mut found).pages, 2);
    assert_eq!(found.as_slice(), [oob(20), oob(0)].concat());
    let moves = |to: [PageAddress; 4]| to.map(|to| Move { from: at(0, 2), part: 1, to });
    let torn = moves([at(1, 0), at(1, 0), at(1, 0), at(1, 1)]);
    assert_eq!(relocation.place(&Context::default(), &torn, 4, &oob(70)).pages, 0);
    assert_eq!(relocation.place(&Context::default(), &moves([at(1, 0); 4]), 4, &oob(80)).pages, 1);
    let mut found = [0; 4 * TAG_BYTES];
    assert_eq!(relocation.fetch(&Context::default(), &[at(1, 0)], &mut found).pages, 1);
    assert_eq!(found.as_slice(), oob(80));
}
