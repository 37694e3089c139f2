//! The simplest possible SIT and logs: a flag per block, and loops over all segments.

use std::collections::BTreeMap;

use crate::ids::{Log, SegmentIndex};
use crate::layout::Geometry;
use crate::segments::{Options, Summary};

pub struct NaiveLog {
    pub segment: usize,
    pub next: Option<usize>,
    pub ssr: bool,
}

pub struct Naive {
    pub valid: Vec<bool>,
    /// Blocks that must not be written: in the last checkpoint, written since, or pinned.
    pub kept: Vec<bool>,
    pub checkpoint: Vec<bool>,
    pub kind: Vec<Log>,
    pub in_use: Vec<bool>,
    pub section_in_use: Vec<bool>,
    pub logs: Vec<NaiveLog>,
    pub owners: BTreeMap<usize, Summary>,
    pub held: Vec<(usize, Log, bool)>,
    pub cursor: usize,
    pub per_section: usize,
    pub per_zone: usize,
}

impl Naive {
    pub fn new(geometry: &Geometry) -> Self {
        let (segments, per_section) = (geometry.main_segments as usize, geometry.segments_per_section as usize);
        let per_zone = per_section * geometry.sections_per_zone as usize;
        let mut naive = Self {
            valid: vec![false; segments * 512],
            kept: vec![false; segments * 512],
            checkpoint: vec![false; segments * 512],
            kind: vec![Log::HotData; segments],
            in_use: vec![false; segments],
            section_in_use: vec![false; segments / per_section],
            logs: Vec::new(),
            owners: BTreeMap::new(),
            held: Vec::new(),
            cursor: 0,
            per_section,
            per_zone,
        };
        for log in Log::ALL {
            let segment = log.index() * per_zone;
            naive.logs.push(NaiveLog { segment, next: Some(0), ssr: false });
            naive.kind[segment] = log;
            naive.use_segment(segment);
        }
        naive
    }

    pub fn use_segment(&mut self, segment: usize) {
        self.in_use[segment] = true;
        self.section_in_use[segment / self.per_section] = true;
    }

    pub fn count(map: &[bool], segment: usize) -> usize {
        map[segment * 512..segment * 512 + 512].iter().filter(|&&bit| bit).count()
    }

    pub fn is_current(&self, segment: usize) -> bool {
        self.logs.iter().any(|log| log.segment == segment)
    }

    pub fn is_held(&self, segment: usize) -> bool {
        self.held.iter().any(|held| held.0 == segment)
    }

    pub fn is_dirty(&self, segment: usize) -> bool {
        let valid = Self::count(&self.valid, segment);
        !self.is_current(segment) && !self.is_held(segment) && valid > 0 && valid < 512
    }

    /// Whether nothing uses the segment, so that the next checkpoint frees it.
    pub fn is_prefree(&self, segment: usize) -> bool {
        self.in_use[segment] && !self.is_current(segment) && Self::count(&self.valid, segment) == 0
    }

    pub fn is_busy(&self, section: usize) -> bool {
        let mine = |segment: usize| segment / self.per_section == section;
        self.logs.iter().any(|log| mine(log.segment)) || self.held.iter().any(|held| mine(held.0))
    }

    fn free_sections(&self) -> usize {
        self.section_in_use.iter().filter(|&&used| !used).count()
    }

    pub fn gap(&self, segment: usize, from: usize) -> Option<usize> {
        (from..512).find(|block| !self.valid[segment * 512 + block] && !self.kept[segment * 512 + block])
    }

    fn search(&mut self, kind: Log) -> Option<usize> {
        let dirty: Vec<usize> = (0..self.kind.len()).filter(|&s| self.is_dirty(s) && self.kind[s] == kind).collect();
        if dirty.is_empty() {
            return None;
        }
        let from_zero = kind == Log::HotData || kind.is_node();
        let (old, start) = (self.cursor, if from_zero { 0 } else { self.cursor });
        let mut order: Vec<(usize, bool)> = dirty.iter().filter(|&&s| s >= start).map(|&s| (s, false)).collect();
        order.extend(dirty.iter().filter(|&&s| s < old).map(|&s| (s, true)));
        let cut_short = order.len() >= dirty.len();
        order.truncate(dirty.len());
        let &(last, wrapped) = order.last()?;
        self.cursor = match (cut_short, wrapped || old == 0) {
            (false, _) => 0,
            (true, true) if last <= old => (old + 1) % self.kind.len(),
            (true, _) => (last + 1) % self.kind.len(),
        };
        let mut best: Option<(usize, usize)> = None;
        for (segment, _) in order {
            let cost = (0..512).filter(|block| self.kept[segment * 512 + block]).count();
            if !self.is_busy(segment / self.per_section) && cost < best.map_or(512, |best| best.0) {
                best = Some((cost, segment));
            }
        }
        best.map(|best| best.1)
    }

    fn victim(&mut self, log: Log) -> Option<usize> {
        use Log::*;
        let order = match log {
            HotData => [HotData, WarmData, ColdData],
            WarmData => [WarmData, ColdData, HotData],
            ColdData => [ColdData, WarmData, HotData],
            HotNode => [HotNode, WarmNode, ColdNode],
            WarmNode => [WarmNode, ColdNode, HotNode],
            ColdNode => [ColdNode, WarmNode, HotNode],
        };
        order.into_iter().find_map(|kind| self.search(kind))
    }

