//! The stores of an emulated chip, by name.

use serde::{Deserialize, Serialize};

/// What the emulated chip keeps of the bytes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// Every byte.
    Content,
    /// Descriptions of what workloads generate, and every other byte.
    #[default]
    Described,
    /// A tag for each page: for block workloads on large devices. File systems cannot run on it.
    Shadow,
    /// The logical page that each page holds, in a few bytes, and no content: for block workloads
    /// on the largest devices, in memory. File systems cannot run on it.
    Address,
}

impl StoreKind {
    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Described => "described",
            Self::Shadow => "shadow",
            Self::Address => "address",
        }
    }

    /// Whether reads deliver what was written.
    pub const fn keeps_content(self) -> bool {
        matches!(self, Self::Content | Self::Described)
    }
}
