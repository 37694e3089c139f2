//! The entries of an uncompressed archive in sequence.

use std::fs::File;

use nandkit_vfs::source::{BuiltTree, SourceNode, TreeBuilder};
use nandkit_vfs::{FileKind, FsError, Timestamp, acl};
use tar::{EntryType, Header};

use super::headers::{Extended, LISTS};
use super::sparse::{self, Extent};
use crate::error::escaped;
use crate::{Result, TreeError, host};

/// Size of a header, and unit of all other sizes (POSIX.1-2024, pax, "ustar Interchange Format").
const BLOCK: u64 = 512;

/// Most bytes of an extended header, name or target.
const EXTENDED_MAX: u64 = 16 << 20;

/// Most bytes of names and attributes that apply to all following entries: each entry gets a copy.
const GLOBAL_MAX: usize = 4096;

/// Reads all headers and builds the tree.
pub fn read(file: &File, no_xattrs: bool) -> Result<BuiltTree<Vec<Extent>>> {
    let end = file.metadata().map_err(|error| TreeError::host("archive", "reading attributes", error))?.len();
    let directory = SourceNode::new(FileKind::Directory, 0o755);
    let mut reader = Reader {
        file,
        end,
        at: 0,
        name: Vec::new(),
        global: Extended { no_xattrs, ..Extended::default() },
        builder: TreeBuilder::new(directory.clone(), directory),
    };
    if end == 0 {
        return Err(reader.wrong("expected a tar archive, found no bytes at all; one without entries has 1,024 zeroes"));
    }
    while reader.entry()? {}
    Ok(reader.builder.finish())
}

/// Identifies data that are no supported tar archive by their first bytes (RFC and format documents
/// of each; "magic" of file(1)).
fn foreign(block: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 8] = [
        (b"BZh", "what bzip2 compressed (read are gzip, zstd and xz)"),
        (&[0x1F, 0x9D], "what compress(1) compressed (read are gzip, zstd and xz)"),
        (&[0x04, 0x22, 0x4D, 0x18], "what lz4 compressed (read are gzip, zstd and xz)"),
        (&[0x5D, 0, 0], "what lzma compressed (read are gzip, zstd and xz)"),
        (b"PK\x03\x04", "a zip archive"),
        (b"7z\xBC\xAF\x27\x1C", "a 7-Zip archive"),
        (b"0707", "a cpio archive"),
        (b"!<arch>\n", "an archive of ar"),
    ];
    KNOWN.iter().find(|(magic, _)| block.starts_with(magic)).map(|(_, name)| *name)
}

struct Reader<'a> {
    file: &'a File,
    /// Length of the archive in bytes.
    end: u64,
    /// Offset of the next header.
    at: u64,
    /// The name of the current entry, for messages.
    name: Vec<u8>,
    global: Extended,
    builder: TreeBuilder<Vec<Extent>>,
}

/// An entry with the data of its extended headers.
struct Entry {
    header: Header,
    extended: Extended,
    /// Length of the data in the archive.
    size: u64,
    /// Offset of the data in the archive.
    data: u64,
    /// The runs of a sparse file in the old GNU format.
    map: Option<Vec<u64>>,
    real_size: u64,
}

