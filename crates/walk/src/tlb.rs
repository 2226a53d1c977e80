//! The data TLBs of all processors, looked up at once.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::lru::Lru;
use crate::{PageSize, Processor};

/// Small pages of a large one.
const SMALL_IN_LARGE: usize = 512;
/// Processors in one pass: bits of a page.
pub const MOST_PROCESSORS: usize = 32;

/// A look-up that no TLB of a processor had: it walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    pub processor: u16,
    pub pages: PageSize,
    /// A virtual address in the page.
    pub address: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct TlbCounts {
    pub first_tlb_misses: u64,
    pub second_tlb_hits: u64,
}

/// The TLBs of one core, for every processor and both sizes of pages.
///
/// When a page was last accessed is the same on every processor, so it is kept once, with the page;
/// and with it one bit a processor, whether its first level lacks the page. An access that hits the
/// first levels of all processors is then two stores and one comparison, however many processors
/// there are, and no branch that depends on the program. The bits know exactly what a search of each
/// set would find; which entry is the oldest of a set is asked only when one has to go.
pub struct Tlbs {
    /// Accesses since `before`: the time of the last one.
    now: u32,
    before: u64,
    pages: Pages,
    small: Vec<Tlb>,
    large: Vec<Tlb>,
    misses: Vec<Miss>,
}

/// A page that was accessed.
#[derive(Clone, Copy)]
struct Page {
    last_access: u32,
    /// Processors whose first level does not hold it.
    lacking: u32,
}

impl Tlbs {
    /// # Panics
    /// With more than [`MOST_PROCESSORS`].
    pub fn new(processors: &[Processor]) -> Self {
        assert!(processors.len() <= MOST_PROCESSORS, "more processors than bits");
        let of = |pages| processors.iter().map(|processor| Tlb::new(processor, pages)).collect();
        Self {
            now: 0,
            before: 0,
            pages: Pages::new(((1u64 << processors.len()) - 1) as u32),
            small: of(PageSize::Small),
            large: of(PageSize::Large),
            misses: Vec::new(),
        }
    }

    /// Takes an access to a virtual address, if every first level holds its page; if not, it says so
    /// and the access is still to be taken. This is what nearly every access of a program goes
    /// through, so it calls nothing.
    #[inline(always)]
    pub fn hit(&mut self, address: u64) -> bool {
        let Some(place) = self.pages.recent(address >> PageSize::Large.shift()) else {
            return false;
        };
        let at = place_of_small(place, address);
        let (Some(large), Some(small)) =
            (self.pages.large.get_mut(place), self.pages.small.get_mut(at))
        else {
            return false;
        };
        if self.now == u32::MAX || (small.lacking | large.lacking) != 0 {
            return false;
        }
        self.now += 1;
        large.last_access = self.now;
        small.last_access = self.now;
        true
    }

    /// Takes an access to a virtual address.
    pub fn access(&mut self, address: u64) {
        if self.hit(address) {
            return;
        }
        if self.now == u32::MAX {
            self.renumber();
        }
        self.now += 1;
        let large = self.pages.find(address >> PageSize::Large.shift());
        let small = place_of_small(large, address);
        self.pages.large[large].last_access = self.now;
        self.pages.small[small].last_access = self.now;
        self.miss(address, large, small);
    }

    fn miss(&mut self, address: u64, large: usize, small: usize) {
        let Self { pages, misses, .. } = self;
        for (size, tlbs, known, place) in [
            (PageSize::Small, &mut self.small, &mut pages.small, small),
            (PageSize::Large, &mut self.large, &mut pages.large, large),
        ] {
            let mut lacking = known[place].lacking;
            while lacking != 0 {
                let processor = lacking.trailing_zeros() as usize;
                let bit = 1 << processor;
                lacking &= !bit;
                if !tlbs[processor].fill(address >> size.shift(), place, bit, known) {
                    misses.push(Miss { processor: processor as u16, pages: size, address });
                }
            }
        }
    }

    /// Makes room for more times: those of the pages become their ranks.
    #[cold]
    fn renumber(&mut self) {
        self.before = self.before.wrapping_add(u64::from(self.now));
        let mut latest = 0;
        for pages in [&mut self.pages.small, &mut self.pages.large] {
            let mut touched: Vec<_> =
                pages.iter_mut().filter(|page| page.last_access > 0).collect();
            touched.sort_unstable_by_key(|page| page.last_access);
            for (rank, page) in touched.iter_mut().enumerate() {
                page.last_access = rank as u32 + 1;
            }
            latest = latest.max(touched.len() as u32);
        }
        self.before = self.before.wrapping_sub(u64::from(latest));
        self.now = latest;
    }

    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.before.wrapping_add(u64::from(self.now))
    }

    /// How many look-ups are to be walked.
    #[inline(always)]
    pub fn waiting(&self) -> usize {
        self.misses.len()
    }

    /// What is to be walked since the last call.
    pub fn drain_misses(&mut self) -> std::vec::Drain<'_, Miss> {
        self.misses.drain(..)
    }

    pub fn counts(&self, processor: usize, pages: PageSize) -> TlbCounts {
        match pages {
            PageSize::Small => self.small[processor].counts,
            PageSize::Large => self.large[processor].counts,
        }
    }
}

