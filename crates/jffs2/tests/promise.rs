//! What JFFS2 guarantees after a power cut, and how its tests mount it. One log is written in
//! order; several logs, which a separation with regions has, may be torn relative to each other.
#![allow(dead_code, reason = "not every user uses everything")]

use nandkit_cleaning::separation::Separator;
use nandkit_flash::Flash;
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_testkit::clock;
use nandkit_testkit::durability::flash_cuts::{FormatOnFlash, Run};
use nandkit_testkit::durability::{Promise, describe, observe};
use nandkit_testkit::flash_memory::StrictFlash;
use nandkit_units::FlashGeometry;
use nandkit_vfs::Result;

impl FormatOnFlash for Mount {
    type Mounted<D: Flash> = Jffs2<D>;

    fn mount<D: Flash>(&self, device: D) -> Result<Jffs2<D>> {
        Jffs2::mount(device, clock(), self.0.clone())
    }

    /// Asserts that the sums agree with the nodes, and that mounts by summaries and by a full scan
    /// show the same tree.
    fn contradicts_nothing<D: Flash + Clone>(&self, volume: &Jffs2<D>, mounted_from: &D, what: &str) {
        volume.catalogue().recount().unwrap_or_else(|error| panic!("{what}: {error}, {:?}", volume.damage()));
        let other = MountOptions { use_summaries: !self.0.use_summaries, read_only: true, ..self.0.clone() };
        let other = Self(other).mount(mounted_from.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (one, two) = (observe(volume), observe(&other));
        assert!(one == two, "{what}: by the other way {:#?}\n{:#?}", describe(&one), describe(&two));
    }
}

/// A volume mounted like this.
#[derive(Clone, Debug)]
pub struct Mount(pub MountOptions);

/// A run of `steps` operations in which one program of the user's data in `every` is cut.
pub fn run(options: MountOptions, seed: u64, steps: usize, every: u64) -> Run<Mount> {
    let regions = Separator::new(options.write.separation).regions();
    let promise = if regions > 1 { Promise::SyncedOnly } else { Promise::InOrder };
    Run { format: Mount(options), promise, seed, steps, every }
}

/// An empty volume.
pub fn formatted(geometry: FlashGeometry, options: &MountOptions) -> Jffs2<StrictFlash> {
    Jffs2::format(StrictFlash::new(geometry), clock(), options.clone()).unwrap()
}
