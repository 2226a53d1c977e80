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
    fn with(&self, other: &Self, of: Operation) -> Self {
        Self {
            walks: of(self.walks, other.walks),
            references: of(self.references, other.references),
            memory_references: of(self.memory_references, other.memory_references),
            walk_cache_hits: of(self.walk_cache_hits, other.walk_cache_hits),
            nested_tlb_hits: of(self.nested_tlb_hits, other.nested_tlb_hits),
            cycles: of(self.cycles, other.cycles),
        }
    }
}

impl TlbCounts {
    fn with(&self, other: &Self, of: Operation) -> Self {
        Self {
            first_tlb_misses: of(self.first_tlb_misses, other.first_tlb_misses),
            second_tlb_hits: of(self.second_tlb_hits, other.second_tlb_hits),
        }
    }
}

#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ProcessorResult {
    pub processor: String,
    pub layouts: Vec<LayoutResult>,
}

/// One layout on one processor.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct LayoutResult {
    #[serde(flatten)]
    pub layout: Layout,
    /// References of a walk for which nothing is cached.
    pub uncached_references: u32,
    #[serde(flatten)]
    pub tlb: TlbCounts,
    /// Cycles of look-ups in the second-level TLB, those that hit and those that miss: every miss of
    /// the first level waits for one.
    pub second_tlb_cycles: u64,
    #[serde(flatten)]
    pub walks: Walks,
}

impl LayoutResult {
    fn with(&self, other: &Self, of: Operation) -> Self {
        Self {
            layout: self.layout,
            uncached_references: self.uncached_references,
            tlb: self.tlb.with(&other.tlb, of),
            second_tlb_cycles: of(self.second_tlb_cycles, other.second_tlb_cycles),
            walks: self.walks.with(&other.walks, of),
        }
    }
}

/// What was counted of a program, or of a part of it.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Counts {
    pub instructions: u64,
    pub accesses: u64,
    /// Empty if there was no access; else all of them, in the same order everywhere.
    pub processors: Vec<ProcessorResult>,
}

type Operation = fn(u64, u64) -> u64;

impl Counts {
    /// With what another core, or another part, counted.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    /// What came after an earlier state of the same counts. (Other threads go on while theirs are
    /// read, so that one of them may seem to run backwards: then nothing came.)
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(&self, other: &Self, of: Operation) -> Self {
        Self {
            instructions: of(self.instructions, other.instructions),
            accesses: of(self.accesses, other.accesses),
            processors: match (&self.processors, &other.processors) {
                (all, none) if none.is_empty() => all.clone(),
                (none, all) if none.is_empty() => all.clone(),
                (ours, theirs) => {
                    ours.iter().zip(theirs).map(|(one, other)| one.with(other, of)).collect()
                }
            },
        }
    }
}

impl ProcessorResult {
    fn with(&self, other: &Self, of: Operation) -> Self {
        Self {
            processor: self.processor.clone(),
            layouts: (self.layouts.iter().zip(&other.layouts))
                .map(|(one, other)| one.with(other, of))
                .collect(),
        }
    }
}
