//! What has to be programmed before what, where several open blocks take nodes: one log is in order
//! by itself, several are not.

use nandkit_units::Cause;

use crate::Ino;
use crate::catalogue::{NodeState, Owner};

/// A node's place in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// None: a copy, whose original stays until the copy is programmed.
    Copy,
    /// It comes after what its file needs. Without it the file is as it was before.
    Data,
    /// It comes after what its file needs, and all later nodes of the file after it: it made the
    /// file longer, or is a hole. A newer node would make the file as long without it, and what the
    /// file held there once would show.
    Longer,
    /// Names and attributes come one after the other: a name that goes after the one that it
    /// became.
    Name,
    /// Any of these.
    Unknown,
}

/// What is to be remembered of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// Whose it is.
    pub owner: Owner,
    /// What is known of it.
    pub state: NodeState,
    /// When the user wrote its content, on the separation's scale.
    pub written: nandkit_units::Nanos,
    /// Why it is written.
    pub cause: Cause,
    /// Its place in the order.
    pub order: Order,
}

/// What waits in a write buffer and has to be programmed before others.
#[derive(Clone, Debug, Default)]
pub(super) struct First {
    names: bool,
    files: Vec<Ino>,
}

impl First {
    /// Whether a node has to come after something that waits.
    pub(super) fn is_before(&self, node: Reference) -> bool {
        let of_file = || matches!(node.owner, Owner::Inode(number) if self.files.contains(&number));
        match node.order {
            Order::Copy => false,
            Order::Data | Order::Longer => of_file(),
            Order::Name => self.names,
            Order::Unknown => self.names || of_file(),
        }
    }

    /// A node waits.
    pub(super) fn add(&mut self, node: Reference) {
        self.names |= matches!(node.order, Order::Name | Order::Unknown);
        if let (Order::Longer | Order::Unknown, Owner::Inode(number)) = (node.order, node.owner)
            && !self.files.contains(&number)
        {
            self.files.push(number);
        }
    }
}
