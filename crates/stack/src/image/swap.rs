//! Dumps with swapped bytes, as from 16-bit and 32-bit programmers and cables.

use std::path::Path;

use nandkit_flash_image::Image;

use crate::StackError;
use crate::format::recognise::{Shown, shown};
use crate::format::{OpenOptions, Swap, wrong};

/// Largest image in which a swap is searched automatically, in bytes; few dumps of parallel NOR are
/// larger.
const TRIED_MAX: u64 = 256 << 20;

fn swapped_copy(swap: Swap, image: &Image, options: &OpenOptions) -> nandkit_flash_image::Result<Image> {
    image.swapped(swap.bits() as usize / 8, options.resident_max)
}

/// The image with bytes swapped as the options say. Errors: no volume appears; the image is better
/// without the swap.
pub(super) fn swapped(path: &Path, image: Image, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
    let Some(swap) = options.swap else { return Ok((image, Vec::new())) };
    if options.overlay.is_some() {
        return Err(wrong(path, "`overlay`: a swapped dump can only be read; expected no `swap`"));
    }
    let inside = swapped_copy(swap, &image, options).map_err(|error| wrong(path, error))?;
    let (before, after) = (shown(&image, options), shown(&inside, options));
    let bits = swap.bits();
    match (before, after) {
        (_, Some(Shown::Volume(_))) | (None | Some(Shown::Regions), Some(Shown::Regions)) => {
            Ok((inside, vec![format!("the bytes of each {bits} bits are swapped back")]))
        }
        (Some(Shown::Volume(name)), _) => {
            Err(wrong(path, format!("`swap` {bits}: this is {name} without a swap; expected no `swap`")))
        }
        (_, None) => {
            let other = Swap::ALL.into_iter().filter(|other| *other != swap);
            let other = other.filter(|other| shows_volume(&image, *other, options).is_some()).map(Swap::bits).next();
            let expected = other.map_or_else(|| "no `swap`".to_owned(), |bits| format!("`swap` {bits}"));
            Err(wrong(
                path,
                format!(
                    "`swap` {bits}: no volume is found after swapping the bytes of each {bits} bits; expected {expected}"
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

/// The swap that reveals a volume in an image without one, and the volume's format. Cost: two
/// copies of the image, with detection in each.
pub(super) fn found(image: &Image, options: &OpenOptions) -> Option<(Swap, &'static str)> {
    if options.swap.is_some() || image.bytes().len() as u64 > TRIED_MAX {
        return None;
    }
    Swap::ALL.into_iter().find_map(|swap| Some((swap, shows_volume(image, swap, options)?)))
}
