//! The public interface of every translation layer: attaching, closing, inspection, and the block
//! device.
//!
//! It is a macro because these are methods of each layer's own type; with a trait, every user would
//! have to import it.

/// Implements the public interface for a layer that implements [`crate::host::Pages`]. The layer
/// has the fields `base`, `options`, `host_reads` and `report`, a function `open` that attaches
/// along a chain, and options with `capacity`, `sector_size` and `needs()`, as
/// [`crate::shape::Shape::new`] takes them. `$number` identifies the layer in the block field of
/// opening and closing records.
macro_rules! translation_layer {
    ($layer:ident, $options:ty, $number:expr) => {
        impl<F: nandkit_flash::Flash> $layer<F> {
            /// Attaches to the chip's content; an empty chip is an empty device. Recovers after a
            /// power cut, which changes the flash.
            ///
            /// Errors: `Unfit` (options or content do not fit the chip; the message says what
            /// would), `Full` (too few good blocks), `PowerLost`, `Io`. Pass `flash` as `&mut` to
            /// keep it after an error. The attach report holds the time taken.
            pub fn attach(flash: F, options: $options) -> nandkit_block::Result<Self> {
                Self::attach_at(flash, options, &nandkit_units::Context::default())
            }

            /// Attaches at a given time. All operations count under the cause `Recovery`.
            pub fn attach_at(
                flash: F,
                options: $options,
                context: &nandkit_units::Context,
            ) -> nandkit_block::Result<Self> {
                let mut chain = $crate::chain::Chain::all_for(context, nandkit_units::Cause::Recovery);
                Self::open(flash, options, &mut chain)
                    .map_err(|failure| failure.at(nandkit_block::Operation::Open, nandkit_units::Lba(0)))
            }

            /// Erases the whole chip and attaches to it as an empty device. The erases count under
            /// the cause `Format`.
            pub fn format_at(
                mut flash: F,
                options: $options,
                context: &nandkit_units::Context,
            ) -> nandkit_block::Result<Self> {
                let mut chain = $crate::chain::Chain::all_for(context, nandkit_units::Cause::Format);
                $crate::shape::Shape::new(&flash, options.capacity, options.sector_size, options.needs())
                    .and_then(|_| $crate::base::erase_all(&mut flash, &mut chain))
                    .and_then(|()| Self::open(flash, options, &mut chain))
                    .map_err(|failure| failure.at(nandkit_block::Operation::Open, nandkit_units::Lba(0)))
            }

            /// Writes the record of an orderly close, so that the next attach need not recover, and
            /// returns the flash.
            pub fn close(
                mut self,
                context: &nandkit_units::Context,
            ) -> nandkit_block::Result<(F, nandkit_units::Done)> {
                let mut chain = self.base.begin(context);
                $crate::host::flush_chain(&mut self, &mut chain)
                    .and_then(|()| {
                        let (cause, role) = (nandkit_units::Cause::Mapping, $crate::tag::Role::Close);
                        self.base.append_record(&mut chain, cause, role, $number)
                    })
                    .map_err(|failure| failure.at(nandkit_block::Operation::Flush, nandkit_units::Lba(0)))?;
                Ok((self.base.flash, chain.done()))
            }

            /// The flash below.
            pub const fn flash(&self) -> &F {
                &self.base.flash
            }

            /// Returns the flash without closing, in the state that a power cut would leave.
            pub fn into_flash(self) -> F {
                self.base.flash
            }

            /// The options.
            pub const fn options(&self) -> &$options {
                &self.options
            }

            /// What attaching found and did.
            pub const fn attach_report(&self) -> &$crate::AttachReport {
                &self.report
            }

            /// The counts since attaching. In FAST, `forced_merges` counts merges that emptied RW
            /// log blocks, and there are no migrations.
            pub fn counters(&self) -> $crate::FtlCounters {
                self.counters.clone().with_base(&self.base.counters)
            }

            /// Pages that the host read, whole or in part.
            pub fn host_page_reads(&self) -> u64 {
                self.host_reads.load(std::sync::atomic::Ordering::Relaxed)
            }
        }

        impl<F> std::fmt::Debug for $layer<F> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($layer))
                    .field("options", &self.options)
                    .field("counters", &self.counters)
                    .finish_non_exhaustive()
            }
        }

        impl<F: nandkit_flash::Flash> nandkit_block::BlockDevice for $layer<F> {
            #[inline]
            fn geometry(&self) -> &nandkit_block::BlockGeometry {
                &self.base.shape.block
            }
            fn read(
                &self,
                context: &nandkit_units::Context,
                at: nandkit_units::Lba,
                into: nandkit_units::ReadInto<'_>,
            ) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::read(self, context, at, into)
            }
            #[inline]
            fn write(
                &mut self,
                context: &nandkit_units::Context,
                at: nandkit_units::Lba,
                data: nandkit_units::Payload<'_>,
            ) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::write(self, context, at, data)
            }
            fn read_parts(
                &self,
                context: &nandkit_units::Context,
                at: nandkit_units::Lba,
                unit: u32,
                into: &mut [nandkit_units::Content],
            ) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::read_parts(self, context, at, unit, into)
            }
            fn write_parts(
                &mut self,
                context: &nandkit_units::Context,
                at: nandkit_units::Lba,
                parts: &[nandkit_units::Payload<'_>],
            ) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::write_parts(self, context, at, parts)
            }
            fn flush(&mut self, context: &nandkit_units::Context) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::flush(self, context)
            }
            fn extent(&self, at: nandkit_units::Lba, most: u64) -> nandkit_block::Extent {
                $crate::host::extent(self, at, most)
            }
            fn trim(&mut self) -> Option<&mut dyn nandkit_block::Trim> {
                Some(self)
            }
            fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
                self.base.flash.pacing()
            }
        }

        impl<F: nandkit_flash::Flash> nandkit_block::Trim for $layer<F> {
            fn trim(
                &mut self,
                context: &nandkit_units::Context,
                at: nandkit_units::Lba,
                sectors: u64,
            ) -> nandkit_block::Result<nandkit_units::Done> {
                $crate::host::trim(self, context, at, sectors)
            }
        }
    };
}

pub(crate) use translation_layer;
