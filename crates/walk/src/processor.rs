//! The description of a processor's translation hardware.

use serde::Deserialize;

use crate::{Geometry, PageSize};

/// Bytes of a cache line; eight table entries.
const LINE: u64 = 64;
/// Cycles of one look-up. More than any takes; a description beyond it is a slip of the pen.
const MOST_CYCLES: u32 = 100_000;
/// Levels of page tables that x86-64 has with four-level paging.
const LEVELS: u32 = 4;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    pub name: String,
    pub title: String,
    /// Whether it has nested page tables (NPT, EPT).
    pub nested: bool,
    #[serde(default = "four")]
    pub levels: u32,
    pub first_tlb: TlbLevel,
    pub second_tlb: SecondTlb,
    #[serde(default)]
    pub walk_cache: Option<WalkCache>,
    /// Guest-physical to host-physical, for the second dimension.
    #[serde(default)]
    pub nested_tlb: Option<NestedTlb>,
    /// Where the walker finds table entries, nearest first.
    #[serde(default)]
    pub caches: Vec<CacheLevel>,
    /// Cycles of a reference that no cache has.
    pub memory_cycles: u32,
    /// Where the figures come from, and which of them are assumed because nobody published them.
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub assumed: Vec<String>,
}

const fn four() -> u32 {
    LEVELS
}

/// One level of the data TLB. A size of pages without entries always misses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbLevel {
    #[serde(rename = "4K")]
    pub small: Geometry,
    #[serde(rename = "2M")]
    pub large: Geometry,
    /// Whether both sizes of pages share its entries. Of programs with pages of one size, as the model
    /// walks them, it makes no difference; in the emulator both meet.
    #[serde(default)]
    pub unified: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondTlb {
    #[serde(rename = "4K", default)]
    pub small: Option<Geometry>,
    #[serde(rename = "2M", default)]
    pub large: Option<Geometry>,
    /// Cycles of a look-up here after a miss of the first level, whether it hits or misses.
    pub cycles: u32,
    /// As of the first level.
    #[serde(default)]
    pub unified: bool,
}

impl SecondTlb {
    /// What every miss of the first level waits for. How large its page is, is known only when its
    /// translation is: a level that holds pages of the other size alone is looked up all the same.
    pub(crate) fn look_up_cycles(&self) -> u64 {
        match (self.small, self.large) {
            (None, None) => 0,
            _ => u64::from(self.cycles),
        }
    }
}

/// What remembers the upper levels of a walk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkCache {
    pub kind: WalkCacheKind,
    pub entries: u32,
    pub ways: u32,
    pub cycles: u32,
}

/// The two designs of Barr, Cox, Rixner: Translation Caching, ISCA 2010.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WalkCacheKind {
    /// Upper entries by their address in memory (AMD): a walk takes all its steps, those cached are
    /// quick.
    Table,
    /// Upper tables by the virtual address (Intel): a walk begins below them.
    Translation,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestedTlb {
    pub entries: u32,
    pub ways: u32,
    pub cycles: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    pub name: String,
    /// Bytes.
    pub size: u64,
    pub ways: u32,
    pub cycles: u32,
    /// By all cores.
    #[serde(default)]
    pub shared: bool,
}

impl CacheLevel {
    /// Its lines as far as page tables may hold them: `share` of the ways of each set, at least one.
    /// The rest is the program's data, whose lines the model does not follow.
    pub fn geometry(&self, share: f64) -> Geometry {
        let ways = ((f64::from(self.ways) * share).round() as u32).clamp(1, self.ways);
        let sets = (self.size / LINE / u64::from(self.ways)) as u32;
        Geometry { entries: sets * ways, ways }
    }

    fn check(&self, owner: &str) -> Result<(), String> {
        let what = format!("{owner}: cache {}", self.name);
        if self.ways == 0 || !self.size.is_multiple_of(LINE * u64::from(self.ways)) {
            return Err(format!(
                "{what}: {} bytes cannot be divided into {} ways of {LINE}-byte lines",
                self.size, self.ways
            ));
        }
        let lines = u32::try_from(self.size / LINE).map_err(|_| format!("{what}: too large"))?;
        Geometry { entries: lines, ways: self.ways }.check(&what)
    }
}

