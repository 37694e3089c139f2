//! Arguments of `overlay`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "An overlay is made by nandkit mount IMAGE DIR --overlay FILE, and by put, rm, mv and the other changing commands with --overlay FILE. The file is sparse: du shows the space it takes. Every command that reads images accepts --overlay FILE too.

Examples:
  nandkit mount dump.bin mnt --overlay changes && vi mnt/etc/passwd && nandkit umount mnt
  nandkit overlay diff dump.bin changes
  nandkit overlay apply dump.bin changes
  nandkit overlay discard changes";

/// Arguments of `overlay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OverlayArguments {
    /// What to do with the overlay.
    #[command(subcommand)]
    pub action: OverlayAction,
}

/// What to do with an overlay.
#[derive(Debug, Subcommand)]
pub enum OverlayAction {
    /// Write the changes into the image, all or none, and remove the overlay.
    #[command(after_help = "Example:\n  nandkit overlay apply dump.bin changes")]
    Apply {
        /// The image for which the overlay was made.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// The overlay.
        #[arg(value_name = "FILE")]
        overlay: PathBuf,
    },
    /// Discard the changes: remove the overlay.
    #[command(after_help = "Example:\n  nandkit overlay discard changes")]
    Discard {
        /// The overlay.
        #[arg(value_name = "FILE")]
        overlay: PathBuf,
    },
    /// List the changed files: A added, D deleted, M modified, T type changed; exit status 1 if
    /// there are any.
    #[command(
        after_help = "Example:\n  nandkit overlay diff dump.bin changes --region rootfs\n  nandkit overlay diff dump.bin changes --json"
    )]
    Diff {
        /// The image for which the overlay was made, and the part of it to compare.
        #[command(flatten)]
        image: Box<super::image::ImageArguments>,
        /// The overlay.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print only JSON on standard output: a path and a letter per change.
        #[arg(long)]
        json: bool,
    },
}
