//! Power cuts at programs and erases: before, inside in each torn state, and after; and again while the volume that was cut is written to. One log is written in order, so
//! what is found must be the state after one of the operations since the last sync, none of them torn. Several logs, where a separation has regions, may be torn
//! against each other, but what was synced is there.
#![allow(dead_code, reason = "not every user uses everything")]

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nandkit_cleaning::separation::Separator;
use nandkit_flash::wrap::CutMoment;
use nandkit_flash::{Flash, Interrupt, Operation, PageProgram, PageRead};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Context, Done, FlashGeometry, PageAddress, Payload};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, InodeNumber, NewNode, Result};

use model::{Name, Node, PAGE, ROOT, inodes, mixed, page, value_of, xattr_name};
pub use model::{State, found, shown};
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::StrictFlash;

/// A device that keeps what a cut at its programs and erases would have left.
struct Snapping<D> {
    inner: D,
    operation: Arc<AtomicUsize>,
    cuts: Vec<Left<D>>,
    random: Random,
    /// One program of the user's data in this many is cut; 0: each step at each moment.
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
        if self.every == 0 {
            return CutMoment::ALL.to_vec();
        }
        let every = match (operation, cause) {
            (Operation::Erase, _) | (_, Cause::Recovery) => 1,
            (_, Cause::UserData) => self.every,
            _ => self.every.div_ceil(5),
        };
        if self.random.below(every) != 0 {
            return Vec::new();
        }
        let times = if cause == Cause::Recovery { 4 } else { 2 };
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

/// The states that a volume went through, by operation.
pub struct History {
    states: Vec<State>,
    /// By operation: the first and the last state that a cut in it may leave. What was before the last sync may not come back.
    operations: Vec<(usize, usize)>,
    synced: usize,
    given: (usize, u32),
}

impl History {
    pub fn new(state: State) -> Self {
        Self { given: state.given, states: vec![state], operations: Vec::new(), synced: 0 }
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
    let before = history.now();
    let inodes = inodes(fs);
    let directories: Vec<usize> =
        before.nodes.iter().filter(|(_, node)| node.directory).map(|(number, _)| *number).collect();
    // Half of all happens in the root. A name is of files or of directories.
    let name = |random: &mut Random, kind: &str| -> Name {
        let below = random.below(2) == 0;
        let parent = if below { directories[random.below(directories.len() as u64) as usize] } else { ROOT };
        let many = if kind == "directory" || parent != ROOT { 2 } else { 7 };
        (parent, format!("{kind}-{}", random.below(many)))
    };
    let kind = random.below(30);
    let what = if matches!(kind, 4..=7) || random.below(8) == 0 { "directory" } else { "file" };
    let (chosen, other) = (name(random, what), name(random, what));
    let number = history.operations.len();
    operation.store(number, Ordering::Relaxed);
    let result = match (kind, before.names.get(&chosen).copied()) {
        (0, _) => {
            history.begin(Vec::new());
            fs.sync(None).unwrap();
            history.synced = history.states.len() - 1;
            Ok(())
        }
        (_, None) if what == "directory" && directories.len() > 4 => {
            history.begin(Vec::new());
            Ok(())
        }
        (_, None) => create(fs, history, &inodes, &chosen, what == "directory"),
        (1 | 4, Some(node)) => remove(fs, history, &inodes, &chosen, node),
        (2 | 3 | 5 | 6, Some(node)) => rename(fs, history, &inodes, (&chosen, node), &other),
        (8, Some(node)) if what == "file" => {
            let pages = random.below(5) as usize;
            history.begin(vec![before.change(node, |node| node.pages.resize(pages, 0))]);
            let change = AttributeChange { size: Some((pages * PAGE) as u64), ..Default::default() };
            fs.set_attributes(inodes[&node], &change).map(drop)
        }
        (9, Some(node)) if what == "file" && !before.names.contains_key(&other) => {
            let mut after = before.clone();
            after.put(&other, node);
            history.begin(vec![after]);
            fs.links().unwrap().link(inodes[&node], inodes[&other.0], other.1.as_bytes())
        }
        (7 | 10, Some(node)) => {
            let mode = 0o600 + random.below(0o100) as u16;
            history.begin(vec![before.change(node, |node| node.mode = mode)]);
            fs.set_attributes(inodes[&node], &AttributeChange { mode: Some(mode), ..Default::default() }).map(drop)
        }
        (11..=14, Some(node)) => change_xattr(fs, history, random, node, inodes[&node]),
        (_, Some(node)) if what == "file" => write(fs, history, random, node, (&inodes, operation)),
        (_, Some(_)) => {
            history.begin(Vec::new());
            Ok(())
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

fn create<F: Flash>(
    fs: &mut Jffs2<F>,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    name: &Name,
    directory: bool,
) -> Result<()> {
    history.given.0 += 1;
    let mut after = history.now();
    after.nodes.insert(history.given.0, Node::new(directory));
    after.put(name, history.given.0);
    history.begin(vec![after]);
    let kind = if directory { NewNode::DIRECTORY } else { NewNode::FILE };
    let node = NewNode { uid: history.given.0 as u32, mode: Node::new(directory).mode, ..kind };
    fs.create(inodes[&name.0], name.1.as_bytes(), &node).map(drop)
}

/// An operation that the contract forbids changes nothing.
fn refused(result: Result<()>, history: &mut History, expected: ErrorKind) -> Result<()> {
    history.begin(Vec::new());
    assert_eq!(result.map_err(|error| error.kind), Err(expected));
    Ok(())
}

fn remove<F: Flash>(
    fs: &mut Jffs2<F>,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    name: &Name,
    node: usize,
) -> Result<()> {
    let mut after = history.now();
    let (directory, name_in) = (inodes[&name.0], name.1.as_bytes());
    if after.holds_names(node) {
        return refused(fs.remove(directory, name_in), history, ErrorKind::NotEmpty);
    }
    after.take(name);
    history.begin(vec![after]);
    fs.remove(directory, name_in)
}

fn rename<F: Flash>(
    fs: &mut Jffs2<F>,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    (name, node): (&Name, usize),
    other: &Name,
) -> Result<()> {
    let mut after = history.now();
    let mut go = || {
        let (from, to) = ((inodes[&name.0], name.1.as_bytes()), (inodes[&other.0], other.1.as_bytes()));
        fs.rename(from, to, Default::default())
    };
    let replaced = after.names.get(other).copied();
    if after.nodes[&node].directory && after.leads_to(node, other.0) {
        return refused(go(), history, ErrorKind::InvalidArgument);
    }
    if replaced == Some(node) {
        history.begin(Vec::new());
        return go();
    }
    if replaced.is_some_and(|replaced| after.holds_names(replaced)) {
        return refused(go(), history, ErrorKind::NotEmpty);
    }
    after.put(other, node);
    let both = after.clone();
    after.take(name);
    history.begin(vec![both, after]);
    go()
}

fn change_xattr<F: Flash>(
    fs: &mut Jffs2<F>,
    history: &mut History,
    random: &mut Random,
    node: usize,
    inode: InodeNumber,
) -> Result<()> {
    let (name, value) = (random.below(2), random.below(6) as u32);
    let before = history.now();
    let changes = fs.xattr_changes().unwrap();
    if value > 0 {
        history.begin(vec![before.change(node, |node| node.xattrs.extend([(name, value)]))]);
        return changes.set_xattr(inode, xattr_name(name).as_bytes(), &value_of(value));
    }
    if !before.nodes[&node].xattrs.contains_key(&name) {
        return refused(changes.remove_xattr(inode, xattr_name(name).as_bytes()), history, ErrorKind::NoAttribute);
    }
    history.begin(vec![before.change(node, |node| node.xattrs.retain(|other, _| *other != name))]);
    changes.remove_xattr(inode, xattr_name(name).as_bytes())
}

fn write<F: Flash>(
    fs: &mut Jffs2<F>,
    history: &mut History,
    random: &mut Random,
    node: usize,
    (inodes, operation): (&BTreeMap<usize, InodeNumber>, &AtomicUsize),
) -> Result<()> {
    let at = random.below(5) as usize;
    let (mut after, mut states) = (history.now(), Vec::new());
    if after.nodes[&node].pages.len() < at {
        after = after.change(node, |node| node.pages.resize(at, 0));
        states.push(after.clone());
    }
    history.given.1 += 1;
    let version = history.given.1;
    states.push(after.change(node, |node| {
        node.pages.resize(node.pages.len().max(at + 1), 0);
        node.pages[at] = version;
    }));
    history.begin(states);
    let taken = fs.write(inodes[&node], (at * PAGE) as u64, Payload::Bytes(&page(version)))?;
    if taken == PAGE {
        return Ok(());
    }
    // The volume is full, and the page there in part: away with it.
    let links = history.now().names.into_iter().filter(|(_, of)| *of == node).map(|(name, _)| name);
    for link in links.collect::<Vec<_>>() {
        let mut after = history.now();
        after.take(&link);
        operation.store(history.operations.len(), Ordering::Relaxed);
        history.begin(vec![after]);
        fs.remove(inodes[&link.0], link.1.as_bytes())?;
    }
    Ok(())
}

fn check<F: Flash>(fs: &Jffs2<F>, history: &History, operation: usize, regions: u8, what: &str) -> State {
    fs.catalogue().recount().unwrap();
    let found = found(fs);
    let (first, last) = history.operations[operation];
    for at in (first..=last).rev() {
        let (state, next) = (&history.states[at], history.states.get(at + 1).filter(|_| at < last));
        if state.fits(&found, next) {
            return State { given: history.given, ..state.clone() };
        }
    }
    if regions > 1 {
        match mixed(&found, &history.states[first..=last]) {
            Ok(state) => return State { given: history.given, ..state },
            Err(wrong) => {
                let damage = fs.damage();
                panic!("{what}: operation {operation}: {wrong}\nfound {:#?}\ndamage {damage:?}", shown(&found))
            }
        }
    }
    panic!(
        "{what}: operation {operation}: none of the states {first} to {last}\nfound {:#?}\nfirst {:?}\nlast {}\ndamage {:?}",
        shown(&found),
        history.states[first],
        history.states[first + 1..=last].iter().map(|state| format!("{state:?}\n")).collect::<String>(),
        fs.damage()
    );
}

/// Both ways to mount show the same tree.
fn assert_scan_agrees<D: Flash + Clone>(fs: &Jffs2<D>, device: &D, options: &MountOptions, what: &str) {
    let other = MountOptions { use_summaries: !options.use_summaries, read_only: true, ..options.clone() };
    let other = Jffs2::mount(device.clone(), clock(), other).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (one, two) = (found(fs), found(&other));
    assert!(one == two, "{what}: by the other way {:#?}\n{:#?}", shown(&one), shown(&two));
}

/// A run that is cut.
#[derive(Clone, Debug)]
pub struct Run {
    pub geometry: FlashGeometry,
    pub options: MountOptions,
    pub seed: u64,
    /// Operations.
    pub steps: usize,
    /// One program of the user's data in this many is cut at two moments, other programs more often, and every erase; 0: each at each moment.
    pub every: u64,
    /// Numbers of the programs that fail.
    pub failing: Vec<u64>,
}

impl Run {
    /// Cuts the run on an empty volume, and a shorter run on what each third cut left, and each cut of an erase.
    pub fn cut(&self) -> Vec<Cut> {
        let mut start = formatted(self.geometry, &self.options).into_flash();
        start.fail_programs(self.failing.iter().copied());
        self.cut_on(start)
    }

    /// Cuts the run on an empty volume at each program and erase, before, in each torn form and after.
    pub fn cut_everywhere(&self) -> Vec<Cut> {
        let start = formatted(self.geometry, &self.options).into_flash();
        let mut cuts = Vec::new();
        Self { every: 0, ..self.clone() }.cut_from(0, (start, State::empty()), &mut cuts);
        cuts
    }

    /// The same on a device with an empty volume.
    pub fn cut_on<D: Flash + Interrupt + Clone>(&self, start: D) -> Vec<Cut> {
        let mut cuts = Vec::new();
        self.cut_from(1, (start, State::empty()), &mut cuts);
        cuts
    }

    /// What each cut leaves of the run on an empty volume, in their order.
    pub fn left(&self) -> Vec<StrictFlash> {
        let start = formatted(self.geometry, &self.options).into_flash();
        self.snap(start, State::empty()).1.into_iter().map(|left| left.device).collect()
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
            assert_scan_agrees(&fs, &kept, options, &what);
            cuts.push(cut);
            let again = number % 3 == 0 || cut.0 == Operation::Erase;
            // A page that is there in part is no state to begin with.
            if depth > 0 && again && state.is(&found(&fs)) {
                let shorter = Self { seed: seed ^ number as u64, steps: 16, every: 6, ..self.clone() };
                shorter.cut_from(depth - 1, (kept, state), cuts);
            }
        }
    }
}

/// An empty volume.
pub fn formatted(geometry: FlashGeometry, options: &MountOptions) -> Jffs2<StrictFlash> {
    Jffs2::format(StrictFlash::new(geometry), clock(), options.clone()).unwrap()
}
