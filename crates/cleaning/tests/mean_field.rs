//! Compares victim policies in a log-structured store without devices or time with the known write
//! amplification under uniform random overwrites.

use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy};
use nandkit_theory::{self as theory, Device};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

const BLOCKS: usize = 512;
const PAGES: usize = 32;
const NONE: u32 = u32::MAX;

/// Blocks of pages, filled one after the other; user writes and copies share the open block.
struct Store {
    /// The slot of each logical page.
    map: Vec<usize>,
    /// The logical page of each slot, if it holds the newest version.
    owner: Vec<u32>,
    valid: Vec<u64>,
    opened: Vec<Option<u64>>,
    free: Vec<usize>,
    open: usize,
    used: usize,
    programs: u64,
}

impl Store {
    fn new() -> Self {
        let (owner, valid, opened) = (vec![NONE; BLOCKS * PAGES], vec![0; BLOCKS], vec![None; BLOCKS]);
        let free = (1..BLOCKS).rev().collect();
        Self { map: Vec::new(), owner, valid, opened, free, open: 0, used: 0, programs: 0 }
    }

    fn append(&mut self, page: u32) -> usize {
        if self.used == PAGES {
            (self.open, self.used) = (self.free.pop().unwrap(), 0);
        }
        let slot = self.open * PAGES + self.used;
        (self.used, self.programs) = (self.used + 1, self.programs + 1);
        self.owner[slot] = page;
        self.valid[self.open] += 1;
        if self.used == PAGES {
            self.opened[self.open] = Some(self.programs);
        }
        slot
    }

    fn write(&mut self, page: u32, policy: &VictimPolicy, random: &mut Random) {
        // Clean as late as possible, so that only the block that takes the copies is in reserve.
        while self.used == PAGES && self.free.len() < 2 {
            self.clean(policy, random);
        }
        if let Some(&old) = self.map.get(page as usize) {
            self.owner[old] = NONE;
            self.valid[old / PAGES] -= 1;
        } else {
            self.map.push(0);
        }
        self.map[page as usize] = self.append(page);
    }

    fn clean(&mut self, policy: &VictimPolicy, random: &mut Random) {
        let views = self.opened.iter().zip(&self.valid).enumerate().filter_map(|(block, (&opened, &valid))| {
            let (first_written, invalid) = (Nanos(opened?), PAGES as u64 - valid);
            let queue = Queue::of(valid, invalid, 0);
            Some(BlockView { block: block as u32, valid, invalid, first_written, queue, ..BlockView::default() })
        });
        let mut draw = |bound: u32| random.below(u64::from(bound)) as u32;
        let victim = policy.choose(views, Nanos(self.programs), &mut draw).unwrap().block as usize;
        self.opened[victim] = None;
        for slot in victim * PAGES..(victim + 1) * PAGES {
            if self.owner[slot] != NONE {
                let page = std::mem::replace(&mut self.owner[slot], NONE);
                self.map[page as usize] = self.append(page);
            }
        }
        self.valid[victim] = 0;
        self.free.push(victim);
    }
}

/// Pages programmed per overwritten page in the steady state, with a share `fill` of all pages in
/// use.
fn measured(policy: &str, fill: f64) -> f64 {
    let policy: VictimPolicy = policy.parse().unwrap();
    let mut random = Random::new(3, "overwrites");
    let mut draws = Random::new(3, "draws");
    let (mut store, user) = (Store::new(), (fill * (BLOCKS * PAGES) as f64) as u64);
    (0..user as u32).for_each(|page| store.write(page, &policy, &mut draws));
    let mut overwrite = |count| {
        let before = store.programs;
        for _ in 0..count {
            store.write(random.below(user) as u32, &policy, &mut draws);
        }
        (store.programs - before) as f64 / count as f64
    };
    overwrite(3 * user);
    overwrite(4 * user)
}

/// A device for the theory, with a share `fill` in use.
fn device(fill: f64) -> Device {
    Device::new(PAGES as u32, 1.0 / fill - 1.0).unwrap()
}

#[test]
fn write_amplification_is_what_theory_says() {
    let cases: [(&str, f64, f64, f64); 6] = [
        ("fifo", 0.8, theory::fifo(&device(0.8)), 0.02),
        ("fifo", 0.7, theory::fifo(&device(0.7)), 0.02),
        ("greedy", 0.8, theory::greedy(&device(0.8)), 0.03),
        ("greedy", 0.7, theory::greedy(&device(0.7)), 0.03),
        ("d-choices:d=3,open-clean=yes", 0.8, theory::d_choices(&device(0.8), 3), 0.03),
        ("random:open-clean=yes", 0.7, theory::random(&device(0.7)), 0.03),
    ];
    for (policy, fill, theory, tolerance) in cases {
        let found = measured(policy, fill);
        println!("{policy} at {fill}: {found:.4}, theory {theory:.4}, {:+.2} %", (found / theory - 1.0) * 100.0);
        assert!((found / theory - 1.0).abs() < tolerance, "{policy} at {fill}: {found}, theory {theory}");
    }
}