impl Reader<'_> {
    fn wrong(&self, what: impl Into<String>) -> TreeError {
        TreeError::Archive { entry: escaped(&self.name), offset: self.at, what: what.into() }
    }

    /// Reads bytes that must exist.
    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.end);
        let mut bytes = vec![0; if inside { length as usize } else { 0 }];
        let count =
            host::read_at(self.file, &mut bytes, at).map_err(|error| TreeError::host("archive", "reading", error))?;
        if inside && count == bytes.len() {
            return Ok(bytes);
        }
        Err(self.wrong(format!("expected {length} bytes at {at}, found the archive's end at {}", self.end)))
    }

    /// The next header; `None` at the archive's end.
    fn header(&mut self) -> Result<Option<Header>> {
        if self.at >= self.end {
            return Ok(None);
        }
        if self.at == 0 && self.end < BLOCK {
            let start = self.bytes(0, self.end)?;
            let what = foreign(&start).unwrap_or("less than the 512 bytes of a header");
            return Err(self.wrong(format!("expected a tar archive, found {what}")));
        }
        let block = self.bytes(self.at, BLOCK)?;
        if nandkit_units::is_zeroed(&block) {
            return Ok(None);
        }
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(&block);
        // The sum of all bytes, with those of the checksum field taken as spaces.
        let sum =
            block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) });
        let (sum, stored) = (sum.sum::<u32>(), header.cksum().ok());
        if self.at == 0 && stored != Some(sum) {
            let what = foreign(&block).unwrap_or("bytes that are no header, by their checksum");
            return Err(self.wrong(format!("expected a tar archive, found {what}")));
        }
        self.name = header.path_bytes().into_owned();
        if stored != Some(sum) {
            let stored = stored.map_or_else(|| "none".to_owned(), |stored| stored.to_string());
            return Err(self.wrong(format!("expected a header with the checksum {sum}, found {stored}")));
        }
        Ok(Some(header))
    }

    /// Processes the next entry with its extended headers; returns whether there was one.
    fn entry(&mut self) -> Result<bool> {
        let mut extended = self.global.clone();
        loop {
            let Some(header) = self.header()? else { return Ok(false) };
            let stored = header.entry_size().map_err(|error| self.wrong(error.to_string()))?;
            let kind = header.entry_type();
            let data = self.at + BLOCK;
            let describes = matches!(kind.as_byte(), b'x' | b'X' | b'g' | b'L' | b'K');
            if !describes {
                let size = if kind.is_hard_link() { 0 } else { extended.size.unwrap_or(stored) };
                let mut entry = Entry { header, extended, size, data, map: None, real_size: size };
                self.name = self.path(&entry);
                self.old_sparse(&mut entry)?;
                let padded = entry.size.checked_next_multiple_of(BLOCK).and_then(|size| entry.data.checked_add(size));
                let next = padded.filter(|_| entry.size <= self.end.saturating_sub(entry.data));
                let Some(next) = next else {
                    let what = format!("expected {} bytes of data, found the archive's end", entry.size);
                    return Err(self.wrong(what));
                };
                // Writers fill whole blocks. An archive truncated at a block boundary cannot be
                // distinguished from one whose writer omitted the last blocks.
                if next > self.end {
                    let what = format!(
                        "the archive ends at {} in the padding of this entry; expected it to reach {next}",
                        self.end
                    );
                    return Err(self.wrong(what));
                }
                self.take(entry)?;
                self.at = next;
                return Ok(true);
            }
            if stored > EXTENDED_MAX {
                return Err(
                    self.wrong(format!("expected an extended header of at most {EXTENDED_MAX} bytes, found {stored}"))
                );
            }
            let bytes = self.bytes(data, stored)?;
            let name = || Some(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
            match kind.as_byte() {
                b'L' => extended.path = name(),
                b'K' => extended.link = name(),
                b'g' => {
                    self.global.take_pax(&bytes).map_err(|what| self.wrong(what))?;
                    let stored = self.global.stored_bytes();
                    if stored > GLOBAL_MAX {
                        let what = format!(
                            "expected at most {GLOBAL_MAX} bytes of names and attributes for all entries, found {stored}"
                        );
                        return Err(self.wrong(what));
                    }
                    extended.take_pax(&bytes).map_err(|what| self.wrong(what))?;
                }
                _ => extended.take_pax(&bytes).map_err(|what| self.wrong(what))?,
            }
            self.at = data + stored.next_multiple_of(BLOCK);
        }
    }

    fn path(&self, entry: &Entry) -> Vec<u8> {
        let extended = &entry.extended;
        let path = extended.sparse_path.clone().or_else(|| extended.path.clone());
        path.unwrap_or_else(|| entry.header.path_bytes().into_owned())
    }

    /// Reads the runs of a sparse file in the old GNU format: up to 4 in the header, more in blocks
    /// after it.
    fn old_sparse(&self, entry: &mut Entry) -> Result<()> {
        if entry.header.entry_type() != EntryType::GNUSparse {
            return Ok(());
        }
        let failed = |error: std::io::Error| self.wrong(error.to_string());
        let Some(gnu) = entry.header.as_gnu() else { return Err(self.wrong("expected a GNU header of a sparse file")) };
        let (mut map, mut more) = (Vec::new(), gnu.is_extended());
        entry.real_size = gnu.real_size().map_err(failed)?;
        for run in gnu.sparse.iter().filter(|run| !run.is_empty()) {
            map.extend([run.offset().map_err(failed)?, run.length().map_err(failed)?]);
        }
        while more {
            let block = self.bytes(entry.data, BLOCK)?;
            let mut header = tar::GnuExtSparseHeader::new();
            header.as_mut_bytes().copy_from_slice(&block);
            for run in header.sparse().iter().filter(|run| !run.is_empty()) {
                map.extend([run.offset().map_err(failed)?, run.length().map_err(failed)?]);
            }
            more = header.is_extended();
            entry.data += BLOCK;
        }
        entry.map = Some(map);
        Ok(())
    }

    /// The extents of a regular file, and its size.
    fn content(&self, entry: &Entry) -> std::result::Result<(Vec<Extent>, u64), String> {
        let extended = &entry.extended;
        if let Some(map) = &entry.map {
            return Ok((sparse::extents(map, entry.real_size, entry.data)?, entry.real_size));
        }
        let size = extended.sparse_size.unwrap_or(entry.size);
        match (extended.sparse_major, &extended.sparse_map) {
            (Some(1), _) => {
                let (map, taken) = sparse::map_in_data(self.file, entry.data, entry.size)?;
                Ok((sparse::extents(&map, size, entry.data + taken)?, size))
            }
            (Some(0) | None, Some(map)) => Ok((sparse::extents(&sparse::numbers(map, b',')?, size, entry.data)?, size)),
            (Some(0) | None, None) => {
                Ok((vec![Extent { at: 0, length: entry.size, archive_at: entry.data }], entry.size))
            }
            (Some(major), _) => Err(format!("expected a sparse file of version 0 or 1, found {major}")),
        }
    }

    /// Adds an entry to the tree.
    fn take(&mut self, entry: Entry) -> Result<()> {
        let link =
            || entry.extended.link.clone().or_else(|| entry.header.link_name_bytes().map(|name| name.into_owned()));
        let path = self.name.clone();
        let kind = match entry.header.entry_type().as_byte() {
            // Before POSIX, a directory was a file whose name ends in a slash.
            b'0' | 0 | b'7' if path.ends_with(b"/") => FileKind::Directory,
            b'0' | 0 | b'7' | b'S' => FileKind::Regular,
            b'1' => {
                let target = link().unwrap_or_default();
                let linked = self.builder.link(&path, &target);
                return linked.map_err(|error| self.wrong(error.detail));
            }
            b'2' => FileKind::Symlink,
            b'3' => FileKind::CharacterDevice,
            b'4' => FileKind::BlockDevice,
            b'5' => FileKind::Directory,
            b'6' => FileKind::Fifo,
            // A volume label.
            b'V' => return Ok(()),
            other => {
                let what = format!("expected an entry of type 0 to 7, found {:?}", char::from(other));
                return Err(self.wrong(what));
            }
        };
        let mut node = self.node(&entry, kind)?;
        let mut content = None;
        match kind {
            FileKind::Regular => {
                let (extents, size) = self.content(&entry).map_err(|what| self.wrong(what))?;
                let behind = extents.last().is_some_and(|last| {
                    last.archive_at.saturating_add(last.length) > entry.data.saturating_add(entry.size)
                });
                if behind {
                    return Err(self.wrong("expected the runs of a sparse file within its data"));
                }
                (node.size, content) = (size, Some(extents));
            }
            FileKind::Symlink => {
                node.target = link().unwrap_or_default();
                node.size = node.target.len() as u64;
            }
            _ => {}
        }
        let put = self.builder.put(&path, node, content);
        put.map_err(|error: FsError| self.wrong(error.detail))
    }

    /// The attributes of an entry.
    fn node(&self, entry: &Entry, kind: FileKind) -> Result<SourceNode> {
        let (header, extended) = (&entry.header, &entry.extended);
        let failed = |error: std::io::Error| self.wrong(error.to_string());
        let owner = |said: Option<u32>, stored: std::io::Result<u64>| match said {
            Some(id) => Ok(id),
            None => u32::try_from(stored.map_err(failed)?).map_err(|_| self.wrong("expected an owner of 32 bits")),
        };
        let mode = (header.mode().map_err(failed)? & 0o7777) as u16;
        let mut node = SourceNode::new(kind, mode);
        node.uid = owner(extended.uid, header.uid())?;
        node.gid = owner(extended.gid, header.gid())?;
        if matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
            let major = header.device_major().map_err(failed)?.unwrap_or(0);
            let minor = header.device_minor().map_err(failed)?.unwrap_or(0);
            node.device = u64::from(major) << 32 | u64::from(minor);
        }
        let seconds = || -> Result<Timestamp> {
            // Negative times are base-256 numbers, which the header type returns as stored.
            let seconds = header.mtime().map_err(failed)? as i64;
            Ok(host::timestamp(seconds, 0))
        };
        node.modified = extended.modified.map_or_else(seconds, Ok)?;
        node.accessed = extended.accessed.unwrap_or(node.modified);
        node.changed = extended.changed.unwrap_or(node.modified);
        let mut xattrs = extended.xattrs.clone();
        for ((_, name), list) in LISTS.iter().zip(&extended.lists) {
            let is_inherited = *name == acl::DEFAULT;
            // A list of three entries repeats the mode. Links have no list, and only directories
            // have a default list.
            let holds = |list: &&Vec<u8>| match kind {
                FileKind::Symlink => false,
                FileKind::Directory if is_inherited => true,
                _ => !is_inherited && acl::parse(list).is_ok_and(|entries| entries.len() > 3),
            };
            if let Some(list) = list.as_ref().filter(holds) {
                // If the attribute itself is present too, it is exact.
                xattrs.entry(name.to_vec()).or_insert_with(|| list.clone());
            }
        }
        node.xattrs = xattrs.into_iter().collect();
        Ok(node)
    }
}
