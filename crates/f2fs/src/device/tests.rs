//! Reads submitted together complete together.

use nandkit_block::{BlockDevice, BlockGeometry, RamDevice};
use nandkit_units::{Clock, Context, Done, Lba, Nanos, Payload, ReadInto};

use super::Devices;

const READ: Nanos = Nanos(100);

/// A device that handles reads in parallel, each taking a fixed time.
struct SideBySide(RamDevice);

impl BlockDevice for SideBySide {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> nandkit_block::Result<Done> {
        let done = self.0.read(context, at, into)?;
        Ok(Done { completed: Nanos(context.issued.0 + READ.0), ..done })
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> nandkit_block::Result<Done> {
        self.0.write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> nandkit_block::Result<Done> {
        self.0.flush(context)
    }
}

#[test]
fn pieces_of_a_read_take_as_long_as_the_last_of_them() {
    let mut ram = RamDevice::with_sectors(4096, 64).unwrap();
    for sector in 0..64_u8 {
        ram.write(&Context::default(), Lba(sector.into()), Payload::Bytes(&[sector; 4096])).unwrap();
    }
    let clock = Clock::default();
    let devices = Devices::new(vec![SideBySide(ram)], clock.clone()).unwrap();
    let (mut one, mut other, mut third) = ([0; 4096], [0; 8192], [0; 4096]);
    let mut pieces = [(7 * 4096, &mut one[..]), (33 * 4096, &mut other[..]), (9 * 4096, &mut third[..])];
    devices.read_together(Context::default(), &mut pieces).unwrap();
    assert_eq!(clock.now(), READ);
    assert!(one == [7; 4096] && other[..4096] == [33; 4096] && other[4096..] == [34; 4096] && third == [9; 4096]);
    // One after the other if they are submitted separately.
    devices.read(Context::default(), 0, &mut one).unwrap();
    devices.read(Context::default(), 4096, &mut third).unwrap();
    assert_eq!(clock.now(), Nanos(3 * READ.0));
    // A read past the end fails and takes no time.
    assert!(devices.read_together(Context::default(), &mut [(0, &mut one), (64 * 4096, &mut third)]).is_err());
}
