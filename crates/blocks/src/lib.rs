//! What a block holds: its number, the writing that it is of, and a pattern that follows from both, so that
//! every byte of it is checked when it is read. A disk that keeps old data, mixes blocks up or tears one
//! cannot pass.
//!
//! A crate of its own for its speed: of the agent it is what computes, and is compiled to several words at once.

use std::fmt;

mod splitmix;

pub use splitmix::SplitMix;
use splitmix::{STEP, mix};

/// Bytes of a block are a multiple of this: the sector of disks.
pub const SECTOR: u32 = 512;

const WORD: usize = size_of::<u64>();
/// Words before the pattern: number, generation, seed.
const HEADER: usize = 3;

/// Which writing of which block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Of the task: a block that another run left differs from one of this.
    pub seed: u64,
    pub number: u64,
    /// How often it was written before.
    pub generation: u32,
}

impl Label {
    pub fn fill(self, block: &mut [u8]) {
        let (words, _) = block.as_chunks_mut::<WORD>();
        for (place, value) in words.iter_mut().zip(self.header()) {
            *place = value.to_le_bytes();
        }
        let mut value = self.key();
        for place in &mut words[HEADER..] {
            *place = value.to_le_bytes();
            value = value.wrapping_add(STEP);
        }
    }

    /// The writing that a block is of, where it is a whole one of this seed.
    pub fn of(block: &[u8], seed: u64) -> Option<Self> {
        let (words, _) = block.as_chunks::<WORD>();
        let found = Label { seed, number: le(words[0]), generation: le(words[1]) as u32 };
        let mut right = vec![0; block.len()];
        found.fill(&mut right);
        (right == block).then_some(found)
    }

    /// Whether a block is of this writing.
    pub fn check(self, block: &[u8]) -> Result<(), Mismatch> {
        let (words, _) = block.as_chunks::<WORD>();
        let header = words.iter().zip(self.header());
        let mut difference = header.fold(0, |all, (word, value)| all | (le(*word) ^ value));
        let mut value = self.key();
        // Without a branch, so that several words are compared at once.
        for word in &words[HEADER..] {
            difference |= le(*word) ^ value;
            value = value.wrapping_add(STEP);
        }
        if difference == 0 { Ok(()) } else { Err(self.mismatch(block)) }
    }

    fn header(self) -> [u64; HEADER] {
        [self.number, u64::from(self.generation), self.seed]
    }

    /// Where the pattern begins.
    fn key(self) -> u64 {
        mix(self.seed ^ self.number.wrapping_mul(STEP) ^ (u64::from(self.generation) << 40))
    }

    fn mismatch(self, block: &[u8]) -> Mismatch {
        let mut right = vec![0; block.len()];
        self.fill(&mut right);
        let at = block.iter().zip(&right).position(|(found, right)| found != right).unwrap_or(0);
        let found = Label::of(block, self.seed);
        Mismatch { expected: self, at: at as u64, bytes: block.len() as u64, found }
    }
}

fn le(word: [u8; WORD]) -> u64 {
    u64::from_le_bytes(word)
}

/// A block that is not what was written there last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    expected: Label,
    /// Of the first byte that is wrong, in the block.
    at: u64,
    /// Of the block.
    bytes: u64,
    /// What it is instead, where it is a whole block of this task.
    found: Option<Label>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { expected, at, bytes, found } = self;
        let offset = expected.number * bytes + at;
        write!(
            to,
            "the disk gave back wrong data: at offset {offset}, block {} should be its writing {}",
            expected.number, expected.generation
        )?;
        match found {
            Some(found) => {
                write!(to, ", and is writing {} of block {}", found.generation, found.number)
            }
            None => write!(to, ", and differs from byte {at} on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LABEL: Label = Label { seed: 7, number: 3, generation: 2 };

    fn block(label: Label, bytes: usize) -> Vec<u8> {
        let mut block = vec![0; bytes];
        label.fill(&mut block);
        block
    }

    #[test]
    fn a_block_of_another_writing_is_named() {
        for (found, words) in [
            (Label { generation: 1, ..LABEL }, "is writing 1 of block 3"),
            (Label { number: 9, ..LABEL }, "is writing 2 of block 9"),
            (Label { seed: 8, ..LABEL }, "differs from byte"),
        ] {
            let why = LABEL.check(&block(found, 4096)).unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        }
        let why = LABEL.check(&[0; 4096]).unwrap_err().to_string();
        assert!(why.starts_with("the disk gave back wrong data: at offset 12288,"), "{why}");
    }

    #[test]
    fn a_torn_block_is_found() {
        let mut torn = block(LABEL, 4096);
        torn[512..].copy_from_slice(&block(Label { generation: 1, ..LABEL }, 4096)[512..]);
        let why = LABEL.check(&torn).unwrap_err().to_string();
        assert!(why.contains("at offset 12800,") && why.contains("differs from byte 512"), "{why}");
    }

    proptest! {
        #[test]
        fn what_was_filled_is_right_and_any_other_bit_is_wrong(
            (seed, number, generation) in any::<(u64, u64, u32)>(),
            sectors in 1usize..32,
            bit in any::<prop::sample::Index>(),
        ) {
            let label = Label { seed, number: number >> 16, generation };
            let mut block = block(label, sectors * SECTOR as usize);
            prop_assert!(label.check(&block).is_ok());
            let bit = bit.index(block.len() * 8);
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(label.check(&block).is_err());
        }
    }
}
