//! Chooses which parts of files to gather, and how, so that later reads are few and large (future
//! work in P3: whole files, chosen by size and fragments).
//!
//! A read issues a request per run of adjacent addresses, up to the host's largest request. A
//! request takes the device's time for its size, or as long as its busiest die needs to read its
//! pages one after the other: fragmented files are slow less because of the number of requests than
//! because several pages are on one die (Jun et al., FAST 2024). Remapping lengthens runs and
//! leaves every page on its die; copying distributes the pages over the dies.

use crate::partial::RequestTimes;
use crate::unified::RemapCost;

/// The cost of reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadCosts {
    /// The device's times by request size.
    pub times: RequestTimes,
    /// The time to read a page from one die.
    pub page_ns: f64,
    /// The host's cost per request, whatever its size; 0 if it is not counted.
    pub request_ns: f64,
    /// Blocks of the largest request; 0 counts as 1.
    pub request_max: u32,
}

/// Consecutive pages of a file.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The lengths of the runs they form on the device.
    pub runs: &'a [u32],
    /// The die of each page; shorter or empty if the device does not tell.
    pub dies: &'a [Option<u32>],
    /// The number of dies; 0 if the device does not tell.
    pub of_dies: u32,
}

impl ReadCosts {
    /// The time to read all pages once from where they are. If the device tells its dies, the
    /// pieces of a read-ahead are requested together, else one after the other. Cost: one step per
    /// page.
    pub fn read_ns(&self, window: &Window<'_>) -> f64 {
        if window.of_dies > 0 { self.together_ns(window) } else { self.in_turn_ns(window) }
    }

    /// The time with read-aheads, each of which waits for its busiest die.
    fn together_ns(&self, window: &Window<'_>) -> f64 {
        let most = self.request_max.max(1);
        let pages: u32 = window.runs.iter().sum();
        // Where one run ends and the next begins.
        let breaks: Vec<u32> =
            window.runs.iter().scan(0, |end, run| Some(std::mem::replace(end, *end + run))).collect();
        let of_window = |first: u32| {
            let end = pages.min(first.saturating_add(most));
            let pieces = 1 + breaks.iter().filter(|start| (first + 1..end).contains(start)).count();
            let dies = window.dies.get(first as usize..end as usize).unwrap_or_default();
            (pieces - 1) as f64 * self.request_ns + self.request(end - first, busiest(dies, window.of_dies))
        };
        (0..pages).step_by(most as usize).map(of_window).sum()
    }

    fn in_turn_ns(&self, window: &Window<'_>) -> f64 {
        let (mut time_ns, mut first) = (0.0, 0_usize);
        for run in window.runs {
            let mut left = *run;
            while left > 0 {
                let blocks = left.min(self.request_max.max(1));
                let dies = window.dies.get(first..first + blocks as usize).unwrap_or_default();
                time_ns += self.request(blocks, busiest(dies, window.of_dies));
                (left, first) = (left - blocks, first + blocks as usize);
            }
        }
        time_ns
    }

    fn request(&self, blocks: u32, busiest: u32) -> f64 {
        self.request_ns + self.times.read(blocks).max(f64::from(busiest) * self.page_ns)
    }

    /// The time to read the pages in one run, distributed over the dies.
    fn striped_ns(&self, pages: u32, of_dies: u32) -> f64 {
        let most = self.request_max.max(1);
        let on_one = |blocks: u32| if of_dies == 0 { 0 } else { blocks.div_ceil(of_dies) };
        let rest = pages % most;
        let last = if rest == 0 { 0.0 } else { self.request(rest, on_one(rest)) };
        f64::from(pages / most) * self.request(most, on_one(most)) + last
    }
}

/// The most pages on any one die.
fn busiest(dies: &[Option<u32>], of_dies: u32) -> u32 {
    let mut pages = vec![0_u32; of_dies.min(4096) as usize];
    for die in dies.iter().flatten() {
        if let Some(count) = pages.get_mut(*die as usize) {
            *count += 1;
        }
    }
    pages.into_iter().max().unwrap_or(0)
}

