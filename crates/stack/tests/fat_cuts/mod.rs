//! FAT on the block-mapped translation layer on a chip, cut at each of its programs, copies and
//! erases, and at every other repair once more.

use std::sync::{Arc, Mutex};

use nandkit_block::BlockDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{Cache, Fat, FormatOptions, MountOptions, WriteBack, check, format};
use nandkit_flash::Operation;
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan, FlashEvent, TraceFlash};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, PageOrder};
use nandkit_testkit::clock;
use nandkit_testkit::durability::per_file::{History, step};
use nandkit_testkit::listing::{Contents, contents_of_volume};
use nandkit_testkit::vfat::{Judges, write_image};
use nandkit_units::random::Random;
use nandkit_units::{Cause, Context, Nanos};
use nandkit_vfs::ErrorKind;

/// A write-back cache as a system with some memory has it.
const WRITE_BACK: MountOptions = MountOptions {
    cache: Cache::Sectors {
        sectors: 256,
        write_back: WriteBack::Back { dirty_limit: 64, age_limit: Nanos::from_secs(5) },
        data: true,
    },
    barriers: true,
    file_sync: nandkit_fat::FileSync::Everything,
    read_only: false,
    code_page: CodePage::CP437,
};

const WRITE_THROUGH: MountOptions = MountOptions { cache: Cache::None, ..WRITE_BACK };

/// What a cut interrupted, why it was under way, and how it was left.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the soak's table shows all")]
pub struct Cut {
    pub operation: Operation,
    pub context: Context,
    pub moment: CutMoment,
}

/// A name, and which cuts have it.
pub type Kind = (&'static str, fn(&Cut) -> bool);

/// The kinds of work that are told apart: FAT's requests by their causes, and the layer's own work.
pub const KINDS: [Kind; 6] = [
    ("user_data", |cut| fat(cut) == Some(Cause::UserData)),
    ("metadata", |cut| fat(cut) == Some(Cause::Metadata)),
    ("recovery, FAT", |cut| fat(cut) == Some(Cause::Recovery)),
    ("cleaning", |cut| cut.context.device_cause == Some(Cause::Cleaning)),
    ("mapping", |cut| cut.context.device_cause == Some(Cause::Mapping)),
    ("recovery, layer", |cut| cut.context.device_cause == Some(Cause::Recovery)),
];

fn fat(cut: &Cut) -> Option<Cause> {
    cut.context.device_cause.is_none().then_some(cut.context.cause)
}

/// A workload and how the volume is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub sector_size: u32,
    pub mount: MountOptions,
    pub seed: u64,
}

impl Case {
    /// Six kinds in turn: three caches with sectors of a page and of a quarter. Without barriers
    /// too: the layer is durable in order of issue.
    pub fn of(seed: u64) -> Self {
        let metadata_only = match WRITE_BACK.cache {
            Cache::Sectors { sectors, write_back, .. } => Cache::Sectors { sectors, write_back, data: false },
            Cache::None => Cache::None,
        };
        let mounts = [WRITE_THROUGH, WRITE_BACK, MountOptions { cache: metadata_only, ..WRITE_BACK }];
        let (round, small) = (seed / 6, seed / 3 % 2 == 1);
        let mount = MountOptions { barriers: (round % 2 == 1) == small, ..mounts[(seed % 3) as usize] };
        Self { sector_size: if small { 512 } else { 2048 }, mount, seed }
    }

    fn options(&self) -> BlockMapOptions {
        // Maps are small: more of them, so that cuts fall into them too.
        let map_pages_per_recycling = 1 + (self.seed % 4) as u32;
        BlockMapOptions {
            sector_size: self.sector_size,
            log_blocks: 4,
            map_pages_per_recycling,
            ..BlockMapOptions::default()
        }
    }

    /// A formatted volume on a chip of 4 MiB: pages of 2 KiB, 16 to the block.
    fn chip(&self) -> ContentChip {
        let mut spec = ChipSpec::default();
        spec.geometry.page_size = 2048;
        spec.geometry.oob_size = 64;
        spec.geometry.pages_per_block = 16;
        spec.geometry.blocks = 128;
        spec.rules.order = PageOrder::Consecutive;
        let chip = ContentChip::new(&spec, 1).unwrap();
        let mut device = BlockMapFtl::attach(chip, self.options()).unwrap();
        format(&mut device, &clock(), &FormatOptions::default()).unwrap();
        device.close(&Context::default()).unwrap().0
    }

    /// Mounts and runs the workload until its end or the cut.
    fn work(&self, flash: &mut Watched) -> History {
        let mut history = History::default();
        if let Ok(device) = BlockMapFtl::attach(flash, self.options()) {
            let mut random = Random::new(self.seed, "cuts");
            if let Ok(mut fat) = Fat::mount(device, clock(), self.mount) {
                for _ in 0..60 {
                    if let Err(error) = step(&mut fat, &mut history, &mut random) {
                        assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
                        break;
                    }
                }
            }
        }
        history
    }

