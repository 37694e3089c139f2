//! The flash contract: one door to NAND and NOR, with what each side promises.
//!
//! [`Flash`] is what translation layers and flash file systems see. They never know whether an
//! emulated chip, a dump or a real device is behind it. Wrappers in [`wrap`] are flash devices too,
//! over any other.

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
/// and nothing has changed. Methods that take `&mut self` happen one after another in the order of
/// the calls; what they did is seen by every later call. `completed` is never before
/// `context.issued`, and is a function of the device's history and the arguments alone. Methods do
/// not block and do not read a clock.
///
/// **Common promises of the caller.** Operations are issued in order: `context.issued` never goes
/// back by more than the depth of the caller's own queue explains (the device copes with any value;
/// only the times become meaningless).
pub trait Flash: Send + Sync {
    /// The shape of the device; never changes. Cost: a field access.
    fn geometry(&self) -> &FlashGeometry;

    /// Reads bytes of one page and, if asked, bytes of its OOB from OOB offset 0 on, in one array
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
    /// only bits from 1 to 0 change); pages of a block come in the order that the part asks for. A
    /// broken promise is `Misuse`, and nothing changes.
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

    /// Makes everything done so far durable where the device itself holds back writes (a device in
    /// a file). Emulated chips in memory have nothing to do. Errors: `PowerLost`, `Io`.
    fn sync(&mut self, context: &Context) -> Result<Done>;

    /// Moving pages inside the chip, where it can.
    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        None
    }

    /// What the host tells of its instants and asks of ends, where it matters to the device.
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        None
    }

    /// Moving many pages at once through the controller, where the device offers it.
    fn relocation(&mut self) -> Option<&mut dyn Relocation> {
        None
    }
}

/// Moving pages inside the chip, through its page register: no bus transfer, and no ECC unless the
/// part has it on the die.
pub trait Copyback {
    /// Whether a page of block `from` may be copied to block `to` (commonly: the same plane of the
    /// same die). Cost: no device time. Takes `&mut self` because wrappers reach the capability
    /// below them only through [`Flash::copyback`]; nothing changes.
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool;

    /// Copies a page's data to an erased page. If `oob` is given it replaces the target's OOB from
    /// offset 0 on; the rest of the source's OOB goes along.
    ///
    /// Errors: as [`Flash::program`] for the target; `Misuse` where [`Copyback::can_copy`] says no;
    /// `Uncorrectable` where the source could not be read and the part checks it. Time: the part's
    /// copy time.
    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done>;

    /// Copies pages to one page after the other of a block, from `to` on, exactly as a
    /// [`Copyback::copy`] of each would, issued when the one before it has completed. `oob` is as
    /// many bytes for each page, one image after the other. Stops at the first failure.
    ///
    /// Devices that see every operation on its own leave this as it is; others may save the work
    /// that is the same for all pages.
    fn copy_run(&mut self, context: &Context, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> CopyRun {
        copy_each(self, context, from, to, oob)
    }
}

/// How far a [`Copyback::copy_run`] came.
#[derive(Debug)]
pub struct CopyRun {
    /// Pages that were copied, from the first on.
    pub copied: usize,
    /// The time of these, all together.
    pub done: Done,
    /// Why the next one was not copied.
    pub failed: Option<FlashError>,
}

/// A [`Copyback::copy_run`] page by page.
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

/// How a program that was cut leaves its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TornPage {
    /// The page looks untouched.
    Nothing,
    /// All of data and OOB is there, and yet the operation was never acknowledged.
    Whole,
    /// The first part of the page is programmed, the rest is erased.
    Prefix,
    /// Data and OOB are a mix of old and new bits: reads deliver garbage, or fail, and may differ
    /// from read to read.
    Garbage,
}

/// How an erase that was cut leaves its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TornErase {
    /// The block is as it was.
    Nothing,
    /// The block is erased, and yet the operation was never acknowledged.
    Whole,
    /// Some pages are erased, some as before, some read as garbage.
    Half,
    /// Every page reads as erased, but the block must be erased again: programming it gives
    /// uncorrectable pages.
    Weak,
}

/// A device whose operations can be interrupted: emulated chips. Used by [`wrap::CutFlash`], never
/// by translation layers or file systems.
pub trait Interrupt: Flash {
    /// Does what a program that is cut off does to the page. The rules of [`Flash::program`] hold.
    fn interrupt_program(
        &mut self,
        context: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()>;

    /// Does what a copyback that is cut off does to its target.
    fn interrupt_copy(
        &mut self,
        context: &Context,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
        torn: TornPage,
    ) -> Result<()>;

    /// Does what an erase that is cut off does to the block.
    fn interrupt_erase(&mut self, context: &Context, block: BlockIndex, torn: TornErase) -> Result<()>;

    /// The power comes back: queues and registers are empty, every die is idle. Content, wear and
    /// bad blocks stay.
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
