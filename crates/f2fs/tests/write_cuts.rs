//! Power cuts at every request to the device, and within the recoveries after them: everything
//! fsynced is there, nothing that was never written appears, and the volume is sound.

use crate::writing;

use crate::made::{clock, complaints};
use crate::writing::findings;
use crate::writing::oracle::{Image, Model, device_of, empty_image, image_of, must_be_possible, run, write_image};
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::recover::Recovered;
use nandkit_f2fs::{Log, NodeId, WritableVolume, WriteOptions};
use nandkit_testkit::rounds;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, NewNode};

struct Shape {
    features: &'static str,
    /// The volume has gaps everywhere, its logs are near the ends of their segments, and they fill
    /// gaps regardless of free sections.
    gaps: bool,
    options: WriteOptions,
    survivals: &'static [Survival],
    seed: u64,
}

impl Shape {
    fn image(&self) -> Image {
        let image = empty_image(self.features);
        if !self.gaps {
            return image;
        }
        let mut volume = WritableVolume::mount(vec![device_of(&image)], clock(), self.options).unwrap();
        let (root, mut random) = (volume.root(), Random::new(self.seed, "gaps"));
        let mut fillers = Vec::new();
        for number in 0..3 {
            let ino = volume.create(root, format!("filler-{number}").as_bytes(), &NewNode::FILE).unwrap();
            volume.write(NodeId(ino.0 as u32), 0, Payload::Bytes(&vec![number; 1 << 20])).unwrap();
            fillers.push(NodeId(ino.0 as u32));
        }
        volume.sync().unwrap();
        let state = |volume: &WritableVolume<RamDevice>, log| volume.segments().log_state(log);
        let first = state(&volume, Log::WarmNode).segment;
        for _ in 0..3000 {
            let node = state(&volume, Log::WarmNode);
            if node.segment != first && node.next > 480 && state(&volume, Log::HotData).next > 300 {
                break;
            }
            let ino = fillers[random.below(3) as usize];
            volume.write(ino, random.below(256) * 4096, Payload::Bytes(&[9; 4096])).unwrap();
            volume.fsync(ino, false).unwrap();
        }
        let dirty: u32 = volume.segments().states().dirty.iter().sum();
        assert!(dirty > 1, "{:?}", volume.segments().states());
        image_of(&writing::unmount(volume))
    }
}

fn shapes() -> Vec<Shape> {
    let ordered = WriteOptions { ordered_fsync: true, ..WriteOptions::default() };
    let newer = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr";
    let with_quotas = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,quota,project_quota";
    vec![
        Shape { features: "", gaps: false, options: ordered, survivals: &[Survival::Subset, Survival::None], seed: 1 },
        Shape {
            features: with_quotas,
            gaps: false,
            options: WriteOptions { ipu_policy: Some(0), ..ordered },
            survivals: &[Survival::Subset, Survival::All],
            seed: 2,
        },
        Shape {
            features: "",
            gaps: false,
            options: WriteOptions { lfs: true, ..WriteOptions::default() },
            survivals: &[Survival::Prefix, Survival::All],
            seed: 3,
        },
        Shape {
            features: newer,
            gaps: true,
            options: WriteOptions { ipu_policy: Some(0), ..ordered },
            survivals: &[Survival::Subset, Survival::All],
            seed: 4,
        },
    ]
}

/// Runs up to a cut; returns the device and what may be on it. `None` if the run ends before.
fn cut_run(image: &Image, shape: &Shape, plan: DeviceCutPlan) -> Option<(RamDevice, Model)> {
    let device = CutDevice::new(device_of(image), plan);
    let mut model = Model::default();
    let mut volume = WritableVolume::mount(vec![device], clock(), shape.options).unwrap();
    volume.segments_mut().options.urgent = shape.gaps;
    volume.segments_mut().sit_mut().keep_truth();
    let mut random = Random::new(shape.seed, "cuts");
    let ended = run(&mut volume, &mut model, &mut random, 160);
    if shape.gaps && ended.is_ok() {
        let usage = volume.segments().usage();
        let gaps: u64 = Log::ALL.map(|log| usage.used_segments_taken(log)).iter().sum();
        assert!(gaps > 0, "no gaps were filled");
    }
    let device = volume.abandon().remove(0);
    if !device.is_off() {
        ended.unwrap();
        return None;
    }
    Some((device.into_inner().unwrap(), model))
}

