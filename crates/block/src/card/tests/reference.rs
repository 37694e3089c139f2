//! Compares cards with a reference that keeps every write of every unit and searches all of them,
//! and checks that faults in the reference are detected.

use nandkit_units::random::Random;

use super::*;

/// A deviation from the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    OneUnitMore,
    OneUnitLess,
    NewestClosed,
    OldestOpenedClosed,
    MergesWhole,
    MergesInPart,
    SecondUnitForgotten,
    WholeUnitsStay,
    WritesMoveTheReadEnd,
    AllWritesRandom,
    TrimForgotten,
    CommandForgotten,
}

const FAULTS: [Fault; 12] = [
    Fault::OneUnitMore,
    Fault::OneUnitLess,
    Fault::NewestClosed,
    Fault::OldestOpenedClosed,
    Fault::MergesWhole,
    Fault::MergesInPart,
    Fault::SecondUnitForgotten,
    Fault::WholeUnitsStay,
    Fault::WritesMoveTheReadEnd,
    Fault::AllWritesRandom,
    Fault::TrimForgotten,
    Fault::CommandForgotten,
];

/// The writes of a unit since it was opened, with the number of the request that did each.
type Writes = Vec<(u64, u64, u64)>;

struct Reference {
    fault: Fault,
    requests: u64,
    read_end: Option<u64>,
    units: BTreeMap<u64, Writes>,
}

impl Reference {
    fn new(fault: Fault) -> Self {
        Self { fault, requests: 0, read_end: None, units: BTreeMap::new() }
    }

    fn curve(&self, base: u64, bytes: u64) -> u64 {
        base + bytes.max(4096) - 4096 + if self.fault == Fault::CommandForgotten { 0 } else { 100 }
    }

    fn read(&mut self, at: u64, bytes: u64) -> u64 {
        let base = if self.read_end == Some(at) { 10_000 } else { 20_000 };
        self.read_end = Some(at + bytes);
        self.curve(base, bytes)
    }

    fn close_one(&mut self) -> u64 {
        let newest = self.fault == Fault::NewestClosed;
        let key = |writes: &Writes| match self.fault {
            Fault::OldestOpenedClosed => writes[0].2,
            _ => writes[writes.len() - 1].2,
        };
        let by_age = |a: &(&u64, &Writes), b: &(&u64, &Writes)| key(a.1).cmp(&key(b.1));
        let found = if newest { self.units.iter().max_by(by_age) } else { self.units.iter().min_by(by_age) };
        let number = *found.unwrap().0;
        let writes = self.units.remove(&number).unwrap();
        let upwards = writes.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let written: u64 = writes.iter().map(|(from, to, _)| to - from).sum();
        match (upwards, self.fault) {
            (_, Fault::MergesWhole) | (false, _) if self.fault != Fault::MergesInPart => 1_000_000,
            _ => 1_000_000 * UNIT.saturating_sub(written) / UNIT,
        }
    }

    fn write(&mut self, at: u64, bytes: u64) -> u64 {
        self.requests += 1;
        let continues = match self.units.get(&(at / UNIT)) {
            Some(writes) => writes[writes.len() - 1].1 == at % UNIT,
            None => at.is_multiple_of(UNIT),
        };
        let base = if continues && self.fault != Fault::AllWritesRandom { 30_000 } else { 40_000 };
        let mut time = self.curve(base, bytes);
        let count = match self.fault {
            Fault::OneUnitMore => 4,
            Fault::OneUnitLess => 2,
            _ => 3,
        };
        let last = if self.fault == Fault::SecondUnitForgotten { at / UNIT } else { (at + bytes - 1) / UNIT };
        for number in at / UNIT..=last {
            let from = at.max(number * UNIT) - number * UNIT;
            let to = (at + bytes).min((number + 1) * UNIT) - number * UNIT;
            if !self.units.contains_key(&number) && self.units.len() >= count {
                time += self.close_one();
            }
            let order = self.requests * 1000 + number - at / UNIT;
            let writes = self.units.entry(number).or_default();
            writes.push((from, to, order));
            let whole = writes[0].0 == 0
                && writes[writes.len() - 1].1 == UNIT
                && writes.windows(2).all(|pair| pair[0].1 == pair[1].0);
            if whole && self.fault != Fault::WholeUnitsStay {
                self.units.remove(&number);
            }
        }
        if self.fault == Fault::WritesMoveTheReadEnd {
            self.read_end = Some(at + bytes);
        }
        time
    }

    fn trim(&mut self, at: u64, bytes: u64) -> u64 {
        if self.fault != Fault::TrimForgotten {
            self.units.retain(|number, _| number * UNIT < at || (number + 1) * UNIT > at + bytes);
        }
        5_000 + if self.fault == Fault::CommandForgotten { 0 } else { 100 }
    }
}

/// The first request for which a card and the reference differ.
fn first_difference(fault: Fault, seed: u64) -> Option<u64> {
    let mut spec = round_spec();
    spec.open_units.count = 3;
    let mut card = Card::in_memory(&spec).unwrap();
    let mut reference = Reference::new(fault);
    let mut random = Random::new(seed, "card requests");
    let (mut at, mut bytes) = (0_u64, 4096);
    for request in 0..2000 {
        // Mostly on or near what was used before, so that units are filled, rewritten and trimmed.
        at = match random.below(10) {
            0..5 => at + bytes,
            5 => at.saturating_sub(random.below(8) * 4096),
            6 => at / UNIT * UNIT,
            _ => random.below(24) * 16 * KIB,
        };
        bytes = [512, 4096, 4096, 16_384, 40_960, 2 * UNIT][random.below(6) as usize];
        at = if at + bytes > 4 << 20 { 0 } else { at };
        let (found, expected) = match random.below(12) {
            0..3 => (read(&card, at, bytes), reference.read(at, bytes)),
            3 => {
                let context = Context::at(card.busy_until());
                let done = Trim::trim(&mut card, &context, Lba(at / 512), bytes / 512).unwrap();
                (done.busy.0, reference.trim(at, bytes))
            }
            _ => (write(&mut card, at, bytes), reference.write(at, bytes)),
        };
        if found != expected || card.open_units() != reference.units.len() {
            return Some(request);
        }
    }
    let counters = card.counters();
    assert!(counters.units_closed_whole > 50 && counters.units_merged_in_part > 50, "{counters:?}");
    assert!(counters.units_merged_whole > 50 && counters.writes_sequential.requests > 100, "{counters:?}");
    None
}

#[test]
fn cards_are_as_the_reference_says() {
    for seed in 0..8 {
        assert_eq!(first_difference(Fault::None, seed), None, "seed {seed}");
    }
}

#[test]
fn every_planted_fault_is_noticed() {
    for fault in FAULTS {
        assert!(first_difference(fault, 1).is_some(), "{fault:?} makes no difference");
    }
}