/// Where a small page stands, by its region's place.
#[inline(always)]
const fn place_of_small(large: usize, address: u64) -> usize {
    let within = (address >> PageSize::Small.shift()) as usize & (SMALL_IN_LARGE - 1);
    large * SMALL_IN_LARGE + within
}

/// Pages by number. Those of a 2 MB region lie together, and the regions used last are found without
/// hashing.
struct Pages {
    regions: HashMap<u64, u32>,
    recent: [(u64, u32); RECENT],
    small: Vec<Page>,
    large: Vec<Page>,
    unknown: Page,
}

const RECENT: usize = 256;

impl Pages {
    fn new(everyone: u32) -> Self {
        Self {
            regions: HashMap::new(),
            recent: [(u64::MAX, 0); RECENT],
            small: Vec::new(),
            large: Vec::new(),
            unknown: Page { last_access: 0, lacking: everyone },
        }
    }

    #[inline(always)]
    fn recent(&self, region: u64) -> Option<usize> {
        let (held, place) = self.recent[region as usize % RECENT];
        (held == region).then_some(place as usize)
    }

    fn find(&mut self, region: u64) -> usize {
        let place = *self.regions.entry(region).or_insert_with(|| {
            self.large.push(self.unknown);
            self.small.resize(self.small.len() + SMALL_IN_LARGE, self.unknown);
            (self.large.len() - 1) as u32
        });
        self.recent[region as usize % RECENT] = (region, place);
        place as usize
    }
}

/// The two levels of one processor for one size of pages.
struct Tlb {
    /// Places of pages, a set after the other.
    first: Vec<u32>,
    ways: usize,
    set_mask: u64,
    second: Option<Lru>,
    counts: TlbCounts,
}

const NO_PAGE: u32 = u32::MAX;

impl Tlb {
    fn new(processor: &Processor, pages: PageSize) -> Self {
        let first = processor.first(pages);
        Self {
            first: vec![NO_PAGE; first.entries as usize],
            ways: first.ways as usize,
            set_mask: u64::from(first.sets() - 1),
            second: processor.second(pages).map(Lru::new),
            counts: TlbCounts::default(),
        }
    }

    /// Puts a page that the first level lacks into both levels; whether the second held it.
    #[expect(clippy::expect_used, reason = "a set without ways is made by nobody")]
    fn fill(&mut self, page: u64, place: usize, bit: u32, known: &mut [Page]) -> bool {
        self.counts.first_tlb_misses += 1;
        let start = (page & self.set_mask) as usize * self.ways;
        let set = &mut self.first[start..start + self.ways];
        let oldest = set
            .iter_mut()
            .min_by_key(|held| known.get(**held as usize).map_or(0, |page| page.last_access))
            .expect("a set has ways");
        if let Some(gone) = known.get_mut(*oldest as usize) {
            gone.lacking |= bit;
        }
        *oldest = place as u32;
        known[place].lacking &= !bit;
        let hit = self.second.as_mut().is_some_and(|second| second.touch(page));
        self.counts.second_tlb_hits += u64::from(hit);
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, SecondTlb, TlbLevel};

    fn processor() -> Processor {
        let geometry = Geometry { entries: 8, ways: 4 };
        Processor {
            name: "small".into(),
            title: String::new(),
            nested: true,
            levels: 4,
            first_tlb: TlbLevel { small: geometry, large: geometry, unified: false },
            second_tlb: SecondTlb { small: Some(geometry), large: None, cycles: 1, unified: false },
            walk_cache: None,
            nested_tlb: None,
            caches: Vec::new(),
            memory_cycles: 1,
            sources: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Times are 32 bits: when they run out, nothing may be forgotten of who came before whom.
    #[test]
    fn renumbering_changes_nothing() {
        let processors = [processor()];
        let (mut plain, mut worn) = (Tlbs::new(&processors), Tlbs::new(&processors));
        let addresses: Vec<u64> =
            (0..400u64).map(|step| (step * step * 7919 % 37) << 12 | (step % 5) << 21).collect();
        for (number, &address) in addresses.iter().enumerate() {
            if number == 200 {
                worn.before = worn.before.wrapping_sub(u64::from(u32::MAX - 3 - worn.now));
                let shift = u32::MAX - 3 - worn.now;
                let pages = worn.pages.small.iter_mut().chain(&mut worn.pages.large);
                pages
                    .filter(|page| page.last_access > 0)
                    .for_each(|page| page.last_access += shift);
                worn.now += shift;
            }
            plain.access(address);
            worn.access(address);
            assert_eq!(plain.accesses(), worn.accesses());
        }
        assert!(worn.now < 1000, "it was renumbered");
        assert!(plain.drain_misses().eq(worn.drain_misses()));
        for pages in [PageSize::Small, PageSize::Large] {
            assert_eq!(plain.counts(0, pages), worn.counts(0, pages));
        }
    }
}
