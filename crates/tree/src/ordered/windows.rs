//! Windows of files that are read ahead, each in the order of its files on the device.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fiemap::{Fiemap, FiemapExtentFlags};
use nandkit_vfs::source::SourceTree;
use nandkit_vfs::{FileKind, Result};
use rayon::ThreadPool;

use super::member::{self, Content, Member, WHOLE_MAX};
use super::{OrderedCounters, Source};

/// Files per window, all open at once: a process may usually open 1024.
const FILES: usize = 256;

/// Windows in progress ahead of the current one.
const IN_FRONT: usize = 2;

/// Members read so far.
type Read = HashMap<usize, Result<Member>>;

/// Passes the members of a window to a waiting reader.
type Slot = (Mutex<Option<Read>>, Condvar);

/// The sort key of a file: its location; files without a known location come last.
type ReadingOrder = (bool, u64);

/// The open files of a window, and the members read from them.
struct Opening {
    opened: Mutex<Vec<(ReadingOrder, usize, File)>>,
    read: Mutex<Read>,
}

/// A window in progress.
struct Flight {
    nodes: Range<usize>,
    read: Arc<Slot>,
}

/// The windows in progress, and the current one.
struct State {
    /// The first node without a window.
    next: usize,
    flights: VecDeque<Flight>,
    here: Read,
    counters: OrderedCounters,
}

/// The windows of a tree.
pub struct Windows {
    pool: Arc<ThreadPool>,
    state: Mutex<State>,
    /// Files whose location was reported by the file system.
    placed: Arc<AtomicUsize>,
    bytes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Windows {
    pub fn new(pool: ThreadPool, source: &Source) -> Self {
        let state =
            State { next: 0, flights: VecDeque::new(), here: HashMap::new(), counters: OrderedCounters::default() };
        let bytes = (source.options.memory / (IN_FRONT as u64 + 2)).max(WHOLE_MAX);
        Self { pool: Arc::new(pool), state: Mutex::new(state), placed: Arc::default(), bytes }
    }

    pub fn counters(&self) -> OrderedCounters {
        let placed = self.placed.load(Ordering::Relaxed) as u64;
        OrderedCounters { placed, ..lock(&self.state).counters }
    }

    /// The file of a node, from its window if nodes are requested in order.
    pub fn member(&self, source: &Arc<Source>, node: usize) -> Result<Member> {
        let mut state = lock(&self.state);
        while !state.here.contains_key(&node) {
            self.send(source, &mut state, node);
            if state.flights.front().is_none_or(|flight| flight.nodes.start > node) {
                break;
            }
            let Some(flight) = state.flights.pop_front() else { break };
            let (slot, ready) = &*flight.read;
            let mut read = lock(slot);
            while read.is_none() {
                read = ready.wait(read).unwrap_or_else(PoisonError::into_inner);
            }
            // Members that were not requested are dropped.
            state.here = read.take().unwrap_or_default();
        }
        self.send(source, &mut state, node);
        let member = state.here.remove(&node);
        drop(state);
        let member = match member {
            Some(member) => member,
            None => member::open(source, node).and_then(|file| member::read(source, node, file)),
        };
        let counters = &mut lock(&self.state).counters;
        if let Ok(member) = &member {
            counters.renewed += u64::from(member.node.is_some());
            counters.again += u64::from(member.again);
            counters.streamed += u64::from(matches!(member.content, Content::Streamed { .. }));
        }
        member
    }

    /// Starts as many windows as may be in progress; from `node` on if none has started after it.
    fn send(&self, source: &Arc<Source>, state: &mut State, node: usize) {
        if state.flights.is_empty() && node > state.next {
            state.next = node;
        }
        while state.flights.len() < IN_FRONT {
            let (nodes, files) = self.window(source, state.next);
            if nodes.is_empty() {
                return;
            }
            state.next = nodes.end;
            if files.is_empty() {
                continue;
            }
            state.counters.ahead += files.len() as u64;
            let read = Arc::new((Mutex::new(None), Condvar::new()));
            state.flights.push_back(Flight { nodes, read: Arc::clone(&read) });
            read_all(self, source, files, read);
        }
    }

    /// The nodes of the next window, and the files among them to read ahead.
    fn window(&self, source: &Source, from: usize) -> (Range<usize>, Vec<usize>) {
        let nodes = source.directory.nodes();
        let (mut end, mut bytes, mut files) = (from, 0, Vec::new());
        for (index, node) in nodes.iter().enumerate().skip(from) {
            if node.kind == FileKind::Regular && node.hard_link_of.is_none() && node.size <= WHOLE_MAX {
                if files.len() >= FILES || bytes + node.size > self.bytes {
                    break;
                }
                bytes += node.size;
                files.push(index);
            }
            end = index + 1;
        }
        (from..end, files)
    }
}

/// The sort key of a file: its first byte on the device, or after all of those its inode number.
fn place(file: &File) -> ReadingOrder {
    let unknown = FiemapExtentFlags::UNKNOWN | FiemapExtentFlags::DATA_INLINE;
    match Fiemap::new(file).next() {
        Some(Ok(extent)) if !extent.fe_flags.intersects(unknown) => (false, extent.fe_physical),
        _ => (true, file.metadata().map_or(u64::MAX, |found| found.ino())),
    }
}

/// Items taken one by one, in order, by as many tasks as there are threads; the last one to finish
/// runs the continuation. No thread waits for another.
struct Line<T, W, D> {
    items: Mutex<std::vec::IntoIter<T>>,
    work: W,
    then: Mutex<Option<D>>,
    running: AtomicUsize,
}

fn in_order<T: Send + 'static>(
    pool: &ThreadPool,
    items: Vec<T>,
    work: impl Fn(T) + Send + Sync + 'static,
    then: impl FnOnce() + Send + 'static,
) {
    let tasks = pool.current_num_threads().max(1);
    let (items, then) = (Mutex::new(items.into_iter()), Mutex::new(Some(then)));
    let line = Arc::new(Line { items, work, then, running: AtomicUsize::new(tasks) });
    for _ in 0..tasks {
        let line = Arc::clone(&line);
        pool.spawn_fifo(move || {
            loop {
                let item = lock(&line.items).next();
                let Some(item) = item else { break };
                (line.work)(item);
            }
            if line.running.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(then) = lock(&line.then).take()
            {
                then();
            }
        });
    }
}