/// What to do with a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gathering {
    /// Leave it as it is.
    #[default]
    Leave,
    /// Give it adjacent addresses; its pages stay on their dies.
    Remap,
    /// Read it and write it in one piece.
    Copy,
}

/// The cost of gathering.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherCosts {
    /// The cost of reads, now and later.
    pub reads: ReadCosts,
    /// The cost of remapping; `None` if the device cannot remap single blocks.
    pub remap: Option<RemapCost>,
    /// What a flush takes beyond its command, to program what waits in the device's memory.
    pub flush_ns: f64,
}

impl GatherCosts {
    /// Sets the host's cost per request.
    pub fn with_host(mut self, request_ns: u64) -> Self {
        self.reads.request_ns = request_ns as f64;
        self
    }
}

/// A decision about a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to do.
    pub gathering: Gathering,
    /// The time that reads save minus the cost; 0 for a window that is left.
    pub gain_ns: f64,
}

/// Decides about a window that is expected to be read `reads` more times in full. Among equal gains
/// the one that does less wins. Cost: a few steps per page.
pub fn decide(window: &Window<'_>, reads: f64, costs: &GatherCosts) -> Decision {
    let pages: u32 = window.runs.iter().sum();
    let now_ns = costs.reads.read_ns(window);
    let mut best = Decision::default();
    let mut weigh = |gathering, later_ns: f64, cost_ns: f64| {
        let gain_ns = reads * (now_ns - later_ns) - cost_ns;
        if gain_ns > best.gain_ns {
            best = Decision { gathering, gain_ns };
        }
    };
    // With a single run, a remap changes nothing.
    if let Some(remap) = costs.remap.filter(|_| window.runs.len() > 1) {
        weigh(Gathering::Remap, costs.reads.read_ns(&Window { runs: &[pages], ..*window }), remap.of_pairs(pages));
    }
    let times = &costs.reads.times;
    weigh(Gathering::Copy, costs.reads.striped_ns(pages, window.of_dies), now_ns + times.write(pages));
    best
}

/// A window of a file that may be gathered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its file.
    pub file: u64,
    /// Its first page.
    pub page: u64,
    /// Its pages.
    pub pages: u32,
    /// What to do, and the gain.
    pub decision: Decision,
}

