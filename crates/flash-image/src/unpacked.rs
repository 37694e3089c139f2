//! Images in other formats, unpacked to a temporary file without a name.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use nandkit_block::Access;
use nandkit_codec::streams::Stream;
use nandkit_units::{is_erased, is_zeroed};

use crate::bytes::Bytes;
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::holes::{Holes, Limits};
use crate::image::Image;
use crate::qcow2::Qcow2Report;
use crate::resident::Mapped;
use crate::{android_sparse, mmap, qcow2};

/// Longest unpacked image if zeroes cost nothing: longer than any flash that Android runs on.
const UNPACKED_MAX: u64 = 1 << 40;

/// Longest image unpacked from a compressed stream, whose zeroes cost time.
const STREAM_MAX: u64 = 256 << 30;

/// Most bytes written, plus an allowance for each byte of the file: a few bytes can expand to
/// terabytes.
const FILLED_MAX: u64 = 16 << 30;
const FILLED_PER_BYTE: u64 = 8;

/// Bytes swapped per step.
const SWAPPED_AT_ONCE: usize = 1 << 20;

/// A file with a limit on the bytes written.
struct Bounded<'a> {
    file: &'a mut File,
    left: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            let detail = format!("it is filled with more than {FILLED_MAX} bytes that are not zero");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, detail));
        };
        self.left = left;
        self.file.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bounded<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Attempts to find an unused name: other processes, and other threads, take theirs.
const TRIES: u32 = 1 << 16;

/// A new file that no other process can open: it loses its name at once.
fn nameless(directory: &Path) -> io::Result<File> {
    for number in 0..TRIES {
        let path = directory.join(format!(".nandkit-{}-{number}.unpacked", std::process::id()));
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is left for a temporary file"))
}

/// The limits for unpacking a file of `packed` bytes.
fn limits(length: u64, packed: usize) -> Limits {
    let written = FILLED_MAX.saturating_add((packed as u64).saturating_mul(FILLED_PER_BYTE));
    Limits { length, written }
}

/// The error of a decoder, with the name of the stream format.
fn stream_error(stream: Stream, error: io::Error) -> ImageError {
    let name = stream.program();
    let detail = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{name} data: they end before their end mark"),
        _ => format!("{name} data: {error}"),
    };
    ImageError::new(ImageErrorKind::Corrupt, detail)
}

/// Decodes all of `packed` into `to`; `None` if something other than padding follows, so that the
/// bytes only begin with such data. Errors: `Corrupt`; `Io`, also beyond the limits.
pub fn unpack_stream(
    stream: Stream,
    packed: &[u8],
    to: &mut (impl Write + Seek),
    limits: Limits,
) -> Result<Option<u64>> {
    let mut holes = Holes::new(to, limits);
    let unpacked = stream.unpack(packed, &mut holes).map_err(|error| match holes.failed {
        true => ImageError {
            source: Some(error),
            ..ImageError::new(ImageErrorKind::Io, format!("cannot unpack {} data", stream.program()))
        },
        false => stream_error(stream, error),
    })?;
    let rest = packed.get(unpacked.consumed..).unwrap_or_default();
    Ok((is_zeroed(rest) || is_erased(rest)).then_some(unpacked.bytes))
}

impl Image {
    /// A read-only image in a file without a name in the directory for temporary files (`TMPDIR`);
    /// the file exists as long as the image. `fill` writes it and returns its length.
    fn unpacked<T>(
        &self,
        what: &str,
        resident_max: Option<u64>,
        fill: impl FnOnce(&mut File) -> Result<(u64, T)>,
    ) -> Result<(Self, T)> {
        let directory = std::env::temp_dir();
        let failed = |error| ImageError::io(&format!("unpack {what} into"), &directory, error);
        let mut file = nameless(&directory).map_err(failed)?;
        let (bytes, told) = fill(&mut file)?;
        if bytes == 0 {
            return Err(ImageError::new(ImageErrorKind::Empty, format!("{what} is one of no bytes")));
        }
        file.set_len(bytes).map_err(failed)?;
        // No other process can shorten a file without a name.
        let bytes = Bytes::Mapped(Mapped::new(mmap::map(&file).map_err(failed)?, resident_max, None));
        let (notes, access) = (self.notes.clone(), Access::ReadOnly);
        let (bytes, left_out) = (Arc::new(bytes), Vec::new());
        Ok((Self { bytes, oob: None, store: None, overlay: None, access, notes, left_out }, told))
    }

