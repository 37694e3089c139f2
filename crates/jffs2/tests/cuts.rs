//! Power cuts at programs and erases: before, inside in each torn state, and after; and again while the volume that was cut is written to. One log is written in order, so
//! what is found must be the state after one of the operations since the last sync, none of them torn.

mod strict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nandkit_flash::wrap::CutMoment;
use nandkit_flash::{Flash, Interrupt, PageProgram, PageRead, Result};
use nandkit_jffs2::write::{CompressionMode, Draws, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode};
use strict::{StrictFlash, clock, nor};

/// A device that keeps what a cut at its programs and erases would have left.
struct Snapping {
    inner: StrictFlash,
    operation: Arc<AtomicUsize>,
    /// Number of the operation, moment, device.
    cuts: Vec<(usize, CutMoment, StrictFlash)>,
    random: Random,
    /// One step in this many is cut.
    every: u64,
}

impl Snapping {
    fn moments(&mut self) -> Vec<CutMoment> {
        if self.random.below(self.every) != 0 {
            return Vec::new();
        }
        (0..2).map(|_| CutMoment::ALL[self.random.below(CutMoment::ALL.len() as u64) as usize]).collect()
    }
}

impl Flash for Snapping {
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        for moment in self.moments() {
            let mut left = self.inner.clone();
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { page, .. } => left.interrupt_program(context, at, program, page)?,
                CutMoment::After => drop(left.program(context, at, program)),
            }
            self.cuts.push((self.operation.load(Ordering::Relaxed), moment, left));
        }
        self.inner.program(context, at, program)
    }
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        for moment in self.moments() {
            let mut left = self.inner.clone();
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { erase, .. } => left.interrupt_erase(context, block, erase)?,
                CutMoment::After => drop(left.erase(context, block)),
            }
            self.cuts.push((self.operation.load(Ordering::Relaxed), moment, left));
        }
        self.inner.erase(context, block)
    }
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }
    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.inner.mark_bad(context, block)
    }
    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.inner.sync(context)
    }
}

const PAGE: usize = 4096;

/// Names, and the version of each page's content; 0 reads as zeroes.
type State = BTreeMap<String, Vec<u32>>;

/// What a page of a version holds: the version, again and again.
fn page(version: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 4)
}

/// The states that a volume went through, by operation.
struct History {
    states: Vec<State>,
    /// By operation: the first and the last state that a cut in it may leave. What was before the last sync may not come back.
    operations: Vec<(usize, usize)>,
    synced: usize,
    version: u32,
}

impl History {
    fn new(state: State) -> Self {
        let version = state.values().flatten().max().copied().unwrap_or(0);
        Self { states: vec![state], operations: Vec::new(), synced: 0, version }
    }

    fn now(&self) -> State {
        self.states.last().unwrap().clone()
    }

    /// An operation begins, that will go through these states.
    fn begin(&mut self, states: Vec<State>) {
        self.states.extend(states);
        self.operations.push((self.synced, self.states.len() - 1));
    }
}

