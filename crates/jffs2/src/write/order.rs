//! The order in which nodes must be programmed if there are several open blocks: a single log keeps
//! its order, several do not.

use nandkit_units::Cause;

use crate::Ino;
use crate::catalogue::{NodeState, Owner};

/// The ordering requirement of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// None: a copy, whose original stays until the copy is programmed.
    Copy,
    /// After the earlier nodes that its file needs. Without it, the file is as before.
    Data,
    /// After the earlier nodes that its file needs, and before all later nodes of the file: it made
    /// the file longer, or is a hole. Otherwise a newer node would make the file as long without
    /// it, and old content would reappear.
    Longer,
    /// Names and attributes in sequence: a name is deleted after the new one exists.
    Name,
    /// Any of these.
    Unknown,
}

/// What the catalogue needs to know of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// Its owner.
    pub owner: Owner,
    /// How much of it is valid.
    pub state: NodeState,
    /// When the user wrote its content, in the separation's scale.
    pub written: nandkit_units::Nanos,
    /// The cause of the write.
    pub cause: Cause,
    /// Its ordering requirement.
    pub order: Order,
}

/// Content of a write buffer that must be programmed before other nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct First {
    names: bool,
    files: Vec<Ino>,
}

impl First {
    /// Whether a node must come after something in the buffer.
    pub(super) fn is_before(&self, node: Reference) -> bool {
        let of_file = || matches!(node.owner, Owner::Inode(number) if self.files.contains(&number));
        match node.order {
            Order::Copy => false,
            Order::Data | Order::Longer => of_file(),
            Order::Name => self.names,
            Order::Unknown => self.names || of_file(),
        }
    }

    /// Records a node in the buffer.
    pub(super) fn add(&mut self, node: Reference) {
        self.names |= matches!(node.order, Order::Name | Order::Unknown);
        if let (Order::Longer | Order::Unknown, Owner::Inode(number)) = (node.order, node.owner)
            && !self.files.contains(&number)
        {
            self.files.push(number);
        }
    }
}
