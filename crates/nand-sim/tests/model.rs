//! The chip against a model that is too simple to be wrong, for many geometries; snapshots against
//! the same model; and equal runs.

use std::collections::BTreeMap;

use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_nand_sim::{
    AddressStore, ChipSpec, ContentStore, CopybackReach, DescribedStore, NandChip, PageOrder, PageTimes, ShadowStore,
    Store,
};
use nandkit_units::{BlockIndex, Context, Described, Description, Generator, PageAddress, Payload, ReadInto};
use proptest::prelude::*;

/// The programmed bytes and OOB of each page, by address.
type Pages = BTreeMap<(u32, u32), (Vec<u8>, [u8; 16])>;

#[derive(Clone, Debug)]
enum Step {
    Program { block: u32, page: u32, record: u64, described: bool },
    Erase { block: u32 },
    Copy { from: (u32, u32), to: (u32, u32), oob: Option<u8> },
    Snapshot,
    Swap,
}

const BLOCKS: u32 = 6;
const PAGES: u32 = 5;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || (0..BLOCKS, 0..PAGES);
    let step = prop_oneof![
        12 => (at(), any::<u64>(), any::<bool>())
            .prop_map(|((block, page), record, described)| Step::Program { block, page, record, described }),
        2 => (0..BLOCKS).prop_map(|block| Step::Erase { block }),
        4 => (at(), at(), any::<Option<u8>>()).prop_map(|(from, to, oob)| Step::Copy { from, to, oob }),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Swap),
    ];
    proptest::collection::vec(step, 1..120)
}

fn spec(page_size: u32, order: PageOrder) -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.page_size = page_size;
    spec.geometry.oob_size = 16;
    spec.geometry.pages_per_block = PAGES;
    spec.geometry.blocks = BLOCKS;
    spec.rules.order = order;
    spec.rules.copyback = CopybackReach::Device;
    spec.timing.program_ns = PageTimes::ByType(vec![10, 20, 30]);
    spec
}

/// A chip, its model, and the page order that the model enforces.
#[derive(Clone)]
struct Pair<S: Store> {
    chip: NandChip<S>,
    pages: Pages,
    /// The highest programmed page plus one, by block.
    next: [u32; BLOCKS as usize],
    order: PageOrder,
}

impl<S: Store> Pair<S> {
    fn may_program(&self, block: u32, page: u32) -> bool {
        let next = self.next[block as usize];
        match self.order {
            PageOrder::Any => !self.pages.contains_key(&(block, page)),
            PageOrder::Ascending => page >= next,
            PageOrder::Consecutive => page == next,
        }
    }

    fn land(&mut self, (block, page): (u32, u32), bytes: (Vec<u8>, [u8; 16])) {
        self.pages.insert((block, page), bytes);
        self.next[block as usize] = self.next[block as usize].max(page + 1);
    }

    fn apply(&mut self, step: &Step, page_size: u32) {
        let context = Context::default();
        match *step {
            Step::Program { block, page, record, described } => {
                let description = Description { record, version: 1, offset: 0, generator: Generator::Record };
                let mut bytes = vec![0; page_size as usize];
                description.generate(&mut bytes);
                let oob = [record as u8; 16];
                let payload = if described {
                    Payload::Described(Described { description, length: page_size })
                } else {
                    Payload::Bytes(&bytes)
                };
                let result =
                    self.chip.program(&context, PageAddress::new(block, page), PageProgram::new(payload, &oob));
                if self.may_program(block, page) {
                    result.unwrap();
                    self.land((block, page), (bytes, oob));
                } else {
                    assert_eq!(result.unwrap_err().kind, ErrorKind::Misuse);
                }
            }
            Step::Erase { block } => {
                self.chip.erase(&context, BlockIndex(block)).unwrap();
                self.pages.retain(|at, _| at.0 != block);
                self.next[block as usize] = 0;
            }
            Step::Copy { from, to, oob } => {
                let replacement = oob.map(|byte| [byte; 7]);
                let (source, target) = (PageAddress::new(from.0, from.1), PageAddress::new(to.0, to.1));
                let copyback = self.chip.copyback().unwrap();
                let result = copyback.copy(&context, source, target, replacement.as_ref().map(|oob| &oob[..]));
                if self.may_program(to.0, to.1) {
                    result.unwrap();
                    let erased = (vec![0xFF; page_size as usize], [0xFF; 16]);
                    let mut bytes = self.pages.get(&from).cloned().unwrap_or(erased);
                    if let Some(oob) = replacement {
                        bytes.1[..7].copy_from_slice(&oob);
                    }
                    self.land(to, bytes);
                } else {
                    assert_eq!(result.unwrap_err().kind, ErrorKind::Misuse);
                }
            }
            Step::Snapshot | Step::Swap => {}
        }
    }

