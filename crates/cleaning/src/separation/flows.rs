//! Counts how many versions moved between which regions.

/// Why a version moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The user wrote it.
    Write,
    /// Cleaning moved it.
    Clean,
}

/// Counts of versions by event, region before and region after. A version is what the owner asks
/// about in one call, whatever its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flows {
    regions: usize,
    /// By event, region before (the last row: none) and region after.
    counts: Vec<u64>,
}

impl Flows {
    /// Nothing counted yet.
    pub(super) fn new(regions: u8) -> Self {
        let regions = usize::from(regions);
        Self { regions, counts: vec![0; 2 * (regions + 1) * regions] }
    }

    /// How many regions there are.
    pub const fn regions(&self) -> u8 {
        self.regions as u8
    }

    fn place(&self, event: Event, from: Option<u8>, to: u8) -> Option<usize> {
        let (row, column) = (from.map_or(self.regions, usize::from), usize::from(to));
        let inside = column < self.regions && (from.is_none() || row < self.regions);
        inside.then_some(((event == Event::Clean) as usize * (self.regions + 1) + row) * self.regions + column)
    }

    pub(super) fn count(&mut self, event: Event, from: Option<u8>, to: u8) {
        let place = self.place(event, from, to);
        if let Some(count) = place.and_then(|place| self.counts.get_mut(place)) {
            *count = count.saturating_add(1);
        }
    }

    /// The number of versions that an event took from one region (`None`: a first write) to
    /// another; 0 for regions that do not exist.
    pub fn get(&self, event: Event, from: Option<u8>, to: u8) -> u64 {
        self.place(event, from, to).and_then(|place| self.counts.get(place)).copied().unwrap_or(0)
    }

    /// All nonzero flows, in the order of event, region before (first writes last) and region
    /// after.
    pub fn iter(&self) -> impl Iterator<Item = (Event, Option<u8>, u8, u64)> + '_ {
        let regions = 0..self.regions as u8;
        [Event::Write, Event::Clean].into_iter().flat_map(move |event| {
            let regions = regions.clone();
            regions.clone().map(Some).chain([None]).flat_map(move |from| {
                regions.clone().map(move |to| (event, from, to, self.get(event, from, to))).filter(|flow| flow.3 > 0)
            })
        })
    }
}
