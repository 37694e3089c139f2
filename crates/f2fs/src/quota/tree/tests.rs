use std::collections::BTreeMap;

use nandkit_units::random::Random;

use super::*;
use crate::quota::file::{QuotaBytes, of_records};
use crate::quota::layout::{GRACE, Limit};

const KIND: QuotaKind = QuotaKind::User;

fn new(records: &BTreeMap<u32, Record>) -> QuotaBytes {
    QuotaBytes(of_records(KIND, (GRACE, GRACE), records.values().copied()))
}

/// Checks that every block has one use (root, references, records in the right list, or unused) and
/// that the counts are right.
fn assert_whole(file: &mut QuotaBytes, model: &BTreeMap<u32, Record>) {
    let mut tree = QuotaTree::open(file, KIND).unwrap();
    assert_eq!(&tree.records().unwrap(), model);
    assert_eq!(tree.stray().unwrap(), None);
    let count = tree.header.blocks.get();
    let mut uses: BTreeMap<u32, &str> = BTreeMap::from([(0, "header"), (ROOT, "references")]);
    let mut held: BTreeMap<u32, usize> = BTreeMap::new();
    for id in model.keys() {
        let way = tree.way(*id).unwrap();
        for number in way.above {
            uses.insert(number, "references");
        }
        *held.entry(way.records.unwrap()).or_default() += 1;
    }
    let mut with_room = BTreeSet::new();
    let (mut at, mut before) = (tree.header.free_entry.get(), 0);
    while at != 0 {
        assert!(with_room.insert(at));
        let head = head_of(&tree.blocks.read_block(at).unwrap());
        assert_eq!(head.previous_free.get(), before);
        (before, at) = (at, head.next_free.get());
    }
    for (number, records) in held {
        assert_eq!(usize::from(head_of(&tree.blocks.read_block(number).unwrap()).records.get()), records);
        assert_eq!(with_room.remove(&number), records < RECORDS);
        assert_eq!(uses.insert(number, "records"), None);
    }
    assert!(with_room.is_empty());
    let mut at = tree.header.free_block.get();
    while at != 0 {
        assert_eq!(uses.insert(at, "free"), None);
        at = head_of(&tree.blocks.read_block(at).unwrap()).next_free.get();
    }
    assert_eq!(uses.keys().copied().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    assert_eq!(file.0.len(), count as usize * BLOCK);
}

#[test]
fn changes_are_those_of_a_map() {
    let mut random = Random::new(1, "quota tree");
    let mut model = BTreeMap::from([(0, Record { usage: Usage { inodes: 1, bytes: 0 }, ..Record::default() })]);
    let mut file = new(&model);
    let (mut most, mut inserted, mut removed) = (0, 0, 0);
    for step in 0..6000_u64 {
        let spread = [300, 70_000, 1 << 32][random.below(3) as usize];
        let any = random.below(spread) as u32;
        let some = model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied().unwrap_or(any);
        let grows = step / 1500 % 2 == 0;
        let id = if random.below(4) == 0 || grows { any } else { some };
        let record = Record {
            id,
            usage: Usage { inodes: step, bytes: step * 4096 },
            bytes: Limit { hard: step % 3, ..Limit::default() },
            ..Record::default()
        };
        let mut tree = QuotaTree::open(&mut file, KIND).unwrap();
        match (tree.find(id).unwrap(), model.get(&id)) {
            (Some((at, found)), Some(known)) => {
                assert_eq!(&found, known);
                if grows {
                    tree.update(at, &record).unwrap();
                    model.insert(id, record);
                } else {
                    tree.remove(id).unwrap();
                    model.remove(&id);
                    removed += 1;
                }
            }
            (None, None) if grows => {
                tree.insert(&record).unwrap();
                model.insert(id, record);
                inserted += 1;
            }
            (None, None) => tree.remove(id).unwrap(),
            (found, known) => panic!("{found:?} {known:?}"),
        }
        most = most.max(model.len());
        if step % 100 == 0 || model.len() < 20 {
            assert_whole(&mut file, &model);
        }
    }
    assert!(most > 500 && inserted > 1000 && removed > 1000, "{most} {inserted} {removed}");
    for id in model.keys().copied().collect::<Vec<_>>() {
        QuotaTree::open(&mut file, KIND).unwrap().remove(id).unwrap();
        model.remove(&id);
    }
    assert_whole(&mut file, &model);
}

#[test]
fn without_room_nothing_changes() {
    struct Full(QuotaBytes);
    impl QuotaBlocks for Full {
        fn size(&mut self) -> Result<u64> {
            self.0.size()
        }
        fn read_block(&mut self, number: u32) -> Result<QuotaBlock> {
            self.0.read_block(number)
        }
        fn write_block(&mut self, _: u32, _: &QuotaBlock) -> Result<()> {
            panic!("written")
        }
        fn make_room(&mut self, first: u32, count: u32) -> Result<()> {
            assert_eq!((first, count), (6, 3));
            Err(FsError::new(ErrorKind::NoSpace, "full"))
        }
    }
    let model = BTreeMap::from([(0, Record { usage: Usage { inodes: 1, bytes: 0 }, ..Record::default() })]);
    let mut file = Full(new(&model));
    let mut tree = QuotaTree::open(&mut file, KIND).unwrap();
    let error = tree.insert(&Record { id: 1 << 24, ..Record::default() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
}

/// A list that returns to one of its blocks, however late, hands none out.
#[test]
fn a_circle_of_blocks_without_use_is_refused() {
    let record = |id: u32| Record { id, usage: Usage { inodes: 1, bytes: 0 }, ..Record::default() };
    let ids = [1_u32 << 24, 2 << 24, 3 << 24];
    let mut file = new(&BTreeMap::from([(0, record(0))]));
    let mut free = Vec::new();
    for change in 0..2 {
        for id in ids {
            let mut tree = QuotaTree::open(&mut file, KIND).unwrap();
            if change == 0 { tree.insert(&record(id)).map(|_| ()).unwrap() } else { tree.remove(id).unwrap() }
        }
    }
    let tree = QuotaTree::open(&mut file, KIND).unwrap();
    let mut at = tree.header.free_block.get();
    while at != 0 {
        free.push(at);
        at = head_of(&tree.blocks.read_block(at).unwrap()).next_free.get();
    }
    assert!(free.len() > 2 * DEPTH, "{free:?}");
    for back_to in [0, 1, free.len() - 1] {
        let mut file = file.clone();
        let mut tree = QuotaTree::open(&mut file, KIND).unwrap();
        tree.change_head(free[free.len() - 1], |head| head.next_free = free[back_to].into()).unwrap();
        let before = tree.blocks.clone();
        let error = tree.insert(&record(1 << 25)).unwrap_err();
        assert!(error.kind == ErrorKind::Corrupt && error.detail.contains("comes back"), "{error}");
        assert!(file.0 == before.0, "nothing has changed");
    }
}

/// A hostile file: any byte of any block may have any value. Errors are fine; panics and endless
/// loops are not.
#[test]
fn hostile_files_are_errors() {
    let mut random = Random::new(2, "hostile quota");
    let records: BTreeMap<u32, Record> = (0..60)
        .map(|number| {
            (
                number * 70_001,
                Record { id: number * 70_001, usage: Usage { inodes: 1, bytes: 4096 }, ..Record::default() },
            )
        })
        .collect();
    let whole = new(&records);
    let mut refused = 0;
    for _ in 0..3000 {
        let mut file = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(file.0.len() as u64 / 4) as usize * 4;
            let value = match random.below(3) {
                0 => random.below(1 << 32) as u32,
                _ => random.below(file.0.len() as u64 / BLOCK as u64 + 2) as u32,
            };
            // The start of the lists and of the tree more often.
            let at = if random.below(2) == 0 { at % (6 * BLOCK) } else { at };
            set_word(&mut file.0, at, value);
        }
        let mut failed = false;
        for step in 0..60_u32 {
            let Ok(mut tree) = QuotaTree::open(&mut file, KIND) else {
                failed = true;
                break;
            };
            let id = if step % 2 == 0 { random.below(60) as u32 * 70_001 } else { random.below(1 << 32) as u32 };
            failed |= match tree.find(id) {
                Ok(Some(_)) => tree.remove(id).is_err(),
                Ok(None) => tree.insert(&Record { id, ..Record::default() }).is_err(),
                Err(_) => true,
            };
            assert!(file.0.len() < 1 << 20);
        }
        if let Ok(mut tree) = QuotaTree::open(&mut file, KIND) {
            failed |= tree.records().is_err();
        }
        refused += u32::from(failed);
    }
    assert!(refused > 500, "{refused}");
}