    /// Unpacks a sparse image to a read-only image. It is stored in a file without a name in the
    /// directory for temporary files (`TMPDIR`), which exists as long as the image; don't-care
    /// content and zeroes take no space there. `resident_max` limits the bytes of it kept in this
    /// process's memory. Errors: `Corrupt` if it is no sparse image, or a damaged one; `Io`;
    /// `Empty`.
    pub fn unpack_sparse(&self, resident_max: Option<u64>) -> Result<Self> {
        self.unpack_sparse_parts(&[], resident_max)
    }

    /// Unpacks this part of a split sparse image together with all further ones, like
    /// [`Self::unpack_sparse`]. Errors: also `Corrupt` if two parts define the same bytes.
    pub fn unpack_sparse_parts(&self, further: &[Self], resident_max: Option<u64>) -> Result<Self> {
        let parts: Vec<&[u8]> = std::iter::once(self).chain(further).map(Self::bytes).collect();
        let packed = parts.iter().map(|part| part.len()).sum();
        let (mut image, report) = self.unpacked("a sparse image", resident_max, |file| {
            let mut bounded = Bounded { file, left: limits(UNPACKED_MAX, packed).written };
            let report = android_sparse::unpack_parts(&parts, &mut bounded, UNPACKED_MAX)?;
            Ok((report.bytes, report))
        })?;
        image.left_out = report.left_out();
        Ok(image)
    }

    /// Decompresses gzip, xz, zstd, lz4 or bzip2 data to a temporary file like
    /// [`Self::unpack_sparse`]; `None` if something other than padding follows, so that the image
    /// only begins with such data. Errors: `Corrupt`, `Empty`, `Io`: also if the result exceeds 256
    /// GiB, or 16 GiB plus eight times the file. Cost: one pass.
    pub fn unpack_stream(&self, stream: Stream, resident_max: Option<u64>) -> Result<Option<Self>> {
        let packed = self.bytes();
        let what = format!("the image in {} data", stream.program());
        let (image, is_all) = self.unpacked(&what, resident_max, |file| {
            let bytes = unpack_stream(stream, packed, file, limits(STREAM_MAX, packed.len()))?;
            Ok((bytes.unwrap_or(1), bytes.is_some()))
        })?;
        Ok(is_all.then_some(image))
    }

    /// Unpacks the disk of a qcow2 file to a temporary file like [`Self::unpack_sparse`]. Errors:
    /// those of [`qcow2::unpack`], `Empty`.
    pub fn unpack_qcow2(&self, resident_max: Option<u64>) -> Result<(Self, Qcow2Report)> {
        let packed = self.bytes();
        self.unpacked("the qcow2 disk", resident_max, |file| {
            let report = qcow2::unpack(packed, file, limits(UNPACKED_MAX, packed.len()))?;
            Ok((report.bytes, report))
        })
    }

    /// Concatenates this image and all further ones in a temporary file like
    /// [`Self::unpack_sparse`]'s. Errors: `Io`. Cost: a copy, except zeroes.
    pub fn join(&self, further: &[Self], resident_max: Option<u64>) -> Result<Self> {
        let parts = || std::iter::once(self).chain(further).map(Self::bytes);
        self.copied("the joined image", resident_max, parts())
    }

