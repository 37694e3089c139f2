//! Renaming, by POSIX.1-2017 `rename` and the flags of Linux' `renameat2`.

use super::{ModelFileSystem, ROOT};
use crate::{ErrorKind, FileKind, FsError, InodeNumber, RenameFlags, Result};

type ParentAndName<'a> = (InodeNumber, &'a [u8]);

impl ModelFileSystem {
    pub(super) fn rename_name(
        &mut self,
        from: ParentAndName<'_>,
        to: ParentAndName<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.directory(from.0)?;
        self.directory(to.0)?;
        self.options.check_name(from.1)?;
        self.options.check_name(to.1)?;
        if flags == RenameFlags::Exchange && !self.options.features.exchange {
            return Err(FsError::new(ErrorKind::NotSupported, "this volume cannot exchange names"));
        }
        let moved = self.find(from.0, from.1)?;
        let target = self.find(to.0, to.1).ok();
        match (flags, target) {
            (RenameFlags::NoReplace, Some(_)) if !self.is_same_name(from, to) || !self.takes_spelling(from, to) => {
                let name = String::from_utf8_lossy(to.1);
                return Err(FsError::new(ErrorKind::Exists, format!("\"{name}\" is in directory {}", to.0.0)));
            }
            (RenameFlags::Exchange, None) => {
                return Err(FsError::new(ErrorKind::NotFound, "the name to exchange with does not exist"));
            }
            _ => {}
        }
        self.check_cycle(moved, to.0)?;
        if self.is_same_name(from, to) {
            return self.respell(from, to, moved);
        }
        match target {
            // Two names of one inode: POSIX demands that nothing happens.
            Some(target) if target == moved => Ok(()),
            Some(target) if flags == RenameFlags::Exchange => {
                self.check_cycle(target, from.0)?;
                self.exchange(from, to, moved, target)
            }
            Some(target) => self.replace(from, to, moved, target),
            None => self.move_name(from, to, moved),
        }
    }

    fn is_same_name(&self, from: ParentAndName<'_>, to: ParentAndName<'_>) -> bool {
        from.0 == to.0 && self.options.folded(from.1) == self.options.folded(to.1)
    }

    /// Whether a rename of a name to itself changes its spelling.
    fn takes_spelling(&self, from: ParentAndName<'_>, to: ParentAndName<'_>) -> bool {
        self.options.respells && from.1 != to.1
    }

    /// Returns `InvalidArgument` if `directory` is `moved` itself or lies below it.
    fn check_cycle(&self, moved: InodeNumber, directory: InodeNumber) -> Result<()> {
        let mut at = directory.0;
        loop {
            if at == moved.0 {
                return Err(FsError::new(ErrorKind::InvalidArgument, "a directory cannot be moved into itself"));
            }
            if at == ROOT {
                return Ok(());
            }
            match self.directory(InodeNumber(at))?.parent {
                Some(parent) => at = parent,
                None => return Ok(()),
            }
        }
    }

    /// Changes the spelling of a name whose case differs.
    fn respell(&mut self, from: ParentAndName<'_>, to: ParentAndName<'_>, moved: InodeNumber) -> Result<()> {
        if !self.takes_spelling(from, to) {
            return Ok(());
        }
        let folded = self.options.folded(to.1);
        let directory = self.directory_mut(from.0)?;
        directory.remove(&folded);
        directory.insert(folded, to.1, moved.0);
        self.touch_directory(from.0)
    }

    fn exchange(
        &mut self,
        from: ParentAndName<'_>,
        to: ParentAndName<'_>,
        moved: InodeNumber,
        target: InodeNumber,
    ) -> Result<()> {
        self.abandon(from.0, moved)?;
        self.abandon(to.0, target)?;
        let (from_folded, to_folded) = (self.options.folded(from.1), self.options.folded(to.1));
        self.directory_mut(from.0)?.redirect(&from_folded, target.0);
        self.directory_mut(to.0)?.redirect(&to_folded, moved.0);
        self.adopt(from.0, target)?;
        self.adopt(to.0, moved)?;
        self.touch_directory(from.0)?;
        self.touch_directory(to.0)
    }

    /// Replaces an existing target by the moved inode.
    fn replace(
        &mut self,
        from: ParentAndName<'_>,
        to: ParentAndName<'_>,
        moved: InodeNumber,
        target: InodeNumber,
    ) -> Result<()> {
        let is_directory = |inode| self.node(inode).map(|node| node.kind() == FileKind::Directory);
        match (is_directory(moved)?, is_directory(target)?) {
            (true, false) => {
                return Err(FsError::new(ErrorKind::NotADirectory, "a directory can only replace a directory"));
            }
            (false, true) => {
                return Err(FsError::new(ErrorKind::IsADirectory, "a directory is only replaced by a directory"));
            }
            _ => self.check_removable(target)?,
        }
        let (from_folded, to_folded) = (self.options.folded(from.1), self.options.folded(to.1));
        self.abandon(to.0, target)?;
        self.abandon(from.0, moved)?;
        self.directory_mut(from.0)?.remove(&from_folded);
        self.directory_mut(to.0)?.redirect(&to_folded, moved.0);
        self.adopt(to.0, moved)?;
        self.touch_directory(from.0)?;
        self.touch_directory(to.0)?;
        self.drop_if_unused(target);
        Ok(())
    }

    fn move_name(&mut self, from: ParentAndName<'_>, to: ParentAndName<'_>, moved: InodeNumber) -> Result<()> {
        self.check_alive(to.0)?;
        self.need_blocks(self.directory(to.0)?.growth(to.1, &self.options))?;
        let folded = self.options.folded(from.1);
        self.abandon(from.0, moved)?;
        self.directory_mut(from.0)?.remove(&folded);
        self.touch_directory(from.0)?;
        self.add_name(to.0, to.1, moved)
    }
}
