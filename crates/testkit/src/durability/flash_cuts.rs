//! Power cuts of a volume on flash at its programs and erases: before one, inside it in each torn
//! state, and after it; then further cuts while the volume is written to again.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_flash::wrap::CutMoment;
use nandkit_flash::{Flash, Interrupt, Operation, PageProgram, PageRead, Result};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Context, Done, PageAddress};
use nandkit_vfs::FileSystem;

use super::{History, Promise, State, observe, step};

/// A format that a run can mount.
pub trait FormatOnFlash: Clone + Debug {
    /// A mounted volume.
    type Mounted<D: Flash>: FileSystem;

    /// Mounts a device that was formatted. Errors: those of the format.
    fn mount<D: Flash>(&self, device: D) -> nandkit_vfs::Result<Self::Mounted<D>>;

    /// Fails where a volume contradicts itself, or a second mount of the same device. A message
    /// begins with `what`.
    fn contradicts_nothing<D: Flash + Clone>(&self, volume: &Self::Mounted<D>, mounted_from: &D, what: &str);
}

/// A cut: the operation of the device, its cause, and the moment in it.
pub type Cut = (Operation, Cause, CutMoment);

/// The device after a cut.
struct Left<D> {
    /// Number of the volume's operation.
    operation: usize,
    cut: Cut,
    device: D,
}

/// A device that keeps a copy of itself for each cut at its programs and erases.
struct Snapping<D> {
    inner: D,
    operation: Arc<AtomicUsize>,
    cuts: Arc<Mutex<Vec<Left<D>>>>,
    random: Random,
    /// One program of the user's data in this many is cut; 0: each step at each moment.
    every: u64,
}

impl<D: Flash + Interrupt + Clone> Snapping<D> {
    /// The moments at which a step is cut; rare steps are cut more often.
    fn moments(&mut self, operation: Operation, cause: Cause) -> Vec<CutMoment> {
        if self.every == 0 {
            return CutMoment::ALL.to_vec();
        }
        let every = match (operation, cause) {
            (Operation::Erase, _) | (_, Cause::Recovery) => 1,
            (_, Cause::UserData) => self.every,
            _ => self.every.div_ceil(5),
        };
        if self.random.below(every) != 0 {
            return Vec::new();
        }
        let times = if cause == Cause::Recovery { 4 } else { 2 };
        (0..times).map(|_| CutMoment::ALL[self.random.below(CutMoment::ALL.len() as u64) as usize]).collect()
    }

    /// Keeps the devices that the cuts of a step leave; `make` does the step on a device, whole or
    /// in part.
    fn keep(
        &mut self,
        operation: Operation,
        cause: Cause,
        mut make: impl FnMut(&mut D, CutMoment) -> Result<()>,
    ) -> Result<()> {
        for moment in self.moments(operation, cause) {
            let mut device = self.inner.clone();
            make(&mut device, moment)?;
            device.power_on();
            let operation_of_volume = self.operation.load(Ordering::Relaxed);
            let left = Left { operation: operation_of_volume, cut: (operation, cause, moment), device };
            self.cuts.lock().unwrap_or_else(PoisonError::into_inner).push(left);
        }
        Ok(())
    }
}

impl<D: Flash + Interrupt + Clone> Flash for Snapping<D> {
    crate::forward_flash!();

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.keep(Operation::Program, context.cause, |left, moment| {
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { page, .. } => left.interrupt_program(context, at, program, page)?,
                CutMoment::After => drop(left.program(context, at, program)),
            }
            Ok(())
        })?;
        self.inner.program(context, at, program)
    }
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.keep(Operation::Erase, context.cause, |left, moment| {
            match moment {
                CutMoment::Before => {}
                CutMoment::Inside { erase, .. } => left.interrupt_erase(context, block, erase)?,
                CutMoment::After => drop(left.erase(context, block)),
            }
            Ok(())
        })?;
        self.inner.erase(context, block)
    }
}

/// A run on a device with an empty volume that is cut.
#[derive(Clone, Debug)]
pub struct Run<F> {
    /// The format, with its options of mounting.
    pub format: F,
    /// The format's promise.
    pub promise: Promise,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of operations of the run.
    pub steps: usize,
    /// One program of the user's data in this many is cut at two moments, other programs more
    /// often, and every erase; 0: each at each moment.
    pub every: u64,
}

impl<F: FormatOnFlash> Run<F> {
    /// Cuts the run, and a shorter run on the device after each third cut and each cut of an erase.
    ///
    /// # Panics
    ///
    /// Where a cut breaks the promise.
    pub fn cut<D: Flash + Interrupt + Clone>(&self, start: D) -> Vec<Cut> {
        let mut cuts = Vec::new();
        self.cut_from(1, (start, State::empty()), &mut cuts);
        cuts
    }

    /// Cuts the run at each program and erase, before, in each torn form and after.
    ///
    /// # Panics
    ///
    /// Where a cut breaks the promise.
    pub fn cut_everywhere<D: Flash + Interrupt + Clone>(&self, start: D) -> Vec<Cut> {
        let mut cuts = Vec::new();
        Self { every: 0, ..self.clone() }.cut_from(0, (start, State::empty()), &mut cuts);
        cuts
    }

    /// The devices that the cuts of the run leave, in the order of the cuts.
    pub fn left<D: Flash + Interrupt + Clone>(&self, start: D) -> Vec<D> {
        self.snap(start, State::empty()).1.into_iter().map(|left| left.device).collect()
    }

    fn snap<D: Flash + Interrupt + Clone>(&self, start: D, state: State) -> (History, Vec<Left<D>>) {
        let mut history = History::new(state);
        let cuts = Arc::default();
        let device = Snapping {
            inner: start.clone(),
            operation: history.current(),
            cuts: Arc::clone(&cuts),
            random: Random::new(self.seed, "where to cut"),
            every: self.every,
        };
        let mut fs = self.format.mount(device).unwrap();
        let mut random = Random::new(self.seed, "what to do");
        for _ in 0..self.steps {
            step(&mut fs, &mut history, &mut random).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        }
        drop(fs);
        let cuts = std::mem::take(&mut *cuts.lock().unwrap_or_else(PoisonError::into_inner));
        (history, cuts)
    }

    fn cut_from<D: Flash + Interrupt + Clone>(&self, depth: u32, (start, state): (D, State), cuts: &mut Vec<Cut>) {
        let (history, left) = self.snap(start, state);
        for (number, Left { operation, cut, device }) in left.into_iter().enumerate() {
            let what = format!("{self:?}, depth {depth}, cut {number} {cut:?}");
            let kept = device.clone();
            let fs = self.format.mount(device).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = observe(&fs);
            let judged = history.judge(&found, operation, self.promise);
            let state = judged.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
            self.format.contradicts_nothing(&fs, &kept, &what);
            cuts.push(cut);
            let again = number % 3 == 0 || cut.0 == Operation::Erase;
            // A run does not start on a state with a page that was written in part.
            if depth > 0 && again && state.is(&found) {
                let shorter = Self { seed: self.seed ^ number as u64, steps: 16, every: 6, ..self.clone() };
                shorter.cut_from(depth - 1, (kept, state), cuts);
            }
        }
    }
}
