//! The history of a volume: its states, and which of them a cut may leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::observed::{ObservedNode, ObservedTree, describe};
use super::state::{Node, PAGE, State, XATTRS, page, value_of};

/// A format's promise about a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The state after one of the operations since the last sync. Of an operation that changes a
    /// page, the page may be new up to a place.
    InOrder,
    /// What was synced is there. What was not is old or new, piece by piece: each name is there or
    /// not as in one of the states since the last sync and stands for what it stood for in one of
    /// them, what always had a name has one, and each page, mode and attribute is as it was in one
    /// of them.
    SyncedOnly,
}

/// The states that a volume went through, by operation. A state is noted before the volume is asked
/// for it: a cut inside the request may leave it already.
pub struct History {
    states: Vec<State>,
    /// By operation: the first and the last state that a cut in it may leave. What was before the
    /// last sync may not come back.
    operations: Vec<(usize, usize)>,
    synced: usize,
    /// Numbers and versions up to these were given.
    pub(super) given: (usize, u32),
    current: Arc<AtomicUsize>,
}

impl History {
    /// The history of a volume in this state, which is durable.
    pub fn new(state: State) -> Self {
        let given = state.given;
        Self { given, states: vec![state], operations: Vec::new(), synced: 0, current: Arc::default() }
    }

    /// The state that the volume is in.
    pub fn now(&self) -> State {
        State { given: self.given, ..self.states[self.states.len() - 1].clone() }
    }

    /// Notes an operation that changes nothing, as a mount.
    pub fn idle(&mut self) {
        self.begin([]);
    }

