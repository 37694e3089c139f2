//! Changes of the planted file systems.

use std::ops::ControlFlow;

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::path::remove_tree;
use nandkit_vfs::{
    Allocation, AtomicWrites, AttributeChange, Attributes, Changes, ErrorKind, FileKind, FileSystem, FsError, Holes,
    InodeNumber, Links, NewNode, OpenFiles, RenameFlags, Result, XattrChanges,
};

use super::{FsFault, PlantedFs};

impl PlantedFs {
    fn cut_or_grow(&mut self, inode: InodeNumber, size: u64) -> Result<()> {
        let before = self.model.stat(inode)?.size;
        if size < before {
            let mut bytes = vec![0; (before - size) as usize];
            self.model.read(inode, size, ReadInto::Bytes(&mut bytes))?;
            self.cut.insert(inode, (size, bytes));
        }
        Ok(())
    }

    fn show_cut_bytes(&mut self, inode: InodeNumber, size: u64) -> Result<()> {
        if let Some((at, bytes)) = self.cut.remove(&inode)
            && size > at
        {
            let length = bytes.len().min((size - at) as usize);
            self.model.write(inode, at, Payload::Bytes(&bytes[..length]))?;
        }
        Ok(())
    }
}

/// Effects of single faults.
impl PlantedFs {
    /// The bytes that the faulty system writes instead, at an offset of a file of this size.
    fn damage(&self, offset: u64, size: u64, is_described: bool, bytes: &mut [u8]) {
        let first_behind = (offset / 4096 + 1).saturating_mul(4096);
        let lost = match self.fault {
            FsFault::BoundaryByteLost if first_behind > offset => {
                bytes.get_mut((first_behind - offset) as usize..).and_then(|rest| rest.get_mut(..1))
            }
            FsFault::AppendLosesByte if offset == size && offset > 0 && offset.is_multiple_of(512) => {
                bytes.get_mut(..1)
            }
            FsFault::LongWritesCut => bytes.get_mut(65_536..),
            FsFault::FarBytesLost if offset >= 4 << 20 => Some(bytes),
            FsFault::DescribedAsZeroes if is_described => Some(bytes),
            _ => None,
        };
        if let Some(lost) = lost {
            lost.fill(0);
        }
    }

    /// The error that the faulty system returns instead of this one.
    fn refusal(&self, error: FsError) -> FsError {
        if self.fault == FsFault::TooBigIsNoSpace && error.kind == ErrorKind::FileTooBig {
            return FsError::new(ErrorKind::NoSpace, "so much does not fit");
        }
        error
    }