    fn free_segment(&self, log: Log, options: &Options) -> Option<usize> {
        let own = self.logs[log.index()].segment;
        let from_zero = log == Log::HotData || log.is_node() || options.reuse;
        let hint = if self.per_section == 1 && from_zero { 0 } else { own };
        let section = hint / self.per_section;
        if let Some(next) = (hint + 1..(section + 1) * self.per_section).find(|&segment| !self.in_use[segment]) {
            return Some(next);
        }
        let sections = self.section_in_use.len();
        let from = |start: usize| (start..start + sections).map(|s| s % sections).find(|&s| !self.section_in_use[s]);
        let found = from(section)? * self.per_section;
        let zone = found / self.per_zone;
        let taken = self.logs.iter().any(|log| log.segment / self.per_zone == zone);
        if self.per_zone == self.per_section || zone == hint / self.per_zone || !taken {
            return Some(found);
        }
        let next_zone = (zone + 1) * self.per_zone / self.per_section;
        Some(from(if next_zone >= sections { 0 } else { next_zone })? * self.per_section)
    }

    fn choose(&mut self, log: Log, options: &Options, wanted_sections: usize) -> Option<(usize, bool)> {
        let NaiveLog { segment, ssr, .. } = self.logs[log.index()];
        let goes_on = !ssr && !(segment + 1).is_multiple_of(self.per_section) && !self.in_use[segment + 1];
        let needs =
            self.free_sections() <= wanted_sections + (options.reserved_sections + options.min_ssr_sections) as usize;
        if !goes_on && needs && !options.lfs {
            let ready = self.held.iter().find(|held| held.1 == log && held.2 && self.gap(held.0, 0).is_some());
            if let Some(victim) = ready.map(|held| held.0).or_else(|| self.victim(log)) {
                return Some((victim, true));
            }
        }
        self.free_segment(log, options).map(|segment| (segment, false))
    }

    pub fn switch(&mut self, log: Log, (segment, ssr): (usize, bool)) {
        self.use_segment(segment);
        self.held.retain(|held| held.0 != segment);
        self.kind[segment] = log;
        let next = if ssr { self.gap(segment, 0) } else { Some(0) };
        self.logs[log.index()] = NaiveLog { segment, next, ssr };
    }

    pub fn renew(&mut self, log: Log, options: &Options, wanted: usize) -> Option<()> {
        let next = self.choose(log, options, wanted)?;
        self.switch(log, next);
        Some(())
    }

    /// The block and the next one, as offsets in the main area; `None` without room.
    pub fn allocate(&mut self, log: Log, owner: Summary, options: &Options, wanted: usize) -> Option<(usize, usize)> {
        if self.logs[log.index()].next.is_none() {
            self.renew(log, options, wanted)?;
        }
        let NaiveLog { segment, next, ssr } = self.logs[log.index()];
        let block = next?;
        let following = if ssr { self.gap(segment, block + 1) } else { Some(block + 1).filter(|&next| next < 512) };
        let chosen = match following {
            None => Some(self.choose(log, options, wanted)?),
            Some(_) => None,
        };
        let at = segment * 512 + block;
        self.set(at, owner);
        self.logs[log.index()].next = following;
        if let Some(chosen) = chosen {
            self.switch(log, chosen);
        }
        let log = &self.logs[log.index()];
        Some((at, log.segment * 512 + log.next.unwrap_or(512)))
    }

    pub fn set(&mut self, at: usize, owner: Summary) {
        assert!(!self.valid[at]);
        self.valid[at] = true;
        self.kept[at] = true;
        self.owners.insert(at, owner);
    }

    pub fn step_over(&mut self, at: usize) {
        let Some(log) = Log::ALL.into_iter().find(|log| self.logs[log.index()].segment == at / 512) else { return };
        let NaiveLog { segment, next, .. } = self.logs[log.index()];
        if next.is_none_or(|next| at % 512 >= next) && next.is_some() {
            let next = next.and_then(|next| self.gap(segment, next));
            self.logs[log.index()] = NaiveLog { segment, next, ssr: true };
        }
    }

    /// Blocks that were protected and are no longer in use, including those of segments that become
    /// free.
    pub fn completed(&mut self) -> Vec<bool> {
        let mut freed: Vec<bool> = (0..self.valid.len()).map(|at| self.kept[at] && !self.valid[at]).collect();
        for segment in 0..self.kind.len() {
            if self.is_prefree(segment) {
                freed[segment * 512..segment * 512 + 512].fill(true);
                self.in_use[segment] = false;
                let section = segment / self.per_section;
                let rest = section * self.per_section..(section + 1) * self.per_section;
                let log_there = self.logs.iter().any(|log| log.segment / self.per_section == section);
                if !log_there && rest.into_iter().all(|segment| !self.in_use[segment]) {
                    self.section_in_use[section] = false;
                }
            }
        }
        self.kept.clone_from(&self.valid);
        self.checkpoint.clone_from(&self.valid);
        self.held.iter_mut().for_each(|held| held.2 = true);
        freed
    }

    pub fn log_of(&self, segment: SegmentIndex) -> Option<Log> {
        Log::ALL.into_iter().find(|log| self.logs[log.index()].segment == segment.0 as usize)
    }
}