/// One random operation. `false`: the volume is full.
fn step<F: Flash>(fs: &mut Jffs2<F>, history: &mut History, random: &mut Random, operation: &AtomicUsize) -> bool {
    let (root, before) = (fs.root(), history.now());
    let name = |random: &mut Random| format!("file-{}", random.below(9));
    let (chosen, other) = (name(random), name(random));
    let inode = |fs: &Jffs2<F>, name: &str| fs.lookup(root, name.as_bytes()).unwrap();
    let (mut after, mut states) = (before.clone(), Vec::new());
    let kind = random.below(20);
    let number = history.operations.len();
    operation.store(number, Ordering::Relaxed);
    let result = match (kind, before.contains_key(&chosen)) {
        (0, _) => {
            history.begin(Vec::new());
            fs.sync(None).unwrap();
            history.synced = history.states.len() - 1;
            Ok(())
        }
        (_, false) => {
            after.insert(chosen.clone(), Vec::new());
            history.begin(vec![after]);
            fs.create(root, chosen.as_bytes(), &NewNode::FILE).map(drop)
        }
        (1, true) => {
            after.remove(&chosen);
            history.begin(vec![after]);
            fs.remove(root, chosen.as_bytes())
        }
        (2, true) if chosen != other => {
            let content = after[&chosen].clone();
            after.insert(other.clone(), content);
            states.push(after.clone());
            after.remove(&chosen);
            states.push(after);
            history.begin(states);
            fs.rename((root, chosen.as_bytes()), (root, other.as_bytes()), Default::default())
        }
        (3, true) => {
            let pages = random.below(5) as usize;
            after.get_mut(&chosen).unwrap().resize(pages, 0);
            history.begin(vec![after]);
            let change = AttributeChange { size: Some((pages * PAGE) as u64), ..Default::default() };
            fs.set_attributes(inode(fs, &chosen), &change).map(drop)
        }
        _ => {
            let at = random.below(5) as usize;
            let pages = after.get_mut(&chosen).unwrap();
            if pages.len() < at {
                pages.resize(at, 0);
                states.push(after.clone());
            }
            let pages = after.get_mut(&chosen).unwrap();
            pages.resize(pages.len().max(at + 1), 0);
            history.version += 1;
            pages[at] = history.version;
            states.push(after);
            history.begin(states);
            let bytes = page(history.version);
            let taken = fs.write(inode(fs, &chosen), (at * PAGE) as u64, Payload::Bytes(&bytes));
            taken.and_then(|taken| {
                if taken == PAGE {
                    return Ok(());
                }
                // The volume is full, and the page there in part: away with it.
                let mut after = history.now();
                after.remove(&chosen);
                history.begin(vec![after]);
                operation.store(number + 1, Ordering::Relaxed);
                fs.remove(root, chosen.as_bytes())
            })
        }
    };
    match result {
        Ok(()) => true,
        Err(error) if error.kind == ErrorKind::NoSpace => {
            // All is as it was before.
            history.states.push(before);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a volume holds: names and bytes.
fn found<F: Flash>(fs: &Jffs2<F>) -> BTreeMap<String, Vec<u8>> {
    let mut names: Vec<(String, InodeNumber)> = Vec::new();
    fs.read_dir(fs.root(), 0, &mut |entry| {
        names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.inode));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    names
        .into_iter()
        .map(|(name, inode)| {
            let mut bytes = vec![0; fs.stat(inode).unwrap().size as usize];
            assert_eq!(fs.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap(), bytes.len());
            (name, bytes)
        })
        .collect()
}

/// Names, sizes, and the versions that pages begin and end with.
fn shown(found: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let ends = |page: &[u8]| {
        let word = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
        (word(page.first_chunk()), word(page.last_chunk()))
    };
    let show = |(name, bytes): (&String, &Vec<u8>)| {
        format!("{name} {} {:?}", bytes.len(), bytes.chunks(PAGE).map(ends).collect::<Vec<_>>())
    };
    found.iter().map(show).collect()
}

/// Whether bytes are these pages, the last of which may be new only up to the place where a block ended.
fn is(bytes: &[u8], pages: &[u32], next: Option<&Vec<u32>>) -> bool {
    let whole = bytes.len() == pages.len() * PAGE
        && bytes.chunks(PAGE).zip(pages).all(|(bytes, version)| bytes == page(*version));
    whole || next.is_some_and(|next| is_between(bytes, pages, next))
}

/// Whether one page of `next` is there in part: its beginning new, its rest as in `pages`.
fn is_between(bytes: &[u8], pages: &[u32], next: &[u32]) -> bool {
    bytes.len() <= next.len() * PAGE
        && bytes.chunks(PAGE).enumerate().all(|(number, bytes)| {
            let old = pages.get(number).copied().map(page).unwrap_or_default();
            let new = page(next[number]);
            let split = bytes.iter().zip(&new).take_while(|(found, new)| found == new).count();
            bytes[split..] == *old.get(split..bytes.len()).unwrap_or_default()
                && (split == bytes.len() || bytes.len() == PAGE || old.is_empty())
        })
}

fn check(fs: &Jffs2<StrictFlash>, history: &History, operation: usize, what: &str) -> State {
    fs.catalogue().recount().unwrap();
    let found = found(fs);
    let (first, last) = history.operations[operation];
    for at in (first..=last).rev() {
        let (state, next) = (&history.states[at], history.states.get(at + 1).filter(|_| at < last));
        let same_names = state.keys().eq(found.keys());
        if same_names && found.iter().all(|(name, bytes)| is(bytes, &state[name], next.and_then(|next| next.get(name))))
        {
            return state.clone();
        }
    }
    panic!(
        "{what}: operation {operation}: none of the states {first} to {last}\nfound {:?}\nfirst {:?}\nlast {}\ndamage {:?}",
        shown(&found),
        history.states[first],
        history.states[first + 1..=last].iter().map(|state| format!("{state:?}\n")).collect::<String>(),
        fs.damage()
    );
}

/// Cuts a run of operations, and a shorter run on what each third cut left; returns how many cuts there were.
fn cut(
    geometry: FlashGeometry,
    options: &MountOptions,
    seed: u64,
    steps: usize,
    every: u64,
    depth: u32,
    start: (StrictFlash, State),
) -> u64 {
    let operation = Arc::new(AtomicUsize::new(0));
    let random = Random::new(seed, "where to cut");
    let device = Snapping { inner: start.0, operation: operation.clone(), cuts: Vec::new(), random, every };
    let mut fs = Jffs2::mount(device, clock(), options.clone()).unwrap();
    let mut history = History::new(start.1);
    let mut random = Random::new(seed, "what to do");
    for _ in 0..steps {
        step(&mut fs, &mut history, &mut random, &operation);
    }
    fs.catalogue().recount().unwrap();
    let mut count = 0;
    for (number, (operation, moment, left)) in fs.into_flash().cuts.into_iter().enumerate() {
        let what = format!("seed {seed}, {geometry:?}, depth {depth}, cut {number} {moment:?}");
        let kept = left.clone();
        let fs = Jffs2::mount(left, clock(), options.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let state = check(&fs, &history, operation, &what);
        count += 1;
        // A page that is there in part is no state to begin with.
        let whole = found(&fs).iter().all(|(name, bytes)| is(bytes, &state[name], None));
        // Neither is a file with two names, which a rename leaves: what one says, the other would.
        let two_names =
            found(&fs).keys().any(|name| fs.stat(fs.lookup(fs.root(), name.as_bytes()).unwrap()).unwrap().links > 1);
        if depth > 0 && number % 3 == 0 && whole && !two_names {
            count += cut(geometry, options, seed ^ number as u64, 12, 2, depth - 1, (kept, state));
        }
    }
    count
}

fn cut_all(geometry: FlashGeometry, compression: CompressionMode, summaries: bool, (steps, every): (usize, u64)) {
    let write = WriteOptions { compression, summaries, ..WriteOptions::default() };
    let options = MountOptions { write, ..MountOptions::default() };
    // As a soak: more seeds by `NANDKIT_SEEDS`.
    let seeds = std::env::var("NANDKIT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut count = 0;
    for seed in 0..seeds {
        let fs = strict::formatted(geometry, &options);
        count += cut(geometry, &options, seed, steps, every, 1, (fs.into_flash(), State::new()));
    }
    println!("{count} cuts");
    assert!(count > 300, "{count}");
}

#[test]
fn cuts_on_nand() {
    cut_all(FlashGeometry::nand(512, 16, 32, 26), CompressionMode::None, true, (250, 14));
}

#[test]
fn cuts_on_nand_without_summaries() {
    cut_all(FlashGeometry::nand(2048, 64, 16, 16), CompressionMode::Priority, false, (2500, 1));
}

#[test]
fn cuts_on_nor() {
    cut_all(nor(16 << 10, 26), CompressionMode::None, true, (250, 6));
}

/// What the volume holds is what was written, now and after a mount.
fn agrees(mut fs: Jffs2<StrictFlash>, options: &MountOptions, history: &History, what: &str) -> Jffs2<StrictFlash> {
    let state = history.now();
    for round in 0..2 {
        fs.catalogue().recount().unwrap();
        let found = found(&fs);
        let same = state.keys().eq(found.keys()) && found.iter().all(|(name, bytes)| is(bytes, &state[name], None));
        assert!(same, "{what}, round {round}: {:?}, expected {state:?}", shown(&found));
        if round == 0 {
            fs.sync(None).unwrap();
            fs = Jffs2::mount(fs.into_flash(), clock(), options.clone()).unwrap();
        }
    }
    fs
}

#[test]
fn blocks_that_fail_are_emptied_and_retired() {
    for geometry in [FlashGeometry::nand(512, 16, 32, 40), FlashGeometry::nand(2048, 64, 8, 40), nor(16 << 10, 40)] {
        let write = WriteOptions { compression: CompressionMode::None, ..WriteOptions::default() };
        let options = MountOptions { write, ..MountOptions::default() };
        let mut fs = strict::formatted(geometry, &options);
        fs.flash_mut().fail_programs((1..8).map(|number| number * 211));
        fs.flash_mut().fail_erases([20, 41]);
        let (mut history, mut random) = (History::new(State::new()), Random::new(5, "failures"));
        for _ in 0..700 {
            step(&mut fs, &mut history, &mut random, &AtomicUsize::new(0));
        }
        let counters = *fs.counters().unwrap();
        assert!(counters.program_failures >= 3 && counters.retired >= 3, "{geometry:?}: {counters:?}");
        let fs = agrees(fs, &options, &history, &format!("{geometry:?}"));
        let bad = (0..geometry.blocks).filter(|block| fs.flash().is_bad(BlockIndex(*block))).count();
        assert!(bad as u64 >= counters.retired, "{bad}");
    }
}

#[test]
fn every_policy_and_separation_keeps_what_was_written() {
    let run = |write: WriteOptions, what: &str| {
        let options = MountOptions { write, ..MountOptions::default() };
        let mut fs = strict::formatted(FlashGeometry::nand(512, 16, 32, 48), &options);
        let (mut history, mut random) = (History::new(State::new()), Random::new(9, "policies"));
        for _ in 0..700 {
            step(&mut fs, &mut history, &mut random, &AtomicUsize::new(0));
        }
        assert!(fs.counters().unwrap().erases > 20, "{what}: {:?}", fs.counters());
        agrees(fs, &options, &history, what);
    };
    let plain =
        WriteOptions { compression: CompressionMode::None, draws: Draws::Independent, ..WriteOptions::default() };
    for name in nandkit_cleaning::victim::names() {
        run(WriteOptions { policy: name.parse().unwrap(), ..plain }, name);
    }
    for scheme in nandkit_cleaning::separation::names() {
        let background = Some(Nanos::from_millis(50));
        let policy = "cat".parse().unwrap();
        run(WriteOptions { separation: scheme.parse().unwrap(), policy, background, ..plain }, scheme);
    }
}
