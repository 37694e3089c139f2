//! Checks the promise of a flush, for devices that can be closed and opened again.

use nandkit_block::{BlockDevice, BlockGeometry};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload};

use super::BlockOptions;
use crate::model_block::ModelBlockDevice;
use crate::violation::{Violations, ensure, guarded};

/// The name of the one check of [`run`].
pub const DURABILITY: &str = "durability";

/// A device that can be closed without a flush and opened again, as after a crash or a power cut.
pub trait Reopen {
    /// The open device.
    fn device(&mut self) -> &mut dyn BlockDevice;
    /// Drops the device without a flush and opens it again.
    fn reopen(&mut self);
}

/// Runs the check `durability`: after reopening, flushed sectors have their content, and each other
/// sector is old or new.
pub fn run(mut make: impl FnMut(&BlockGeometry) -> Box<dyn Reopen>, options: &BlockOptions) -> Result<(), Violations> {
    let mut found = Vec::new();
    for geometry in &options.geometries {
        let place = format!("{geometry:?}");
        found.extend(guarded(DURABILITY, &place, || durability(&mut *make(geometry), options)));
    }
    Violations::or_ok(found)
}

fn durability(subject: &mut dyn Reopen, options: &BlockOptions) -> Result<(), String> {
    let geometry = *subject.device().geometry();
    let mut model = ModelBlockDevice::new(&geometry);
    let mut random = Random::new(options.seed, "durability");
    let context = Context::default();
    for round in 0..8 {
        for _ in 0..random.below(12) {
            let at = Lba(random.below(geometry.sectors));
            let count = random.between(1, (geometry.sectors - at.0).min(5));
            let mut bytes = vec![0; count as usize * geometry.sector_size as usize];
            random.fill(&mut bytes);
            match random.below(6) {
                0 => {
                    if let Some(trim) = subject.device().trim() {
                        trim.trim(&context, at, count).map_err(|error| error.to_string())?;
                        model.trim(at, count);
                    }
                }
                1 => {
                    subject.device().flush(&context).map_err(|error| error.to_string())?;
                    model.flush();
                }
                _ => {
                    subject.device().write(&context, at, Payload::Bytes(&bytes)).map_err(|error| error.to_string())?;
                    model.write(at, &bytes);
                }
            }
        }
        if round % 2 == 0 {
            subject.device().flush(&context).map_err(|error| error.to_string())?;
            model.flush();
        }
        subject.reopen();
        let found = *subject.device().geometry();
        let same_shape = (found.sector_size, found.sectors) == (geometry.sector_size, geometry.sectors);
        ensure!(same_shape, "reopening made {geometry:?} {found:?}");
        model.recover(subject.device(), &context).map_err(|detail| format!("reopening {round}: {detail}"))?;
    }
    Ok(())
}
