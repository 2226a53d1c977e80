//! A ring of frames in memory that two machines share: one writes, one reads, and neither has a way to notify the
//! other but that memory.
//!
//! It consists of words of 64 bits, little-endian as both machines are: a page with the positions of both
//! sides, and then frames, each a word with the length and the bytes in whole words. No frame wraps around:
//! where one does not fit before the end, a word marks that, and the frame is at the beginning. Positions
//! count words and only grow.
//!
//! **The other side may write anything**, at any moment: every word is read once, and checked before it is
//! used. An impossible value is an error, and never leads to a place outside of the ring.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};

/// Marks a ring that has a writer; its last byte is the layout's version.
const MAGIC: u64 = u64::from_le_bytes(*b"htring\0\x01");

/// Words of the first page, each with a line of the cache of its own: they are written from different sides.
const MARK: usize = 0;
const WRITTEN: usize = 8;
const READ: usize = 16;
const DROPPED: usize = 24;
/// Where frames begin.
const HEAD: usize = 512;

/// Stands for a length where the rest, up to the ring's end, is of no use.
const NOTHING: u64 = u64::MAX;
/// Longest frame: the largest MTU with its header.
pub const LONGEST: usize = 65_535 + 14;
const WORD: usize = 8;
/// Room for two of the longest frames at least.
const LEAST: usize = 2 * (1 + LONGEST.div_ceil(WORD));

/// The words of a ring, however they came to be shared.
pub trait Words {
    fn words(&self) -> &[AtomicU64];
}

/// Words with a head before them.
struct RingMemory<M> {
    memory: M,
    /// Words for frames.
    room: u64,
}

impl<M: Words> RingMemory<M> {
    fn new(memory: M) -> Result<Self> {
        let words = memory.words().len().saturating_sub(HEAD);
        ensure!(words >= LEAST, "{words} words are too few for a ring of frames");
        Ok(RingMemory { memory, room: words as u64 })
    }

    fn head(&self, which: usize) -> &AtomicU64 {
        &self.memory.words()[which]
    }

    /// The words from a position on, up to the ring's end.
    fn from(&self, position: u64) -> &[AtomicU64] {
        &self.memory.words()[HEAD + (position % self.room) as usize..]
    }

    /// How much of the ring is full.
    fn between(&self, written: u64, read: u64) -> Result<u64> {
        let count = written.wrapping_sub(read);
        ensure!(
            count <= self.room,
            "the ring's two ends are {count} words apart, and it has {}",
            self.room
        );
        Ok(count)
    }
}

/// The side that puts frames in.
pub struct Writer<M: Words> {
    ring: RingMemory<M>,
    next: u64,
    dropped: u64,
}

impl<M: Words> Writer<M> {
    /// Begins afresh; who reads begins after this.
    pub fn new(memory: M) -> Result<Self> {
        let ring = RingMemory::new(memory)?;
        for which in [MARK, WRITTEN, READ, DROPPED] {
            ring.head(which).store(0, Ordering::Relaxed);
        }
        ring.head(MARK).store(MAGIC, Ordering::Release);
        Ok(Writer { ring, next: 0, dropped: 0 })
    }

    /// Shows a frame to who reads. Without room it is dropped, which is counted: false.
    ///
    /// # Errors
    /// It is longer than frames are, or who reads says what cannot be.
    pub fn put(&mut self, frame: &[u8]) -> Result<bool> {
        ensure!(frame.len() <= LONGEST, "a frame of {} bytes", frame.len());
        let read = self.ring.head(READ).load(Ordering::Acquire);
        let free = self.ring.room - self.ring.between(self.next, read)?;
        let words = 1 + frame.len().div_ceil(WORD);
        let left = self.ring.from(self.next).len();
        let unused = if left < words { left } else { 0 };
        if free < (unused + words) as u64 {
            self.dropped += 1;
            self.ring.head(DROPPED).store(self.dropped, Ordering::Relaxed);
            return Ok(false);
        }
        if unused > 0 {
            self.ring.from(self.next)[0].store(NOTHING, Ordering::Relaxed);
            self.next += unused as u64;
        }
        let ring = self.ring.from(self.next);
        ring[0].store(frame.len() as u64, Ordering::Relaxed);
        for (to, bytes) in ring[1..].iter().zip(frame.chunks(WORD)) {
            let mut word = [0; WORD];
            word[..bytes.len()].copy_from_slice(bytes);
            to.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.next += words as u64;
        self.ring.head(WRITTEN).store(self.next, Ordering::Release);
        Ok(true)
    }

    /// Counts frames that were lost before they came here.
    pub fn lost(&mut self, count: u64) {
        self.dropped += count;
        self.ring.head(DROPPED).store(self.dropped, Ordering::Relaxed);
    }
}

/// Who comes after it finds nobody that writes.
impl<M: Words> Drop for Writer<M> {
    fn drop(&mut self) {
        self.ring.head(MARK).store(0, Ordering::Release);
    }
}

/// The side that takes them out.
pub struct Reader<M> {
    ring: RingMemory<M>,
    next: u64,
    dropped_before: u64,
}

impl<M: Words> Reader<M> {
    /// What was written before is not for this one.
    ///
    /// # Errors
    /// Nobody writes there.
    pub fn new(memory: M) -> Result<Self> {
        let ring = RingMemory::new(memory)?;
        let mark = ring.head(MARK).load(Ordering::Acquire);
        ensure!(mark == MAGIC, "nobody has begun to write frames into the shared memory");
        let next = ring.head(WRITTEN).load(Ordering::Acquire);
        ring.head(READ).store(next, Ordering::Release);
        let dropped_before = ring.head(DROPPED).load(Ordering::Relaxed);
        Ok(Reader { ring, next, dropped_before })
    }

