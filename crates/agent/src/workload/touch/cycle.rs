//! A random order of lines as one cycle through all of them, computed and not stored.
//!
//! It is an invertible scrambling `s` of the numbers below a power of two, made of invertible steps (xor
//! with the number's own upper half, multiplication by an odd number: the finaliser of MurmurHash3 on fewer
//! bits). Line `s(k)` is the `k`-th of the walk, so after a line `x` comes `s(1 + s⁻¹(x))`. Lines beyond
//! the last one are skipped (cycle walking: Black & Rogaway, "Ciphers with arbitrary finite domains",
//! CT-RSA 2002).

const ROUNDS: u64 = 4;
/// Odd, from the golden ratio; its inverse modulo 2^64.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = inverse(FACTOR);

pub struct Cycle {
    lines: u64,
    mask: u64,
    half: u32,
}

impl Cycle {
    /// `lines` is at least 1.
    pub fn new(lines: u64) -> Self {
        let bits = (64 - (lines - 1).leading_zeros()).max(1);
        let mask = u64::MAX >> (64 - bits);
        Cycle { lines, mask, half: bits.div_ceil(2) }
    }

    /// The line that follows.
    pub fn after(&self, line: u64) -> u64 {
        let mut place = self.place_of(line);
        loop {
            place = (place + 1) & self.mask;
            let line = self.line_at(place);
            if line < self.lines {
                return line;
            }
        }
    }

    fn line_at(&self, place: u64) -> u64 {
        let mixed = (0..ROUNDS).fold(place, |x, _| self.fold(x).wrapping_mul(FACTOR) & self.mask);
        self.fold(mixed)
    }

    fn place_of(&self, line: u64) -> u64 {
        let unmixed = |x, _| self.fold(u64::wrapping_mul(x, INVERSE) & self.mask);
        (0..ROUNDS).fold(self.fold(line), unmixed)
    }

    /// At least half of the bits are shifted out, so that it is its own inverse.
    fn fold(&self, x: u64) -> u64 {
        x ^ x >> self.half
    }
}

/// Newton's iteration modulo 2^64: each step doubles the bits that are right, of which 3 are at first.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_goes_round_every_line_and_comes_back(lines in 1u64..5000) {
            let cycle = Cycle::new(lines);
            let (mut line, mut seen) = (0, vec![false; lines as usize]);
            for _ in 0..lines {
                prop_assert!(!std::mem::replace(&mut seen[line as usize], true));
                line = cycle.after(line);
            }
            prop_assert_eq!(line, 0);
        }

        #[test]
        fn large_ones_can_be_undone(lines in 1u64..1 << 40, line in any::<u64>()) {
            let cycle = Cycle::new(lines);
            let line = line & cycle.mask;
            prop_assert_eq!(cycle.line_at(cycle.place_of(line)), line);
            prop_assert!(cycle.after(line % lines) < lines);
        }
    }

    /// Pages of successive lines as independent draws would give them: chi-square over 64 regions of
    /// the next line, given any region of this one, and hardly ever the same page twice.
    #[test]
    fn where_it_goes_next_reports_nothing() {
        const LINES: u64 = 1 << 18;
        const REGIONS: u64 = 16;
        let cycle = Cycle::new(LINES);
        let mut counts = vec![0u64; (REGIONS * REGIONS) as usize];
        let (mut line, mut same_page) = (0, 0);
        for _ in 0..LINES {
            let next = cycle.after(line);
            counts[(line * REGIONS / LINES * REGIONS + next * REGIONS / LINES) as usize] += 1;
            same_page += u64::from(line / 64 == next / 64);
            line = next;
        }
        let expected = (LINES / REGIONS / REGIONS) as f64;
        let square: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // 225 degrees of freedom, give or take: 99.99 % of independent draws are below 316.
        assert!(square < 316.0, "{square}");
        assert!(same_page < 3 * 64, "{same_page}");
    }
}
