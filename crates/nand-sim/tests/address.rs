//! The store of addresses reproduces every tag that it was given, whatever the neighbouring pages
//! hold.

use nandkit_codec::page_tag::{TAG_BYTES, TagFormat, WORD_MAX};
use nandkit_flash::{Copyback, Flash, PageProgram, PageRead};
use nandkit_nand_sim::{AddressChip, ChipSpec, ContentStore, CopybackReach, NandChip, PageOrder, Store};
use nandkit_units::{BlockIndex, Context, Described, PageAddress, Payload};
use proptest::prelude::*;

const PAGES: u32 = 16;
const BLOCKS: u32 = 4;
const OOB: usize = 128;

#[derive(Clone, Debug)]
enum Step {
    /// Tags from a number on; the sequence continues, or jumps. `torn`: one byte of one tag
    /// differs.
    Program {
        block: u32,
        payload: u64,
        jump: u64,
        torn: Option<usize>,
        bytes: bool,
    },
    Copy {
        from: (u32, u32),
        block: u32,
        payload: Option<u64>,
    },
    Erase {
        block: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![
        8 => (0u64..1 << 20, 0u64..3).prop_map(|(number, low)| number << 8 | low),
        1 => 0..=WORD_MAX,
        1 => Just(WORD_MAX),
    ];
    let jump = prop_oneof![6 => Just(0u64), 2 => 1u64..9, 1 => 0u64..1 << 40];
    let torn = prop_oneof![9 => Just(None), 1 => (0..OOB).prop_map(Some)];
    prop_oneof![
        12 => (0..BLOCKS, payload.clone(), jump, torn, prop::bool::weighted(0.1))
            .prop_map(|(block, payload, jump, torn, bytes)| Step::Program { block, payload, jump, torn, bytes }),
        4 => ((0..BLOCKS, 0..PAGES), 0..BLOCKS, prop::option::weighted(0.8, payload))
            .prop_map(|(from, block, payload)| Step::Copy { from, block, payload }),
        1 => (0..BLOCKS).prop_map(|block| Step::Erase { block }),
    ]
}

fn chip<S: Store>(page_size: u32) -> NandChip<S> {
    let mut spec = ChipSpec::default();
    (spec.geometry.page_size, spec.geometry.write_unit, spec.geometry.oob_size) = (page_size, page_size, OOB as u32);
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (PAGES, BLOCKS);
    spec.rules.order = PageOrder::Consecutive;
    spec.rules.copyback = CopybackReach::Device;
    NandChip::new(&spec, 1).unwrap()
}

struct Bench {
    address: AddressChip,
    content: NandChip<ContentStore>,
    next: [u32; BLOCKS as usize],
    sequence: u64,
    format: TagFormat,
    tags: usize,
    page_size: u32,
}

impl Bench {
    fn oob(&mut self, payload: u64, jump: u64) -> Vec<u8> {
        self.sequence = (self.sequence + jump) & (WORD_MAX >> 1);
        let tags = (0..self.tags as u64)
            .flat_map(|tag| self.format.image(payload.saturating_add(tag << 8).min(WORD_MAX), self.sequence + tag));
        let oob = tags.collect();
        self.sequence += self.tags as u64;
        oob
    }

    fn apply(&mut self, step: &Step) {
        let context = Context::default();
        match *step {
            Step::Program { block, payload, jump, torn, bytes } => {
                let page = self.next[block as usize];
                if page == PAGES {
                    return;
                }
                self.next[block as usize] += 1;
                let mut oob = self.oob(payload, jump);
                if let Some(byte) = torn.and_then(|at| oob.get_mut(at)) {
                    *byte ^= 0x10;
                }
                let content = vec![page as u8; self.page_size as usize];
                let described = Payload::Described(Described { length: self.page_size, ..Described::default() });
                let data = if bytes { Payload::Bytes(&content) } else { described };
                let at = PageAddress::new(block, page);
                self.address.program(&context, at, PageProgram::new(data, &oob)).unwrap();
                self.content.program(&context, at, PageProgram::new(data, &oob)).unwrap();
            }
            Step::Copy { from, block, payload } => {
                let page = self.next[block as usize];
                if page == PAGES {
                    return;
                }
                self.next[block as usize] += 1;
                let oob = payload.map(|payload| self.oob(payload, 0));
                let (from, to) = (PageAddress::new(from.0, from.1), PageAddress::new(block, page));
                self.address.copy(&context, from, to, oob.as_deref()).unwrap();
                self.content.copy(&context, from, to, oob.as_deref()).unwrap();
            }
            Step::Erase { block } => {
                self.next[block as usize] = 0;
                self.address.erase(&context, BlockIndex(block)).unwrap();
                self.content.erase(&context, BlockIndex(block)).unwrap();
            }
        }
    }

    fn check(&self, address: &AddressChip) {
        for at in (0..BLOCKS).flat_map(|block| (0..PAGES).map(move |page| PageAddress::new(block, page))) {
            let (mut one, mut other) = ([0; OOB], [0; OOB]);
            address.read(&Context::default(), at, PageRead::oob(&mut one)).unwrap();
            self.content.read(&Context::default(), at, PageRead::oob(&mut other)).unwrap();
            assert_eq!(one, other, "{at}");
            let (mut one, mut other) = (vec![0; self.page_size as usize], vec![0; self.page_size as usize]);
            if address.read(&Context::default(), at, PageRead::bytes(0, &mut one)).is_ok() {
                self.content.read(&Context::default(), at, PageRead::bytes(0, &mut other)).unwrap();
                assert!(one == other, "data at {at}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tags_and_bytes_come_back(
        steps in prop::collection::vec(step(), 1..120),
        page_size in prop_oneof![Just(512u32), Just(4096)],
        tags in prop_oneof![Just(1usize), Just(2), Just(OOB / TAG_BYTES)],
    ) {
        let (address, content) = (chip(page_size), chip(page_size));
        let format = TagFormat::new(page_size);
        let mut bench = Bench { address, content, next: [0; BLOCKS as usize], sequence: 5, format, tags, page_size };
        for step in &steps {
            bench.apply(step);
        }
        bench.check(&bench.address);
        // A snapshot does not change with its original.
        let snapshot = bench.address.clone();
        for block in 0..BLOCKS {
            bench.address.erase(&Context::default(), BlockIndex(block)).unwrap();
        }
        bench.check(&snapshot);
    }
}
