//! Decoding: from a remainder to the wrong bits, by syndromes, the error locator, and its roots.

use super::Remainder;
use super::field::Field;

/// The powers of x with wrong coefficients, in a word of `length` bits; `None` if no pattern of
/// that few errors explains the remainder.
pub(super) fn wrong_powers(
    field: &Field,
    correctable: u32,
    parity_bits: usize,
    remainder: &Remainder,
    length: usize,
) -> Option<Vec<usize>> {
    let syndromes = syndromes(field, correctable, parity_bits, remainder);
    let locator = locator(field, &syndromes);
    let errors = locator.len() - 1;
    if errors == 0 || errors > correctable as usize {
        return None;
    }
    // Too many errors nearly always give a locator without enough roots; this test detects that at
    // a fraction of the search's cost.
    if !splits(field, &locator) {
        return None;
    }
    let powers = roots(field, &locator, length);
    (powers.len() == errors).then_some(powers)
}

/// Evaluates the remainder at the first 2t powers of the primitive element. The results equal those
/// of the received word, because the generator is zero there.
fn syndromes(field: &Field, correctable: u32, parity_bits: usize, remainder: &Remainder) -> Vec<u16> {
    let mut powers = Vec::new();
    for (place, mut word) in remainder.iter().copied().enumerate() {
        while word != 0 {
            let bit = word.leading_zeros() as usize;
            word ^= 1 << (63 - bit);
            powers.push((parity_bits - 1).saturating_sub(place * 64 + bit));
        }
    }
    let order = field.order();
    // Exponents at the next power, and their increments to the next odd one.
    let mut terms: Vec<(usize, usize)> =
        powers.into_iter().map(|power: usize| (power % order, 2 * power % order)).collect();
    let mut syndromes: Vec<u16> = vec![0; 2 * correctable as usize];
    for number in 1..=syndromes.len() {
        // Squaring is linear here, so the even ones follow.
        if number % 2 == 0 {
            syndromes[number - 1] = field.multiply(syndromes[number / 2 - 1], syndromes[number / 2 - 1]);
            continue;
        }
        for (exponent, step) in &mut terms {
            syndromes[number - 1] ^= field.power(*exponent);
            *exponent += *step;
            if *exponent >= order {
                *exponent -= order;
            }
        }
    }
    syndromes
}

/// The shortest feedback register that generates the syndromes (Berlekamp and Massey), lowest power
/// first. Its highest coefficient is not zero.
fn locator(field: &Field, syndromes: &[u16]) -> Vec<u16> {
    let (mut current, mut previous) = (vec![1_u16], vec![1_u16]);
    let (mut length, mut shift, mut last) = (0, 1, 1);
    for (step, _) in syndromes.iter().enumerate() {
        let terms = current.iter().zip(syndromes.get(..=step).unwrap_or(&[]).iter().rev()).take(length + 1);
        let discrepancy = terms.fold(0, |sum, (a, b)| sum ^ field.multiply(*a, *b));
        if discrepancy == 0 {
            shift += 1;
            continue;
        }
        let factor = field.divide(discrepancy, last);
        let before = current.clone();
        current.resize(current.len().max(previous.len() + shift), 0);
        for (into, term) in current.iter_mut().skip(shift).zip(&previous) {
            *into ^= field.multiply(factor, *term);
        }
        if 2 * length <= step {
            (length, previous, last, shift) = (step + 1 - length, before, discrepancy, 1);
        } else {
            shift += 1;
        }
    }
    while current.len() > 1 && current.last() == Some(&0) {
        current.pop();
    }
    // A register longer than its polynomial has lost a root at infinity, which no error pattern
    // produces.
    if current.len() == length + 1 { current } else { vec![1] }
}

/// Whether a polynomial has as many distinct roots in the field as its degree, that is, whether it
/// divides x^q - x, whose roots are all q elements. Cost: one squaring modulo the polynomial per
/// bit of the field.
fn splits(field: &Field, polynomial: &[u16]) -> bool {
    let degree = polynomial.len() - 1;
    if degree < 2 {
        return true;
    }
    let top = polynomial[degree];
    // x to the power of the degree, modulo the polynomial: position and logarithm of each term.
    let terms: Vec<(usize, usize)> = (0..degree)
        .map(|place| (place, field.divide(polynomial[place], top)))
        .filter(|(_, term)| *term != 0)
        .map(|(place, term)| (place, field.logarithm(term)))
        .collect();
    let mut x = vec![0; degree];
    x[1] = 1;
    let mut power = x.clone();
    for _ in 0..(field.order() + 1).trailing_zeros() {
        let mut square = vec![0; 2 * degree - 1];
        for (into, term) in square.iter_mut().step_by(2).zip(&power) {
            *into = field.multiply(*term, *term);
        }
        for place in (degree..square.len()).rev() {
            let factor = square[place];
            if factor == 0 {
                continue;
            }
            let logarithm = field.logarithm(factor);
            for (below, term) in &terms {
                square[place - degree + below] ^= field.power(logarithm + term);
            }
        }
        square.truncate(degree);
        power = square;
    }
    power == x
}

/// The powers below `length` whose inverse is a root of the locator (Chien search).
fn roots(field: &Field, locator: &[u16], length: usize) -> Vec<usize> {
    let order = field.order();
    // Logarithms of the terms, and their decrements per step to the next power.
    let mut terms: Vec<(usize, usize)> = (0..)
        .zip(locator)
        .filter(|(_, coefficient)| **coefficient != 0)
        .map(|(power, coefficient)| (field.logarithm(*coefficient), power))
        .collect();
    let mut found = Vec::new();
    for power in 0..length.min(order) {
        let mut sum = 0;
        for (logarithm, step) in &mut terms {
            sum ^= field.power(*logarithm);
            *logarithm = if *logarithm >= *step { *logarithm - *step } else { *logarithm + order - *step };
        }
        if sum == 0 {
            found.push(power);
            if found.len() + 1 == locator.len() {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_splits_has_all_its_roots_and_nothing_else_does() {
        let field = Field::new(8, 0x11D).unwrap();
        let (mut state, mut split) = (1_u32, 0);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u16
        };
        for round in 0..3000 {
            // Every third polynomial is a product of roots, some possibly equal.
            let degree = 2 + usize::from(next() % 6);
            let mut polynomial: Vec<u16> = (0..=degree).map(|_| next().max(1)).collect();
            if round % 3 == 0 {
                polynomial = vec![1];
                for _ in 0..degree {
                    let root = next().max(1);
                    polynomial.resize(polynomial.len() + 1, 0);
                    for place in (0..polynomial.len()).rev() {
                        let below = place.checked_sub(1).map_or(0, |below| polynomial[below]);
                        polynomial[place] = below ^ field.multiply(polynomial[place], root);
                    }
                }
            }
            let has_all = roots(&field, &polynomial, field.order()).len() == degree;
            assert_eq!(splits(&field, &polynomial), has_all, "{polynomial:?}");
            split += u32::from(has_all);
        }
        assert!((800..1400).contains(&split), "{split}");
    }
}
