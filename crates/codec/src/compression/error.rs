use super::Compression;

/// Why a stream could not be decompressed, and at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method:?} stream: {fault} (input byte {input_offset}, output byte {output_offset})")]
pub struct DecompressError {
    /// The requested method.
    pub method: Compression,
    /// The kind of fault.
    pub fault: Fault,
    /// Bytes of the input before the faulty element.
    pub input_offset: usize,
    /// Bytes of output before that element.
    pub output_offset: usize,
}

/// The kind of fault in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The input ends before the output is complete.
    #[error("the input ends too early")]
    InputEnds,
    /// The stream continues although the output is full.
    #[error("it holds more than the expected output")]
    OutputFull,
    /// The stream ends before the output is full.
    #[error("it ends before the expected output is complete")]
    OutputShort,
    /// Input is left after the end of the stream.
    #[error("bytes follow its end")]
    Trailing,
    /// A copy from before the start of the output.
    #[error("it copies from {distance} bytes back, where there is no output")]
    Distance {
        /// The distance of the copy in bytes.
        distance: usize,
    },
    /// A code that the method does not define, or a checksum mismatch.
    #[error("it breaks the rules of its format")]
    Corrupt,
}

/// A [`DecompressError`] before the method is added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    fault: Fault,
    input: usize,
    output: usize,
}

impl Stop {
    pub(super) const fn new(fault: Fault, input: usize, output: usize) -> Self {
        Self { fault, input, output }
    }

    pub(super) const fn of(self, method: Compression) -> DecompressError {
        let Self { fault, input, output } = self;
        DecompressError { method, fault, input_offset: input, output_offset: output }
    }
}
