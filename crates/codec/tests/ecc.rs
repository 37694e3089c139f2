//! Error-correcting codes against published vectors, against independent encoders, and against all
//! or many patterns of wrong bits.

use nandkit_codec::checksum::crc32;
use nandkit_codec::ecc::{Bch, BchError, Correction, Hamming, HammingOrder};

/// A pseudo-random sequence, the same on every run.
struct Draw(u32);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        crc32(&self.0.to_le_bytes()) as usize % bound
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    /// `count` different numbers below `bound`.
    fn places(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut places = Vec::new();
        while places.len() < count {
            let place = self.below(bound);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The remainder by bitwise division of polynomials over GF(2). The generator is the product of
/// minimal polynomials, each found by trying.
fn divided(bits: u32, polynomial: u32, correctable: usize, message: &[u8]) -> Vec<u8> {
    let times = |mut a: u32, mut b: u32| {
        let mut product = 0;
        while b != 0 {
            product ^= if b & 1 == 1 { a } else { 0 };
            a <<= 1;
            a ^= if a >> bits & 1 == 1 { polynomial } else { 0 };
            b >>= 1;
        }
        product
    };
    let mut generator = vec![true];
    let mut known: Vec<Vec<u32>> = Vec::new();
    let (mut root, order) = (1, (1_u32 << bits) - 1);
    for _ in 1..=2 * correctable {
        root = times(root, 2);
        if known.iter().any(|conjugates| conjugates.contains(&root)) {
            continue;
        }
        let mut conjugates = vec![root];
        while times(conjugates[conjugates.len() - 1], conjugates[conjugates.len() - 1]) != root {
            conjugates.push(times(conjugates[conjugates.len() - 1], conjugates[conjugates.len() - 1]));
        }
        let mut minimal = vec![1_u32];
        for conjugate in &conjugates {
            let mut next = vec![0; minimal.len() + 1];
            for (place, coefficient) in minimal.iter().enumerate() {
                next[place + 1] ^= coefficient;
                next[place] ^= times(*coefficient, *conjugate);
            }
            minimal = next;
        }
        assert!(minimal.iter().all(|coefficient| *coefficient < 2), "a minimal polynomial is binary");
        let mut product = vec![false; generator.len() + minimal.len() - 1];
        for (a, _) in generator.iter().enumerate().filter(|(_, set)| **set) {
            for (b, _) in minimal.iter().enumerate().filter(|(_, coefficient)| **coefficient == 1) {
                product[a + b] ^= true;
            }
        }
        generator = product;
        known.push(conjugates);
    }
    assert!(generator.len() <= order as usize);
    let degree = generator.len() - 1;
    let mut dividend: Vec<bool> =
        message.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let length = dividend.len();
    dividend.resize(length + degree, false);
    for place in 0..length {
        if dividend[place] {
            for (power, _) in generator.iter().rev().enumerate().filter(|(_, set)| **set) {
                dividend[place + power] ^= true;
            }
        }
    }
    let remainder = &dividend[length..];
    remainder.chunks(8).map(|bits| (0..).zip(bits).map(|(bit, set)| u8::from(*set) << (7 - bit)).sum()).collect()
}

/// Flips bits of a code word; bit 0 is the first byte's highest.
fn flip(message: &mut [u8], parity: &mut [u8], places: &[usize]) {
    for place in places {
        match place.checked_sub(message.len() * 8) {
            None => message[place / 8] ^= 0x80 >> (place % 8),
            Some(place) => parity[place / 8] ^= 0x80 >> (place % 8),
        }
    }
}

/// Parities of some messages as others publish them.
#[test]
fn published_parities() {
    let ones = [0xFF; 516];
    let inverted = |text| hex(text).iter().map(|byte| !byte).collect::<Vec<u8>>();
    let mut zeroes_then_ones = [0; 516];
    zeroes_then_ones[500..].fill(0xFF);
    let vectors: [(u32, &[u8], Vec<u8>); 6] = [
        // Linux drivers/mtd/nand/raw/omap2.c: the mask that makes the ECC of 512 erased bytes all
        // ones.
        (8, &ones[..512], inverted("ef512e09ed939ac29779e524b5")),
        (4, &ones[..512], inverted("2813cc3996ac7f")),
        // python-bchlib tests/test_exynos.py: the mask for S5PV210 and Exynos.
        (16, &ones[..512], inverted("9ad7ef918880fbf7063a5c9f4924d07502e359e0e4bc1e20702e")),
        // qcom-nandc-pagify tests/resources: pages of ones and of zeroes.
        (8, &ones, hex("dddd132f6aa32f5931605d957f")),
        (4, &ones, hex("073ffbde8b0ab0")),
        (8, &zeroes_then_ones, hex("229ab30aeb65410c510212f297")),
    ];
    for (correctable, message, mut expected) in vectors {
        let code = Bch::new(13, correctable, None).unwrap();
        // The source inverts the four bits after a parity of 52 bits as well.
        if !code.parity_bits().is_multiple_of(8) {
            *expected.last_mut().unwrap() &= 0xF0;
        }
        assert_eq!(code.encode(message), expected, "t = {correctable}, {} bytes", message.len());
    }
}

#[test]
fn parities_are_what_long_division_leaves() {
    let mut draw = Draw(1);
    for (bits, polynomial, correctable, length) in [
        (5, 0x25, 3, 1),
        (8, 0x11D, 2, 20),
        (13, 0x201B, 1, 512),
        (13, 0x201B, 4, 512),
        (13, 0x201B, 8, 516),
        (13, 0x201B, 14, 522),
        (14, 0x402B, 24, 1024),
        (14, 0x4443, 32, 1032),
        (14, 0x5803, 40, 1028),
        (14, 0x402B, 60, 1024),
        (15, 0x8003, 30, 2048),
    ] {
        let code = Bch::new(bits, correctable, Some(polynomial)).unwrap();
        for message in [draw.bytes(length), vec![0xFF; length], vec![0; length], draw.bytes(1)] {
            let expected = divided(bits, polynomial, correctable as usize, &message);
            assert_eq!(code.encode(&message), expected, "GF(2^{bits}), t = {correctable}, {length} bytes");
        }
    }
}

#[test]
fn as_many_bits_are_corrected_as_the_code_says() {
    let mut draw = Draw(2);
    for (bits, correctable, length) in
        [(13, 4, 512), (13, 8, 516), (13, 18, 512), (14, 40, 1024), (14, 60, 1024), (5, 3, 1)]
    {
        let code = Bch::new(bits, correctable, None).unwrap();
        let whole = length * 8 + code.parity_bits();
        for count in [1, 2, correctable as usize / 2, correctable as usize - 1, correctable as usize] {
            for round in 0..6 {
                let message = draw.bytes(length);
                let parity = code.encode(&message);
                let mut places = draw.places(count, whole);
                if round == 0 {
                    // The ends of the message and of the parity.
                    let ends = [0, length * 8 - 1, length * 8, whole - 1];
                    places = ends.into_iter().take(count).collect();
                }
                let (mut bad, mut bad_parity) = (message.clone(), parity.clone());
                flip(&mut bad, &mut bad_parity, &places);
                let told = code.correct(&mut bad, &mut bad_parity);
                assert_eq!(told, Correction::Corrected(places.len() as u32), "t = {correctable}, {places:?}");
                assert_eq!((bad, bad_parity), (message, parity));
            }
        }
    }
}

/// More errors than the code corrects are reported, or give another code word. A reported
/// correction is always a code word, within the code's distance.
#[test]
fn more_errors_are_told_or_lead_to_a_code_word() {
    let mut draw = Draw(3);
    for (bits, correctable, length, few) in [(13, 4, 512, 12), (13, 8, 512, 0), (14, 24, 1024, 0), (8, 2, 20, 200)] {
        let code = Bch::new(bits, correctable, None).unwrap();
        let mut elsewhere = 0;
        for extra in (1..=3).cycle().take(300) {
            let message = draw.bytes(length);
            let parity = code.encode(&message);
            let (mut bad, mut bad_parity) = (message.clone(), parity.clone());
            let places = draw.places(correctable as usize + extra, length * 8 + code.parity_bits());
            flip(&mut bad, &mut bad_parity, &places);
            let before = (bad.clone(), bad_parity.clone());
            match code.correct(&mut bad, &mut bad_parity) {
                Correction::Uncorrectable => assert_eq!((&bad, &bad_parity), (&before.0, &before.1)),
                Correction::Clean => panic!("fewer than 2t + 1 errors are no code word"),
                Correction::Corrected(count) => {
                    assert_eq!(bad_parity, code.encode(&bad));
                    let differs = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
                    assert_eq!(differs(&bad, &before.0) + differs(&bad_parity, &before.1), count);
                    assert!(count <= correctable && bad != message);
                    elsewhere += 1;
                }
            }
        }
        assert!(elsewhere <= few, "t = {correctable}: {elsewhere} of 300 words led to another one");
    }
}

#[test]
fn impossible_codes_are_refused() {
    assert_eq!(Bch::new(4, 2, None).unwrap_err(), BchError::FieldBits(4));
    assert_eq!(Bch::new(16, 2, None).unwrap_err(), BchError::FieldBits(16));
    // Polynomials that are not primitive: two reducible ones, one of degree 14, and zero.
    for polynomial in [0x2001, 0x2000, 0x402B, 0] {
        assert_eq!(Bch::new(13, 4, Some(polynomial)).unwrap_err(), BchError::Polynomial(polynomial));
    }
    for correctable in [0, 79, 80, u32::MAX] {
        assert_eq!(Bch::new(13, correctable, None).unwrap_err(), BchError::Correctable(correctable));
    }
    assert_eq!(Bch::new(5, 16, None).unwrap_err(), BchError::Correctable(16));
    let code = Bch::new(13, 8, None).unwrap();
    assert_eq!(code.message_bytes_max(), (8191 - 104) / 8);
    assert_eq!(code.correct(&mut vec![0; 1011], &mut [0; 13]), Correction::Uncorrectable);
    assert_eq!(code.correct(&mut [0; 512], &mut [0; 12]), Correction::Uncorrectable);
}

/// The parities as the kernel's documentation defines them, each over all bits in turn.
fn parities(data: &[u8], order: HammingOrder) -> [u8; 3] {
    let bits = if data.len() == 512 { 9 } else { 8 };
    let over = |wanted: &dyn Fn(usize, usize) -> bool| {
        let all =
            data.iter().enumerate().flat_map(|(byte, value)| (0..8).map(move |bit| (byte, bit, value >> bit & 1)));
        all.filter(|(byte, bit, _)| wanted(*byte, *bit)).fold(0, |sum, (.., value)| sum ^ value)
    };
    let mut ecc = [0xFF_u8; 3];
    let mut clear = |byte: usize, bit: usize, parity: u8| ecc[byte] &= !(parity << bit);
    for line in 0..2 * bits {
        let parity = over(&|byte, _| byte >> (line / 2) & 1 == line % 2);
        match line {
            0..8 => clear(0, line, parity),
            8..16 => clear(1, line - 8, parity),
            _ => clear(2, line - 16, parity),
        }
    }
    for column in 0..6 {
        clear(2, column + 2, over(&|_, bit| bit >> (column / 2) & 1 == column % 2));
    }
    if order == HammingOrder::Linux {
        ecc.swap(0, 1);
    }
    ecc
}

#[test]
fn hamming_corrects_every_bit_and_detects_every_two() {
    let mut draw = Draw(4);
    for (step, order) in [(256, HammingOrder::Linux), (512, HammingOrder::Linux), (256, HammingOrder::SmartMedia)] {
        let code = Hamming::new(step as u32, order).unwrap();
        for data in [vec![0xFF; step], vec![0; step], draw.bytes(step), draw.bytes(step)] {
            assert_eq!(code.encode(&data), parities(&data, order), "{step} {order:?}");
        }
        assert_eq!(code.encode(&vec![0xFF; step]), [0xFF; 3]);
        let data = draw.bytes(step);
        let ecc = code.encode(&data);
        // 256 bytes leave two bits unused.
        let third = if step == 256 { 0xFC } else { 0xFF };
        let places: Vec<usize> =
            (0..step * 8 + 24).filter(|place| step == 512 || !(step * 8 + 22..).contains(place)).collect();
        for (number, &first) in places.iter().enumerate() {
            let (mut bad, mut bad_ecc) = (data.clone(), ecc);
            flip(&mut bad, &mut bad_ecc, &[first]);
            assert_eq!(code.correct(&mut bad, &mut bad_ecc), Correction::Corrected(1), "{step}, bit {first}");
            assert_eq!((&bad, bad_ecc[2] & third, &bad_ecc[..2]), (&data, ecc[2] & third, &ecc[..2]));
            // Every pair of an ECC bit with any other bit; of the data every eleventh bit, which
            // covers all distances.
            for &second in
                places[number + 1..].iter().filter(|second| **second >= step * 8 || (*second - first) % 11 == 1)
            {
                let (mut bad, mut bad_ecc) = (data.clone(), ecc);
                flip(&mut bad, &mut bad_ecc, &[first, second]);
                assert_eq!(
                    code.correct(&mut bad, &mut bad_ecc),
                    Correction::Uncorrectable,
                    "{step}: {first}, {second}"
                );
            }
        }
    }
    assert_eq!(Hamming::new(1024, HammingOrder::Linux), None);
    let code = Hamming::new(256, HammingOrder::Linux).unwrap();
    assert_eq!(code.correct(&mut [0; 1], &mut [0x12, 0x34, 0x56]), Correction::Uncorrectable);
}