    /// Applies the faults that act before a rename; `true` where the rename itself is skipped.
    fn before_rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8])) -> Result<bool> {
        let (source, target) = (self.model.lookup(from.0, from.1).ok(), self.model.lookup(to.0, to.1).ok());
        match self.fault {
            FsFault::RenameToItselfRemoves if from == to && source.is_some() => {
                remove_tree(&mut self.model, from.0, from.1)?;
                return Ok(true);
            }
            FsFault::RenameOverLinkRemoves if from != to && source.is_some() && source == target => {
                self.model.remove(from.0, from.1)?;
                return Ok(true);
            }
            FsFault::RenameMissingRemovesTarget if source.is_none() && target.is_some() => {
                remove_tree(&mut self.model, to.0, to.1)?;
            }
            _ => {}
        }
        if let Some(target) = target.filter(|target| Some(*target) != source) {
            match self.fault {
                FsFault::ReplacedFileLives => self.model.retain(target)?,
                // Where nobody holds it there is nothing to release.
                FsFault::ReplacedRetainedFreed => drop(self.model.release(target)),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Removes the first entry of a directory.
    fn lose_entry(&mut self, directory: InodeNumber) -> Result<()> {
        let mut first = None;
        let listed = self.model.read_dir(directory, 0, &mut |entry| {
            first = Some(entry.name.to_vec());
            ControlFlow::Break(())
        });
        match first {
            Some(name) if listed.is_ok() => remove_tree(&mut self.model, directory, &name),
            _ => Ok(()),
        }
    }
}

impl Changes for PlantedFs {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        let name = self.name(name);
        if self.fault == FsFault::CaseIgnored && self.lookup(directory, &name).is_ok() {
            return Err(FsError::new(ErrorKind::Exists, "in another case"));
        }
        let mut node = *node;
        match self.fault {
            FsFault::CreateReplaces if self.model.lookup(directory, &name).is_ok() => {
                remove_tree(&mut self.model, directory, &name)?;
            }
            FsFault::SetUserForgotten => node.mode &= 0o777,
            FsFault::TargetsCut => node.target = node.target.get(..200).unwrap_or(node.target),
            FsFault::MinorNumbersCut => node.device &= !0xFFFF_FF00,
            _ => {}
        }
        match self.model.create(directory, &name, &node) {
            Err(error) if error.kind == ErrorKind::NoSpace && self.fault == FsFault::FullIsInvalid => {
                Err(FsError::new(ErrorKind::InvalidArgument, "the name does not fit"))
            }
            made => made,
        }
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        let size = self.model.stat(inode)?.size;
        let modified = self.modified(inode);
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        self.damage(offset, size, matches!(data, Payload::Described(_)), &mut bytes);
        let result = self.model.write(inode, offset, Payload::Bytes(&bytes)).map_err(|error| self.refusal(error));
        let short = !matches!(&result, Ok(count) if *count == bytes.len());
        match self.fault {
            FsFault::GapNotZero if offset > size && !short => {
                self.model.write(inode, size, Payload::Bytes(&vec![0xA5; (offset - size) as usize]))?;
            }
            FsFault::OverwriteCutsFile if !short && !bytes.is_empty() && offset + (bytes.len() as u64) < size => {
                let change = AttributeChange { size: Some(offset + bytes.len() as u64), ..Default::default() };
                self.model.set_attributes(inode, &change)?;
            }
            FsFault::NoSpaceDamages if short && size > 100 => {
                self.model.write(inode, 0, Payload::Bytes(&[0; 100]))?;
            }
            FsFault::HolesFilled if offset > size && !short => {
                if let Some(allocation) = self.model.allocation() {
                    allocation.allocate(inode, size, offset - size, true)?;
                }
            }
            FsFault::ModifiedStands => {
                self.model.set_attributes(inode, &AttributeChange { modified, ..Default::default() })?;
            }
            _ => {}
        }
        result
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        let mut kept = *change;
        match self.fault {
            FsFault::SetUserForgotten => kept.mode = kept.mode.map(|mode| mode & 0o777),
            FsFault::AccessedForgotten => kept.accessed = None,
            FsFault::AttributesOfFilesOnly if self.model.stat(inode)?.kind != FileKind::Regular => {
                kept = AttributeChange { size: change.size, ..Default::default() };
            }
            _ => {}
        }
        let change = &kept;
        let cuts = change.size.filter(|_| self.fault == FsFault::CutBytesComeBack);
        if let Some(size) = cuts {
            self.cut_or_grow(inode, size)?;
        }
        let attributes = self.model.set_attributes(inode, change).map_err(|error| self.refusal(error))?;
        if let Some(size) = cuts.filter(|size| self.cut.get(&inode).is_some_and(|(at, _)| at < size)) {
            self.show_cut_bytes(inode, size)?;
        }
        Ok(attributes)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let name = self.name(name);
        let inode = match self.model.lookup(directory, &name) {
            Err(error) if error.kind == ErrorKind::NotFound && self.fault == FsFault::RemoveMissingSucceeds => {
                return Ok(());
            }
            found => found?,
        };
        match self.fault {
            FsFault::RemoveFullDirectory => return remove_tree(&mut self.model, directory, &name),
            FsFault::StaleInodesLive | FsFault::SpaceLeaks if self.model.stat(inode)?.kind == FileKind::Regular => {
                self.model.retain(inode)?;
                self.leaked.insert(inode);
            }
            FsFault::DirectoryTimeStands => {
                let modified = Some(self.model.stat(directory)?.modified);
                self.model.remove(directory, &name)?;
                let before = AttributeChange { modified, ..AttributeChange::default() };
                return self.model.set_attributes(directory, &before).map(drop);
            }
            _ => {}
        }
        self.model.remove(directory, &name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        let names = (self.name(from.1), self.name(to.1));
        let (from, to) = ((from.0, &names.0[..]), (to.0, &names.1[..]));
        let flags = match (self.fault, flags) {
            (FsFault::NoReplaceReplaces, RenameFlags::NoReplace) => RenameFlags::Replace,
            (FsFault::ExchangeReplaces, RenameFlags::Exchange) => {
                if self.model.lookup(to.0, to.1)? != self.model.lookup(from.0, from.1)? {
                    remove_tree(&mut self.model, to.0, to.1)?;
                }
                RenameFlags::Replace
            }
            (_, flags) => flags,
        };
        if self.before_rename(from, to)? {
            return Ok(());
        }
        let result = self.model.rename(from, to, flags);
        match (self.fault, result) {
            (FsFault::KindMismatchExists, Err(error))
                if matches!(error.kind, ErrorKind::IsADirectory | ErrorKind::NotADirectory) =>
            {
                Err(FsError::new(ErrorKind::Exists, "something else has this name"))
            }
            (FsFault::MovedDirectoryLosesEntry, Ok(())) if from.0 != to.0 => {
                self.lose_entry(self.model.lookup(to.0, to.1)?)
            }
            (FsFault::RenameOverFullDirectory, Err(error)) if error.kind == ErrorKind::NotEmpty => {
                remove_tree(&mut self.model, to.0, to.1)?;
                self.model.rename(from, to, flags)
            }
            (FsFault::RenameIntoItself, Err(error)) if error.kind == ErrorKind::InvalidArgument => Ok(()),
            (FsFault::RenameKeepsOldName, Ok(())) => {
                // Where the old name is still there, there is nothing to leave behind.
                self.model.create(from.0, from.1, &NewNode::FILE).map(|_| ()).or(Ok(()))
            }
            (_, result) => result,
        }
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        if self.fault == FsFault::SyncCommitsDrafts {
            self.commit_all()?;
        }
        self.model.sync(inode)
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        if self.model.open_files().is_some() { Some(self) } else { None }
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        let faulty = self.fault == FsFault::LinksOfFilesOnly && self.model.links().is_some();
        if faulty { Some(self) } else { self.model.links() }
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        let faults = [FsFault::XattrAppends, FsFault::XattrSpacesMixed, FsFault::ListEntryLost];
        if faults.contains(&self.fault) { Some(self) } else { self.model.xattr_changes() }
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        let faulty = self.fault == FsFault::AllocateGrows && self.model.allocation().is_some();
        if faulty { Some(self) } else { self.model.allocation() }
    }

    fn holes(&mut self) -> Option<&mut dyn Holes> {
        self.model.holes()
    }

    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        if self.model.atomic_writes().is_some() { Some(self) } else { None }
    }
}

impl Allocation for PlantedFs {
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, _keep_size: bool) -> Result<()> {
        match self.model.allocation() {
            Some(allocation) => allocation.allocate(inode, offset, length, false),
            None => Err(FsError::new(ErrorKind::NotSupported, "no allocation")),
        }
    }
}

