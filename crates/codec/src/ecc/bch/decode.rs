//! From a remainder to the bits that are wrong: syndromes, error locator, its roots.

use super::Remainder;
use super::field::Field;

/// The powers of x whose coefficients are wrong, of a word of `length` bits; `None` where no so
/// few errors explain the remainder.
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
    let powers = roots(field, &locator, length);
    (powers.len() == errors).then_some(powers)
}

/// The remainder at the first 2t powers of the primitive element: what the received word is there,
/// since the generator is zero at all of them.
fn syndromes(field: &Field, correctable: u32, parity_bits: usize, remainder: &Remainder) -> Vec<u16> {
    let mut powers = Vec::new();
    for (place, mut word) in remainder.iter().copied().enumerate() {
        while word != 0 {
            let bit = word.leading_zeros() as usize;
            word ^= 1 << (63 - bit);
            powers.push((parity_bits - 1).saturating_sub(place * 64 + bit));
        }
    }
    let at = |number: usize| powers.iter().fold(0, |sum, power| sum ^ field.power(power * number));
    let mut syndromes: Vec<u16> = vec![0; 2 * correctable as usize];
    for number in 1..=syndromes.len() {
        // Squaring is linear here, so that the even ones follow.
        syndromes[number - 1] = match number % 2 {
            0 => field.multiply(syndromes[number / 2 - 1], syndromes[number / 2 - 1]),
            _ => at(number),
        };
    }
    syndromes
}

/// The shortest feedback register that gives the syndromes one from the other (Berlekamp and
/// Massey), the lowest power first. Its highest coefficient is not zero.
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
    // A register longer than its polynomial has lost a root at infinity: no error pattern is so.
    if current.len() == length + 1 { current } else { vec![1] }
}

/// The powers below `length` at whose inverse the locator is zero (Chien's search): no more than it
/// has roots.
fn roots(field: &Field, locator: &[u16], length: usize) -> Vec<usize> {
    let order = field.order();
    // Logarithms of the terms, and what a step to the next power takes off each.
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