    /// Waits for who writes: all that one puts in is for this one. What was there before is forgotten.
    pub fn before(memory: M) -> Result<Self> {
        let ring = RingMemory::new(memory)?;
        for which in [MARK, WRITTEN, READ, DROPPED] {
            ring.head(which).store(0, Ordering::Release);
        }
        Ok(Reader { ring, next: 0, dropped_before: 0 })
    }

    /// The next frame, if there is one: its bytes take the place of what was in `frame`.
    ///
    /// # Errors
    /// Who writes says what cannot be.
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Result<bool> {
        let written = self.ring.head(WRITTEN).load(Ordering::Acquire);
        let mut waiting = self.ring.between(written, self.next)?;
        if waiting == 0 {
            return Ok(false);
        }
        let mut length = self.ring.from(self.next)[0].load(Ordering::Relaxed);
        if length == NOTHING {
            let unused = self.ring.from(self.next).len() as u64;
            let rest = waiting.checked_sub(unused).filter(|&rest| rest > 0);
            waiting =
                rest.context("the ring says that it goes on at its begin, but nothing is there")?;
            self.next += unused;
            length = self.ring.from(self.next)[0].load(Ordering::Relaxed);
        }
        let ring = self.ring.from(self.next);
        let bytes = usize::try_from(length).ok().filter(|&bytes| bytes <= LONGEST);
        let bytes = bytes.with_context(|| format!("the ring has a frame of {length} bytes"))?;
        let words = 1 + bytes.div_ceil(WORD);
        ensure!(
            words as u64 <= waiting && words <= ring.len(),
            "the ring has a frame of {bytes} bytes where {waiting} words were written"
        );
        frame.clear();
        let whole =
            ring[1..words].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        frame.extend(whole.take(bytes));
        self.next += words as u64;
        self.ring.head(READ).store(self.next, Ordering::Release);
        Ok(true)
    }