/// Chooses the candidates to gather within a budget of pages: those with the largest gain per page
/// first, and none without a gain. Ties are broken by file and page.
pub fn choose(mut candidates: Vec<Candidate>, budget: u32) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.decision.gathering != Gathering::Leave && candidate.pages > 0);
    let for_a_page = |candidate: &Candidate| candidate.decision.gain_ns / f64::from(candidate.pages);
    candidates.sort_by(|one, other| {
        let gains = for_a_page(other).total_cmp(&for_a_page(one));
        gains.then((one.file, one.page).cmp(&(other.file, other.page)))
    });
    let mut left = budget;
    candidates.retain(|candidate| {
        let fits = candidate.pages <= left;
        left -= if fits { candidate.pages } else { 0 };
        fits
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> GatherCosts {
        let times = RequestTimes::new(64, |blocks| 50 + u64::from(blocks), |blocks| 500 + 10 * u64::from(blocks));
        let reads = ReadCosts { times, page_ns: 40.0, request_ns: 10.0, request_max: 16 };
        GatherCosts {
            reads,
            remap: Some(RemapCost { command_ns: 160.0, pair_ns: 1.0, pairs_max: 16, unit: 1 }),
            flush_ns: 0.0,
        }
    }

    #[test]
    fn reads_are_requests_that_wait_for_their_busiest_die() {
        let reads = costs().reads;
        let in_turn: Vec<_> = (0..16).map(|page| Some(page % 4)).collect();
        let window = |runs, dies| Window { runs, dies, of_dies: 4 };
        // Four pages on each die: 160, compared with 66.
        assert_eq!(reads.read_ns(&window(&[16], &in_turn)), 10.0 + 160.0);
        assert_eq!(reads.read_ns(&window(&[16], &[])), 10.0 + 66.0);
        // The pieces are read together; each is a request of the host.
        assert_eq!(reads.read_ns(&window(&[1; 16], &in_turn)), 16.0 * 10.0 + 160.0);
        assert_eq!(reads.read_ns(&window(&[1, 18, 1], &[])), 2.0 * 10.0 + 66.0 + 2.0 * 10.0 + 54.0);
        // A device that does not tell its dies reads them one by one.
        assert_eq!(reads.read_ns(&Window { runs: &[1; 16], dies: &[], of_dies: 0 }), 16.0 * (10.0 + 51.0));
        assert_eq!(reads.read_ns(&window(&[16], &[Some(3); 16])), 10.0 + 16.0 * 40.0);
        // Requests of at most 16 blocks.
        assert_eq!(reads.read_ns(&window(&[20], &[])), 10.0 + 66.0 + 10.0 + 54.0);
        assert_eq!(reads.striped_ns(20, 4), 10.0 + 160.0 + 10.0 + 54.0);
        assert_eq!(reads.read_ns(&window(&[2], &[Some(9), None])), 10.0 + 52.0);
    }

    #[test]
    fn what_is_read_decides_and_what_lies_on_one_die_is_copied() {
        let costs = costs();
        let in_turn: Vec<_> = (0..16).map(|page| Some(page % 4)).collect();
        let (scattered, one_die) = (Window { runs: &[1; 16], dies: &in_turn, of_dies: 4 }, [Some(2); 16]);
        // A read saves 15 requests of 10; the remap costs 160 * 15 / 16 + 16 * 11.
        assert_eq!(decide(&scattered, 2.0, &costs).gathering, Gathering::Leave);
        let often = decide(&scattered, 3.0, &costs);
        assert_eq!(often.gathering, Gathering::Remap);
        assert!((often.gain_ns - (450.0 - 326.0)).abs() < 1e-9, "{often:?}");
        assert_eq!(decide(&scattered, 0.0, &costs), Decision::default());
        // If the pieces are read one by one, a read saves 976 - 76.
        let in_pieces = Window { of_dies: 0, dies: &[], ..scattered };
        assert_eq!(decide(&in_pieces, 1.0, &costs).gathering, Gathering::Remap);
        // On one die, a remap saves 150 per read and a copy 630.
        let collides = Window { dies: &one_die, ..scattered };
        assert_eq!(decide(&collides, 1.0, &costs).gathering, Gathering::Leave);
        assert_eq!(decide(&collides, 9.0, &costs).gathering, Gathering::Copy);
        // One run on one die: only a copy helps, and only if it pays off.
        let run = Window { runs: &[16], ..collides };
        assert_eq!(decide(&run, 2.0, &costs).gathering, Gathering::Leave);
        assert_eq!(decide(&run, 3.0, &costs).gathering, Gathering::Copy);
        let without = GatherCosts { remap: None, ..costs };
        assert_eq!(decide(&scattered, 6.0, &without).gathering, Gathering::Leave);
        assert_eq!(decide(&scattered, 9.0, &without).gathering, Gathering::Copy);
    }

    #[test]
    fn the_budget_goes_to_what_gains_most_for_a_page() {
        let candidate = |file, pages, gain_ns| Candidate {
            file,
            page: 0,
            pages,
            decision: Decision { gathering: Gathering::Remap, gain_ns },
        };
        let mut all =
            vec![candidate(1, 10, 100.0), candidate(2, 100, 2_000.0), candidate(3, 5, 100.0), candidate(4, 5, 90.0)];
        all.push(Candidate { decision: Decision::default(), ..candidate(5, 1, 0.0) });
        let files = |budget| choose(all.clone(), budget).iter().map(|chosen| chosen.file).collect::<Vec<_>>();
        assert_eq!(files(200), [2, 3, 4, 1]);
        assert_eq!(files(20), [3, 4, 1]);
        assert_eq!(files(5), [3]);
        assert_eq!(files(0), Vec::<u64>::new());
    }
}
