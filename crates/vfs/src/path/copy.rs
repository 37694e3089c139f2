//! Copying trees from one file system to another.

use std::collections::BTreeMap;

use nandkit_units::ReadInto;

use super::{CHUNK, FILE_BYTES_MAX, Next, Step, link_target, walk, write_inode};
use crate::{
    AttributeChange, Attributes, Changes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, NewNode, Result,
};

/// Options for [`copy_tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Files larger than this many bytes are skipped and reported.
    pub file_bytes_max: u64,
    /// Whether to skip and report what cannot be read or stored in the target; otherwise the first
    /// problem ends the copy.
    pub skip_problems: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self { file_bytes_max: FILE_BYTES_MAX, skip_problems: true }
    }
}

/// The result of a copy.
#[derive(Debug, Default)]
pub struct CopyReport {
    /// Regular files made.
    pub files: u64,
    /// Directories made.
    pub directories: u64,
    /// Symbolic links, devices, FIFOs and sockets made.
    pub others: u64,
    /// Additional names of files that were already copied.
    pub links: u64,
    /// Total bytes of the files, holes included.
    pub bytes: u64,
    /// What was skipped: path and reason.
    pub skipped: Vec<(Vec<u8>, FsError)>,
}

struct Copy<'a> {
    from: &'a dyn FileSystem,
    to: &'a mut dyn Changes,
    options: CopyOptions,
    report: CopyReport,
    /// The walk's current path in the target; a directory's attributes are set when the walk leaves
    /// it.
    targets: Vec<(InodeNumber, Option<Attributes>)>,
    /// The copies of inodes that have more than one name.
    linked: BTreeMap<InodeNumber, InodeNumber>,
}

/// Copies everything below `from_directory` into `to_directory`: content, attributes, extended
/// attributes, hard links and holes, as far as the target can store them.
///
/// Errors: those of the target (`NoSpace` and `Device` always end the copy); with `skip_problems`,
/// all others are in the report.
pub fn copy_tree(
    from: &dyn FileSystem,
    from_directory: InodeNumber,
    to: &mut dyn Changes,
    to_directory: InodeNumber,
    options: CopyOptions,
) -> Result<CopyReport> {
    let targets = vec![(to_directory, None)];
    let mut copy = Copy { from, to, options, report: CopyReport::default(), targets, linked: BTreeMap::new() };
    walk(from, from_directory, &mut |step| copy.step(step))?;
    Ok(copy.report)
}

impl Copy<'_> {
    fn step(&mut self, step: Step<'_>) -> Result<Next> {
        match step {
            Step::Entry { path, attributes } => match self.entry(path, attributes) {
                Ok(()) => Ok(Next::Enter),
                Err(error) => self.skip(path, error),
            },
            Step::Leave { path, .. } => {
                if let Some((inode, Some(attributes))) = self.targets.pop() {
                    // Only now: each entry made in the directory changed its time.
                    if let Err(error) = self.finish(inode, &attributes) {
                        return self.skip(path, error);
                    }
                }
                Ok(Next::Enter)
            }
            Step::Problem { path, error } => self.skip(path, FsError::new(error.kind, error.detail.clone())),
        }
    }

    fn skip(&mut self, path: &[u8], error: FsError) -> Result<Next> {
        if !self.options.skip_problems || matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Device) {
            let detail = format!("{}: {}", super::show(path), error.detail);
            return Err(FsError { detail, ..error });
        }
        self.report.skipped.push((path.to_vec(), error));
        Ok(Next::Skip)
    }

    fn entry(&mut self, path: &[u8], attributes: &Attributes) -> Result<()> {
        let directory = self.targets.last().map_or(self.to.root(), |(inode, _)| *inode);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        if attributes.kind == FileKind::Regular && attributes.size > self.options.file_bytes_max {
            let text = format!("{} bytes, at most {} are copied", attributes.size, self.options.file_bytes_max);
            return Err(FsError::new(ErrorKind::FileTooBig, text));
        }
        let is_linked = attributes.links > 1 && attributes.kind != FileKind::Directory;
        if let Some(target) = self.linked.get(&attributes.inode).copied().filter(|_| is_linked)
            && let Some(links) = self.to.links()
        {
            links.link(target, directory, name)?;
            self.report.links += 1;
            return Ok(());
        }
        let target = match attributes.kind {
            FileKind::Symlink => link_target(self.from, attributes.inode)?,
            _ => Vec::new(),
        };
        let Attributes { kind, mode, uid, gid, device, .. } = *attributes;
        let inode = self.to.create(directory, name, &NewNode { kind, mode, uid, gid, device, target: &target })?;
        if is_linked {
            self.linked.insert(attributes.inode, inode);
        }
        self.xattrs(path, attributes.inode, inode)?;
        match kind {
            FileKind::Directory => {
                self.report.directories += 1;
                self.targets.push((inode, Some(*attributes)));
                return Ok(());
            }
            FileKind::Regular => {
                self.report.files += 1;
                self.content(attributes, inode)?;
            }
            _ => self.report.others += 1,
        }
        self.finish(inode, attributes)
    }

    /// Copies the extended attributes; an attribute that the target cannot store is skipped alone,
    /// not with its inode.
    fn xattrs(&mut self, path: &[u8], from: InodeNumber, to: InodeNumber) -> Result<()> {
        let Some(source) = self.from.xattrs() else { return Ok(()) };
        for name in source.xattr_names(from)? {
            let Some(target) = self.to.xattr_changes() else { return Ok(()) };
            let value = source.xattr(from, &name)?;
            if let Err(error) = target.set_xattr(to, &name, &value) {
                self.skip(path, error)?;
            }
        }
        Ok(())
    }

    fn content(&mut self, attributes: &Attributes, to: InodeNumber) -> Result<()> {
        let holes = self.to.volume()?.features.holes;
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        while at < attributes.size {
            let count = self.from.read(attributes.inode, at, ReadInto::Bytes(&mut chunk))?.min(CHUNK);
            let bytes = chunk.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                let text = format!("the size is {}, but the content ends at byte {at}", attributes.size);
                return Err(FsError::new(ErrorKind::Corrupt, text));
            }
            if !holes || !nandkit_units::is_zeroed(bytes) {
                write_inode(self.to, to, at, bytes)?;
            }
            at += count as u64;
        }
        if self.to.stat(to)?.size != attributes.size {
            self.to.set_attributes(to, &AttributeChange { size: Some(attributes.size), ..Default::default() })?;
        }
        self.report.bytes += attributes.size;
        Ok(())
    }

    /// Sets the attributes that creating and filling an inode may have changed.
    fn finish(&mut self, inode: InodeNumber, attributes: &Attributes) -> Result<()> {
        let change = AttributeChange {
            accessed: Some(attributes.accessed),
            modified: Some(attributes.modified),
            ..Default::default()
        };
        self.to.set_attributes(inode, &change).map(|_| ())
    }
}