impl Processor {
    /// # Errors
    /// In words, if no hardware can be like this.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let of = |part: &str| format!("{name}: {part}");
        self.first_tlb.small.check(&of("first_tlb, 4K"))?;
        self.first_tlb.large.check(&of("first_tlb, 2M"))?;
        for (geometry, pages) in [(self.second_tlb.small, "4K"), (self.second_tlb.large, "2M")] {
            if let Some(geometry) = geometry {
                geometry.check(&of(&format!("second_tlb, {pages}")))?;
            }
        }
        if let Some(cache) = self.walk_cache {
            cache.geometry().check(&of("walk_cache"))?;
        }
        if let Some(tlb) = self.nested_tlb {
            tlb.geometry().check(&of("nested_tlb"))?;
        }
        for level in &self.caches {
            level.check(name)?;
        }
        self.check_unified()?;
        self.check_cycles()?;
        if !(3..=5).contains(&self.levels) {
            return Err(format!("{name}: {} levels of page tables; 3, 4 or 5", self.levels));
        }
        self.check_order()
    }

    fn check_unified(&self) -> Result<(), String> {
        let (first, second) = (&self.first_tlb, &self.second_tlb);
        for (unified, same, what) in [
            (first.unified, first.small == first.large, "first_tlb"),
            (second.unified, second.small == second.large, "second_tlb"),
        ] {
            if unified && !same {
                return Err(format!(
                    "{}: {what} is unified, and not alike for 4K and 2M: pages of both sizes share its \
                     entries, so give it the same for both",
                    self.name
                ));
            }
        }
        Ok(())
    }

    /// What takes no time would not be looked up one after the other.
    fn check_cycles(&self) -> Result<(), String> {
        let second = self.second_tlb;
        let looked_up = second.small.or(second.large).map(|_| second.cycles);
        let parts = [
            ("second_tlb", looked_up),
            ("walk_cache", self.walk_cache.map(|cache| cache.cycles)),
            ("nested_tlb", self.nested_tlb.map(|tlb| tlb.cycles)),
            ("memory", Some(self.memory_cycles)),
        ];
        let caches = self.caches.iter().map(|cache| (cache.name.as_str(), Some(cache.cycles)));
        for (part, cycles) in parts.into_iter().chain(caches) {
            if cycles.is_some_and(|cycles| !(1..=MOST_CYCLES).contains(&cycles)) {
                return Err(format!(
                    "{}: {part} takes {} cycles; from 1 to {MOST_CYCLES}",
                    self.name,
                    cycles.unwrap_or_default()
                ));
            }
        }
        Ok(())
    }

    fn check_order(&self) -> Result<(), String> {
        let name = &self.name;
        if let Some(pair) = self.caches.windows(2).find(|pair| pair[0].cycles >= pair[1].cycles) {
            return Err(format!(
                "{name}: cache {} takes {} cycles and {} behind it {}; name them nearest first",
                pair[0].name, pair[0].cycles, pair[1].name, pair[1].cycles
            ));
        }
        if let Some(pair) = self.caches.windows(2).find(|pair| pair[0].shared && !pair[1].shared) {
            return Err(format!(
                "{name}: cache {} is private behind {}, which is shared",
                pair[1].name, pair[0].name
            ));
        }
        match self.caches.last() {
            Some(last) if last.cycles >= self.memory_cycles => Err(format!(
                "{name}: memory takes {} cycles, no more than cache {}",
                self.memory_cycles, last.name
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn first(&self, pages: PageSize) -> Geometry {
        match pages {
            PageSize::Small => self.first_tlb.small,
            PageSize::Large => self.first_tlb.large,
        }
    }

    pub(crate) fn second(&self, pages: PageSize) -> Option<Geometry> {
        match pages {
            PageSize::Small => self.second_tlb.small,
            PageSize::Large => self.second_tlb.large,
        }
    }
}

impl WalkCache {
    pub fn geometry(&self) -> Geometry {
        Geometry { entries: self.entries, ways: self.ways }
    }
}

impl NestedTlb {
    pub fn geometry(&self) -> Geometry {
        Geometry { entries: self.entries, ways: self.ways }
    }
}
