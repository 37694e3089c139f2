//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::image::ImageArguments;

const EXAMPLES: &str = "The forms:
  nandwrite      data without OOB; bad blocks and the erased end are left out (also for U-Boot's nand write and nand write.trimffs)
  nandwrite-oob  each page with its OOB after it; bad blocks and the erased end are left out
  u-boot-raw     each page with its OOB after it, bad blocks included, for nand write.raw, which skips none
  programmer     every block, with its OOB if the image has one, for a programmer of bare chips
  nor, raw       data of every block without OOB; for images that are not flash, the unpacked bytes
  fastboot       like raw, packed as an Android sparse image
Blocks marked bad in the image are left out for tools that skip the bad blocks of the target device; the data after them moves forward, as it does there.

Examples:
  nandkit export dump.bin out.bin                              for nandwrite, or the bytes of a NOR chip or a disk
  nandkit export dump.bin out.bin --for nandwrite-oob
  nandkit export dump.bin out.bin --overlay changes            with the changes of an overlay
  nandkit export flash.bin rootfs.bin --region rootfs
  nandkit export flash.bin kernel.bin --region kernel          any region, whatever it holds
  nandkit export part.0 data.img --join part.1,part.2          the volume of a split sparse image
  nandkit export data.img data.simg --for fastboot             back to an Android sparse image";

/// The tool that an image is written for.
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
    /// Any tool that writes a NOR chip.
    Nor,
    /// Any tool that takes the bytes as they are, such as `dd`.
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
    /// The tool that will write the file; default: nandwrite for NAND, nor for NOR, raw for
    /// sectors.
    #[arg(long = "for", value_name = "TOOL")]
    pub tool: Option<Tool>,
    /// Replace an existing OUT.
    #[arg(long)]
    pub force: bool,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
