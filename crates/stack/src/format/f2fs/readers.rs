//! Devices of a volume that several readers share.

use std::sync::Arc;

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind as BlockErrorKind, Extent, Operation};
use nandkit_units::{Content, Context, Done, Lba, Payload, ReadInto};

use crate::format::sectors::DumpSectors;

/// A device of a volume. It is a trait object, so that F2FS is compiled only once.
pub(crate) type Reader = Box<dyn BlockDevice>;

/// Boxes a device.
pub(crate) fn boxed<D: BlockDevice + 'static>(device: D) -> Reader {
    Box::new(device)
}

/// Boxes all devices.
pub(crate) fn all_boxed<D: BlockDevice + 'static>(devices: impl IntoIterator<Item = D>) -> Vec<Reader> {
    devices.into_iter().map(boxed).collect()
}

/// A read-only dump that several readers share.
#[derive(Clone)]
pub(crate) struct SharedDump(Arc<DumpSectors>);

impl SharedDump {
    /// Shares a dump.
    pub fn new(dump: DumpSectors) -> Self {
        Self(Arc::new(dump))
    }
}

impl BlockDevice for SharedDump {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> nandkit_block::Result<Done> {
        self.0.read(context, at, into)
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> nandkit_block::Result<Done> {
        self.0.read_parts(context, at, unit, into)
    }

    fn write(&mut self, _context: &Context, at: Lba, _data: Payload<'_>) -> nandkit_block::Result<Done> {
        Err(BlockError::new(BlockErrorKind::ReadOnly, Operation::Write, at, "the image is read-only"))
    }

    fn flush(&mut self, context: &Context) -> nandkit_block::Result<Done> {
        Ok(Done::immediately(context))
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        self.0.extent(at, most)
    }
}
