//! Files compressed by gzip, xz, zstd, lz4 and bzip2.

use std::path::Path;

use nandkit_codec::streams::Stream;
use nandkit_flash_image::Image;

use super::{Container, Inside};
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// Compressed streams of one format.
pub(super) struct Compressed(pub Stream);

impl Container for Compressed {
    fn holds(&self, outer: &Image) -> bool {
        Stream::of(outer.bytes()) == Some(self.0)
    }

    fn only_read(&self, path: &Path) -> String {
        let (program, shown) = (self.0.program(), path.display());
        format!(
            "this is {program} data, which can only be read; expected an unpacked image, which `{program} -dc {shown} > IMAGE` writes"
        )
    }

    fn unwrap(&self, path: &Path, outer: &Image, options: &OpenOptions) -> Result<Option<Inside>, StackError> {
        let inside = outer.unpack_stream(self.0, options.resident_max).map_err(|error| wrong(path, error))?;
        let packed = outer.bytes().len();
        Ok(inside.map(|image| {
            let note = format!("{} data: {packed} bytes, {} when unpacked", self.0.program(), image.bytes().len());
            (image, vec![note])
        }))
    }
}
