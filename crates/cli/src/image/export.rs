//! `nandkit export`

use std::fs::File;
use std::io::{self, BufWriter, Write};

use nandkit_stack::image::{ExportForm, Exported, Exporting, FlashWriter, pack_sparse};
use nandkit_tree::extract::write_sparse;
use serde_json::json;

use super::new_file::NewFile;
use super::{input, tell_notes};
use crate::args::{ExportArguments, Tool};
use crate::failure::Failure;
use crate::output;

const fn form(tool: Tool) -> ExportForm {
    match tool {
        Tool::Nandwrite => ExportForm { oob: false, bad_blocks: false, erased_end: false },
        Tool::NandwriteOob => ExportForm { oob: true, bad_blocks: false, erased_end: false },
        Tool::UBootRaw => ExportForm { oob: true, bad_blocks: true, erased_end: false },
        Tool::Programmer => ExportForm { oob: true, bad_blocks: true, erased_end: true },
        Tool::Nor | Tool::Raw | Tool::Fastboot => ExportForm { oob: false, bad_blocks: true, erased_end: true },
    }
}

/// The command line that writes the exported file to a device.
fn advice(tool: Tool, writer: FlashWriter, told: &Exported, ecc: bool, out: &str) -> Option<String> {
    let pages = told.bytes / u64::from(told.page_size + told.oob_size).max(1);
    Some(match tool {
        Tool::Nandwrite => {
            let on_linux = match writer {
                FlashWriter::Cleanmarkers => {
                    format!("flash_erase -j /dev/mtdN 0 0 && nandwrite --skip-all-ffs /dev/mtdN {out}")
                }
                FlashWriter::Pages => {
                    format!("flash_erase /dev/mtdN 0 0 && nandwrite --skip-all-ffs /dev/mtdN {out}")
                }
                FlashWriter::Ubiformat => format!("ubiformat /dev/mtdN -f {out}"),
            };
            format!("{on_linux}, or nand erase.part PART; nand write.trimffs ADDRESS PART {:#x}", told.bytes)
        }
        // Without --noecc the kernel would overwrite the ECC of the file with its own.
        Tool::NandwriteOob if ecc => {
            format!("flash_erase /dev/mtdN 0 0 && nandwrite --noecc --oob /dev/mtdN {out}")
        }
        Tool::NandwriteOob => format!("flash_erase /dev/mtdN 0 0 && nandwrite --oob /dev/mtdN {out}"),
        Tool::UBootRaw => format!("nand erase.part PART; nand write.raw ADDRESS PART {pages:#x}"),
        Tool::Fastboot => format!("fastboot flash PARTITION {out}"),
        Tool::Programmer | Tool::Nor | Tool::Raw => return None,
    })
}

/// A writer that leaves holes for blocks of zeroes.
struct WithHoles<'a> {
    file: &'a File,
    at: u64,
    written: u64,
}

impl<'a> WithHoles<'a> {
    const fn new(file: &'a File) -> Self {
        Self { file, at: 0, written: 0 }
    }
}

impl Write for WithHoles<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_sparse(self.file, self.at, bytes, &mut self.written)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an image in the form that a tool needs.
pub fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    NewFile::check(&arguments.out, arguments.force, Some("--force"))?;
    let _lock = NewFile::lock(&arguments.out)?;
    let path = &arguments.image.image;
    let image = Exporting::open(path, &arguments.image.options()).map_err(input)?;
    tell_notes(path, &image.notes);
    let usual = match (arguments.image.oob_layout.is_some() && image.has_ecc(), image.is_nand()) {
        (true, _) => Tool::NandwriteOob,
        (false, true) => Tool::Nandwrite,
        (false, false) if image.is_plain() => Tool::Raw,
        (false, false) => Tool::Nor,
    };
    let tool = arguments.tool.unwrap_or(usual);
    let mut form = form(tool);
    // A dump without OOB is written without OOB.
    form.oob &= tool != Tool::Programmer || image.has_oob();
    if form.oob && !image.has_oob() {
        return Err(Failure::Input(format!(
            "{}: the image has no OOB; expected --for nandwrite or --for nor, --oob-layout, or an image with OOB (mkfs jffs2 --oob makes one)",
            path.display()
        )));
    }
    if image.is_plain() && !matches!(tool, Tool::Nor | Tool::Raw | Tool::Fastboot) {
        return Err(Failure::Input(format!(
            "--for: {} holds no file system for flash there, so its bytes are copied unchanged; expected --for raw, --for fastboot, or no --for",
            path.display()
        )));
    }
    let mut file = NewFile::begin(&arguments.out)?;
    let failed = |error| Failure::Input(format!("{}: cannot write: {error}", arguments.out.display()));
    let told = {
        let mut out = BufWriter::with_capacity(1 << 20, WithHoles::new(file.file()));
        let told = image.write(form, &mut out).and_then(|told| out.flush().map(|()| told));
        told.map_err(failed)?
    };
    file.file().set_len(told.bytes).map_err(failed)?;
    let packed_bytes = match tool {
        Tool::Fastboot => {
            let mut packed = NewFile::begin(&arguments.out)?;
            let bytes = pack_sparse(file.unfinished_path(), packed.file()).map_err(input)?;
            file = packed;
            Some(bytes)
        }
        _ => None,
    };
    file.keep(arguments.force)?;
    if arguments.json {
        let record = json!({
            "bytes": told.bytes, "blocks": told.blocks, "block_size": told.block_size, "page_size": told.page_size, "oob_size": told.oob_size,
            "bad_left_out": told.bad_left_out, "erased_left_out": told.erased_left_out,
            "bits_corrected": told.bits_corrected, "codewords_uncorrectable": told.uncorrectable,
            "packed_bytes": packed_bytes,
        });
        return output::text(&format!("{record}\n"));
    }
    let bad = match told.bad_left_out.len() {
        0 => String::new(),
        count => format!(", {count} bad blocks left out"),
    };
    let erased = match told.erased_left_out {
        0 => String::new(),
        count => format!(", {count} erased blocks at the end left out"),
    };
    let corrected = match told.bits_corrected {
        0 => String::new(),
        count => format!(", {count} bits corrected"),
    };
    let packed = packed_bytes.map_or_else(String::new, |bytes| format!(", {bytes} as an Android sparse image"));
    output::message(&match image.is_plain() {
        true => format!("{} bytes, unchanged{packed}", told.bytes),
        false => format!("{} blocks, {} bytes{bad}{erased}{corrected}{packed}", told.blocks, told.bytes),
    });
    if form.bad_blocks && image.has_bad_blocks() {
        output::message(
            "bad blocks are included with their marks: write this file only to the chip that the image was read from",
        );
    }
    if told.uncorrectable > 0 {
        output::message(&format!(
            "{} code words have more bit errors than their ECC can correct, and are written unchanged",
            told.uncorrectable
        ));
    }
    if let Some(advice) =
        advice(tool, image.writer(), &told, form.oob && image.has_ecc(), &arguments.out.display().to_string())
    {
        output::message(&format!("written with: {advice}"));
    }
    Ok(())
}