impl OpenFiles for PlantedFs {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        if self.fault == FsFault::RetainRefusesDirectories && self.model.stat(inode)?.kind == FileKind::Directory {
            return Err(FsError::new(ErrorKind::IsADirectory, "only files are retained"));
        }
        if self.fault == FsFault::RetainForgotten {
            return self.model.stat(inode).map(|_| ());
        }
        self.model.retain(inode)
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        if self.fault == FsFault::RetainForgotten {
            return Ok(());
        }
        self.model.release(inode)
    }
}

impl Links for PlantedFs {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let is_special = !matches!(self.model.stat(inode)?.kind, FileKind::Regular | FileKind::Directory);
        match self.model.links() {
            Some(_) if is_special => Err(FsError::new(ErrorKind::NotSupported, "no second name for this kind")),
            Some(links) => links.link(inode, directory, name),
            None => Err(FsError::new(ErrorKind::NotSupported, "no hard links")),
        }
    }
}

impl XattrChanges for PlantedFs {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        let before = self.model.xattrs().and_then(|xattrs| xattrs.xattr(inode, name).ok()).unwrap_or_default();
        let (name, value) = match (self.fault, value.len()) {
            (FsFault::XattrSpacesMixed, _) if name.starts_with(b"trusted.") => (&b"user.name"[..], value.to_vec()),
            (FsFault::ListEntryLost, 60..) if name.starts_with(b"system.") => {
                (name, [&value[..value.len() - 24], &value[value.len() - 16..]].concat())
            }
            (FsFault::XattrAppends, _) => (name, [&before, value].concat()),
            _ => (name, value.to_vec()),
        };
        match self.model.xattr_changes() {
            Some(changes) => changes.set_xattr(inode, name, &value),
            None => Err(FsError::new(ErrorKind::NotSupported, "no extended attributes")),
        }
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        match self.model.xattr_changes() {
            Some(changes) => changes.remove_xattr(inode, name),
            None => Err(FsError::new(ErrorKind::NotSupported, "no extended attributes")),
        }
    }
}