fn moment(number: u64) -> DeviceCutMoment {
    [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][number as usize % 3]
}

/// Mounts after a cut, compares with the model, and continues to a second mount that has nothing to
/// recover.
fn judge(device: RamDevice, model: &Model, shape: &Shape, context: &str) -> RamDevice {
    let volume = WritableVolume::mount(vec![device], clock(), shape.options);
    let volume = volume.unwrap_or_else(|error| panic!("{context}: {error}"));
    must_be_possible(&volume, model, context);
    // The unmount writes the pack that the cut may have left incomplete.
    let device = writing::unmount(volume);
    let wrong = findings(device_of(&image_of(&device)));
    assert_eq!(wrong, Vec::<String>::new(), "{context}: check");
    let volume = WritableVolume::mount(vec![device], clock(), shape.options).unwrap();
    assert_eq!(volume.recovered(), Recovered::default(), "{context}");
    must_be_possible(&volume, model, context);
    volume.abandon().remove(0)
}

/// All shapes; with `NANDKIT_ROUNDS=30`, that many more of each with other seeds.
fn all_shapes() -> Vec<Shape> {
    let more = rounds::count(0);
    let seeded = (1..=more)
        .flat_map(|round| shapes().into_iter().map(move |shape| Shape { seed: shape.seed + round * 100, ..shape }));
    shapes().into_iter().chain(seeded).collect()
}

#[test]
fn what_was_fsynced_survives_cuts_at_every_request() {
    let scratch = tempfile::tempdir().unwrap();
    for shape in all_shapes() {
        let image = shape.image();
        // Each way of surviving has every other request, so that each request is cut.
        for (number, &survival) in shape.survivals.iter().enumerate() {
            let mut request = 1 + number as u64 % 2;
            loop {
                let plan = DeviceCutPlan::at(request, moment(request), survival, request);
                let Some((device, model)) = cut_run(&image, &shape, plan) else { break };
                let context = format!("seed {}, {plan:?}", shape.seed);
                let device = judge(device, &model, &shape, &context);
                if request % 47 < 2 {
                    let path = scratch.path().join("image");
                    write_image(&path, &image_of(&device));
                    assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
                }
                request += 2;
            }
            println!("seed {}, {survival:?}: {request} requests", shape.seed);
            assert!(request > 60, "seed {}: {request} requests only", shape.seed);
        }
    }
}

#[test]
fn cuts_within_the_recovery_lose_nothing() {
    for shape in all_shapes() {
        let image = shape.image();
        let mut request = 5;
        while let Some((device, model)) =
            cut_run(&image, &shape, DeviceCutPlan::at(request, moment(request), shape.survivals[0], request))
        {
            let before = image_of(&device);
            for inside in 1.. {
                let plan =
                    DeviceCutPlan::at(inside, moment(inside + request), shape.survivals[inside as usize % 2], inside);
                let Some(device) = recovery_cut(&before, plan, &shape) else { break };
                judge(device, &model, &shape, &format!("seed {}, request {request}, {plan:?}", shape.seed));
            }
            request += 11;
        }
        assert!(request > 60, "seed {}: {request} requests only", shape.seed);
    }
}

/// Mounts until a power cut; returns the device, or `None` if the mount ends before.
fn recovery_cut(image: &Image, plan: DeviceCutPlan, shape: &Shape) -> Option<RamDevice> {
    let shared = SharedDevice::new(CutDevice::new(device_of(image), plan));
    let mounted = WritableVolume::mount(vec![shared.clone()], clock(), shape.options);
    let cut = mounted.is_err();
    drop(mounted);
    cut.then(|| shared.into_inner().into_inner().unwrap())
}

/// A device that its owner can get back after a failed mount.
#[derive(Clone, Debug)]
struct SharedDevice<D>(std::sync::Arc<std::sync::Mutex<D>>, nandkit_block::BlockGeometry);

impl<D: BlockDevice> SharedDevice<D> {
    fn new(device: D) -> Self {
        let geometry = *device.geometry();
        Self(std::sync::Arc::new(std::sync::Mutex::new(device)), geometry)
    }

    fn into_inner(self) -> D {
        std::sync::Arc::into_inner(self.0).unwrap().into_inner().unwrap()
    }
}

impl<D: BlockDevice> BlockDevice for SharedDevice<D> {
    fn geometry(&self) -> &nandkit_block::BlockGeometry {
        &self.1
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().flush(context)
    }
}