    /// Copies the byte range `range` of this image, clipped to its length, to a temporary file like
    /// [`Self::unpack_sparse`]'s. Errors: `Io`, `Empty`.
    pub fn part(&self, range: std::ops::Range<u64>, resident_max: Option<u64>) -> Result<Self> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes().len());
        let part = self.bytes().get(place(range.start)..place(range.end)).unwrap_or_default();
        let mut copy = self.copied("the part of the image", resident_max, std::iter::once(part))?;
        let clipped = |gap: &std::ops::Range<u64>| {
            gap.start.clamp(range.start, range.end) - range.start..gap.end.clamp(range.start, range.end) - range.start
        };
        copy.left_out = self.left_out.iter().map(clipped).filter(|gap| !gap.is_empty()).collect();
        Ok(copy)
    }

    /// Copies this image with the bytes of each `unit` (2 or 4) reversed to a temporary file like
    /// [`Self::unpack_sparse`]'s; an incomplete unit at the end stays unchanged. Errors: `Io`.
    pub fn swapped(&self, unit: usize, resident_max: Option<u64>) -> Result<Self> {
        let pieces = self.bytes().chunks(SWAPPED_AT_ONCE).map(|piece| {
            let mut swapped = piece.to_vec();
            swapped.chunks_exact_mut(unit.max(1)).for_each(<[u8]>::reverse);
            swapped
        });
        self.copied("the swapped image", resident_max, pieces)
    }

    fn copied<P: AsRef<[u8]>>(
        &self,
        what: &str,
        resident_max: Option<u64>,
        pieces: impl Iterator<Item = P>,
    ) -> Result<Self> {
        let copy = self.unpacked(what, resident_max, |file| {
            let mut holes = Holes::new(file, Limits { length: u64::MAX, written: u64::MAX });
            for piece in pieces {
                holes.write_all(piece.as_ref()).map_err(|error| ImageError {
                    source: Some(error),
                    ..ImageError::new(ImageErrorKind::Io, format!("cannot write {what} into a temporary file"))
                })?;
            }
            Ok((holes.at(), ()))
        })?;
        Ok(copy.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_sparse_image_reads_as_what_it_stands_for() {
        let mut whole = vec![0; 40 << 12];
        whole[5000..9000].fill(7);
        whole[20 << 12..30 << 12].fill(0xFF);
        let mut packed = Cursor::new(Vec::new());
        android_sparse::pack(&mut &whole[..], whole.len() as u64, &mut packed).unwrap();
        let packed = packed.into_inner();
        assert!(packed.len() < 13000, "{}", packed.len());
        let image = Image::from_bytes(packed.clone(), None).unwrap();
        let unpacked = image.unpack_sparse(None).unwrap();
        assert!(unpacked.bytes() == whole && unpacked.left_out().is_empty());
        let cut = Image::from_bytes(packed[..packed.len() - 1].to_vec(), None).unwrap();
        assert_eq!(cut.unpack_sparse(None).unwrap_err().kind, ImageErrorKind::Corrupt);
        let mut file = tempfile::tempfile().unwrap();
        let mut bounded = Bounded { file: &mut file, left: whole.len() as u64 / 2 };
        let refused = android_sparse::unpack(&mut &packed[..], &mut bounded, UNPACKED_MAX);
        assert!(refused.is_ok(), "raw and filled blocks are 12 of 40: {refused:?}");
        bounded.left = 9 << 12;
        assert_eq!(
            android_sparse::unpack(&mut &packed[..], &mut bounded, UNPACKED_MAX).unwrap_err().kind,
            ImageErrorKind::Io
        );
        let other = Image::from_bytes(whole, None).unwrap();
        assert_eq!(other.unpack_sparse(None).unwrap_err().kind, ImageErrorKind::Corrupt);
    }

    #[test]
    fn copies_are_joined_cut_and_swapped() {
        let image = |bytes: &[u8]| Image::from_bytes(bytes.to_vec(), None).unwrap();
        let (one, two) = (image(b"abcdefg"), image(&[vec![0; 9000], vec![1]].concat()));
        let joined = one.join(std::slice::from_ref(&two), None).unwrap();
        assert!(joined.bytes() == [one.bytes(), two.bytes()].concat());
        assert_eq!(joined.part(5..9, None).unwrap().bytes(), b"fg\0\0");
        assert_eq!(joined.part(90_000..91_000, None).unwrap_err().kind, ImageErrorKind::Empty);
        assert_eq!(one.swapped(2, None).unwrap().bytes(), b"badcfeg");
        assert_eq!(one.swapped(4, None).unwrap().bytes(), b"dcbaefg");
    }
}
