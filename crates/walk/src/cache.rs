//! The caches in which a walker finds table entries.

use crate::lru::Lru;
use crate::processor::{CacheLevel, Processor};

/// Address bits within a line.
const LINE_SHIFT: u32 = 6;

/// Levels of cache, nearest first, with the cycles of a hit in each. Lines of page tables only; how
/// much of a cache they may hold is the description's share.
#[derive(Clone)]
struct Levels(Vec<(Lru, u32)>);

impl Levels {
    fn of<'a>(levels: impl Iterator<Item = &'a CacheLevel>, share: f64) -> Self {
        Self(levels.map(|level| (Lru::new(level.geometry(share)), level.cycles)).collect())
    }

    /// The cycles of the nearest level that has the line; it is filled into those before it.
    fn find(&mut self, line: u64) -> Option<u32> {
        self.0.iter_mut().find_map(|(level, cycles)| level.touch(line).then_some(*cycles))
    }
}

/// The caches of one core.
#[derive(Clone)]
pub struct PrivateCaches {
    levels: Levels,
    memory_cycles: u32,
}

/// The caches that all cores of a process use.
#[derive(Clone)]
pub struct SharedCaches(Levels);

impl PrivateCaches {
    pub fn new(processor: &Processor, share: f64) -> Self {
        Self {
            levels: Levels::of(processor.caches.iter().filter(|level| !level.shared), share),
            memory_cycles: processor.memory_cycles,
        }
    }

    /// The cycles until the entry at this address is there, and whether memory had to be asked.
    pub fn read(&mut self, shared: &mut SharedCaches, address: u64) -> (u32, bool) {
        let line = address >> LINE_SHIFT;
        match self.levels.find(line).or_else(|| shared.0.find(line)) {
            Some(cycles) => (cycles, false),
            None => (self.memory_cycles, true),
        }
    }
}

impl SharedCaches {
    pub fn new(processor: &Processor, share: f64) -> Self {
        Self(Levels::of(processor.caches.iter().filter(|level| level.shared), share))
    }
}
