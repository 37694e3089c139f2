//! Finds the longest prefix that compresses into a given space, for methods that can only compress
//! whole buffers.

/// Attempts after the one with the whole input.
const ATTEMPTS: usize = 8;

/// Unused space in bytes that is not worth another attempt.
const CLOSE_ENOUGH: usize = 8;

/// Searches a long prefix of `input` that `pack` compresses into `output`; returns the bytes
/// consumed and produced. `whole` is the compressed length of all of `input`, which exceeds
/// `output`. `best` is memory for the best attempt so far.
///
/// Interpolates: the space left by the longest fitting prefix, at its own ratio, gives the next
/// increment; an attempt that did not fit limits the following ones, and halves the step towards
/// it.
pub(super) fn longest(
    input: &[u8],
    output: &mut [u8],
    whole: usize,
    best: &mut Vec<u8>,
    mut pack: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
) -> Option<(usize, usize)> {
    let room = output.len();
    let (mut fits, mut too_long) = (None::<(usize, usize)>, input.len());
    let mut next = scale(input.len(), room, whole.max(1));
    for _ in 0..ATTEMPTS {
        let low = fits.map_or(0, |(consumed, _)| consumed);
        next = next.clamp(low + 1, too_long.saturating_sub(1).max(low + 1));
        if next >= too_long {
            break;
        }
        match input.get(..next).and_then(|prefix| pack(prefix, output)) {
            Some(produced) => {
                fits = Some((next, produced));
                best.clear();
                best.extend_from_slice(output.get(..produced)?);
                if room - produced <= CLOSE_ENOUGH {
                    break;
                }
                let gain = scale(next, room - produced, produced.max(1));
                // At most half of the way: the upper end is known not to fit.
                next += gain.min((too_long - next) / 2).max(1);
            }
            None => {
                too_long = next;
                // First a short step back, because interpolation is rarely far off, then half of
                // the way.
                next = if fits.is_none() { next - next / 8 - 1 } else { low + (next - low) / 2 };
            }
        }
    }
    let (consumed, produced) = fits?;
    output.get_mut(..produced)?.copy_from_slice(best.get(..produced)?);
    (produced < consumed).then_some((consumed, produced))
}

/// `value * numerator / denominator` without overflow.
fn scale(value: usize, numerator: usize, denominator: usize) -> usize {
    let product = value as u128 * numerator as u128 / denominator as u128;
    usize::try_from(product).unwrap_or(usize::MAX)
}