    /// The number of the operation under way, or of the last one.
    pub fn under_way(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// The number of the operation under way, for a device below the volume.
    pub fn current(&self) -> Arc<AtomicUsize> {
        self.current.clone()
    }

    /// Begins an operation that goes through these states.
    pub(super) fn begin(&mut self, states: impl IntoIterator<Item = State>) {
        self.current.store(self.operations.len(), Ordering::Relaxed);
        self.states.extend(states);
        self.operations.push((self.synced, self.states.len() - 1));
    }

    /// Notes a sync: the current state is durable.
    pub(super) fn sync(&mut self) {
        self.synced = self.states.len() - 1;
    }

    /// Takes the last operation back, which changed nothing: the volume is in this state again.
    pub(super) fn take_back(&mut self, before: State) {
        self.states.push(before);
    }

    /// The state in which a cut during an operation left a volume. Errors: how it breaks the
    /// promise.
    pub fn judge(&self, found: &ObservedTree, operation: usize, promise: Promise) -> Result<State, String> {
        let (first, last) = self.operations[operation];
        let states = &self.states[first..=last];
        for (at, state) in states.iter().enumerate().rev() {
            if fits(state, found, states.get(at + 1)) {
                return Ok(State { given: self.given, ..state.clone() });
            }
        }
        let wrong = match promise {
            Promise::InOrder => format!("none of the states {first} to {last}"),
            Promise::SyncedOnly => match mixed(found, states) {
                Ok(state) => return Ok(State { given: self.given, ..state }),
                Err(wrong) => wrong,
            },
        };
        let then: String = states[1..].iter().map(|state| format!("{state:?}\n")).collect();
        Err(format!("operation {operation}: {wrong}\nfound {:#?}\nfirst {:?}\nthen {then}", describe(found), states[0]))
    }
}

impl State {
    /// Whether a volume is exactly in this state.
    pub fn is(&self, found: &ObservedTree) -> bool {
        fits(self, found, None)
    }
}

/// Whether a volume is exactly in this state, but for one page of one file, whose beginning may be
/// as in `next`.
fn fits(state: &State, found: &ObservedTree, next: Option<&State>) -> bool {
    let node = |(number, found): (&usize, &ObservedNode)| {
        let node = &state.nodes[number];
        let pages = next.and_then(|next| next.nodes.get(number)).map(|node| &node.pages);
        (node.directory, node.mode) == (found.directory, found.mode)
            && node.xattrs.iter().map(|(name, value)| (*name, value_of(*value))).eq(found.xattrs.clone())
            && is(&found.bytes, &node.pages, pages)
    };
    state.names == found.names && state.nodes.keys().eq(found.nodes.keys()) && found.nodes.iter().all(node)
}

/// Whether bytes are these pages; the beginning of one page may be as in `next`.
fn is(bytes: &[u8], pages: &[u32], next: Option<&Vec<u32>>) -> bool {
    let whole = bytes.len() == pages.len() * PAGE
        && bytes.chunks(PAGE).zip(pages).all(|(bytes, version)| bytes == page(*version));
    whole || next.is_some_and(|next| is_between(bytes, pages, next))
}

/// Whether one page of `next` was written in part: its beginning is new, its rest is as in `pages`.
fn is_between(bytes: &[u8], pages: &[u32], next: &[u32]) -> bool {
    (pages.len() * PAGE..=next.len() * PAGE).contains(&bytes.len())
        && bytes.chunks(PAGE).enumerate().all(|(number, bytes)| {
            let old = pages.get(number).copied().map(page).unwrap_or_default();
            let new = page(next[number]);
            let split = bytes.iter().zip(&new).take_while(|(found, new)| found == new).count();
            bytes[split..] == *old.get(split..bytes.len()).unwrap_or_default()
                && (split == bytes.len() || bytes.len() == PAGE || old.is_empty())
        })
}

/// The state that is made of pieces of these states.
fn mixed(found: &ObservedTree, states: &[State]) -> Result<State, String> {
    for name in states.iter().flat_map(|state| state.names.keys()).filter(|name| !found.names.contains_key(*name)) {
        if states.iter().all(|state| state.names.contains_key(name)) {
            return Err(format!("{name:?} is gone"));
        }
    }
    for (name, number) in &found.names {
        if states.iter().all(|state| state.names.get(name) != Some(number)) {
            return Err(format!("{name:?} was never {number}"));
        }
    }
    let always = states[0].nodes.keys().filter(|number| states.iter().all(|state| state.nodes.contains_key(number)));
    if let Some(lost) = always.into_iter().find(|number| !found.nodes.contains_key(number)) {
        return Err(format!("{lost} had a name in each state and has none"));
    }
    let mut state = State { names: found.names.clone(), nodes: BTreeMap::new(), given: (0, 0) };
    for (number, node) in &found.nodes {
        let known: Vec<&Node> = states.iter().filter_map(|state| state.nodes.get(number)).collect();
        let node = mixed_node(node, &known).ok_or_else(|| format!("{number} is not as it was in {known:?}"))?;
        state.nodes.insert(*number, node);
    }
    Ok(state)
}

/// The file or directory that is made of pieces of these; `None` where it has a piece that none of
/// them had.
fn mixed_node(node: &ObservedNode, known: &[&Node]) -> Option<Node> {
    // A file that was created in these states has no size before.
    let lengths: Vec<usize> = known.iter().map(|known| known.pages.len() * PAGE).collect();
    let sized = lengths.iter().min() <= Some(&node.bytes.len()) && Some(&node.bytes.len()) <= lengths.iter().max();
    let paged = node.bytes.chunks(PAGE).enumerate().all(|(page, bytes)| {
        is_of(bytes, &known.iter().map(|known| known.pages.get(page).copied().unwrap_or(0)).collect())
    });
    let typed = known.iter().any(|known| (known.directory, known.mode) == (node.directory, node.mode));
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let xattrs: BTreeMap<u64, u32> = node.xattrs.iter().map(|(name, value)| (*name, word(value))).collect();
    let with_values = (0..XATTRS).all(|name| {
        node.xattrs.get(&name).is_none_or(|value| *value == value_of(word(value)))
            && known.iter().any(|known| known.xattrs.get(&name) == xattrs.get(&name))
    });
    let pages = node.bytes.chunks(PAGE).map(word).collect();
    let is_fair = sized && paged && typed && with_values;
    is_fair.then_some(Node { directory: node.directory, mode: node.mode, xattrs, pages })
}

/// Whether a page holds these versions only: several where a piece that ended with its block was
/// lost.
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

#[cfg(test)]
mod tests {
    use super::super::state::Name;
    use super::*;

