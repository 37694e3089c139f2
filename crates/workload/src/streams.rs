//! Several streams of one workload, of which one operation at a time reaches the file system.
//!
//! A file system is called by one caller (`vfs::Changes` takes `&mut`), and the driver waits for
//! each call. Threads and clients are therefore streams that take turns: in each round every stream
//! has one turn, in an order that is drawn anew from the seed. This models how their operations mix
//! on the volume, but not that they wait for each other in the drive's queue.

use nandkit_units::random::Random;

use crate::error::Result;
use crate::operation::{FileOperation, FileWorkload, Phase};
use crate::script::Script;

/// What the streams of a workload do.
pub(crate) trait Streams: Send {
    /// Puts one step of the fill, counted from 0, into the script; false if the fill has no such
    /// step.
    fn fill(&mut self, step: u64, script: &mut Script) -> bool;

    /// Puts one turn of a stream into the script; false if the stream has ended, after which it
    /// gets no further turn.
    fn turn(&mut self, stream: usize, script: &mut Script) -> bool;

    /// Puts the operations that follow the end of all streams into the script.
    fn end(&mut self, script: &mut Script) {
        let _ = script;
    }
}

/// Order in which streams take turns.
#[derive(Debug)]
struct Turns {
    order: Vec<usize>,
    next: usize,
    random: Random,
}

impl Turns {
    fn new(streams: u64, seed: u64) -> Self {
        let order: Vec<usize> = (0..streams as usize).collect();
        Self { next: order.len(), order, random: Random::new(seed, "turns of streams") }
    }

    fn next(&mut self) -> Option<usize> {
        if self.next >= self.order.len() {
            self.random.shuffle(&mut self.order);
            self.next = 0;
        }
        let stream = self.order.get(self.next).copied()?;
        self.next += 1;
        Some(stream)
    }

    /// Ends the stream that had the last turn.
    fn leave(&mut self) {
        self.next = self.next.saturating_sub(1);
        if self.next < self.order.len() {
            self.order.remove(self.next);
        }
    }
}

/// The stream of operations: the fill, then the turns.
#[derive(Debug)]
pub(crate) struct StreamFiles<S> {
    streams: S,
    turns: Turns,
    script: Script,
    phase: Phase,
    /// Steps of the fill that are done; `None` when it is over.
    filled: Option<u64>,
    is_over: bool,
}

impl<S: Streams> StreamFiles<S> {
    /// Makes `count` streams, whose turns are drawn from the seed.
    pub(crate) fn new(streams: S, count: u64, seed: u64) -> Self {
        let turns = Turns::new(count, seed);
        Self { streams, turns, script: Script::default(), phase: Phase::Fill, filled: Some(0), is_over: false }
    }
}

impl<S: Streams> FileWorkload for StreamFiles<S> {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        None
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        loop {
            if let Some(operation) = self.script.next() {
                return Ok(Some(operation));
            }
            match (self.phase, self.filled) {
                (Phase::Fill, Some(step)) => {
                    let goes_on = self.streams.fill(step, &mut self.script);
                    self.filled = goes_on.then_some(step + 1);
                }
                (Phase::Measure, _) if !self.is_over => match self.turns.next() {
                    Some(stream) => {
                        if !self.streams.turn(stream, &mut self.script) {
                            self.turns.leave();
                        }
                    }
                    None => {
                        self.is_over = true;
                        self.streams.end(&mut self.script);
                    }
                },
                _ => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_one_turn_a_round_until_it_leaves() {
        let mut turns = Turns::new(5, 3);
        let mut orders = Vec::new();
        for _ in 0..8 {
            let round: Vec<usize> = (0..5).filter_map(|_| turns.next()).collect();
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            orders.push(round);
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        let gone = turns.next().unwrap();
        turns.leave();
        let rest: Vec<usize> = (0..40).filter_map(|_| turns.next()).collect();
        assert!(rest.len() == 40 && !rest.contains(&gone));
        for _ in 0..4 {
            turns.next();
            turns.leave();
        }
        assert_eq!(turns.next(), None);
    }
}
