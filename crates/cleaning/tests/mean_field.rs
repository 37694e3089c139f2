//! Victim policies in a log-structured store without devices or time, against what is known of write amplification under uniform random overwrites.

use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

const BLOCKS: usize = 512;
const PAGES: usize = 32;
const NONE: u32 = u32::MAX;

/// Blocks of pages, filled one after the other; user writes and copies share the open block.
struct Store {
    /// By logical page: its slot.
    map: Vec<usize>,
    /// By slot: its logical page, if it holds the newest version.
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
        // At the last moment, so that no more than the one block is in reserve that takes the copies.
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

/// Pages programmed per page overwritten, in the steady state, with a share `fill` of all pages in use.
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

/// The first argument for which a function that falls is at most `target`.
fn falls_to(target: f64, (mut low, mut high): (f64, f64), function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if function(middle) > target { low = middle } else { high = middle }
    }
    high
}

/// First in, first out. Between two cleanings of a block the log goes round once: `1 - u` of all T slots are taken by the user's writes, `u` by copies. A page
/// survives with probability `(1 - 1/U)^(T (1 - u))`, thus `u = exp(-(1 - u) / fill)`, of which the lesser root is `-fill * W(-exp(-1/fill) / fill)` with the principal
/// branch of Lambert's function (Desnoyers, SYSTOR 2012; the relation itself: Menon, VLDB 1995). Newton's method on W.
fn fifo(fill: f64) -> f64 {
    let argument = -(-1.0 / fill).exp() / fill;
    let w = (0..50).fold(-0.5_f64, |w, _| w - (w * w.exp() - argument) / ((w + 1.0) * w.exp()));
    1.0 / (1.0 + fill * w)
}

/// Greedy among `d` random blocks: the fixed point of the mean field (Van Houdt, SIGMETRICS 2013). With `v` cleanings per user write, `S_i` the share of blocks with at least
/// `i` valid pages and `p_i = S_i - S_(i+1)`: blocks leave level `i` downwards at the rate `p_i * i * BLOCKS / U` and arrive there from above, or from cleaning
/// as full blocks; what goes down below `i` must be cleaned there: `p_i * i * BLOCKS / U = v * (1 - S_i^d)`. All valid pages are the user's:
/// the sum of `i * p_i` is `U / BLOCKS`. With `c = v * U / BLOCKS` the write amplification is `v * PAGES = c / fill`.
fn d_choices(d: i32, fill: f64) -> f64 {
    let valid = |c: f64| {
        let mut above = 0.0;
        (1..=PAGES).rev().fold(0.0, |valid, level| {
            // S = above + c * (1 - S^d) / level: the right side falls with S.
            let excess = |s: f64| above + c * (1.0 - s.powi(d)) / level as f64 - s;
            let s = falls_to(0.0, (above, 1.0), excess);
            let here = (s - above) * level as f64;
            above = s;
            valid + here
        })
    };
    // More cleaning means fuller blocks.
    let c = falls_to(-fill * PAGES as f64, (0.0, 1e4), |c| -valid(c));
    c / fill
}

/// Greedy: the limit of many choices, in which only the lowest level that holds any block is cleaned (Bux and Iliadis, Performance Evaluation 67, 2010; Van Houdt).
/// Blocks pass the levels above the mean victim's `m + 1 - q` at the rate `v` and stay `U / i` user writes at level `i`; a share `q` of the victims went down to
/// `m`, the others were cleaned at `m + 1`. So `BLOCKS / U = v * (1/(m+2) + ... + 1/PAGES + q/(m+1))`, and `v * (PAGES - (m + 1) + q) = 1`.
fn greedy(fill: f64) -> f64 {
    let blocks_per_page = |gain: f64| {
        let (whole, q) = (gain.floor() as usize, gain.fract());
        let sum: f64 = (PAGES - whole + 1..=PAGES).map(|level| 1.0 / level as f64).sum();
        (sum + q / (PAGES - whole) as f64) / gain
    };
    // Rises with the gain: the more is spare, the more is won.
    let gain = falls_to(-1.0 / (fill * PAGES as f64), (1e-9, PAGES as f64 - 1e-9), |gain| -blocks_per_page(gain));
    PAGES as f64 / gain
}

#[test]
fn the_models_agree_where_they_must() {
    // Many choices are greedy, and one is no choice: a victim is as full as the store.
    assert!((d_choices(1, 0.8) - 5.0).abs() < 1e-6);
    assert!((d_choices(2000, 0.8) / greedy(0.8) - 1.0).abs() < 0.005, "{} {}", d_choices(2000, 0.8), greedy(0.8));
    assert!(greedy(0.8) < d_choices(10, 0.8) && d_choices(10, 0.8) < d_choices(2, 0.8));
    // W(-exp(-1/fill)/fill) satisfies the relation that it solves.
    let u = 1.0 - 1.0 / fifo(0.8);
    assert!((u - (-(1.0 - u) / 0.8).exp()).abs() < 1e-12 && u < 0.7, "{u}");
}

#[test]
fn write_amplification_is_what_theory_says() {
    let cases: [(&str, f64, f64, f64); 6] = [
        ("fifo", 0.8, fifo(0.8), 0.02),
        ("fifo", 0.7, fifo(0.7), 0.02),
        ("greedy", 0.8, greedy(0.8), 0.03),
        ("greedy", 0.7, greedy(0.7), 0.03),
        ("d-choices:d=3,open-clean=yes", 0.8, d_choices(3, 0.8), 0.03),
        ("random:open-clean=yes", 0.7, d_choices(1, 0.7), 0.03),
    ];
    for (policy, fill, theory, tolerance) in cases {
        let found = measured(policy, fill);
        println!("{policy} at {fill}: {found:.4}, theory {theory:.4}, {:+.2} %", (found / theory - 1.0) * 100.0);
        assert!((found / theory - 1.0).abs() < tolerance, "{policy} at {fill}: {found}, theory {theory}");
    }
}
