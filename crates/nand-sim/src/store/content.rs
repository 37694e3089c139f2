//! The store that keeps every byte.

use super::StoreKind;
use super::pages::{Form, PageStore};

/// Converts descriptions to bytes when they are programmed.
#[derive(Clone, Copy, Debug)]
pub struct AllBytes;

impl Form for AllBytes {
    const KEEPS_DESCRIPTIONS: bool = false;
    const KIND: StoreKind = StoreKind::Content;
}

/// Keeps every byte of every page: for dumps, file systems on small devices, and tests.
pub type ContentStore = PageStore<AllBytes>;
