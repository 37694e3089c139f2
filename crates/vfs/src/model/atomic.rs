//! The model's drafts: unnamed copies of a file's content.

use super::ModelFileSystem;
use super::node::{Node, Shape};
use crate::{AtomicWrites, ErrorKind, FsError, InodeNumber, Result};

fn invalid(detail: String) -> FsError {
    FsError::new(ErrorKind::InvalidArgument, detail)
}

impl ModelFileSystem {
    /// Refuses to change the content of a file that has a draft.
    pub(super) fn expect_no_draft_of(&self, inode: InodeNumber) -> Result<()> {
        match self.drafts.values().any(|file| *file == inode.0) {
            true => Err(invalid(format!("inode {} has a draft, which comes first", inode.0))),
            false => Ok(()),
        }
    }

    /// Refuses any change but a write to an inode that is a draft or has one.
    pub(super) fn expect_no_draft(&self, inode: InodeNumber) -> Result<()> {
        if self.drafts.contains_key(&inode.0) {
            let detail = format!("inode {} is a draft: it is only written, committed and dropped", inode.0);
            return Err(FsError::new(ErrorKind::NotSupported, detail));
        }
        self.expect_no_draft_of(inode)
    }

    pub(super) fn drop_draft_of(&mut self, file: u64) {
        let draft = self.drafts.iter().find(|(_, of)| **of == file).map(|(draft, _)| *draft);
        if let Some(draft) = draft {
            self.drop_node(draft);
        }
    }

    /// The file that a draft belongs to. Errors: `InvalidArgument` if the inode is no draft.
    fn drafted(&self, draft: InodeNumber) -> Result<InodeNumber> {
        self.node(draft)?;
        let file = self.drafts.get(&draft.0).copied();
        file.map(InodeNumber).ok_or_else(|| invalid(format!("inode {} is no draft", draft.0)))
    }
}

impl AtomicWrites for ModelFileSystem {
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber> {
        let content = self.content(inode)?.clone();
        if self.drafts.contains_key(&inode.0) {
            return Err(invalid(format!("inode {} is a draft itself", inode.0)));
        }
        self.expect_no_draft_of(inode)?;
        self.need_blocks(content.allocated_blocks())?;
        let file = self.node(inode)?;
        let node = Node::new(Shape::Regular(content), file.mode, file.uid, file.gid, self.now());
        let draft = InodeNumber(self.next_inode);
        self.next_inode += 1;
        self.nodes.insert(draft.0, node);
        self.drafts.insert(draft.0, inode.0);
        self.charge(draft.0);
        Ok(draft)
    }

    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let file = self.drafted(draft)?;
        let new = self.content(draft)?.clone();
        // The draft's blocks now belong to the file.
        self.drop_node(draft.0);
        self.change_content(file, |content, _| *content = new)
    }

    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        self.drafted(draft)?;
        self.drop_node(draft.0);
        Ok(())
    }
}
