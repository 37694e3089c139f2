//! Arithmetic in GF(2^m) by tables of powers and logarithms.

/// Primitive polynomials by field, from m = 5 on: those that Linux takes where none is named.
/// Source: Linux `lib/bch.c`.
const POLYNOMIALS: [u32; 11] = [0x25, 0x43, 0x83, 0x11D, 0x211, 0x409, 0x805, 0x1053, 0x201B, 0x402B, 0x8003];
/// The smallest and the largest field.
pub(super) const FIELD_BITS: std::ops::RangeInclusive<u32> = 5..=15;

/// The field with 2^m elements that a primitive polynomial makes.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Powers of the primitive element, twice, so that the sum of two logarithms is an index.
    powers: Vec<u16>,
    logarithms: Vec<u16>,
    order: usize,
}

impl Field {
    /// The polynomial for a field where none is named.
    pub fn usual_polynomial(bits: u32) -> Option<u32> {
        POLYNOMIALS.get(bits.checked_sub(*FIELD_BITS.start())? as usize).copied()
    }

    /// The field of a polynomial; `None` where that is not primitive, or not of degree `bits`.
    pub fn new(bits: u32, polynomial: u32) -> Option<Self> {
        if !FIELD_BITS.contains(&bits) || polynomial >> bits != 1 {
            return None;
        }
        let order = (1_usize << bits) - 1;
        let (mut powers, mut logarithms) = (vec![0; 2 * order], vec![0; order + 1]);
        let mut power = 1_u32;
        for exponent in 0..order {
            // The powers of a primitive element come back to 1 after all others, and not before.
            if exponent > 0 && power == 1 {
                return None;
            }
            powers[exponent] = power as u16;
            powers[exponent + order] = power as u16;
            logarithms[power as usize] = exponent as u16;
            power <<= 1;
            if power >> bits != 0 {
                power ^= polynomial;
            }
        }
        (power == 1).then_some(Self { powers, logarithms, order })
    }

    /// The number of elements but zero.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The primitive element to the power of any number.
    pub fn power(&self, exponent: usize) -> u16 {
        match self.powers.get(exponent) {
            Some(power) => *power,
            None => self.powers[exponent % self.order],
        }
    }

    /// The logarithm of an element; that of zero is 0 and means nothing.
    pub fn logarithm(&self, element: u16) -> usize {
        self.logarithms.get(usize::from(element)).copied().unwrap_or(0).into()
    }

    /// The product.
    pub fn multiply(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.powers[self.logarithm(a) + self.logarithm(b)]
    }

    /// The quotient; 0 where the divisor is 0.
    pub fn divide(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.powers[self.logarithm(a) + self.order - self.logarithm(b)]
    }
}
