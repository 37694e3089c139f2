//! Power cuts at programs and erases: before, inside in each torn state, and after; and again while the volume that was cut is written to. One log is written in order, so
//! what is found must be the state after one of the operations since the last sync, none of them torn. Several logs, where a separation has regions, may be torn
//! against each other, but what was synced is there.
#![allow(dead_code, reason = "not every user uses everything")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nandkit_cleaning::separation::Separator;
use nandkit_flash::wrap::CutMoment;
use nandkit_flash::{Flash, Interrupt, Operation, PageProgram, PageRead};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Context, Done, FlashGeometry, PageAddress, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode};

use crate::strict::{self, StrictFlash, clock};

/// A device that keeps what a cut at its programs and erases would have left.
struct Snapping<D> {
    inner: D,
    operation: Arc<AtomicUsize>,
    cuts: Vec<Left<D>>,
    random: Random,
    /// One program of the user's data in this many is cut.
    every: u64,
}

/// What a cut left.
struct Left<D> {
    /// Number of the volume's operation.
    operation: usize,
    cut: Cut,
    device: D,
}

/// A cut: in which operation of the device, why the volume asked for that, and when.
pub type Cut = (Operation, Cause, CutMoment);

impl<D> Snapping<D> {
    /// When to cut a step: what is rare is cut more often.
    fn moments(&mut self, operation: Operation, cause: Cause) -> Vec<CutMoment> {
        let every = match (operation, cause) {
            (Operation::Erase, _) | (_, Cause::Recovery) => 1,
            (_, Cause::UserData) => self.every,
            _ => self.every.div_ceil(5),
        };
        if self.random.below(every) != 0 {
            return Vec::new();
        }
        let times = if cause == Cause::Recovery { 3 } else { 2 };
        (0..times).map(|_| CutMoment::ALL[self.random.below(CutMoment::ALL.len() as u64) as usize]).collect()
    }
}

impl<D: Flash + Interrupt + Clone> Flash for Snapping<D> {
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> nandkit_flash::Result<Done> {
        self.inner.read(context, at, read)
    }
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> nandkit_flash::Result<Done> {
        for moment in self.moments(Operation::Program, context.cause) {
            let mut left = self.inner.clone();
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { page, .. } => left.interrupt_program(context, at, program, page)?,
                CutMoment::After => drop(left.program(context, at, program)),
            }
            left.power_on();
            let cut = (Operation::Program, context.cause, moment);
            self.cuts.push(Left { operation: self.operation.load(Ordering::Relaxed), cut, device: left });
        }
        self.inner.program(context, at, program)
    }
    fn erase(&mut self, context: &Context, block: BlockIndex) -> nandkit_flash::Result<Done> {
        for moment in self.moments(Operation::Erase, context.cause) {
            let mut left = self.inner.clone();
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { erase, .. } => left.interrupt_erase(context, block, erase)?,
                CutMoment::After => drop(left.erase(context, block)),
            }
            left.power_on();
            let cut = (Operation::Erase, context.cause, moment);
            self.cuts.push(Left { operation: self.operation.load(Ordering::Relaxed), cut, device: left });
        }
        self.inner.erase(context, block)
    }
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }
    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> nandkit_flash::Result<Done> {
        self.inner.mark_bad(context, block)
    }
    fn sync(&mut self, context: &Context) -> nandkit_flash::Result<Done> {
        self.inner.sync(context)
    }
}

const PAGE: usize = 4096;

/// A file: which one it is under whatever name, and the version of each page's content; 0 reads as zeroes.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    id: usize,
    pub pages: Vec<u32>,
}

/// Names and files.
pub type State = BTreeMap<String, File>;

/// What a page of a version holds: the version, again and again.
fn page(version: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 4)
}

/// The states that a volume went through, by operation.
pub struct History {
    states: Vec<State>,
    /// By operation: the first and the last state that a cut in it may leave. What was before the last sync may not come back.
    operations: Vec<(usize, usize)>,
    synced: usize,
    version: u32,
    files: usize,
}

impl History {
    pub fn new(state: State) -> Self {
        let version = state.values().flat_map(|file| &file.pages).max().copied().unwrap_or(0);
        let files = state.values().map(|file| file.id + 1).max().unwrap_or(0);
        Self { states: vec![state], operations: Vec::new(), synced: 0, version, files }
    }

