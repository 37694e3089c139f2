//! How fast block workloads and their driver are, over a device that does nothing: `cargo run --release -p nandkit-workload --example drive_blocks`.
//!
//! The figure bounds from above what any translation layer can be fed with.

use std::ops::ControlFlow;
use std::time::Instant;

use nandkit_block::{BlockDevice, BlockGeometry, Result};
use nandkit_units::{Clock, Content, Context, Done, Lba, Nanos, Payload, ReadInto};
use nandkit_workload::{BlockDriver, NoInputs, Phase, WorkloadSpec};

struct NullDevice {
    geometry: BlockGeometry,
    last: Content,
}

impl BlockDevice for NullDevice {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }
    fn read(&self, context: &Context, _: Lba, _: ReadInto<'_>) -> Result<Done> {
        Ok(Done::immediately(context))
    }
    #[inline]
    fn write(&mut self, context: &Context, _: Lba, data: Payload<'_>) -> Result<Done> {
        if let Payload::Described(described) = data {
            self.last.set_described(described);
        }
        Ok(Done { completed: context.issued + Nanos(200_000), busy: Nanos(200_000), corrected_bits: 0 })
    }
    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let geometry =
        BlockGeometry { sector_size: 2048, sectors: 4 << 20, preferred_size: 2048, recycling_size: 128 << 10 };
    for text in [
        "sequential:block_size=2K,operations=8M",
        "random:block_size=2K,operations=8M",
        "random:block_size=2K,operations=8M,queue_depth=16",
        "random:block_size=2K,operations=8M,distribution=hotcold",
        "random:block_size=2K,operations=8M,distribution=zipf",
        "overwrite:record=2K,files=16K,pattern=hcf,operations=8M",
    ] {
        for verify in [false, true] {
            let spec: WorkloadSpec = text.parse()?;
            let mut device = NullDevice { geometry, last: Content::new() };
            let mut stream = spec.block_workload(&geometry, 1, &NoInputs)?;
            let mut driver = BlockDriver::new(geometry, Clock::default(), verify);
            stream.run_phase(&mut driver, Phase::Fill, &mut device, &mut |_| ControlFlow::Continue(()))?;
            let start = Instant::now();
            stream.run_phase(&mut driver, Phase::Measure, &mut device, &mut |_| ControlFlow::Continue(()))?;
            let seconds = start.elapsed().as_secs_f64();
            let operations = driver.report().phase(Phase::Measure).map_or(0, |phase| phase.operations_total());
            let rate = operations as f64 / seconds / 1e6;
            println!(
                "{rate:6.1} M/s  remembers versions: {verify:5}  {text}  ({:?})",
                device.last.described().map(|d| d.length)
            );
        }
    }
    Ok(())
}
