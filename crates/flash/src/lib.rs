//! The flash contract: one interface to NAND and NOR, with the promises of each side.
//!
//! [`Flash`] is the interface of translation layers and flash file systems, which need not know
//! whether an emulated chip, a dump or a real device is behind it. Wrappers in [`wrap`] are flash
//! devices over any other one.

mod error;
mod look;
mod operation;
mod relocation;
pub mod wrap;

pub use error::{ErrorKind, FlashError, Operation, Result};
pub use look::Look;
pub use operation::{PageProgram, PageRead};
pub use relocation::{Move, PageRun, Relocation};

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Pacing, PageAddress};

/// A flash device.
///
/// **Common promises of the implementer.** No method panics, whatever the arguments: an address
/// outside the device, a wrong length or a broken rule is an error of kind [`ErrorKind::Misuse`],
/// and nothing has changed. Methods that take `&mut self` take effect in call order; every later
/// call sees their effect. `completed` is never before `context.issued`, and is a function of the
/// device's history and the arguments alone. Methods do not block and do not read a clock.
///
/// **Common promises of the caller.** Operations are issued in order: `context.issued` never goes
/// back by more than the depth of the caller's own queue explains (the device copes with any value;
/// only the times become meaningless).
pub trait Flash: Send + Sync {
    /// The geometry of the device; never changes. Cost: a field access.
    fn geometry(&self) -> &FlashGeometry;

    /// Reads bytes of one page and, if requested, bytes of its OOB from offset 0 on, in one array
    /// access.
    ///
    /// A page that was not programmed since its block's erase reads as 0xFF in data and OOB. Bit
    /// errors up to the part's ECC strength are corrected and counted in [`Done::corrected_bits`].
    ///
    /// Errors: `Misuse` (range), `Uncorrectable` (the buffers hold the damaged bytes), `NoContent`
    /// (a store without bytes was asked for them), `PowerLost`, `Io`. Time: array read + bus
    /// transfer of what is delivered. May run in parallel with other reads.
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done>;

    /// Programs bytes of one page and, if given, bytes of its OOB.
    ///
    /// The caller promises: `column` and length are multiples of the geometry's write unit; the
    /// block was erased since this part of the page was programmed (NOR and parts that allow it:
    /// only bits from 1 to 0 change); pages of a block are programmed in the order that the chip
    /// requires. A broken promise is `Misuse`, and nothing changes.
    ///
    /// Errors: `Misuse`, `ProgramFailed` (the page's content is undefined from now on; the block
    /// should be retired after its valid pages have been moved), `BadBlock`, `PowerLost` (the page
    /// holds nothing, a part, all, or garbage), `ReadOnly`, `Io`. On success the data are durable
    /// when the operation has completed, unless [`Flash::sync`] says otherwise for the device.
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done>;

    /// Erases a block: every byte of data and OOB reads 0xFF afterwards, and all pages may be
    /// programmed again.
    ///
    /// Errors: `Misuse` (range), `EraseFailed` (content undefined; retire the block), `BadBlock`,
    /// `PowerLost` (the block may be whole, erased, or half erased: pages may read as anything),
    /// `ReadOnly`, `Io`.
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done>;

    /// Whether the block is marked bad, by the factory or by [`Flash::mark_bad`]. A block outside
    /// the device is bad. Cost: no device time (tables of bad blocks are read once, at power-on).
    fn is_bad(&self, block: BlockIndex) -> bool;

    /// Marks a block bad for good. Idempotent. Errors: `Misuse` (range), `PowerLost`, `ReadOnly`,
    /// `Io`.
    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done>;

    /// Makes all operations so far durable if the device itself buffers writes (a device in a
    /// file). Emulated chips in memory do nothing. Errors: `PowerLost`, `Io`.
    fn sync(&mut self, context: &Context) -> Result<Done>;

    /// The copyback capability, if the device has it: copying pages within the chip.
    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        None
    }

    /// The pacing capability, if the device has it: it receives host times, and reports moved ends.
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        None
    }

    /// The relocation capability, if the device has it: moving many pages at once through the
    /// controller.
    fn relocation(&mut self) -> Option<&mut dyn Relocation> {
        None
    }
}

/// Copies pages within the chip through its page register: no bus transfer, and no ECC unless it is
/// on the die.
pub trait Copyback {
    /// Whether a page of block `from` may be copied to block `to` (commonly: the same plane of the
    /// same die). Cost: no device time. Takes `&mut self` because wrappers reach the capability
    /// below them only through [`Flash::copyback`]; nothing changes.
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool;

    /// Copies a page's data to an erased page. If `oob` is given, it replaces the target's OOB from
    /// offset 0 on; the rest of the source's OOB is copied.
    ///
    /// Errors: those of [`Flash::program`] for the target; `Misuse` if [`Copyback::can_copy`] is
    /// false; `Uncorrectable` if the source is unreadable and the chip checks it. Time: the chip's
    /// copy time.
    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done>;

