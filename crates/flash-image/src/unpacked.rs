//! Android sparse images as the images that they stand for.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use nandkit_block::Access;

use crate::android_sparse;
use crate::bytes::Bytes;
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::image::Image;
use crate::mmap;
use crate::resident::Mapped;

/// The longest image that is unpacked: longer than any flash that Android runs on.
const UNPACKED_MAX: u64 = 1 << 40;

/// So many bytes more than the sparse image has are written at the most: chunks of one repeated word other than zero make files of terabytes from some bytes.
const FILLED_MAX: u64 = 16 << 30;

/// A file of which only so much is written.
struct Bounded<'a> {
    file: &'a mut File,
    left: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            let detail = format!("it is filled with more than {FILLED_MAX} bytes of what is not zero");
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

/// Names that are tried for a file: other processes, and other threads of this one, take theirs.
const TRIES: u32 = 1 << 16;

/// A new file that nobody else can open: it loses its name at once.
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

impl Image {
    /// The image that a sparse one stands for, for reading only. It lies in a file without a name in the directory for temporary files (`TMPDIR`), which goes with it; what does not matter or is zero
    /// takes no room there. So many bytes of it stay in this process's memory at the most, where a limit is given. Errors: `Corrupt` for what is no sparse image, or a broken one; `Io`; `Empty`.
    pub fn unpack_sparse(&self, resident_max: Option<u64>) -> Result<Self> {
        let directory = std::env::temp_dir();
        let failed = |error| ImageError::io("unpack a sparse image into", &directory, error);
        let mut file = nameless(&directory).map_err(failed)?;
        let left = FILLED_MAX.saturating_add(self.bytes().len() as u64);
        let mut bounded = Bounded { file: &mut file, left };
        let report = android_sparse::unpack(&mut self.bytes(), &mut bounded, UNPACKED_MAX)?;
        if report.bytes == 0 {
            return Err(ImageError::new(ImageErrorKind::Empty, "the sparse image is one of no bytes"));
        }
        file.set_len(report.bytes).map_err(failed)?;
        // Nobody else can shorten a file without a name.
        let bytes = Bytes::Mapped(Mapped::new(mmap::map(&file).map_err(failed)?, resident_max, None));
        let notes = self.notes.clone();
        Ok(Self { bytes: Arc::new(bytes), oob: None, store: None, overlay: None, access: Access::ReadOnly, notes })
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
        assert_eq!(image.unpack_sparse(None).unwrap().bytes(), whole);
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
}