    /// Frames since it began for which who writes found no room, by that one's word.
    pub fn dropped(&self) -> u64 {
        let dropped = self.ring.head(DROPPED).load(Ordering::Relaxed);
        dropped.wrapping_sub(self.dropped_before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    type Memory = Arc<Vec<AtomicU64>>;

    impl Words for Memory {
        fn words(&self) -> &[AtomicU64] {
            self
        }
    }

    const WORDS: usize = HEAD + LEAST;

    fn memory() -> Memory {
        Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn both() -> (Memory, Writer<Memory>, Reader<Memory>) {
        let memory = memory();
        let writer = Writer::new(memory.clone()).unwrap();
        let reader = Reader::new(memory.clone()).unwrap();
        (memory, writer, reader)
    }

    fn taken(reader: &mut Reader<Memory>) -> Option<Vec<u8>> {
        let mut frame = vec![1, 2, 3];
        reader.take(&mut frame).unwrap().then_some(frame)
    }

    #[test]
    fn a_frame_as_it_stands_there() {
        let (memory, mut writer, mut reader) = both();
        assert!(writer.put(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap());
        let word = |at: usize| memory[at].load(Ordering::Relaxed);
        assert_eq!((word(0).to_le_bytes(), word(8)), (*b"htring\0\x01", 3));
        assert_eq!((word(512), word(513), word(514)), (9, 0x0807_0605_0403_0201, 9));
        assert_eq!(taken(&mut reader), Some(vec![1, 2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!((word(16), taken(&mut reader)), (3, None));
    }

    #[test]
    fn without_room_frames_are_dropped_and_counted() {
        let (_, mut writer, mut reader) = both();
        let longest = vec![7; LONGEST];
        assert!(writer.put(&longest).unwrap() && writer.put(&longest).unwrap());
        assert!(!writer.put(&[]).unwrap() && !writer.put(&longest).unwrap());
        assert_eq!(reader.dropped(), 2);
        assert_eq!(taken(&mut reader).as_deref(), Some(&longest[..]));
        assert!(writer.put(&longest).unwrap());
        assert_eq!(reader.dropped(), 2);
        assert!(writer.put(&vec![0; LONGEST + 1]).is_err());
    }

    #[test]
    fn who_comes_later_gets_what_comes_later() {
        let (memory, mut writer, _) = both();
        writer.put(b"old").unwrap();
        let mut reader = Reader::new(memory.clone()).unwrap();
        writer.put(b"new").unwrap();
        assert_eq!(taken(&mut reader).as_deref(), Some(&b"new"[..]));
        let _ = Writer::new(memory).unwrap();
        let error = reader.take(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("words apart"), "who writes began afresh: {error}");
    }

    #[test]
    fn who_waits_for_the_writer_gets_the_first_and_forgets_what_was_there() {
        let (memory, mut writer, _) = both();
        writer.put(b"old").unwrap();
        let mut reader = Reader::before(memory.clone()).unwrap();
        assert_eq!(taken(&mut reader), None);
        assert!(Reader::new(memory.clone()).is_err(), "the old writer's mark is gone");
        let mut writer = Writer::new(memory).unwrap();
        writer.put(b"new").unwrap();
        assert_eq!(taken(&mut reader).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn memory_without_a_writer_or_of_no_size_is_refused() {
        let error = Reader::new(memory()).err().unwrap().to_string();
        assert!(error.contains("nobody has begun"), "{error}");
        for words in [0, HEAD, WORDS - 1] {
            let small: Memory = Arc::new((0..words).map(|_| AtomicU64::new(MAGIC)).collect());
            assert!(Writer::new(small.clone()).is_err() && Reader::new(small).is_err());
        }
    }

    #[test]
    fn two_threads_lose_and_mix_nothing() {
        const COUNT: u64 = 20_000;
        let (_, mut writer, mut reader) = both();
        let written = std::thread::spawn(move || {
            for number in 0..COUNT {
                let frame = vec![number as u8; 8 + (number % 1500) as usize];
                while !writer.put(&frame).unwrap() {
                    std::thread::yield_now();
                }
            }
        });
        let (mut number, mut frame) = (0, Vec::new());
        while number < COUNT {
            if !reader.take(&mut frame).unwrap() {
                std::thread::yield_now();
                continue;
            }
            assert_eq!(frame.len() as u64, 8 + number % 1500);
            assert!(frame.iter().all(|&byte| byte == number as u8), "{number}");
            number += 1;
        }
        written.join().unwrap();
    }

    fn length() -> impl Strategy<Value = usize> {
        prop_oneof![4 => 0..200_usize, 1 => 1400..1600_usize, 2 => 0..=LONGEST]
    }

    proptest! {
        /// Whatever the order of writing and reading is: what was put is taken, in order, once.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(prop::option::of(length()), 1..60)) {
            let (_, mut writer, mut reader) = both();
            let (mut expected, mut dropped) = (VecDeque::new(), 0);
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(bytes) => {
                        let frame = vec![number as u8; bytes];
                        if writer.put(&frame).unwrap() {
                            expected.push_back(frame);
                        } else {
                            dropped += 1;
                        }
                    }
                    None => prop_assert_eq!(taken(&mut reader), expected.pop_front()),
                }
            }
            prop_assert_eq!(reader.dropped(), dropped);
            while let Some(frame) = taken(&mut reader) {
                prop_assert_eq!(Some(frame), expected.pop_front());
            }
            prop_assert!(expected.is_empty());
        }

        /// Whatever the other side writes, wherever it does: an end, no panic, no frame that is too long.
        #[test]
        fn nothing_that_stands_there_leads_out(
            scribbles in prop::collection::vec((place(), value()), 1..40),
            lengths in prop::collection::vec(length(), 0..20),
        ) {
            let (memory, mut writer, mut reader) = both();
            let mut frame = Vec::new();
            for (index, (at, value)) in scribbles.into_iter().enumerate() {
                if let Some(&bytes) = lengths.get(index) {
                    let _ = writer.put(&vec![1; bytes]);
                }
                memory[at].store(value, Ordering::Relaxed);
                for _ in 0..3 {
                    frame.clear();
                    let _ = reader.take(&mut frame);
                    prop_assert!(frame.len() <= LONGEST);
                }
                let _ = writer.put(b"frame");
                reader.dropped();
            }
        }
    }

    fn place() -> impl Strategy<Value = usize> {
        prop_oneof![Just(WRITTEN), Just(READ), Just(DROPPED), HEAD..HEAD + 64, 0..WORDS]
    }

    fn value() -> impl Strategy<Value = u64> {
        let near = 0..2 * LEAST as u64;
        prop_oneof![
            near,
            Just(NOTHING),
            Just(LONGEST as u64),
            Just(LONGEST as u64 + 1),
            any::<u64>()
        ]
    }
}
