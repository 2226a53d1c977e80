//! Walks through page tables, in one dimension and in two.

use crate::cache::{PrivateCaches, SharedCaches};
use crate::lru::Lru;
use crate::processor::{Processor, WalkCacheKind};
use crate::result::Walks;
use crate::tables::{Frames, Path, Tree, shift_of};
use crate::{Layout, PageSize, Paging};

/// The tables of one layout of an address space, and the memory that they lie in. Native and shadow:
/// `first` maps virtual to physical. Nested: `first` maps guest-virtual to guest-physical, `second`
/// maps that to host-physical.
#[derive(Clone)]
pub struct Tables {
    first: Tree,
    frames: Frames,
    second: Option<(Tree, Frames)>,
}

impl Tables {
    pub fn new(layout: Layout, levels: u32) -> Self {
        let (first_pages, second_pages) = match (layout.paging, layout.host_pages) {
            (Paging::Nested, host) => (layout.guest_pages, host),
            _ => (layout.entry_pages(), None),
        };
        let mut frames = Frames::default();
        Self {
            first: Tree::new(first_pages, levels, &mut frames),
            frames,
            second: second_pages.map(|pages| {
                let mut host = Frames::default();
                (Tree::new(pages, levels, &mut host), host)
            }),
        }
    }
}

/// The part of a core that walks for one layout: caches of upper levels, of the second dimension's
/// translations, of table entries.
#[derive(Clone)]
pub struct Walker {
    first_leaf: u32,
    second: Option<PageSize>,
    levels: u32,
    upper: Option<Upper>,
    nested_tlb: Option<(Lru, u32)>,
    caches: PrivateCaches,
    pub walks: Walks,
}

#[derive(Clone)]
struct Upper {
    kind: WalkCacheKind,
    held: Lru,
    cycles: u32,
}

/// Which tables a walk goes through; part of the key of what is remembered of it.
#[derive(Clone, Copy)]
enum Dimension {
    First,
    Second,
}

impl Walker {
    /// `share`: of every cache, what page tables may hold.
    pub fn new(processor: &Processor, layout: Layout, share: f64) -> Self {
        let nested = layout.paging == Paging::Nested;
        let first = if nested { layout.guest_pages } else { layout.entry_pages() };
        Self {
            first_leaf: first.leaf(),
            second: layout.host_pages.filter(|_| nested),
            levels: processor.levels,
            upper: processor.walk_cache.map(|cache| Upper {
                kind: cache.kind,
                held: Lru::new(cache.geometry()),
                cycles: cache.cycles,
            }),
            nested_tlb: (processor.nested_tlb)
                .filter(|_| nested)
                .map(|tlb| (Lru::new(tlb.geometry()), tlb.cycles)),
            caches: PrivateCaches::new(processor, share),
            walks: Walks::default(),
        }
    }

    /// Walks to a virtual address.
    pub fn walk(&mut self, address: u64, tables: &mut Tables, shared: &mut SharedCaches) {
        self.walks.walks += 1;
        let path = tables.first.walk(address, &mut tables.frames);
        let Some((tree, frames)) = &mut tables.second else {
            self.steps(Dimension::First, address, self.first_leaf, &path, shared);
            return;
        };
        let first = self.skipped(Dimension::First, address, self.first_leaf);
        for (step, &entry) in path.entries().iter().enumerate().skip(first) {
            let place = tree.walk(entry, frames);
            // The table below what is remembered is remembered by its host-physical address.
            if step != first || first == 0 {
                self.nested(entry, &place, shared);
            }
            let shift = self.second.map_or(0, PageSize::shift);
            let host = place.page | (entry & ((1 << shift) - 1));
            self.entry(Dimension::First, address, self.level(step), self.first_leaf, host, shared);
        }
        // In the guest's page, where the address is: the host may back it with many of its own.
        let page = path.page | (address & ((1 << shift_of(self.first_leaf)) - 1));
        let place = tree.walk(page, frames);
        self.nested(page, &place, shared);
    }

    /// Translates a guest-physical address.
    fn nested(&mut self, address: u64, path: &Path, shared: &mut SharedCaches) {
        let Some(pages) = self.second else { return };
        let mut hit = false;
        if let Some((tlb, cycles)) = &mut self.nested_tlb {
            hit = tlb.touch(address >> pages.shift());
            self.walks.cycles += u64::from(*cycles);
            self.walks.nested_tlb_hits += u64::from(hit);
        }
        if !hit {
            self.steps(Dimension::Second, address, pages.leaf(), path, shared);
        }
    }

    /// Goes through one tree from its root, or from below what is remembered, to the leaf.
    fn steps(
        &mut self,
        dimension: Dimension,
        address: u64,
        leaf: u32,
        path: &Path,
        shared: &mut SharedCaches,
    ) {
        let first = self.skipped(dimension, address, leaf);
        for (step, &entry) in path.entries().iter().enumerate().skip(first) {
            self.entry(dimension, address, self.level(step), leaf, entry, shared);
        }
    }

    /// Steps that a walk can leave out: 0 without a cache of translations.
    fn skipped(&mut self, dimension: Dimension, address: u64, leaf: u32) -> usize {
        let Some(upper) = &mut self.upper else { return 0 };
        if upper.kind != WalkCacheKind::Translation {
            return 0;
        }
        self.walks.cycles += u64::from(upper.cycles);
        for level in leaf + 1..=self.levels {
            if upper.held.hit(upper_key(dimension, address, level)) {
                self.walks.walk_cache_hits += 1;
                return (self.levels - level + 1) as usize;
            }
        }
        0
    }

    /// Reads one entry at its host-physical address, and remembers it if it is an upper one.
    fn entry(
        &mut self,
        dimension: Dimension,
        address: u64,
        level: u32,
        leaf: u32,
        place: u64,
        shared: &mut SharedCaches,
    ) {
        if let Some(upper) = self.upper.as_mut().filter(|_| level > leaf) {
            match upper.kind {
                WalkCacheKind::Table => {
                    if upper.held.touch(place) {
                        self.walks.walk_cache_hits += 1;
                        self.walks.cycles += u64::from(upper.cycles);
                        return;
                    }
                }
                WalkCacheKind::Translation => {
                    upper.held.insert(upper_key(dimension, address, level));
                }
            }
        }
        let (cycles, memory) = self.caches.read(shared, place);
        self.walks.references += 1;
        self.walks.cycles += u64::from(cycles);
        self.walks.memory_references += u64::from(memory);
    }

    const fn level(&self, step: usize) -> u32 {
        self.levels - step as u32
    }
}

/// A key that no other table shares: virtual addresses leave the upper bits free.
fn upper_key(dimension: Dimension, address: u64, level: u32) -> u64 {
    // Low bits choose the set, so the prefix stands there and level and dimension above it.
    (address >> shift_of(level)) | (u64::from(level) << 58) | ((dimension as u64) << 62)
}

#[cfg(test)]
#[path = "walker_test.rs"]
mod tests;
