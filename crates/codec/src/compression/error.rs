use super::Compression;

/// Why a stream could not be decompressed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method:?} stream: {fault} (input byte {input_offset}, output byte {output_offset})")]
pub struct DecompressError {
    /// The method that was asked for.
    pub method: Compression,
    /// What is wrong.
    pub fault: Fault,
    /// Bytes of the input before the element that is wrong.
    pub input_offset: usize,
    /// Bytes of output before that element.
    pub output_offset: usize,
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The input ends before the output is complete.
    #[error("the input ends too early")]
    InputEnds,
    /// The stream goes on when the output is full.
    #[error("it holds more than the expected output")]
    OutputFull,
    /// The stream says that it ends, and the output is not full.
    #[error("it ends before the expected output is complete")]
    OutputShort,
    /// Input is left after the end of the stream.
    #[error("bytes follow its end")]
    Trailing,
    /// A copy from before the start of the output.
    #[error("it copies from {distance} bytes back, where there is no output")]
    Distance {
        /// How far back, in bytes.
        distance: usize,
    },
    /// A code that the method does not have, or a check value that does not match.
    #[error("it breaks the rules of its format")]
    Corrupt,
}

/// A [`DecompressError`] before the method is put to it.
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
