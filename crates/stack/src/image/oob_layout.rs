//! The OOB layout for reading a dump: the requested one, or the one whose ECC fits.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use nandkit_flash_image::oob::{self, OobLayout};
use nandkit_flash_image::{Image, ImageError};

use crate::StackError;
use crate::format::{OobLayoutChoice, OpenOptions, wrong};

/// Largest size of a layout file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Image size in bytes above which a layout is searched only if the length is a multiple of pages
/// with OOB. Such large flash is rare, and the search is wasted on a card.
const LOOKED_AT_MAX: u64 = 4 << 30;

/// The options with the layout resolved. Errors: no such layout, or one for other page sizes than
/// the options give.
pub(super) fn resolved(path: &Path, image: &Image, options: &OpenOptions) -> Result<OpenOptions, StackError> {
    let layout = match &options.oob_layout {
        OobLayoutChoice::AsStored => None,
        OobLayoutChoice::Detect => found(image, options),
        OobLayoutChoice::Known(layout) => Some(Arc::clone(layout)),
        OobLayoutChoice::Named(name) => Some(named(name)?),
    };
    let Some(layout) = layout else {
        return Ok(OpenOptions { oob_layout: OobLayoutChoice::AsStored, ..options.clone() });
    };
    let (page, oob) = (layout.page_size(), layout.oob_size());
    let fits = options.page_size.is_none_or(|size| size == page) && options.oob_size.is_none_or(|size| size == oob);
    if !fits {
        let detail = format!(
            "`oob_layout` {} is for pages of {page}+{oob} bytes; expected no other `page_size` and `oob_size`",
            layout.name()
        );
        return Err(wrong(path, detail));
    }
    let (page_size, oob_size) = (Some(page), Some(oob));
    Ok(OpenOptions { page_size, oob_size, oob_layout: OobLayoutChoice::Known(layout), ..options.clone() })
}

/// The known layout whose ECC fits a dump, among those that the options allow.
fn found(image: &Image, options: &OpenOptions) -> Option<Arc<OobLayout>> {
    let bytes = image.bytes();
    let fits = |layout: &&Arc<OobLayout>| {
        options.page_size.is_none_or(|size| size == layout.page_size())
            && options.oob_size.is_none_or(|size| size == layout.oob_size())
            && (bytes.len() as u64 <= LOOKED_AT_MAX || bytes.len().is_multiple_of(layout.raw_bytes()))
    };
    Some(oob::find(bytes, 0, oob::all().iter().filter(fits))?.layout)
}

/// Loads the layout of this name, or from the file of this path.
pub(super) fn named(name: &str) -> Result<Arc<OobLayout>, StackError> {
    let path = Path::new(name);
    let told = |error: ImageError| StackError::new("oob_layout", error.to_string());
    if path.extension().is_none() && path.components().count() < 2 {
        return oob::named(name).map_err(told);
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
    read.map_err(|error| StackError::new("oob_layout", format!("cannot read the layout {name}: {error}")))?;
    OobLayout::from_toml(&text).map(Arc::new).map_err(|error| StackError::new("oob_layout", format!("{name}: {error}")))
}
