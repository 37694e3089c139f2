//! Runs with power cuts.

use nandkit_block::ErrorKind;
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_flash::{Flash, Operation};
use nandkit_nand_sim::ContentChip;
use nandkit_units::{BlockIndex, Cause};

use super::Layer;
use super::model::{Model, Op};
use super::spy::Spy;

/// A run that is cut, recovered, checked and continued as often as the plan cuts.
pub struct CutRun {
    /// Number of steps (programs, copies, erases) in the whole run.
    pub steps: u64,
    /// Number of programs and copies among them.
    pub programs: u64,
    /// Number of erases among them.
    pub erases: u64,
    /// Number of blocks marked bad at the end.
    pub bad_blocks: usize,
    /// For each cut: the operation, its cause, and the state in which it was left.
    pub cut: Vec<(Operation, Cause, CutMoment)>,
}

/// Runs `ops` on `chip` under `plan`. `Err` says what was wrong; a panic is a bug.
pub fn run<L: Layer>(chip: ContentChip, options: &L::Options, ops: &[Op], plan: CutPlan) -> Result<CutRun, String> {
    let mut spy = Spy::new(CutFlash::new(chip, plan));
    let mut cut = Vec::new();
    let mut model: Option<Model> = None;
    let mut next = 0;
    loop {
        match go_on::<L>(&mut spy, options, ops, &mut model, &mut next)? {
            true => break,
            false => {
                let (operation, cause) = spy.last.unwrap();
                let moment = spy.inner.outcomes().last().unwrap().cut.moment;
                cut.push((operation, cause, moment));
                spy.inner.power_on();
            }
        }
    }
    let is_bad = |block: &u32| spy.is_bad(BlockIndex(*block));
    let bad_blocks = (0..spy.geometry().blocks).filter(is_bad).count();
    Ok(CutRun { steps: spy.inner.steps(), programs: spy.programs, erases: spy.erases, bad_blocks, cut })
}

/// Attaches, checks, and continues until the power is cut (`false`) or everything is done (`true`).
fn go_on<L: Layer>(
    spy: &mut Spy<CutFlash<ContentChip>>,
    options: &L::Options,
    ops: &[Op],
    model: &mut Option<Model>,
    next: &mut usize,
) -> Result<bool, String> {
    let mut device = match L::attach(&mut *spy, options) {
        Ok(device) => device,
        Err(error) if error.kind == ErrorKind::PowerLost => return Ok(false),
        Err(error) => return Err(format!("attach: {error}")),
    };
    let model = model.get_or_insert_with(|| Model::new(&device));
    if !model.settle(&device).map_err(|what| format!("after {next} operations: {what}"))? {
        return Ok(false);
    }
    while let Some(&op) = ops.get(*next) {
        *next += 1;
        match model.apply(&mut device, op) {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::PowerLost => return Ok(false),
            Err(error) => return Err(format!("operation {next} {op:?}: {error}")),
        }
    }
    if !model.check(&device).map_err(|what| format!("at the end: {what}"))? {
        return Ok(false);
    }
    let flash = match L::close(device) {
        Ok(flash) => flash,
        Err(error) if error.kind == ErrorKind::PowerLost => return Ok(false),
        Err(error) => return Err(format!("close: {error}")),
    };
    match L::attach(flash, options) {
        Ok(device) => model.settle(&device).map_err(|what| format!("after closing: {what}")),
        Err(error) if error.kind == ErrorKind::PowerLost => Ok(false),
        Err(error) => Err(format!("attach after closing: {error}")),
    }
}
