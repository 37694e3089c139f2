//! Dumps whose bytes are in another order: programmers and cables of 16 and 32 bits swap them.

use std::path::Path;

use nandkit_flash_image::Image;

use crate::StackError;
use crate::format::recognise::{Shown, shown};
use crate::format::{OpenOptions, Swap, wrong};

/// Bytes of the longest image in which a swap is looked for unasked: few dumps of parallel NOR are
/// longer.
const TRIED_MAX: u64 = 256 << 20;

fn swapped_copy(swap: Swap, image: &Image, options: &OpenOptions) -> nandkit_flash_image::Result<Image> {
    image.swapped(swap.bits() as usize / 8, options.resident_max)
}

/// The image with the bytes swapped that the options say. Errors: it shows nothing then, or more
/// without the swap.
pub(super) fn swapped(path: &Path, image: Image, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
    let Some(swap) = options.swap else { return Ok((image, Vec::new())) };
    if options.overlay.is_some() {
        return Err(wrong(path, "`overlay`: a swapped dump is only read; expected no `swap`"));
    }
    let inside = swapped_copy(swap, &image, options).map_err(|error| wrong(path, error))?;
    let (before, after) = (shown(&image, options), shown(&inside, options));
    let bits = swap.bits();
    match (before, after) {
        (_, Some(Shown::Volume(_))) | (None | Some(Shown::Regions), Some(Shown::Regions)) => {
            Ok((inside, vec![format!("the bytes of each {bits} bits are swapped back")]))
        }
        (Some(Shown::Volume(name)), _) => Err(wrong(
            path,
            format!("`swap` {bits}: this is {name} as it is, and no bytes are swapped; expected no `swap`"),
        )),
        (_, None) => {
            let other = Swap::ALL.into_iter().filter(|other| *other != swap);
            let other = other.filter(|other| shows_volume(&image, *other, options).is_some()).map(Swap::bits).next();
            let expected = other.map_or_else(|| "no `swap`".to_owned(), |bits| format!("`swap` {bits}"));
            Err(wrong(
                path,
                format!(
                    "`swap` {bits}: no volume shows with the bytes of each {bits} bits swapped; expected {expected}"
                ),
            ))
        }
    }
}

fn shows_volume(image: &Image, swap: Swap, options: &OpenOptions) -> Option<&'static str> {
    match shown(&swapped_copy(swap, image, options).ok()?, options)? {
        Shown::Volume(name) => Some(name),
        Shown::Regions => None,
    }
}

/// The swap by which a volume appears in an image that shows none, and the volume's format. Cost:
/// two copies of the image, and a look at each.
pub(super) fn found(image: &Image, options: &OpenOptions) -> Option<(Swap, &'static str)> {
    if options.swap.is_some() || image.bytes().len() as u64 > TRIED_MAX {
        return None;
    }
    Swap::ALL.into_iter().find_map(|swap| Some((swap, shows_volume(image, swap, options)?)))
}
