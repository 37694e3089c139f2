//! JFFS2 on an emulated chip: made on a new chip, mounted on one with a volume.

use nandkit_codec::compression::Compression;
use nandkit_flash::Flash;
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::write::{CompressionMode, Draws, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::{FlashKind, Nanos};
use nandkit_vfs::FileSystem;

use super::spec::{CompressionName, DrawsName, EndianName, Jffs2Spec};
use crate::format::Format;
use crate::format::emulate::{FormatSpec, WatchedFlash, wrong};
use crate::frame::Frame;
use crate::mounted::MountedFileSystem;
use crate::{SpecError, StackError};

impl FormatSpec for Jffs2Spec {
    fn format(&self) -> &'static dyn Format {
        &super::FORMAT
    }

    fn title(&self) -> String {
        Jffs2Spec::title(self)
    }

    fn set_byte_order(&mut self, order: Option<ByteOrder>) {
        self.endian = match order {
            Some(ByteOrder::Big) => EndianName::Big,
            _ => EndianName::Little,
        };
    }

    fn mount_on_flash(
        &self,
        chip: WatchedFlash,
        seed: u64,
        frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        let mut options = mount_options(self, seed)?;
        let is_there = frame.keeping.is_some() && !chip.is_blank(&frame.clock)?;
        frame.expect(is_there)?;
        let WatchedFlash { flash, partial_programs } = chip;
        if partial_programs < 2 && flash.geometry().kind == FlashKind::Nand {
            // A cleanmarker would be the one program that the part allows for a block's first page.
            // Linux mounts JFFS2 on no such part (its MTD type is MLC); here it does without.
            options.cleanmarker = Some(Cleanmarker::None);
        }
        let clock = frame.clock.clone();
        let fs = match is_there {
            true => Jffs2::mount(flash, clock, options),
            false => Jffs2::format(flash, clock, options),
        };
        let fs = fs.map_err(wrong)?;
        frame.watch("fs", fs.statistics());
        frame.top(fs, is_there)
    }
}

fn mount_options(spec: &Jffs2Spec, seed: u64) -> Result<MountOptions, StackError> {
    let wrong = |error: SpecError| StackError::new("stack.fs", error);
    let policy = spec.policy().map_err(wrong)?;
    let order = match spec.endian {
        EndianName::Little => ByteOrder::Little,
        EndianName::Big => ByteOrder::Big,
    };
    Ok(MountOptions {
        order: Some(order),
        write: WriteOptions {
            compression: match spec.compression {
                CompressionName::None => CompressionMode::None,
                CompressionName::Priority => CompressionMode::Priority,
                CompressionName::Size => CompressionMode::Size,
                CompressionName::Zlib => CompressionMode::Only(Compression::Zlib),
                CompressionName::Lzo => CompressionMode::Only(Compression::Lzo),
                CompressionName::Rtime => CompressionMode::Only(Compression::Rtime),
            },
            summaries: spec.summaries,
            policy,
            draws: match (spec.draws, policy.rule.draws_from_ticks()) {
                (DrawsName::Auto, true) | (DrawsName::Ticks, _) if spec.tick_ms == 0 => Draws::Work(spec.tick_bytes),
                (DrawsName::Auto, true) | (DrawsName::Ticks, _) => Draws::Ticks(Nanos::from_millis(spec.tick_ms)),
                _ => Draws::Independent,
            },
            separation: spec.separation().map_err(wrong)?,
            seed,
            background: (spec.background_ms > 0).then_some(Nanos::from_millis(spec.background_ms)),
            ..WriteOptions::default()
        },
        ..MountOptions::default()
    })
}

impl<F: Flash> MountedFileSystem for Jffs2<F> {
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        match self.changes() {
            Some(changes) => changes.sync(None),
            None => Ok(()),
        }
    }
}
