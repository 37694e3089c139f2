//! The store that keeps descriptions as descriptions and bytes as bytes.

use super::StoreKind;
use super::pages::{Form, PageStore};

/// Keeps descriptions, whether alone in a page or next to other descriptions and bytes.
#[derive(Clone, Copy, Debug)]
pub struct BytesAndDescriptions;

impl Form for BytesAndDescriptions {
    const KEEPS_DESCRIPTIONS: bool = true;
    const KIND: StoreKind = StoreKind::Described;
}

/// Keeps metadata in full and described data by description: for file systems on large devices.
pub type DescribedStore = PageStore<BytesAndDescriptions>;