    /// Mounts what is on the chip, and the judges look at it.
    fn judge(&self, chip: ContentChip, history: &History, judges: Judges, what: &str) {
        let device = BlockMapFtl::attach(chip, self.options()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut fat = Fat::mount(device, clock(), self.mount).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = contents_of_volume(&fat);
        history.judge(&found).unwrap_or_else(|said| panic!("{what}: {said}"));
        fat.unmount().unwrap();
        judge_volume(&mut fat.into_device(), &found, judges).unwrap_or_else(|said| panic!("{what}: {said}"));
    }

    /// Cuts the workload at each of its steps. The judges see what the `before + n`th cut left as
    /// [`Judges::after_cut`] says, and what the workload leaves uncut. Panics where something is
    /// wrong.
    pub fn cut_everywhere(&self, before: u64) -> Vec<Cut> {
        let base = self.chip();
        let (mut uncut, _) = watch(CutFlash::new(base.clone(), CutPlan::None));
        let history = self.work(&mut uncut);
        let flash = uncut.into_parts().0;
        let steps = flash.steps();
        self.judge(flash.into_inner(), &history, Judges::ALL, &format!("{self:?}, not cut"));
        let mut cuts = Vec::new();
        for at in 1..=steps {
            let mut random = Random::new(self.seed * 1_000_000 + at, "moment");
            let moment = any_moment(&mut random);
            let mut what = format!("{self:?}, cut at {at}@{moment}");
            let (mut watched, log) = watch(CutFlash::new(base.clone(), CutPlan::at(at, moment)));
            let history = self.work(&mut watched);
            let mut flash = watched.into_parts().0;
            cuts.push(log.cut(at, moment));
            flash.power_on();
            flash.set_plan(CutPlan::None);
            if at % 2 == 0 {
                let first = flash.steps();
                if let Some(step) = self.step_of_repair(flash.clone(), &mut random) {
                    let moment = any_moment(&mut random);
                    what = format!("{what}, the repair at {}@{moment}", first + step);
                    flash.set_plan(CutPlan::at(first + step, moment));
                    let (cut, log) = self.repair(flash);
                    cuts.push(log.cut(step, moment));
                    flash = cut;
                }
            }
            self.judge(flash.into_inner(), &history, Judges::after_cut(before + at), &what);
        }
        cuts
    }

    /// Mounts and leaves it at that.
    fn repair(&self, flash: CutFlash<ContentChip>) -> (CutFlash<ContentChip>, StepLog) {
        let (mut watched, log) = watch(flash);
        if let Ok(device) = BlockMapFtl::attach(&mut watched, self.options()) {
            drop(Fat::mount(device, clock(), self.mount));
        }
        (watched.into_parts().0, log)
    }

    /// Which step of a repair is to be cut, the first being 1; each other time one of FAT's own, of
    /// which there are few.
    fn step_of_repair(&self, flash: CutFlash<ContentChip>, random: &mut Random) -> Option<u64> {
        let log = self.repair(flash).1;
        let steps = log.steps();
        let fats = (1..).zip(&steps).filter(|(_, step)| step.1.device_cause.is_none()).map(|(number, _)| number);
        let fats: Vec<u64> = fats.collect();
        match steps.len() {
            0 => None,
            _ if !fats.is_empty() && random.chance(0.5) => fats.get(random.below(fats.len() as u64) as usize).copied(),
            count => Some(1 + random.below(count as u64)),
        }
    }
}

/// Our checker, then the others, look at a volume that is not mounted and holds this tree.
fn judge_volume<D: BlockDevice>(device: &mut D, expected: &Contents, judges: Judges) -> Result<(), String> {
    let report = check(device, &clock(), CodePage::CP437).map_err(|error| error.to_string())?;
    if !report.findings.is_empty() {
        return Err(format!("{:?}", report.findings));
    }
    if judges == Judges::OURS {
        return Ok(());
    }
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (image, read) = (scratch.path().join("image"), scratch.path().join("read"));
    std::fs::create_dir(&read).map_err(|error| error.to_string())?;
    let written = std::fs::File::create(&image).and_then(|file| write_image(device, &file));
    written.map_err(|error| error.to_string())?;
    judges.judge(&image, expected, &read)
}

fn any_moment(random: &mut Random) -> CutMoment {
    CutMoment::ALL[random.below(CutMoment::ALL.len() as u64) as usize]
}

type Watched = TraceFlash<CutFlash<ContentChip>, Box<dyn FnMut(FlashEvent) + Send>>;

/// Programs, copies and erases since the watch began, as the chip counts them: what, and why.
#[derive(Clone, Default)]
struct StepLog(Arc<Mutex<Vec<(Operation, Context)>>>);

impl StepLog {
    fn steps(&self) -> Vec<(Operation, Context)> {
        self.0.lock().unwrap().clone()
    }

    /// The step of this number, the first being 1, which was cut.
    fn cut(&self, number: u64, moment: CutMoment) -> Cut {
        let (operation, context) = self.0.lock().unwrap()[number as usize - 1];
        Cut { operation, context, moment }
    }
}

fn watch(flash: CutFlash<ContentChip>) -> (Watched, StepLog) {
    let log = StepLog::default();
    let noted = log.clone();
    let sink = move |event: FlashEvent| {
        let operation = event.action.operation();
        if matches!(operation, Operation::Program | Operation::Copy | Operation::Erase) {
            noted.0.lock().unwrap().push((operation, event.context));
        }
    };
    (TraceFlash::new(flash, Box::new(sink)), log)
}