/// Reads files: opens all, then reads them in the order of their locations.
fn read_all(windows: &Windows, source: &Arc<Source>, files: Vec<usize>, slot: Arc<Slot>) {
    let (pool, placed) = (&windows.pool, Arc::clone(&windows.placed));
    let flight = Arc::new(Opening { opened: Mutex::default(), read: Mutex::default() });
    let (opening, opener) = (Arc::clone(&flight), Arc::clone(source));
    let open = move |node| match member::open(&opener, node) {
        Ok(file) => {
            let place = place(&file);
            placed.fetch_add(usize::from(!place.0), Ordering::Relaxed);
            lock(&opening.opened).push((place, node, file));
        }
        Err(error) => drop(lock(&opening.read).insert(node, Err(error))),
    };
    let (later, source) = (Arc::clone(pool), Arc::clone(source));
    in_order(pool, files, open, move || {
        let mut opened = std::mem::take(&mut *lock(&flight.opened));
        opened.sort_by_key(|(place, node, _)| (*place, *node));
        let reading = Arc::clone(&flight);
        let read = move |(_, node, file): (ReadingOrder, usize, File)| {
            let member = member::read(&source, node, file);
            lock(&reading.read).insert(node, member);
        };
        in_order(&later, opened, read, move || {
            *lock(&slot.0) = Some(std::mem::take(&mut *lock(&flight.read)));
            slot.1.notify_all();
        });
    });
}
