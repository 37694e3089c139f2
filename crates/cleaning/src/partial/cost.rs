//! The cost of leaving or moving a run of valid blocks (P1, section 4.3).

use super::RequestTimes;

/// A run of valid blocks of a segment and the writable holes next to it, which were already invalid
/// at the last checkpoint (P1, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidRun {
    /// The first block.
    pub start: u16,
    /// `Bvalid`: the number of blocks.
    pub length: u16,
    /// `Hleft`: blocks of the hole before it, 0 if there is none.
    pub left: u16,
    /// `Hright`: blocks of the hole after it, 0 if there is none.
    pub right: u16,
    /// Whether the hole before it is also the hole after the previous run.
    pub shares_left: bool,
}

/// The mean sizes of the holes that copies go to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanHoles {
    /// `Havg inter`: in the cold log's segment; a whole segment if that is free.
    pub inter: f64,
    /// `Havg intra`: in the segment itself.
    pub intra: f64,
}

impl MeanHoles {
    /// The time to write a block into such holes.
    pub(crate) fn per_block(&self, times: &RequestTimes) -> PerBlock {
        PerBlock { inter_ns: times.write_per_block(self.inter), intra_ns: times.write_per_block(self.intra) }
    }
}

/// The times to write a block of a copy, computed once for all runs of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PerBlock {
    /// To the cold segment.
    pub inter_ns: f64,
    /// Within the segment.
    pub intra_ns: f64,
}

impl PerBlock {
    /// Both times, Inter-GC's first.
    pub(crate) const fn by_copy(&self) -> [f64; 2] {
        [self.inter_ns, self.intra_ns]
    }
}

/// What to do with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Leave it: the holes next to it are filled by two requests.
    #[default]
    Ssr,
    /// Inter-GC: copy it to the cold segment.
    Inter,
    /// Intra-GC: copy it to holes of its own segment.
    Intra,
}

impl Choice {
    /// All choices, the one that copies nothing first.
    pub const ALL: [Self; 3] = [Self::Ssr, Self::Inter, Self::Intra];
}

/// The times of filling the two holes next to a run, by choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTimes {
    /// `TSSR`.
    pub ssr: f64,
    /// `TInter-GC`.
    pub inter: f64,
    /// `TIntra-GC`.
    pub intra: f64,
}

impl RunTimes {
    /// Evaluates P1's three formulas. Cost: a few lookups.
    pub(crate) fn of(run: &ValidRun, times: &RequestTimes, written: PerBlock) -> Self {
        let (left, right, valid) = (u32::from(run.left), u32::from(run.right), u32::from(run.length));
        let holes = left + right;
        Self {
            ssr: times.write(left) + times.write(right),
            inter: fill(times, holes, valid) + copy(times, valid, written.inter_ns),
            intra: fill(times, holes, 0) + copy(times, valid, written.intra_ns),
        }
    }

    /// The time of one choice.
    pub const fn by(&self, choice: Choice) -> f64 {
        match choice {
            Choice::Ssr => self.ssr,
            Choice::Inter => self.inter,
            Choice::Intra => self.intra,
        }
    }

    /// The choice with the least time; among equals the one that copies less, and to the cold
    /// segment.
    pub fn best(&self) -> Choice {
        let mut best = Choice::Ssr;
        for choice in [Choice::Inter, Choice::Intra] {
            if self.by(choice) < self.by(best) {
                best = choice;
            }
        }
        best
    }
}

/// The share of `holes` blocks in one request for `holes + freed` blocks: the write that fills the
/// holes continues into the freed blocks.
pub(crate) fn fill(times: &RequestTimes, holes: u32, freed: u32) -> f64 {
    let all = holes + freed;
    if holes == 0 { 0.0 } else { f64::from(holes) / f64::from(all) * times.write(all) }
}

/// The time to read a run and write it, given the time to write a block.
pub(crate) fn copy(times: &RequestTimes, valid: u32, written_ns: f64) -> f64 {
    times.read(valid) + f64::from(valid) * written_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P1's worked example: three blocks, one valid, three blocks (figure 4).
    #[test]
    fn the_worked_example_of_the_paper_by_hand() {
        let times =
            RequestTimes::new(512, |blocks| 40 + 7 * u64::from(blocks), |blocks| 1_000 + 30 * u64::from(blocks));
        let run = ValidRun { start: 3, length: 1, left: 3, right: 3, shares_left: false };
        let means = MeanHoles { inter: 512.0, intra: 3.0 };
        let by = RunTimes::of(&run, &times, means.per_block(&times));
        assert_eq!(by.ssr, 2.0 * 1_090.0);
        let inter = 6.0 / 7.0 * 1_210.0 + 47.0 + 1.0 / 512.0 * (1_000.0 + 30.0 * 512.0);
        let intra = 1_180.0 + 47.0 + 1.0 / 3.0 * 1_090.0;
        assert!((by.inter - inter).abs() < 1e-9 && (by.intra - intra).abs() < 1e-9, "{by:?}");
        assert_eq!(by.best(), Choice::Inter);
        // If the cold segment has holes just as small, the run stays nearer.
        let small = MeanHoles { inter: 1.0, intra: 3.0 }.per_block(&times);
        let scattered = RunTimes::of(&run, &times, small);
        assert_eq!(scattered.best(), Choice::Intra);
        // On a device without a cost per request, moving gains nothing.
        let plain = RequestTimes::new(512, u64::from, |blocks| 10 * u64::from(blocks));
        assert_eq!(RunTimes::of(&run, &plain, means.per_block(&plain)).best(), Choice::Ssr);
    }

    #[test]
    fn a_run_without_holes_stays() {
        let times = RequestTimes::new(8, |_| 5, |_| 100);
        let run = ValidRun { length: 4, ..ValidRun::default() };
        let by = RunTimes::of(&run, &times, MeanHoles { inter: 8.0, intra: 1.0 }.per_block(&times));
        assert_eq!((by.ssr, by.best()), (0.0, Choice::Ssr));
    }
}
