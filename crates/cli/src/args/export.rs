//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::image::ImageArguments;

const EXAMPLES: &str = "The forms:
  nandwrite      data alone; bad blocks and the erased end are left out (also for U-Boot's nand write and nand write.trimffs)
  nandwrite-oob  each page's OOB behind its data; bad blocks and the erased end are left out
  u-boot-raw     the same, bad blocks included, for nand write.raw, which skips none
  programmer     every block with its OOB where the image has one, as a chip is read and written outside of its board
  nor, raw       data alone, every block; the bytes of what is no flash, out of their wrapper
  fastboot       the same as an Android sparse image
Blocks that are marked bad in the image are left out where the tool skips those of the device that it writes: what was behind them moves forward, as it does there.

Examples:
  nandkit export dump.bin out.bin                              for nandwrite, or as the bytes of a NOR chip or a disk
  nandkit export dump.bin out.bin --for nandwrite-oob
  nandkit export dump.bin out.bin --overlay changes            with the changes of an overlay
  nandkit export flash.bin rootfs.bin --region rootfs
  nandkit export flash.bin kernel.bin --region kernel          any region, whatever it holds
  nandkit export part.0 data.img --join part.1,part.2          the volume that parts of a sparse image make
  nandkit export data.img data.simg --for fastboot             an Android sparse image again";

/// For whom an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// nandwrite, and U-Boot's nand write and nand write.trimffs.
    Nandwrite,
    /// nandwrite --oob.
    NandwriteOob,
    /// U-Boot's nand write.raw.
    UBootRaw,
    /// A programmer of bare NAND chips.
    Programmer,
    /// A NOR chip, by whatever tool.
    Nor,
    /// Whatever takes the bytes as they are, as `dd` and disks do.
    Raw,
    /// fastboot and simg2img: an Android sparse image.
    Fastboot,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The new file.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// The tool that is to write it; by default nandwrite for NAND, nor for NOR, raw for sectors.
    #[arg(long = "for", value_name = "TOOL")]
    pub tool: Option<Tool>,
    /// Replace OUT.
    #[arg(long)]
    pub force: bool,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
