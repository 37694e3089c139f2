//! The nandkit command line.
//!
//! Exit status: 0 done, 1 a check or claim failed or damage was found, 2 unusable input, 130
//! stopped by Ctrl-C.

mod args;
mod calibrate;
mod compare;
mod devices;
mod doctor;
#[cfg(test)]
mod examples;
mod exec;
mod failure;
mod host;
mod image;
mod leftover;
mod man;
mod mount;
mod output;
mod overlay;
mod policies;
mod progress;
mod report;
mod reproduce;
mod run;
mod serve;
mod session;
mod stacks;
mod stop;
mod summary;
mod texts;
mod tracing;
mod umount;
mod workloads;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::{Arguments, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let matches = args::command().color(output::emphasis_of_help()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::message(message);
            }
            ExitCode::from(failure.status())
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Devices(arguments) => devices::devices(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Workloads(arguments) => workloads::workloads(&arguments),
        Command::Info(arguments) => image::info(&arguments),
        Command::Ls(arguments) => image::ls(&arguments),
        Command::Cat(arguments) => image::cat(&arguments),
        Command::Extract(arguments) => image::extract(&arguments),
        Command::Qtar(arguments) => image::qtar(&arguments),
        Command::Check(arguments) => image::check(&arguments),
        Command::Rescue(arguments) => image::rescue(&arguments),
        Command::Resize(arguments) => image::resize(&arguments),
        Command::Ubi(arguments) => image::ubi(arguments),
        Command::Mkfs(arguments) => image::mkfs(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Exec(arguments) => exec::exec(&arguments),
        Command::Export(arguments) => image::export(&arguments),
        Command::Mount(arguments) => mount::mount(&arguments),
        Command::Overlay(arguments) => overlay::overlay(&arguments),
        Command::Umount(arguments) => umount::umount(&arguments),
        Command::Put(arguments) => image::put(&arguments),
        Command::Get(arguments) => image::get(arguments),
        Command::Rm(arguments) => image::rm(&arguments),
        Command::Mv(arguments) => image::mv(&arguments),
        Command::Mkdir(arguments) => image::mkdir(&arguments),
        Command::Ln(arguments) => image::ln(&arguments),
        Command::Chmod(arguments) => image::chmod(&arguments),
        Command::Chown(arguments) => image::chown(&arguments),
        Command::Getfattr(arguments) => image::getfattr(&arguments),
        Command::Setfattr(arguments) => image::setfattr(&arguments),
        Command::Policies(arguments) => policies::policies(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "nandkit", &mut script);
            output::bytes(&script)
        }
        Command::Man(arguments) => man::man(&arguments),
    }
}