    const FILE: usize = 1;

    fn name(text: &str) -> Name {
        (0, text.to_owned())
    }

    /// A volume with one file of these versions, under a name.
    fn state(text: &str, pages: &[u32]) -> State {
        let mut state = State::empty();
        state.nodes.insert(FILE, Node { pages: pages.to_vec(), ..Node::new(false) });
        state.put(&name(text), FILE);
        state
    }

    /// The tree that a volume in this state shows.
    fn show(state: &State) -> ObservedTree {
        let node = |node: &Node| ObservedNode {
            directory: node.directory,
            mode: node.mode,
            xattrs: node.xattrs.iter().map(|(name, value)| (*name, value_of(*value))).collect(),
            bytes: node.pages.iter().flat_map(|version| page(*version)).collect(),
        };
        let nodes = state.nodes.iter().map(|(number, of)| (*number, node(of))).collect();
        ObservedTree { names: state.names.clone(), nodes }
    }

    /// The history of a synced file "a" of two pages, whose pages are then written one by one, and
    /// which is then renamed.
    fn history() -> History {
        let mut history = History::new(State::empty());
        history.begin([state("a", &[1, 2])]);
        history.begin([]);
        history.sync();
        for next in [state("a", &[3, 2]), state("a", &[3, 4]), state("b", &[3, 4])] {
            history.begin([next]);
        }
        history
    }

    /// Which promises a volume keeps after a cut in the last operation: in order, synced only.
    fn kept(found: &ObservedTree) -> (bool, bool) {
        let history = history();
        let keeps = |promise| history.judge(found, history.under_way(), promise).is_ok();
        (keeps(Promise::InOrder), keeps(Promise::SyncedOnly))
    }

    #[test]
    fn every_state_since_the_sync_is_fair() {
        for fair in [state("a", &[1, 2]), state("a", &[3, 2]), state("a", &[3, 4]), state("b", &[3, 4])] {
            assert_eq!(kept(&show(&fair)), (true, true), "{fair:?}");
        }
    }

    #[test]
    fn pieces_of_several_states_are_out_of_order() {
        for mixed in [state("a", &[1, 4]), state("b", &[1, 2]), state("b", &[3, 2])] {
            assert_eq!(kept(&show(&mixed)), (false, true), "{mixed:?}");
        }
    }

    #[test]
    fn what_no_state_had_breaks_both_promises() {
        let mode = state("a", &[1, 2]).change(FILE, |node| node.mode = 0o600);
        let attribute = state("a", &[1, 2]).change(FILE, |node| node.xattrs.extend([(0, 1)]));
        let other_name = state("c", &[1, 2]);
        let torn = [state("a", &[5, 2]), state("a", &[1]), state("a", &[1, 2, 0]), state("a", &[0, 2])];
        for planted in [mode, attribute, other_name, State::empty()].into_iter().chain(torn) {
            assert_eq!(kept(&show(&planted)), (false, false), "{planted:?}");
        }
    }

    #[test]
    fn of_the_page_under_way_a_beginning_may_be_new() {
        let torn = |at: usize| {
            let mut found = show(&state("a", &[1, 2]));
            found.nodes.get_mut(&FILE).unwrap().bytes[..at].copy_from_slice(&page(3)[..at]);
            found
        };
        assert_eq!(kept(&torn(512)), (true, true));
        let mut other_way = torn(0);
        other_way.nodes.get_mut(&FILE).unwrap().bytes[512..PAGE].copy_from_slice(&page(3)[512..]);
        assert!(!kept(&other_way).0);
    }

    #[test]
    fn what_was_before_the_sync_may_not_come_back() {
        let history = history();
        let found = show(&State::empty());
        for promise in [Promise::InOrder, Promise::SyncedOnly] {
            assert!(history.judge(&found, 0, promise).is_ok(), "a cut in the first operation");
            assert!(history.judge(&found, 2, promise).is_err(), "a cut behind the sync");
        }
    }
}
