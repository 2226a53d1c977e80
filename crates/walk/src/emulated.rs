//! A description as the emulator of virtual time takes it (`-icount walks=`): its parts with colons
//! between them.

use crate::{Geometry, Processor, SecondTlb, TlbLevel, WalkCacheKind};

/// Levels of caches that the emulator has room for.
const MOST_CACHES: usize = 4;
const COSTS: std::ops::RangeInclusive<f64> = 0.1..=10.0;

impl Processor {
    /// `share`: of every cache, what page tables may hold, above 0 and at most 1. `cost`: all look-ups
    /// and references take so many times their cycles.
    ///
    /// # Errors
    /// In words, if no hardware can be like this, or the emulator has no room for it.
    pub fn for_emulator(&self, share: f64, cost: f64) -> Result<String, String> {
        self.check()?;
        if !COSTS.contains(&cost) {
            return Err(format!("page walks cost {cost} times as much; 0.1 to 10 times"));
        }
        let scaled = self.scaled(cost);
        let at_that_cost = |why| format!("{why} (in whole cycles, at {cost} times the cost)");
        scaled.check().map_err(at_that_cost)?;
        scaled.parts(share)
    }

    /// Rounded to whole cycles, at least one: what takes no time would not be looked up.
    fn scaled(&self, cost: f64) -> Self {
        let times = |cycles: u32| ((f64::from(cycles) * cost).round() as u32).max(1);
        let mut scaled = self.clone();
        scaled.second_tlb.cycles = times(self.second_tlb.cycles);
        scaled.memory_cycles = times(self.memory_cycles);
        let walk_cache = scaled.walk_cache.iter_mut().map(|part| &mut part.cycles);
        let nested_tlb = scaled.nested_tlb.iter_mut().map(|part| &mut part.cycles);
        let caches = scaled.caches.iter_mut().map(|part| &mut part.cycles);
        for cycles in walk_cache.chain(nested_tlb).chain(caches) {
            *cycles = times(*cycles);
        }
        scaled
    }

    fn parts(&self, share: f64) -> Result<String, String> {
        check_share(share)?;
        let name = &self.name;
        if self.caches.len() > MOST_CACHES {
            return Err(format!("{name}: {} caches; at most {MOST_CACHES}", self.caches.len()));
        }
        if self.levels != 4 {
            return Err(format!(
                "{name}: {} levels of page tables; emulated machines have 4",
                self.levels
            ));
        }
        let mut parts = first(&self.first_tlb);
        parts.extend(second(&self.second_tlb));
        if let Some(cache) = self.walk_cache {
            let kind = match cache.kind {
                WalkCacheKind::Table => "upper_by_place",
                WalkCacheKind::Translation => "upper_by_address",
            };
            parts.push(timed(kind, cache.geometry(), cache.cycles));
        }
        parts.extend(self.nested_tlb.map(|tlb| timed("nested", tlb.geometry(), tlb.cycles)));
        parts.extend(self.caches.iter().map(|cache| {
            let name = if cache.shared { "shared_cache" } else { "cache" };
            timed(name, cache.geometry(share), cache.cycles)
        }));
        parts.push(format!("memory={}", self.memory_cycles));
        Ok(parts.join(":"))
    }
}

/// # Errors
/// In words, if no part of a cache is like this.
pub(crate) fn check_share(share: f64) -> Result<(), String> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(format!("page tables' share of the caches is {share}; above 0, at most 1"))
}

fn first(tlb: &TlbLevel) -> Vec<String> {
    if tlb.unified {
        return vec![untimed("first_all", tlb.small)];
    }
    vec![untimed("first_4k", tlb.small), untimed("first_2m", tlb.large)]
}

fn second(tlb: &SecondTlb) -> Vec<String> {
    let small = if tlb.unified { "second_all" } else { "second_4k" };
    let large = tlb.large.filter(|_| !tlb.unified);
    [(small, tlb.small), ("second_2m", large)]
        .into_iter()
        .filter_map(|(name, geometry)| Some(timed(name, geometry?, tlb.cycles)))
        .collect()
}

fn untimed(name: &str, geometry: Geometry) -> String {
    format!("{name}={}/{}", geometry.entries, geometry.ways)
}

fn timed(name: &str, geometry: Geometry, cycles: u32) -> String {
    format!("{}/{cycles}", untimed(name, geometry))
}
