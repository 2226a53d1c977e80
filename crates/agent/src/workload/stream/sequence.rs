//! Which sequence numbers came: lost, reordered and duplicate ones.
//!
//! Reordered as in RFC 4737 (a number below one that came before); duplicate as in RFC 5560; lost numbers
//! are those that are missing below the highest number known. A bitmap of the last [`WINDOW`] numbers
//! distinguishes a late datagram from a second copy. One that is even later counts as reordered.

/// Numbers remembered: at 2 million a second, half a second; 128 KiB a flow.
const WINDOW: u64 = 1 << 20;
const WORDS: usize = (WINDOW / 64) as usize;

pub struct Sequence {
    /// Bit n modulo [`WINDOW`] is set when number n came, for the last WINDOW numbers below `next`.
    /// The others mean nothing: each is set or cleared when `next` passes it.
    seen: Box<[u64]>,
    /// One above the highest number known.
    next: u64,
    distinct: u64,
    pub reordered: u64,
    pub duplicates: u64,
}

impl Sequence {
    pub fn new() -> Self {
        let seen = vec![0; WORDS].into_boxed_slice();
        Sequence { seen, next: 0, distinct: 0, reordered: 0, duplicates: 0 }
    }

    /// Notes that a number came; false when it is a second copy.
    #[inline]
    pub fn note(&mut self, number: u64) -> bool {
        if number != self.next {
            return self.note_out_of_order(number);
        }
        self.set(number);
        self.next = number + 1;
        self.distinct += 1;
        true
    }

    /// Notes the sender's count: numbers that are missing below it are lost.
    pub fn ended(&mut self, count: u64) {
        if count > self.next {
            self.forget(self.next, count);
            self.next = count;
        }
    }

    /// May fall, when one that was missing comes late.
    pub fn lost(&self) -> u64 {
        self.next.saturating_sub(self.distinct)
    }

    #[cold]
    fn note_out_of_order(&mut self, number: u64) -> bool {
        if number > self.next {
            self.forget(self.next, number);
            self.next = number + 1;
        } else if self.next - number > WINDOW {
            self.reordered += 1;
            self.distinct += 1;
            return true;
        } else if self.seen[(number % WINDOW / 64) as usize] & (1 << (number % 64)) != 0 {
            self.duplicates += 1;
            return false;
        } else {
            self.reordered += 1;
        }
        self.set(number);
        self.distinct += 1;
        true
    }

    #[inline]
    fn set(&mut self, number: u64) {
        self.seen[(number % WINDOW / 64) as usize] |= 1 << (number % 64);
    }

    /// Clears the bits of numbers that were skipped.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen.fill(0);
            return;
        }
        let mut number = from;
        while number < to {
            let word = &mut self.seen[(number % WINDOW / 64) as usize];
            if number.is_multiple_of(64) && to - number >= 64 {
                *word = 0;
                number += 64;
            } else {
                *word &= !(1 << (number % 64));
                number += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A small repeatable generator (Knuth's MMIX constants); the numbers only need variety.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % bound
        }
    }

    /// The same counts by the plainest means.
    fn expected(arrivals: &[u64], count: u64) -> (u64, u64, u64) {
        let (mut seen, mut reordered, mut duplicates) = (BTreeSet::new(), 0, 0);
        for &number in arrivals {
            if seen.contains(&number) {
                duplicates += 1;
                continue;
            }
            if seen.last().is_some_and(|&highest| number < highest) {
                reordered += 1;
            }
            seen.insert(number);
        }
        (count - seen.len() as u64, reordered, duplicates)
    }

    fn counted(arrivals: &[u64], count: u64) -> (u64, u64, u64) {
        let mut sequence = Sequence::new();
        for &number in arrivals {
            sequence.note(number);
        }
        sequence.ended(count);
        (sequence.lost(), sequence.reordered, sequence.duplicates)
    }

    #[test]
    fn loss_reordering_and_duplicates_are_reported_apart() {
        for seed in 0..60 {
            let mut dice = Dice(seed);
            let count = 1 + dice.below(20_000);
            let (loss, twice, swaps) = (dice.below(4), dice.below(4), dice.below(4));
            let mut arrivals: Vec<u64> = Vec::new();
            for number in 0..count {
                if dice.below(10) >= loss {
                    arrivals.push(number);
                }
                if dice.below(100) < twice {
                    arrivals.push(number);
                }
            }
            for _ in 0..swaps * 100 {
                if arrivals.len() > 1 {
                    let from = dice.below(arrivals.len() as u64) as usize;
                    let to = (from + dice.below(300) as usize).min(arrivals.len() - 1);
                    arrivals.swap(from, to);
                }
            }
            assert_eq!(counted(&arrivals, count), expected(&arrivals, count), "seed {seed}");
        }
    }

    #[test]
    fn the_window_wraps() {
        let mut dice = Dice(1);
        let count = 3 * WINDOW;
        let arrivals: Vec<u64> = (0..count).filter(|_| dice.below(50) != 0).collect();
        let lost = count - arrivals.len() as u64;
        assert_eq!(counted(&arrivals, count), (lost, 0, 0));
    }

    #[test]
    fn a_number_from_long_ago_is_late_not_twice() {
        let mut sequence = Sequence::new();
        sequence.note(0);
        sequence.note(2 * WINDOW);
        sequence.note(5);
        assert_eq!((sequence.reordered, sequence.duplicates), (1, 0));
        assert_eq!(sequence.lost(), 2 * WINDOW - 2);
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let mut sequence = Sequence::new();
        for number in [(1 << 56) - 1, 0, 1 << 55, (1 << 56) - 1, 3] {
            sequence.note(number);
        }
        sequence.ended(1 << 56);
        assert_eq!(sequence.duplicates, 1);
        assert_eq!(sequence.lost(), (1 << 56) - 4);
    }
}
