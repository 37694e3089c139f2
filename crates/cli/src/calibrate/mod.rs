//! `nandkit calibrate`

mod page;
mod real;
mod show;

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use nandkit_lab::LabError;
use nandkit_lab::calibrate::{
    CalibrateOptions, CalibratedCard, Calibration, EmulatedTarget, Target, TargetShape, calibrate as measure,
};
use nandkit_stack::{FsSpec, StackError, presets};
use nandkit_units::format_bytes;
use serde_json::json;

use crate::args::{CalibrateArguments, PageOptions};
use crate::failure::Failure;
use crate::image::new_file::NewFile;
use crate::progress::Bar;
use crate::stacks::{Single, named_device, single};
use crate::{output, report, stop};
use real::RealTarget;

/// Measures a device, shows its times, and writes a card file where one is asked for.
pub fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if let Some(out) = &arguments.out {
        if out.extension().is_none_or(|extension| extension != "toml") {
            let detail = "expected a name that ends in .toml, by which --device knows a spec";
            return Err(Failure::Input(format!("--out: {}: {detail}", out.display())));
        }
        NewFile::check(out, arguments.force, Some("--force"))?;
    }
    let page = PageOptions { html: arguments.html.clone(), force: arguments.force };
    report::check(&page)?;
    let path = Path::new(&arguments.target);
    let (calibration, title) = match is_real(&arguments.target) {
        true => (of_real(arguments, path)?, format!("{}, in real time", path.display())),
        false => of_emulated(arguments)?,
    };
    let card = arguments.out.as_deref().map(|out| card(arguments, &calibration, &title, out)).transpose()?;
    report::write(&page, || page::page(&title, &calibration))?;
    if arguments.json {
        let spec = card.as_ref().map(|card| &card.spec);
        return output::json(&json!({"target": arguments.target, "calibration": calibration, "card": spec}));
    }
    output::text(&show::text(&title, &calibration, output::style()))?;
    if let (Some(card), Some(out)) = (&card, &arguments.out) {
        let moved = match card.moved {
            0 => String::new(),
            moved => format!("; {moved} points were moved, as a larger request took less than a smaller one"),
        };
        output::message(&format!("{} is a device now: --device {}{moved}", out.display(), out.display()));
    }
    Ok(())
}

/// Whether a target is a file or a device of this machine: it is a path, and no preset's name or
/// spec.
fn is_real(target: &str) -> bool {
    let is_preset = presets::all_names().iter().any(|name| name.eq_ignore_ascii_case(target)) || target == "ram";
    !is_preset && !target.ends_with(".toml") && (target.contains('/') || Path::new(target).exists())
}

fn of_emulated(arguments: &CalibrateArguments) -> Result<(Calibration, String), Failure> {
    let device = named_device(&arguments.target).map_err(|failure| match failure {
        Failure::Input(detail) => {
            let detail = detail.strip_prefix("--device: ").unwrap_or(&detail).to_owned();
            Failure::Input(format!("{detail}; a file or block device is taken by its path"))
        }
        other => other,
    })?;
    let (ftl, settings) = (arguments.ftl.as_deref(), &arguments.settings[..]);
    let spec = single(&Single { fs: FsSpec::None, device, ftl, settings })?;
    let input = |error: StackError| Failure::Input(error.to_string());
    if let Some(file) = spec.device_file() {
        let detail = format!("{file} holds a chip, which would be written all over; expected a device in memory");
        return Err(Failure::Input(detail));
    }
    let mut target = EmulatedTarget::build(&spec, arguments.seed).map_err(input)?;
    let fill = target.has_flash();
    let calibration = run(arguments, &mut target, true, fill)?;
    Ok((calibration, format!("{}, in simulated time", spec.title())))
}

fn of_real(arguments: &CalibrateArguments, path: &Path) -> Result<Calibration, Failure> {
    for (is_given, option) in [(arguments.ftl.is_some(), "--ftl"), (!arguments.settings.is_empty(), "--set")] {
        if is_given {
            let detail = format!("{option}: {} is no emulated device, and has no stack", path.display());
            return Err(Failure::Input(detail));
        }
    }
    if arguments.out.is_some() && !arguments.write {
        return Err(Failure::Input(
            "--out: a card file needs the times of writes; expected --write, with which what the target holds is lost"
                .to_string(),
        ));
    }
    let mut target = RealTarget::open(path, arguments.write)?;
    if arguments.write && !arguments.yes {
        ask(path, &target.shape())?;
    }
    run(arguments, &mut target, arguments.write, false)
}

/// Asks whether a target may be written all over. Errors: it may not, or there is nobody to ask.
fn ask(path: &Path, shape: &TargetShape) -> Result<(), Failure> {
    let lost = format!("calibrating with --write destroys what {} holds", path.display());
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Input(format!("{lost}, and there is nobody to ask; expected --yes")));
    }
    let mut err = std::io::stderr().lock();
    let asked = write!(err, "nandkit: {lost} ({}). Type yes to go on: ", format_bytes(shape.capacity));
    asked.and_then(|()| err.flush()).map_err(|error| Failure::Input(format!("cannot ask: {error}")))?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::Input(format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::Input("nothing was written: the answer was not yes".to_string())),
    }
}

fn run(
    arguments: &CalibrateArguments,
    target: &mut dyn Target,
    writes: bool,
    fill: bool,
) -> Result<Calibration, Failure> {
    let stop = stop::on_signal();
    let bar = Bar::new();
    let progress = |done: usize, total: usize| {
        bar.show_share(done as u64, total as u64, || format!("{done} of {total} sizes"));
    };
    let (quick, unit, seed) = (arguments.quick, arguments.unit, arguments.seed);
    let options = CalibrateOptions { writes, fill, quick, unit, seed, progress: &progress, stop: &stop };
    let measured = measure(target, &options);
    bar.clear();
    measured.map_err(|error| match error {
        LabError::Stopped { finished, total } => {
            Failure::Stopped(format!("stopped after {finished} of {total} sizes; no card file was written"))
        }
        LabError::Input(detail) => Failure::Input(format!("{}: {detail}", arguments.target)),
        error => Failure::from(error),
    })
}

/// Makes the card and writes its file.
fn card(
    arguments: &CalibrateArguments,
    calibration: &Calibration,
    title: &str,
    out: &Path,
) -> Result<CalibratedCard, Failure> {
    let stem = out.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = arguments.name.clone().unwrap_or(stem);
    let card = calibration.card(&name, &format!("calibrated: {title}"))?;
    let failed = |error: std::io::Error| Failure::Input(format!("{}: cannot write: {error}", out.display()));
    let text = card.spec.to_toml().map_err(|error| Failure::Input(error.to_string()))?;
    let mut file = NewFile::begin(out)?;
    file.file().write_all(text.as_bytes()).map_err(failed)?;
    file.keep(arguments.force)?;
    Ok(card)
}
