//! Finds the cheapest sequence of instructions by dynamic programming over the bytes of a segment.

use super::super::Level;
use super::copy::{Form, literal_header};
use super::emit::Emitter;
use super::matches::{Finder, Match};

/// Bytes parsed together; limits the memory to 2.5 MiB.
const SEGMENT: usize = 1 << 15;

/// A match of this length is taken at once: a better parse would save little, and long runs would
/// cost quadratic time.
const LONG: usize = 192;

/// Literals since the last copy: 0 to 3, and 4 for more. They determine which forms the next copy
/// may have.
const STATES: usize = 5;

const UNREACHED: u32 = u32::MAX;

/// The cheapest way to a byte with a given number of literals before it.
#[derive(Clone, Copy)]
struct Node {
    /// Bytes written, without literal headers that are not final yet.
    cost: u32,
    /// Literals since the last copy.
    run: u32,
    /// Length of the copy that ends here, for state 0.
    length: u32,
    distance: u32,
}

const NOWHERE: Node = Node { cost: UNREACHED, run: 0, length: 0, distance: 0 };

#[derive(Default)]
pub(super) struct Matcher {
    finder: Finder,
    nodes: Vec<[Node; STATES]>,
    matches: Vec<Match>,
    /// Copies of a segment, last first: the start of each, and its match.
    copies: Vec<(usize, Match)>,
}

/// How much of the input is written.
struct Written {
    /// Everything before this position is written.
    done: usize,
    /// All bytes between `done` and the segment are literals, and the stream has no copy yet.
    first: bool,
}

impl Matcher {
    pub(super) fn compress(&mut self, level: Level, input: &[u8], emitter: &mut Emitter<'_>) -> Option<()> {
        let depth = match level.get() {
            0..=7 => 16,
            8 => 64,
            _ => 512,
        };
        self.finder.begin(input)?;
        let mut written = Written { done: 0, first: true };
        let mut at = 0;
        while at < input.len() {
            at = self.segment(input, at, depth, &mut written, emitter)?;
        }
        emitter.literals(input.get(written.done..)?)
    }

    /// Parses from `start` to the end of a segment, or to the end of a long match; returns the end.
    fn segment(
        &mut self,
        input: &[u8],
        start: usize,
        depth: usize,
        written: &mut Written,
        emitter: &mut Emitter<'_>,
    ) -> Option<usize> {
        let size = SEGMENT.min(input.len() - start);
        self.nodes.clear();
        self.nodes.resize(size + 1, [NOWHERE; STATES]);
        let pending = start - written.done;
        let origin = Node { cost: 0, run: pending as u32, ..NOWHERE };
        *self.nodes.first_mut()?.get_mut(pending.min(4))? = origin;
        for at in 0..size {
            let position = start + at;
            self.finder.find(input, position, depth, LONG, &mut self.matches);
            if let Some(&long) = self.matches.last().filter(|found| found.length >= LONG) {
                self.emit(input, start, at, written, emitter)?;
                emitter.literals(input.get(written.done..position)?)?;
                emitter.copy(long.length, long.distance)?;
                self.finder.skip(input, position + 1..position + long.length);
                *written = Written { done: position + long.length, first: false };
                return Some(written.done);
            }
            self.literal(at, written.first);
            self.copies(at, size);
        }
        self.emit(input, start, size, written, emitter)?;
        Some(start + size)
    }

    /// Adds a literal to each way to byte `at`. `first`: no copy precedes the segment.
    fn literal(&mut self, at: usize, first: bool) {
        let Some([from, to]) = self.nodes.get_mut(at..at + 2) else { return };
        for (state, node) in from.iter().enumerate().filter(|(_, node)| node.cost != UNREACHED) {
            // Only a way without any copy can have as many literals as the segment has bytes before
            // `at`.
            let first = first && node.run as usize >= at;
            let header = literal_header(node.run as usize + 1, first) - literal_header(node.run as usize, first);
            let cost = node.cost + 1 + header;
            if let Some(next) = to.get_mut((state + 1).min(STATES - 1)).filter(|next| cost < next.cost) {
                *next = Node { cost, run: node.run + 1, ..NOWHERE };
            }
        }
    }

    /// Tries every copy from byte `at` on, each length in its cheapest form.
    fn copies(&mut self, at: usize, size: usize) {
        let Some(&here) = self.nodes.get(at) else { return };
        let cheapest = here.iter().map(|node| node.cost).min().unwrap_or(UNREACHED);
        let mut shortest = 2;
        for &Match { length: longest, distance } in &self.matches {
            for length in shortest..=longest.min(size - at) {
                let special =
                    here.iter().zip(0..).filter(|(node, _)| node.cost != UNREACHED).filter_map(|(node, state)| {
                        let form = Form::of(length, distance, state)
                            .filter(|form| matches!(form, Form::Pair | Form::Triple))?;
                        Some(node.cost + form.cost(length))
                    });
                let usual = Form::of(length, distance, 0).map(|form| cheapest + form.cost(length));
                let special = if length <= 3 { special.min() } else { None };
                let Some(cost) = usual.into_iter().chain(special).min() else { continue };
                if let Some([next, ..]) = self.nodes.get_mut(at + length).filter(|next| cost < next[0].cost) {
                    *next = Node { cost, run: 0, length: length as u32, distance: distance as u32 };
                }
            }
            shortest = shortest.max(longest + 1);
        }
    }

    /// Writes the cheapest way from `start` to byte `size` of the segment, without the literals at
    /// its end.
    fn emit(
        &mut self,
        input: &[u8],
        start: usize,
        size: usize,
        written: &mut Written,
        emitter: &mut Emitter<'_>,
    ) -> Option<()> {
        self.copies.clear();
        let mut at = size;
        // The state from which a copy was reached is recomputed: it is the one that gives its cost.
        let mut last = *self.nodes.get(at)?.iter().min_by_key(|node| node.cost)?;
        // Literals, back to the previous copy or the start of the segment.
        while let Some(end) = at.checked_sub(last.run as usize).filter(|&end| end > 0) {
            let copy = self.nodes.get(end)?.first()?;
            let found = Match { length: copy.length as usize, distance: copy.distance as usize };
            at = end.checked_sub(found.length).filter(|_| found.length > 0)?;
            self.copies.push((start + at, found));
            let before = self.nodes.get(at)?.iter().zip(0..).filter(|(node, _)| node.cost != UNREACHED);
            let way = before.filter_map(|(node, state)| {
                let cost = node.cost + Form::of(found.length, found.distance, state)?.cost(found.length);
                (cost == copy.cost).then_some(*node)
            });
            last = way.last()?;
        }
        for &(at, Match { length, distance }) in self.copies.iter().rev() {
            emitter.literals(input.get(written.done..at)?)?;
            emitter.copy(length, distance)?;
            *written = Written { done: at + length, first: false };
        }
        Some(())
    }
}
