//! What can be wrong with a UBI device.

use nandkit_vfs::check::{Kind, Severity};

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A PEB with data whose header is damaged: its LEB is unknown.
    Header,
    /// A PEB with data whose two headers are damaged: an interrupted erase, or lost data.
    TwoHeaders,
    /// A PEB with a damaged header and no data: the write of the header was interrupted.
    TornHeader,
    /// A PEB whose erase counter is unknown; its data are read.
    EraseCounter,
    /// A PEB that belongs to another image by its sequence number; it is left out.
    OtherImage,
    /// A header that contradicts the other headers of its volume; the PEB is left out.
    Contradiction,
    /// Two PEBs with the same LEB, and nothing says which one is newer.
    Ambiguous,
    /// A copy of a LEB that was interrupted; the older PEB is used.
    TornCopy,
    /// PEBs of a volume that the volume table does not name.
    UnknownVolume,
    /// A LEB past the end of its volume.
    BeyondVolume,
    /// A copy of the volume table that is missing, damaged, or different from the other one.
    VolumeTable,
    /// A volume whose update was interrupted: Linux refuses to read it.
    Update,
    /// A LEB of a static volume that is missing.
    MissingLeb,
    /// Data of a static volume with a wrong checksum.
    Data,
    /// Data that the flash could not correct.
    Unreadable,
    /// A PEB that is marked bad, with intact headers: it is read.
    Marked,
    /// An internal volume that is not known, for which Linux refuses the device.
    Internal,
    /// The end of the dump in the middle of a PEB in use.
    Cut,
    /// A volume whose name no file can have, or another volume has.
    Name,
}

impl Kind for DamageKind {
    fn name(self) -> &'static str {
        match self {
            Self::Header | Self::TwoHeaders => "damaged header",
            Self::TornHeader => "torn header",
            Self::EraseCounter => "erase counter lost",
            Self::OtherImage => "other image",
            Self::Contradiction => "contradicting header",
            Self::Ambiguous => "ambiguous copies",
            Self::TornCopy => "torn copy",
            Self::UnknownVolume => "unknown volume",
            Self::BeyondVolume => "beyond volume",
            Self::VolumeTable => "volume table",
            Self::Update => "interrupted update",
            Self::MissingLeb => "missing data",
            Self::Data => "damaged data",
            Self::Unreadable => "unreadable",
            Self::Marked => "marked bad",
            Self::Internal => "internal volume",
            Self::Cut => "cut off",
            Self::Name => "name",
        }
    }

    /// What a power cut leaves behind, and Linux mends by itself, is harmless.
    fn severity(self) -> Severity {
        match self {
            Self::TornHeader
            | Self::EraseCounter
            | Self::TornCopy
            | Self::UnknownVolume
            | Self::Name
            | Self::Marked => Severity::Harmless,
            _ => Severity::Fault,
        }
    }
}
