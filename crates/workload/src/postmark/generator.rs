//! PostMark's generator: MT19937 (Matsumoto and Nishimura 1998) with the seeding that its authors
//! published in 1999.

const N: usize = 624;
const M: usize = 397;

/// MT19937, seeded by the rule of 1999 (not that of 2002, which crates have).
#[derive(Clone, Debug)]
pub struct Generator1999 {
    state: Vec<u32>,
    index: usize,
}

impl Generator1999 {
    /// Seeds the state by two steps of the congruential generator 69069x+1 per word, whose upper
    /// halves make the word.
    pub fn new(mut seed: u32) -> Self {
        let mut state = Vec::with_capacity(N);
        for _ in 0..N {
            let high = seed & 0xFFFF_0000;
            seed = seed.wrapping_mul(69_069).wrapping_add(1);
            state.push(high | (seed & 0xFFFF_0000) >> 16);
            seed = seed.wrapping_mul(69_069).wrapping_add(1);
        }
        Self { state, index: N }
    }

    fn renew(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7FFF_FFFF);
            let twist = if y & 1 == 0 { 0 } else { 0x9908_B0DF };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ twist;
        }
        self.index = 0;
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.index >= N {
            self.renew();
        }
        let mut y = self.state[self.index];
        self.index += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C_5680;
        y ^= (y << 15) & 0xEFC6_0000;
        y ^ (y >> 18)
    }

    /// A number in `0..bound`, by the remainder as PostMark has it; 0 without a draw for a bound of 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.next_u32() % bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thousandth_number_is_the_known_one() {
        // The GNU Scientific Library's test of its generator mt19937_1999 expects this for seed 4357.
        let mut generator = Generator1999::new(4357);
        let thousandth = (0..1000).map(|_| generator.next_u32()).last();
        assert_eq!(thousandth, Some(1_030_650_439));
    }
}
