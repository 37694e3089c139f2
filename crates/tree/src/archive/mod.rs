//! A tar archive as a tree: uncompressed, or compressed with gzip, zstd or xz.
//!
//! Supports V7, ustar and GNU headers and PAX extended headers (POSIX.1-2024, pax, "ustar
//! Interchange Format" and "pax Extended Header"; GNU tar manual, "Tar Internals"), extended
//! attributes as `SCHILY.xattr.NAME`, access control lists as `SCHILY.acl.access` and
//! `SCHILY.acl.default` (star(5)), and both sparse-file formats of GNU tar. Contents are read from
//! the archive on demand; a compressed archive, or one from a pipe, is first copied to a temporary
//! file.

mod entries;
mod headers;
mod sparse;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use nandkit_vfs::source::{SourceNode, SourceTree, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FsError};

use crate::{Result, TreeError, host};
pub(crate) use headers::{LISTS, xattr_key};
pub(crate) use sparse::EXTENTS_MAX;
use sparse::Extent;

/// Limits and options for reading an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Most bytes of the uncompressed archive: a few bytes of gzip can expand to any size.
    pub bytes_max: u64,
    /// Ignores extended attributes and access control lists, even unreadable ones.
    pub no_xattrs: bool,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self { bytes_max: 1 << 36, no_xattrs: false }
    }
}

/// A tar archive as a tree. If several entries have the same name, the last one counts. Directories
/// without an entry are made with mode 0755, owned by root; a leading `/` in a name is dropped.
/// Errors: an entry with `..` in its name, below something that is no directory, or replacing a
/// non-empty directory; also an empty file or pipe, as a failed writer leaves it.
#[derive(Debug)]
pub struct TarArchive {
    file: File,
    nodes: Vec<SourceNode>,
    contents: Vec<Option<Vec<Extent>>>,
}

/// Magic numbers of compressed archives: RFC 1952 section 2.3.1, RFC 8878 section 3.1.1, and "The
/// .xz File Format" section 2.1.1.1.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

impl TarArchive {
    /// Reads all headers of an archive file. Errors: `Host`, and `Archive` with the entry and its
    /// offset.
    pub fn open(path: &Path, options: &ArchiveOptions) -> Result<Self> {
        let shown = path.display().to_string();
        let failed = |doing| {
            let shown = shown.clone();
            move |error: io::Error| TreeError::host(shown, doing, error)
        };
        let mut file = File::open(path).map_err(failed("opening"))?;
        let regular = file.metadata().map_err(failed("reading attributes"))?.is_file();
        if !regular {
            return Self::read(file, options);
        }
        let mut start = [0; 6];
        let count = host::read_at(&file, &mut start, 0).map_err(failed("reading"))?;
        let start = start.get(..count).unwrap_or_default();
        if [GZIP, ZSTD, XZ].iter().any(|magic| start.starts_with(magic)) {
            file.seek(SeekFrom::Start(0)).map_err(failed("reading"))?;
            return Self::read(file, options);
        }
        Self::from_plain(file, options)
    }

    /// Reads an archive, compressed or not, from a pipe or from memory. Errors: `Archive`, and
    /// `Host` for the temporary file.
    pub fn read(from: impl Read, options: &ArchiveOptions) -> Result<Self> {
        let failed = |doing| move |error: io::Error| TreeError::host("archive", doing, error);
        let mut from = BufReader::with_capacity(1 << 16, from);
        let mut start = Vec::new();
        from.by_ref().take(6).read_to_end(&mut start).map_err(failed("reading"))?;
        let whole = io::Cursor::new(start.clone()).chain(from);
        let mut plain: Box<dyn Read + '_> = if start.starts_with(GZIP) {
            Box::new(flate2::bufread::MultiGzDecoder::new(whole))
        } else if start.starts_with(ZSTD) {
            Box::new(zstd::Decoder::with_buffer(whole).map_err(failed("uncompressing"))?)
        } else if start.starts_with(XZ) {
            Box::new(lzma_rust2::XzReader::new(whole, true))
        } else {
            Box::new(whole)
        };
        let mut file = tempfile::tempfile().map_err(failed("making a temporary file"))?;
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0_u64;
        loop {
            let count = match plain.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TreeError::host("archive", "uncompressing", error)),
            };
            total = total.saturating_add(count as u64);
            if total > options.bytes_max {
                let what = format!("expected at most {} bytes uncompressed, found more", options.bytes_max);
                return Err(TreeError::Archive { entry: String::new(), offset: total, what });
            }
            file.write_all(buffer.get(..count).unwrap_or_default()).map_err(failed("writing a temporary file"))?;
        }
        Self::from_plain(file, options)
    }

    fn from_plain(file: File, options: &ArchiveOptions) -> Result<Self> {
        let built = entries::read(&file, options.no_xattrs)?;
        Ok(Self { file, nodes: built.nodes, contents: built.contents })
    }
}

impl SourceTree for TarArchive {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        let Some(found) = self.nodes.get(node) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        if found.kind != FileKind::Regular {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is a {:?}", found.kind)));
        }
        let extents = self.contents.get(same_inode(&self.nodes, node)).and_then(Option::as_deref).unwrap_or_default();
        sparse::read(&self.file, extents, found.size, offset, into)
    }

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        let extents = self.contents.get(same_inode(&self.nodes, node)).and_then(Option::as_deref).unwrap_or_default();
        let end = |extent: &Extent| extent.at.saturating_add(extent.length);
        let next = extents.get(extents.partition_point(|extent| end(extent) <= offset));
        Ok(next.map(|extent| extent.at.max(offset)..end(extent)).filter(|data| !data.is_empty()))
    }
}