    fn check(&self, page_size: u32) {
        for (block, page) in (0..BLOCKS).flat_map(|block| (0..PAGES).map(move |page| (block, page))) {
            let erased = (vec![0xFF; page_size as usize], [0xFF; 16]);
            let expected = self.pages.get(&(block, page)).unwrap_or(&erased);
            let (mut bytes, mut oob) = (vec![0; page_size as usize], [0; 16]);
            let read = PageRead { column: 0, data: ReadInto::Bytes(&mut bytes), oob: &mut oob };
            match self.chip.read(&Context::default(), PageAddress::new(block, page), read) {
                Ok(_) => assert_eq!(bytes, expected.0, "data of block {block} page {page}"),
                Err(error) => assert_eq!(error.kind, ErrorKind::NoContent),
            }
            assert_eq!(oob, expected.1, "OOB of block {block} page {page}");
        }
    }
}

fn run<S: Store>(steps: &[Step], page_size: u32, order: PageOrder) -> NandChip<S> {
    let chip = NandChip::<S>::new(&spec(page_size, order), 1).unwrap();
    let mut pair = Pair { chip, pages: Pages::new(), next: [0; BLOCKS as usize], order };
    let mut snapshots: Vec<Pair<S>> = Vec::new();
    for step in steps {
        match step {
            Step::Snapshot => snapshots.push(pair.clone()),
            Step::Swap => {
                if let Some(snapshot) = snapshots.pop() {
                    snapshots.push(std::mem::replace(&mut pair, snapshot));
                }
            }
            step => pair.apply(step, page_size),
        }
    }
    pair.check(page_size);
    snapshots.iter().for_each(|snapshot| snapshot.check(page_size));
    pair.chip
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chip_and_snapshots_are_what_the_model_says(
        steps in steps(),
        page_size in prop_oneof![Just(512u32), Just(1024), Just(2048), Just(4096), Just(8192), Just(16_384)],
        order in prop_oneof![Just(PageOrder::Any), Just(PageOrder::Ascending), Just(PageOrder::Consecutive)],
    ) {
        let content = run::<ContentStore>(&steps, page_size, order);
        let described = run::<DescribedStore>(&steps, page_size, order);
        let shadow = run::<ShadowStore>(&steps, page_size, order);
        let address = run::<AddressStore>(&steps, page_size, order);
        // The same run on every store: the same counts, wear and times.
        prop_assert_eq!(content.write_counters(), described.write_counters());
        prop_assert_eq!(content.write_counters(), shadow.write_counters());
        prop_assert_eq!(content.write_counters(), address.write_counters());
        prop_assert!(content.erase_counts().eq(shadow.erase_counts()));
        let end = |mut chip: NandChip<ContentStore>| chip.erase(&Context::default(), BlockIndex(0)).unwrap().completed;
        let again = run::<ContentStore>(&steps, page_size, order);
        prop_assert_eq!(end(content), end(again));
        let tags = |chip: &NandChip<ShadowStore>| -> Vec<u64> {
            (0..BLOCKS * PAGES)
                .map(|n| chip.place(PageAddress::new(n / PAGES, n % PAGES)).map_or(0, |place| chip.store().tag(place)))
                .collect()
        };
        prop_assert_eq!(tags(&shadow), tags(&run::<ShadowStore>(&steps, page_size, order)));
    }
}

#[test]
fn snapshots_of_a_shared_chip_may_be_used_on_several_threads() {
    let chip = NandChip::<ShadowStore>::new(&spec(512, PageOrder::Consecutive), 1).unwrap();
    let mut base = chip;
    for block in 0..BLOCKS {
        let oob = [block as u8; 16];
        let program = PageProgram::new(Payload::Bytes(&[9; 512]), &oob);
        base.program(&Context::default(), PageAddress::new(block, 0), program).unwrap();
    }
    let finished: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u8)
            .map(|worker| {
                let mut copy = base.clone();
                scope.spawn(move || {
                    for round in 0..200 {
                        let block = round % BLOCKS;
                        copy.erase(&Context::default(), BlockIndex(block)).unwrap();
                        let (data, oob) = ([worker; 512], [worker; 16]);
                        let program = PageProgram::new(Payload::Bytes(&data), &oob);
                        copy.program(&Context::default(), PageAddress::new(block, 0), program).unwrap();
                        let mut oob = [0; 16];
                        copy.read(&Context::default(), PageAddress::new(block, 0), PageRead::oob(&mut oob)).unwrap();
                        assert_eq!(oob, [worker; 16]);
                    }
                    copy.write_counters().erases
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(finished, [200; 4]);
    for block in 0..BLOCKS {
        let mut oob = [0; 16];
        base.read(&Context::default(), PageAddress::new(block, 0), PageRead::oob(&mut oob)).unwrap();
        assert_eq!(oob, [block as u8; 16], "the original is untouched");
    }
}
