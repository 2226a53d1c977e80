//! What comes out.

use serde::{Deserialize, Serialize};

use crate::Layout;
use crate::tlb::TlbCounts;

/// What walks took, in all.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Walks {
    pub walks: u64,
    /// Table entries read through the caches or from memory.
    pub references: u64,
    /// Of these, from memory.
    pub memory_references: u64,
    /// Upper entries that the walk cache had (kind table), or walks that it shortened (translation).
    pub walk_cache_hits: u64,
    pub nested_tlb_hits: u64,
    pub cycles: u64,
}

impl Walks {
    pub fn add(&mut self, other: &Self) {
        self.walks += other.walks;
        self.references += other.references;
        self.memory_references += other.memory_references;
        self.walk_cache_hits += other.walk_cache_hits;
        self.nested_tlb_hits += other.nested_tlb_hits;
        self.cycles += other.cycles;
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ProcessorResult {
    pub processor: String,
    pub layouts: Vec<LayoutResult>,
}

/// One layout on one processor.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutResult {
    #[serde(flatten)]
    pub layout: Layout,
    /// References of a walk for which nothing is cached.
    pub uncached_references: u32,
    #[serde(flatten)]
    pub tlb: TlbCounts,
    /// Cycles of hits in the second-level TLB.
    pub second_tlb_cycles: u64,
    #[serde(flatten)]
    pub walks: Walks,
}

impl LayoutResult {
    /// Adds what another core, or another process, counted.
    pub fn add(&mut self, other: &Self) {
        self.tlb.add(&other.tlb);
        self.second_tlb_cycles += other.second_tlb_cycles;
        self.walks.add(&other.walks);
    }
}
