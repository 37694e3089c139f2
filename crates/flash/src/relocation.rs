//! Moving pages between any blocks through the controller's memory.

use nandkit_units::{Context, Done, PageAddress};

use crate::{FlashError, Result};

/// Reads whole pages and programs their data elsewhere, many at once, without the caller seeing the
/// data.
///
/// The effect is that of [`Flash::read`](crate::Flash::read) and
/// [`Flash::program`](crate::Flash::program) for each page, in list order, with the same times and
/// counts. It shares work between pages, and works on stores that keep no content. A page that
/// cannot be handled this way (a read that may have bit errors, a block in a doubtful state) ends
/// the run before it, without a failure: the caller must read or program that page itself, and
/// continue after it.
pub trait Relocation {
    /// Whether described data can be read back. If not, the content of descriptions does not
    /// matter: a layer that joins several into a page need not generate their bytes. Cost: none.
    fn keeps_described(&mut self) -> bool {
        true
    }

    /// Reads whole pages, each issued at `context.issued`, and delivers the first `oob.len() /
    /// from.len()` bytes of each one's OOB. The data can be placed until one of these pages is
    /// erased.
    fn fetch(&mut self, context: &Context, from: &[PageAddress], oob: &mut [u8]) -> PageRun;

    /// Programs pages, each issued at `context.issued`, with data of fetched pages and the next
    /// bytes of `oob`, an equal number for each page. The rules of programs hold.
    ///
    /// `parts` consecutive moves with the same target form a page: equal parts of it, in order.
    /// `moves.len()` must be a multiple of `parts`; moves after the last whole page are ignored.
    fn place(&mut self, context: &Context, moves: &[Move], parts: u32, oob: &[u8]) -> PageRun;
}

/// A page, or a part of one, and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The fetched page.
    pub from: PageAddress,
    /// The index of the part; 0 if pages move whole.
    pub part: u32,
    /// The page that receives the data.
    pub to: PageAddress,
}

impl Move {
    /// A move of a whole page.
    #[inline]
    pub const fn whole(from: PageAddress, to: PageAddress) -> Self {
        Self { from, part: 0, to }
    }
}

/// The progress of a run.
#[derive(Debug)]
pub struct PageRun {
    /// The number of pages read or programmed, from the first on.
    pub pages: usize,
    /// Their time: the latest end, and the sum of the busy times.
    pub done: Done,
    /// Why the next page failed; `None` also if the run ended before a page that needs the ordinary
    /// way.
    pub failed: Option<FlashError>,
}

impl PageRun {
    /// A run without pages.
    #[inline]
    pub const fn begin(context: &Context) -> Self {
        Self { pages: 0, done: Done::immediately(context), failed: None }
    }

    /// Adds the next page's result; returns `false` if it failed.
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