    pub fn now(&self) -> State {
        self.states.last().unwrap().clone()
    }

    /// An operation begins, that will go through these states.
    fn begin(&mut self, states: Vec<State>) {
        self.states.extend(states);
        self.operations.push((self.synced, self.states.len() - 1));
    }
}

/// One random operation. `false`: the volume is full.
pub fn step<F: Flash>(fs: &mut Jffs2<F>, history: &mut History, random: &mut Random, operation: &AtomicUsize) -> bool {
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
            after.insert(chosen.clone(), File { id: history.files, pages: Vec::new() });
            history.files += 1;
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
            after.get_mut(&chosen).unwrap().pages.resize(pages, 0);
            history.begin(vec![after]);
            let change = AttributeChange { size: Some((pages * PAGE) as u64), ..Default::default() };
            fs.set_attributes(inode(fs, &chosen), &change).map(drop)
        }
        _ => {
            let at = random.below(5) as usize;
            let pages = &mut after.get_mut(&chosen).unwrap().pages;
            if pages.len() < at {
                pages.resize(at, 0);
                states.push(after.clone());
            }
            let pages = &mut after.get_mut(&chosen).unwrap().pages;
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
pub fn found<F: Flash>(fs: &Jffs2<F>) -> BTreeMap<String, Vec<u8>> {
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
pub fn shown(found: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
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
pub fn is(bytes: &[u8], pages: &[u32], next: Option<&Vec<u32>>) -> bool {
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

/// With several write buffers what was written later may be there without what was written before it. Still each name is there or not as in one of these states and
/// stands for the file that it stood for in one of them, and each page holds what it held in one of them.
fn mixed(found: &BTreeMap<String, Vec<u8>>, states: &[State]) -> Result<State, String> {
    let mut state = State::new();
    for name in states.iter().flat_map(State::keys).filter(|name| !found.contains_key(*name)) {
        if states.iter().all(|state| state.contains_key(name)) {
            return Err(format!("{name} is gone"));
        }
    }
    for (name, bytes) in found {
        let ids: BTreeSet<usize> = states.iter().filter_map(|state| Some(state.get(name)?.id)).collect();
        let of = |id: usize| states.iter().flat_map(State::values).filter(move |file| file.id == id);
        let fits = |id: &usize| {
            let most = of(*id).map(|file| file.pages.len()).max().unwrap_or(0) * PAGE;
            let least = of(*id).map(|file| file.pages.len()).min().unwrap_or(0) * PAGE;
            // A file that comes to be in these states has no size before.
            (least..=most).contains(&bytes.len())
                && bytes.chunks(PAGE).enumerate().all(|(number, bytes)| {
                    let versions: BTreeSet<u32> =
                        of(*id).map(|file| file.pages.get(number).copied().unwrap_or(0)).collect();
                    is_of(bytes, &versions)
                })
        };
        let Some(id) = ids.iter().copied().find(fits) else {
            return Err(format!("{name} is none of the files {ids:?} as they were in {states:?}"));
        };
        let first = |page: &[u8]| page.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        state.insert(name.clone(), File { id, pages: bytes.chunks(PAGE).map(first).collect() });
    }
    Ok(state)
}

/// Whether a page holds these versions only: several where a piece that ended with its block was lost.
fn is_of(bytes: &[u8], versions: &BTreeSet<u32>) -> bool {
    let pages: Vec<Vec<u8>> = versions.iter().map(|version| page(*version)).collect();
    let within =
        |at: usize| pages.iter().any(|page| bytes[at..bytes.len().min(at + 4)] == page[at..bytes.len().min(at + 4)]);
    let changes = bytes
        .windows(4)
        .step_by(4)
        .zip(bytes.windows(4).skip(4).step_by(4))
        .filter(|(one, other)| one != other)
        .count();
    (0..bytes.len()).step_by(4).all(within) && changes <= 2
}

fn check<F: Flash>(fs: &Jffs2<F>, history: &History, operation: usize, regions: u8, what: &str) -> State {
    fs.catalogue().recount().unwrap();
    let found = found(fs);
    let (first, last) = history.operations[operation];
    for at in (first..=last).rev() {
        let (state, next) = (&history.states[at], history.states.get(at + 1).filter(|_| at < last));
        let same_names = state.keys().eq(found.keys());
        let pages = |name| next.and_then(|next| next.get(name)).map(|file: &File| &file.pages);
        if same_names && found.iter().all(|(name, bytes)| is(bytes, &state[name].pages, pages(name))) {
            return state.clone();
        }
    }
    if regions > 1 {
        match mixed(&found, &history.states[first..=last]) {
            Ok(state) => return state,
            Err(wrong) => panic!("{what}: operation {operation}: {wrong}\nfound {:?}", shown(&found)),
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

/// A run that is cut.
#[derive(Clone, Debug)]
pub struct Run {
    pub geometry: FlashGeometry,
    pub options: MountOptions,
    pub seed: u64,
    /// Operations.
    pub steps: usize,
    /// One program of the user's data in this many is cut at two moments, other programs more often, and every erase.
    pub every: u64,
    /// Numbers of the programs that fail.
    pub failing: Vec<u64>,
}

impl Run {
    /// Cuts the run on an empty volume, and a shorter run on what each third cut left, and each cut of an erase.
    pub fn cut(&self) -> Vec<Cut> {
        let mut start = strict::formatted(self.geometry, &self.options).into_flash();
        start.fail_programs(self.failing.iter().copied());
        self.cut_on(start)
    }

    /// The same on a device with an empty volume.
    pub fn cut_on<D: Flash + Interrupt + Clone>(&self, start: D) -> Vec<Cut> {
        let mut cuts = Vec::new();
        self.cut_from(1, (start, State::new()), &mut cuts);
        cuts
    }

    /// What each cut leaves of the run on an empty volume, in their order.
    pub fn left(&self) -> Vec<StrictFlash> {
        let start = strict::formatted(self.geometry, &self.options).into_flash();
        self.snap(start, State::new()).1.into_iter().map(|left| left.device).collect()
    }

    fn snap<D: Flash + Interrupt + Clone>(&self, start: D, state: State) -> (History, Vec<Left<D>>) {
        let operation = Arc::new(AtomicUsize::new(0));
        let random = Random::new(self.seed, "where to cut");
        let device =
            Snapping { inner: start, operation: operation.clone(), cuts: Vec::new(), random, every: self.every };
        let mut fs = Jffs2::mount(device, clock(), self.options.clone()).unwrap();
        let mut history = History::new(state);
        let mut random = Random::new(self.seed, "what to do");
        for _ in 0..self.steps {
            step(&mut fs, &mut history, &mut random, &operation);
        }
        fs.catalogue().recount().unwrap();
        (history, fs.into_flash().cuts)
    }

    fn cut_from<D: Flash + Interrupt + Clone>(&self, depth: u32, (start, state): (D, State), cuts: &mut Vec<Cut>) {
        let Self { seed, options, .. } = self;
        let (history, left) = self.snap(start, state);
        let regions = Separator::new(options.write.separation).regions();
        for (number, Left { operation, cut, device }) in left.into_iter().enumerate() {
            let what =
                format!("seed {seed}, {:?}, {:?}, depth {depth}, cut {number} {cut:?}", self.geometry, options.write);
            let kept = device.clone();
            let fs = Jffs2::mount(device, clock(), options.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let state = check(&fs, &history, operation, regions, &what);
            cuts.push(cut);
            // A page that is there in part is no state to begin with.
            let whole = found(&fs).iter().all(|(name, bytes)| is(bytes, &state[name].pages, None));
            // Neither is a file with two names, which a rename leaves: what one says, the other would.
            let two_names = found(&fs)
                .keys()
                .any(|name| fs.stat(fs.lookup(fs.root(), name.as_bytes()).unwrap()).unwrap().links > 1);
            let again = number % 3 == 0 || cut.0 == Operation::Erase;
            if depth > 0 && again && whole && !two_names {
                let shorter = Self { seed: seed ^ number as u64, steps: 16, every: 6, ..self.clone() };
                shorter.cut_from(depth - 1, (kept, state), cuts);
            }
        }
    }
}
