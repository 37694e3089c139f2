//! From a [`StackSpec`] to a running stack: the only crate that names every implementation.

mod block_stack;
mod build;
mod chip_file;
pub mod crash;
mod device_handle;
mod device_spec;
mod f2fs_spec;
pub mod format;
mod fs_spec;
mod ftl_spec;
mod host_spec;
pub mod image;
mod in_directory;
mod jffs2_spec;
mod mount_f2fs;
mod mount_fat;
mod mount_jffs2;
mod named;
mod page_map_spec;
pub mod presets;
mod spec;
pub mod ssds;
pub mod suggest;
mod traced;

pub use build::{Below, Mounted, MountedFileSystem, Stack, Watched};
pub use chip_file::Keep;
pub use device_handle::DeviceHandle;
pub use device_spec::{DeviceSpec, StoreKind};
pub use f2fs_spec::{F2fsModeName, F2fsSpec};
pub use fs_spec::{AlignmentName, FatSpec, FatTypeName, FsSpec, WriteBackName};
pub use ftl_spec::{AllocationName, AlphaName, BlockMapSpec, FastSpec, FtlSpec, PolicyName, VictimName};
pub use host_spec::HostSpec;
pub use jffs2_spec::{CompressionName, DrawsName, EndianName, Jffs2Spec};
pub use nandkit_units::toml_depth::nests_too_deep;
pub use page_map_spec::PageMapSpec;
pub use spec::{DEFAULT_DEVICE, StackError, StackSpec};
