//! A host directory read in the order of its files on the device.
//!
//! Files are delivered in tree order. Within a window of upcoming files, several threads read ahead
//! in the order of physical blocks (FIEMAP, linux/fiemap.h; if the file system does not report
//! them, in inode order). Large files are streamed, with requests far ahead.

mod member;
mod windows;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_units::Nanos;
use nandkit_vfs::source::{SourceNode, SourceTree, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Timestamp};
use rustix::fs::Advice;

use self::member::{Content, Member};
use self::windows::Windows;
use crate::{DirectoryOptions, HostDirectory, Note, Result, TreeError, host};

/// The host's clock, which reveals recently changed files, and a way to wait.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    /// Returns the current time.
    pub now: fn() -> Timestamp,
    /// Waits for this duration.
    pub wait: fn(Nanos),
}

/// Options for reading a directory in order.
#[derive(Clone, Debug)]
pub struct OrderedOptions {
    /// Options for names and attributes.
    pub directory: DirectoryOptions,
    /// Approximate limit of content held in memory, in bytes.
    pub memory: u64,
    /// Parallel reads: several are useful even on a single processor, because devices work in
    /// parallel.
    pub threads: usize,
    /// Whether [`SourceTree::data_after`] reports holes; otherwise everything counts as data
    /// without asking.
    pub holes: bool,
    /// The host's clock.
    pub clock: HostClock,
}

/// Counters of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderedCounters {
    /// Files read ahead.
    pub ahead: u64,
    /// Files read ahead whose location was reported by the file system.
    pub placed: u64,
    /// Files streamed.
    pub streamed: u64,
    /// Files that differed from their listing.
    pub renewed: u64,
    /// Repeated reads of files that changed meanwhile, or changed too recently to tell.
    pub again: u64,
}

/// A host directory that is read ahead. To get each file in a single version, call
/// [`OrderedDirectory::turn`] before reading it, as the packer does.
pub struct OrderedDirectory {
    source: Arc<Source>,
    windows: Windows,
    current: Mutex<Option<(usize, Member)>>,
}

/// The state shared by the reading threads.
struct Source {
    directory: HostDirectory,
    options: OrderedOptions,
}

impl std::fmt::Debug for OrderedDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OrderedDirectory").field(&self.source.directory).finish()
    }
}

/// Bytes of a streamed file requested ahead of the reader.
const AHEAD: u64 = 8 << 20;

impl OrderedDirectory {
    /// Reads all names and attributes, with this many threads. Errors: those of
    /// [`HostDirectory::open`]; `Host` if no thread can be started.
    pub fn open(root: &Path, options: OrderedOptions) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.clamp(1, 64)).build();
        let pool = pool.map_err(|error| {
            TreeError::host(root.display().to_string(), "starting threads", std::io::Error::other(error))
        })?;
        let directory = pool.install(|| HostDirectory::open(root, &options.directory))?;
        let source = Arc::new(Source { directory, options });
        let windows = Windows::new(pool, &source);
        Ok(Self { source, windows, current: Mutex::new(None) })
    }

    /// Nodes left out, by path.
    pub fn left_out(&self) -> &[Note] {
        self.source.directory.left_out()
    }

    /// The counters so far.
    pub fn counters(&self) -> OrderedCounters {
        self.windows.counters()
    }

    /// The current node, if it differs from the listed one; from now on its content is that of this
    /// moment. Errors: it is gone, no longer a file, unreadable, or changes all the time.
    pub fn turn(&self, node: usize) -> nandkit_vfs::Result<Option<SourceNode>> {
        let nodes = self.source.directory.nodes();
        let is_file =
            nodes.get(node).is_some_and(|found| found.kind == FileKind::Regular && found.hard_link_of.is_none());
        if !is_file {
            return Ok(None);
        }
        *self.lock() = None;
        let member = self.windows.member(&self.source, node)?;
        let present = member.node.clone();
        *self.lock() = Some((node, member));
        Ok(present)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(usize, Member)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a closure on the current member.
    fn with<T>(
        &self,
        node: usize,
        work: impl FnOnce(&Source, usize, &mut Member) -> nandkit_vfs::Result<T>,
    ) -> nandkit_vfs::Result<T> {
        let node = same_inode(self.source.directory.nodes(), node);
        if self.lock().as_ref().is_none_or(|(current, _)| *current != node) {
            self.turn(node)?;
        }
        match &mut *self.lock() {
            Some((current, member)) if *current == node => work(&self.source, node, member),
            _ => Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is not the next file to be read"))),
        }
    }
}

impl SourceTree for OrderedDirectory {
    fn nodes(&self) -> &[SourceNode] {
        self.source.directory.nodes()
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        self.with(node, |source, node, member| match &mut member.content {
            Content::Whole(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                let count = rest.len().min(into.len());
                if let Some((to, from)) = into.get_mut(..count).zip(rest.get(..count)) {
                    to.copy_from_slice(from);
                }
                Ok(count)
            }
            Content::Streamed { file, asked } => {
                let count = member.size.saturating_sub(offset).min(into.len() as u64) as usize;
                let into = into.get_mut(..count).unwrap_or_default();
                ask_ahead(file, asked, offset, member.size);
                let failed =
                    |error| FsError::device(format!("{}: reading at {offset}", source.directory.show(node)), error);
                let found = host::read_at(file, into, offset).map_err(failed)?;
                let is_end = offset + count as u64 >= member.size;
                if found != count || is_end {
                    member::expect_same(source, node, file, &member.version)?;
                }
                if found != count {
                    let detail =
                        format!("{}: {found} bytes at {offset}, expected {count}", source.directory.show(node));
                    return Err(FsError::new(ErrorKind::Corrupt, detail));
                }
                Ok(count)
            }
        })
    }

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        self.with(node, |_, _, member| {
            let Some(runs) = &member.runs else { return Ok((offset < member.size).then_some(offset..member.size)) };
            let next = runs.get(runs.partition_point(|run| run.end <= offset));
            Ok(next.map(|run| run.start.max(offset)..run.end))
        })
    }
}

/// Makes the host read the next part long before it is needed.
fn ask_ahead(file: &File, asked: &mut u64, offset: u64, size: u64) {
    while *asked < size && *asked < offset + 2 * AHEAD {
        // Only a hint: if it fails, reads work as usual.
        let _ = rustix::fs::fadvise(file, *asked, std::num::NonZeroU64::new(AHEAD), Advice::WillNeed);
        *asked += AHEAD;
    }
}
