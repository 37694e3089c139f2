//! Moving pages between any blocks through the controller's memory.

use nandkit_units::{Context, Done, PageAddress};

use crate::{FlashError, Result};

/// Reads of whole pages and programs of what they read, many at once, whose data the caller never sees.
///
/// It does what [`Flash::read`](crate::Flash::read) and [`Flash::program`](crate::Flash::program) of each page would, in the order of the list, in the same time and with the same
/// counts; it saves what is the same for all pages, and works on stores that keep no content. A page that cannot go this way (one that could come back
/// with errors, a block of doubtful state) ends the run before it, without a failure: the caller reads or programs that page itself, and goes on behind it.
pub trait Relocation {
    /// Reads pages whole, each issued at `context.issued`, and delivers the first bytes of the OOB of each: `oob.len() / from.len()` of them. What was read can be
    /// placed until one of these pages is erased.
    fn fetch(&mut self, context: &Context, from: &[PageAddress], oob: &mut [u8]) -> PageRun;

    /// Programs pages, each issued at `context.issued`, with the data of a page that was fetched and the next `oob.len() / moves.len()` bytes of `oob`. The rules of programs hold.
    fn place(&mut self, context: &Context, moves: &[Move], oob: &[u8]) -> PageRun;
}

/// A page and where it is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The page that was fetched.
    pub from: PageAddress,
    /// The page that is to hold its data.
    pub to: PageAddress,
}

/// How far a run came.
#[derive(Debug)]
pub struct PageRun {
    /// Pages that are done, from the first on.
    pub pages: usize,
    /// The time of these: the end of the last one to end, and the sum of what each kept busy.
    pub done: Done,
    /// Why the next one failed; `None` also where the run ended before a page that has to go another way.
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
