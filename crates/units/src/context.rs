//! The context that every device operation takes, and the result it returns.

use crate::{Nanos, Ticket};

/// The cause of an operation. Counters and write-amplification factors are broken down by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// The user's own data.
    #[default]
    UserData,
    /// A file system's metadata.
    Metadata,
    /// Moving valid data to free space: garbage collection, merge, migration.
    Cleaning,
    /// Making a consistent state durable.
    Checkpoint,
    /// Moving data to even out erase counts, or to refresh them.
    WearLevelling,
    /// A translation layer's map.
    Mapping,
    /// Finding the consistent state after a power cut, and repairing up to it.
    Recovery,
    /// Making an empty file system or device.
    Format,
}

impl Cause {
    /// How many causes there are; the size of a table indexed by [`Cause::index`].
    pub const COUNT: usize = 8;

    /// All causes in the order of their index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::UserData,
        Self::Metadata,
        Self::Cleaning,
        Self::Checkpoint,
        Self::WearLevelling,
        Self::Mapping,
        Self::Recovery,
        Self::Format,
    ];

    /// The cause's index in a table with [`Cause::COUNT`] entries.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserData => "user_data",
            Self::Metadata => "metadata",
            Self::Cleaning => "cleaning",
            Self::Checkpoint => "checkpoint",
            Self::WearLevelling => "wear_levelling",
            Self::Mapping => "mapping",
            Self::Recovery => "recovery",
            Self::Format => "format",
        }
    }
}

/// The part of a file system's volume that an operation affects, for file systems with separate
/// metadata areas (F2FS, FAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Area {
    /// Files and directories.
    #[default]
    Main,
    /// Areas that hold only metadata at fixed addresses: FATs, NAT, SIT, SSA, checkpoints,
    /// superblocks.
    Metadata,
}

/// A hint that writes with the same number have similar lifetimes. 0 is the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u8);

/// How a scheduler behind a device may order the operation against others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// May wait until the device is idle.
    Background,
    /// In order of issue.
    #[default]
    Normal,
    /// Before others, if the device can do it.
    Urgent,
}

/// The context of a device operation: when it was issued, why, and for whom. Copied by value; 16
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The time at which the caller issues the operation. A device never starts it earlier.
    pub issued: Nanos,
    /// The cause given by the top layer, usually a file system.
    pub cause: Cause,
    /// Set by a translation layer for work of its own.
    pub device_cause: Option<Cause>,
    /// The part of the volume that it affects.
    pub area: Area,
    /// Lifetime hint.
    pub stream: Stream,
    /// Ordering hint.
    pub priority: Priority,
    /// Identifies the host's operation to a device that may move its end.
    pub ticket: Ticket,
}

impl Context {
    /// A context for work on the user's data, issued at `issued`.
    #[inline]
    pub fn at(issued: Nanos) -> Self {
        Self { issued, ..Self::default() }
    }

    /// This context with another cause.
    #[inline]
    pub const fn for_cause(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// This context, marked as a translation layer's own work.
    #[inline]
    pub const fn for_device_cause(mut self, cause: Cause) -> Self {
        self.device_cause = Some(cause);
        self
    }

    /// This context, issued at another time.
    #[inline]
    pub const fn issued_at(mut self, instant: Nanos) -> Self {
        self.issued = instant;
        self
    }

    /// This context for another area.
    #[inline]
    pub const fn in_area(mut self, area: Area) -> Self {
        self.area = area;
        self
    }

    /// The cause used by counters: the translation layer's if set, else the file system's.
    #[inline]
    pub const fn counted_cause(&self) -> Cause {
        match self.device_cause {
            Some(cause) => cause,
            None => self.cause,
        }
    }
}

/// The result of a completed device operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The time at which the operation ends; not before [`Context::issued`].
    pub completed: Nanos,
    /// The time during which the operation kept a die or channel busy: `completed - issued` minus
    /// waiting. For parts that ran in parallel, the sum of theirs.
    pub busy: Nanos,
    /// Reads: the largest number of bit errors that ECC corrected in one code word. Zero otherwise.
    pub corrected_bits: u16,
}

impl Done {
    /// The result of doing nothing: ends when issued.
    #[inline]
    pub const fn immediately(context: &Context) -> Self {
        Self { completed: context.issued, busy: Nanos::ZERO, corrected_bits: 0 }
    }

    /// Combines two results: the later end, the sum of the busy times, the larger number of
    /// corrected bits.
    #[inline]
    pub fn and(self, other: Self) -> Self {
        Self {
            completed: self.completed.max(other.completed),
            busy: self.busy + other.busy,
            corrected_bits: self.corrected_bits.max(other.corrected_bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_and_names_are_distinct() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert_eq!(Cause::ALL.iter().filter(|other| other.name() == cause.name()).count(), 1);
        }
    }

    #[test]
    fn a_translation_layer_cause_wins() {
        let context = Context::at(Nanos(7)).for_cause(Cause::Metadata);
        assert_eq!(context.counted_cause(), Cause::Metadata);
        assert_eq!(context.for_device_cause(Cause::Cleaning).counted_cause(), Cause::Cleaning);
        assert!(size_of::<Context>() <= 16);
    }
}
