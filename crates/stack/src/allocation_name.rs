//! Names of the allocation rules of translation layers.

use nandkit_cleaning::allocation::AllocationRule;
use serde::{Deserialize, Serialize};

/// Which free block is used next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationName {
    /// The one with the fewest erases.
    #[default]
    LeastErased,
    /// The one that became free first.
    Fifo,
}

impl AllocationName {
    /// The rule of this name.
    pub(crate) const fn rule(self) -> AllocationRule {
        match self {
            Self::LeastErased => AllocationRule::LeastErased,
            Self::Fifo => AllocationRule::Fifo,
        }
    }
}
