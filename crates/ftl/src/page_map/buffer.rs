//! The write buffer: device memory in which host writes wait until they fill pages of the chip.
//! Reads see its content. A flush empties it, unless the content survives a power cut.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use nandkit_flash::Flash;
use nandkit_units::{Content, Context, Done, Nanos, Payload, Pieces, ReadInto, Ticket};

use super::{PageMapFtl, role};
use crate::failure::LayerResult;

/// The buffered pages, and those being programmed.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteBuffer {
    /// Capacity in logical pages; 0 disables the buffer.
    capacity: usize,
    entries: BTreeMap<u32, Entry>,
    /// The buffered pages of each region, oldest first; an entry with an outdated turn is stale.
    order: Vec<VecDeque<(u64, u32)>>,
    turn: u64,
    /// Pages whose memory becomes free when their program completes: completion times, earliest on
    /// top.
    in_flight: BinaryHeap<std::cmp::Reverse<(Nanos, usize)>>,
    /// The number of pages being programmed.
    flying: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    turn: u64,
    content: Content,
}

impl WriteBuffer {
    /// Makes a buffer of this many logical pages for this many regions.
    pub fn new(capacity: usize, regions: usize) -> Self {
        Self { capacity, order: vec![VecDeque::new(); regions], ..Self::default() }
    }

    #[inline(always)]
    pub const fn is_used(&self) -> bool {
        self.capacity > 0
    }

    /// Whether a logical page is buffered.
    pub fn holds(&self, page: u32) -> bool {
        self.entries.contains_key(&page)
    }

    /// Reads a logical page if it is buffered; returns whether it is.
    pub fn read(&self, page: u32, into: &mut ReadInto<'_>) -> bool {
        match self.entries.get(&page) {
            Some(entry) => {
                into.deliver(entry.content.payload());
                true
            }
            None => false,
        }
    }

    /// Removes a logical page.
    pub fn remove(&mut self, page: u32) {
        self.entries.remove(&page);
    }

    /// Replaces the buffered content of a logical page; returns whether there was any.
    fn absorb(&mut self, page: u32, data: Payload<'_>) -> bool {
        match self.entries.get_mut(&page) {
            Some(entry) => {
                ReadInto::Content { content: &mut entry.content, length: data.len() as u32 }.deliver(data);
                true
            }
            None => false,
        }
    }

    fn add(&mut self, region: u8, page: u32, data: Payload<'_>) {
        let mut content = Content::new();
        ReadInto::Content { content: &mut content, length: data.len() as u32 }.deliver(data);
        self.turn += 1;
        self.entries.insert(page, Entry { turn: self.turn, content });
        if let Some(order) = self.order.get_mut(usize::from(region)) {
            order.push_back((self.turn, page));
        }
    }

    /// The region with the oldest buffered page, and up to `most` of its pages.
    fn oldest(&mut self, most: usize) -> Option<(u8, Vec<u32>)> {
        let Self { entries, order, .. } = self;
        let is_there = |(turn, page): &(u64, u32)| entries.get(page).is_some_and(|entry| entry.turn == *turn);
        for queue in order.iter_mut() {
            while queue.front().is_some_and(|front| !is_there(front)) {
                queue.pop_front();
            }
        }
        let fronts = (0u8..).zip(order.iter()).filter_map(|(region, queue)| Some((queue.front()?.0, region)));
        let (_, region) = fronts.min()?;
        let queue = order.get(usize::from(region))?;
        let pages = queue.iter().filter(|entry| is_there(entry)).map(|(_, page)| *page).take(most);
        Some((region, pages.collect()))
    }

    /// Frees the memory of pages whose program has completed at `now`.
    fn land(&mut self, now: Nanos) {
        while let Some(std::cmp::Reverse((end, count))) = self.in_flight.peek().copied()
            && end <= now
        {
            self.in_flight.pop();
            self.flying -= count;
        }
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Takes whole logical pages into the buffer; completes when the last one has room.
    pub(super) fn write_to_buffer(&mut self, context: &Context, first: u32, data: &[Payload<'_>]) -> LayerResult<Done> {
        let size = self.block.sector_size as usize;
        // A request ends when there is room, not with the programs that make it.
        let mut context = Context { ticket: Ticket::NONE, ..*context };
        self.counters.host_page_writes += (Pieces::total(data) / size) as u64;
        let sectors =
            data.iter().flat_map(|data| (0..data.len()).step_by(size).map_while(move |at| data.part(at, size)));
        for (part, page) in sectors.zip(first..) {
            if self.buffer.absorb(page, part) {
                self.counters.absorbed_pages += 1;
                continue;
            }
            self.wait_for_room(&mut context)?;
            let region = self.streams.of_write(page, context.issued);
            self.buffer.add(region, page, part);
        }
        self.drain(&context, self.younger_half())?;
        Ok(Done::immediately(&context))
    }

    /// The number of pages to keep buffered: the older half goes to flash as soon as it fills
    /// pages, the younger half may still be overwritten.
    fn younger_half(&self) -> usize {
        (self.buffer.capacity / 2).max(self.superblocks.slots_per_page() as usize - 1)
    }

    /// Waits until a logical page has room. Meanwhile the older half is programmed on all dies at
    /// once, even if one request is larger than the buffer.
    fn wait_for_room(&mut self, context: &mut Context) -> LayerResult<()> {
        loop {
            self.buffer.land(context.issued);
            let waiting = self.buffer.entries.len();
            if waiting + self.buffer.flying < self.buffer.capacity {
                return Ok(());
            }
            let keep = self.younger_half();
            if waiting > keep || self.buffer.in_flight.is_empty() {
                self.drain(context, keep.min(waiting.saturating_sub(1)))?;
            }
            if let Some(std::cmp::Reverse((end, _))) = self.buffer.in_flight.peek() {
                let waited = end.0.saturating_sub(context.issued.0);
                self.counters.buffer_wait = Nanos(self.counters.buffer_wait.0 + waited);
                context.issued = context.issued.max(*end);
            }
        }
    }

    /// Programs the oldest pages until at most `keep` are left.
    pub(super) fn drain(&mut self, context: &Context, keep: usize) -> LayerResult<()> {
        let per_page = self.superblocks.slots_per_page() as usize;
        while self.buffer.entries.len() > keep {
            let Some((region, pages)) = self.buffer.oldest(per_page) else { break };
            let contents: Vec<(u32, Content)> =
                pages.iter().filter_map(|page| Some((*page, self.buffer.entries.get(page)?.content.clone()))).collect();
            let parts: Vec<(u32, Payload<'_>)> =
                contents.iter().map(|(page, content)| (*page, content.payload())).collect();
            let done = self.write_page(context, region, &parts, role::HOST)?;
            for page in pages {
                self.buffer.remove(page);
            }
            self.buffer.in_flight.push(std::cmp::Reverse((done.completed, parts.len())));
            self.buffer.flying += parts.len();
        }
        Ok(())
    }
}
