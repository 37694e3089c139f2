//! From a [`StackSpec`] to a running stack: the only crate that names every implementation.

mod build;
mod device_spec;
mod fs_spec;
mod ftl_spec;
mod named;
pub mod presets;
mod shared;
mod spec;
pub mod suggest;
mod traced;

pub use build::{BlockStack, BlockVisitor, Mounted, Stack, Watched};
pub use device_spec::{DeviceSpec, StoreKind};
pub use fs_spec::{AlignmentName, FatSpec, FatTypeName, FsSpec, ReplacementName, WriteBackName};
pub use ftl_spec::{AlphaName, BlockMapSpec, FastSpec, FtlSpec, PolicyName};
pub use spec::{DEFAULT_DEVICE, StackError, StackSpec};
