//! Moving pages between any blocks through the controller's memory.

use nandkit_units::{Context, Done, PageAddress};

use crate::{FlashError, Result};

/// Reads of whole pages and programs of what they read, many at once, whose data the caller never
/// sees.
///
/// It does what [`Flash::read`](crate::Flash::read) and [`Flash::program`](crate::Flash::program)
/// of each page would, in the order of the list, in the same time and with the same counts; it
/// saves what is the same for all pages, and works on stores that keep no content. A page that
/// cannot go this way (one that could come back with errors, a block of doubtful state) ends the
/// run before it, without a failure: the caller reads or programs that page itself, and goes on
/// behind it.
pub trait Relocation {
    /// Whether described data can be read back. Where they cannot, it makes no difference what a
    /// description says: a layer that joins several to a page need not make their bytes. Cost:
    /// none.
    fn keeps_described(&mut self) -> bool {
        true
    }

    /// Reads pages whole, each issued at `context.issued`, and delivers the first bytes of the OOB
    /// of each: `oob.len() / from.len()` of them. What was read can be placed until one of these
    /// pages is erased.
    fn fetch(&mut self, context: &Context, from: &[PageAddress], oob: &mut [u8]) -> PageRun;

    /// Programs pages, each issued at `context.issued`, with data of pages that were fetched and
    /// the next bytes of `oob`, as many for each page. The rules of programs hold.
    ///
    /// `parts` moves in a row, with the same target, make a page: equal parts of it, in order.
    /// `moves.len()` is a multiple of `parts`; what is behind the last whole page is left alone.
    fn place(&mut self, context: &Context, moves: &[Move], parts: u32, oob: &[u8]) -> PageRun;
}

/// A page, or a part of one, and where it is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The page that was fetched.
    pub from: PageAddress,
    /// Which of its parts; 0 where pages move whole.
    pub part: u32,
    /// The page that is to hold its data.
    pub to: PageAddress,
}

impl Move {
    /// Of a whole page.
    #[inline]
    pub const fn whole(from: PageAddress, to: PageAddress) -> Self {
        Self { from, part: 0, to }
    }
}

/// How far a run came.
#[derive(Debug)]
pub struct PageRun {
    /// Pages that are done, from the first on: read, or programmed.
    pub pages: usize,
    /// The time of these: the end of the last one to end, and the sum of what each kept busy.
    pub done: Done,
    /// Why the next one failed; `None` also where the run ended before a page that has to go
    /// another way.
    pub failed: Option<FlashError>,
}

impl PageRun {
    /// A run that has just begun.
    #[inline]
    pub const fn begin(context: &Context) -> Self {
        Self { pages: 0, done: Done::immediately(context), failed: None }
    }

    /// Adds the next page; `false` where it failed.
    #[inline]
    pub fn add(&mut self, result: Result<Done>) -> bool {
        match result {
            Ok(done) => {
                self.done = self.done.and(done);
                self.pages += 1;
                true
            }
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}