    /// Copies pages to consecutive pages of a block from `to` on, exactly like a [`Copyback::copy`]
    /// for each, issued when its predecessor has completed. `oob` holds an equal number of bytes
    /// for each page, one image after another. Stops at the first failure.
    ///
    /// Devices that must see every operation keep this default; others may share work between
    /// pages.
    fn copy_run(&mut self, context: &Context, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> CopyRun {
        copy_each(self, context, from, to, oob)
    }
}

/// The progress of a [`Copyback::copy_run`].
#[derive(Debug)]
pub struct CopyRun {
    /// The number of pages copied, from the first on.
    pub copied: usize,
    /// Their total time.
    pub done: Done,
    /// Why the next page was not copied.
    pub failed: Option<FlashError>,
}

/// [`Copyback::copy_run`] page by page.
pub fn copy_each<C: Copyback + ?Sized>(
    copyback: &mut C,
    context: &Context,
    from: &[PageAddress],
    to: PageAddress,
    oob: &[u8],
) -> CopyRun {
    let mut run = CopyRun { copied: 0, done: Done::immediately(context), failed: None };
    let length = oob.len().checked_div(from.len()).unwrap_or(0);
    for (page, from) in (to.page..).zip(from) {
        let image = oob.get(run.copied * length..(run.copied + 1) * length).unwrap_or(&[]);
        let context = Context { issued: run.done.completed, ..*context };
        match copyback.copy(&context, *from, to.block.page(page), Some(image)) {
            Ok(done) => run.done = run.done.and(done),
            Err(error) => {
                run.failed = Some(error);
                break;
            }
        }
        run.copied += 1;
    }
    run
}

/// The state in which an interrupted program leaves its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TornPage {
    /// The page looks untouched.
    Nothing,
    /// All data and OOB are present, but the operation was never acknowledged.
    Whole,
    /// The first part of the page is programmed, the rest is erased.
    Prefix,
    /// Data and OOB are a mix of old and new bits: reads deliver garbage, or fail, and may differ
    /// from read to read.
    Garbage,
}

/// The state in which an interrupted erase leaves its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TornErase {
    /// The block is unchanged.
    Nothing,
    /// The block is erased, but the operation was never acknowledged.
    Whole,
    /// Some pages are erased, some unchanged, some read as garbage.
    Half,
    /// Every page reads as erased, but the block must be erased again: pages programmed into it are
    /// uncorrectable.
    Weak,
}

/// A device whose operations can be interrupted: emulated chips. Used by [`wrap::CutFlash`], never
/// by translation layers or file systems.
pub trait Interrupt: Flash {
    /// Applies an interrupted program to the page. The rules of [`Flash::program`] hold.
    fn interrupt_program(
        &mut self,
        context: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()>;

    /// Applies an interrupted copyback to its target.
    fn interrupt_copy(
        &mut self,
        context: &Context,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
        torn: TornPage,
    ) -> Result<()>;

    /// Applies an interrupted erase to the block.
    fn interrupt_erase(&mut self, context: &Context, block: BlockIndex, torn: TornErase) -> Result<()>;

    /// Turns the power on again: queues and registers are empty, every die is idle. Content, wear
    /// and bad blocks stay.
    fn power_on(&mut self);
}

macro_rules! forward_flash {
    ($($owner:ty),*) => {$(
        impl<F: Flash + ?Sized> Flash for $owner {
            #[inline]
            fn geometry(&self) -> &FlashGeometry {
                (**self).geometry()
            }
            #[inline]
            fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
                (**self).read(context, at, read)
            }
            #[inline]
            fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
                (**self).program(context, at, program)
            }
            #[inline]
            fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
                (**self).erase(context, block)
            }
            #[inline]
            fn is_bad(&self, block: BlockIndex) -> bool {
                (**self).is_bad(block)
            }
            #[inline]
            fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
                (**self).mark_bad(context, block)
            }
            #[inline]
            fn sync(&mut self, context: &Context) -> Result<Done> {
                (**self).sync(context)
            }
            #[inline]
            fn copyback(&mut self) -> Option<&mut dyn Copyback> {
                (**self).copyback()
            }
            #[inline]
            fn pacing(&mut self) -> Option<&mut dyn Pacing> {
                (**self).pacing()
            }
            #[inline]
            fn relocation(&mut self) -> Option<&mut dyn Relocation> {
                (**self).relocation()
            }
        }
    )*};
}

forward_flash!(Box<F>, &mut F);

macro_rules! forward_interrupt {
    ($($owner:ty),*) => {$(
        impl<F: Interrupt + ?Sized> Interrupt for $owner {
            fn interrupt_program(
                &mut self,
                context: &Context,
                at: PageAddress,
                program: PageProgram<'_>,
                torn: TornPage,
            ) -> Result<()> {
                (**self).interrupt_program(context, at, program, torn)
            }
            fn interrupt_copy(
                &mut self,
                context: &Context,
                from: PageAddress,
                to: PageAddress,
                oob: Option<&[u8]>,
                torn: TornPage,
            ) -> Result<()> {
                (**self).interrupt_copy(context, from, to, oob, torn)
            }
            fn interrupt_erase(&mut self, context: &Context, block: BlockIndex, torn: TornErase) -> Result<()> {
                (**self).interrupt_erase(context, block, torn)
            }
            fn power_on(&mut self) {
                (**self).power_on();
            }
        }
    )*};
}

forward_interrupt!(Box<F>, &mut F);
