//! The TLBs against an oracle that was written to be obvious, not fast: each set a list in the order
//! of use.

use proptest::prelude::*;
use walk::{
    Core, Geometry, Miss, PageSize, Processor, SecondTlb, Shared, TlbCounts, TlbLevel, Tlbs,
};

/// Cycles of a look-up in the second level.
const LOOK_UP: u64 = 7;

/// One level, searched and sorted as the textbook has it.
struct Level {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Level {
    fn new(geometry: Geometry) -> Self {
        let ways = geometry.ways as usize;
        Self { sets: vec![Vec::new(); geometry.entries as usize / ways], ways }
    }

    fn access(&mut self, page: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(page % count) as usize];
        let hit = set.contains(&page);
        set.retain(|&held| held != page);
        set.push(page);
        if set.len() > self.ways {
            set.remove(0);
        }
        hit
    }
}

/// What a processor does with addresses, for one size of pages: its counts and the pages it walks to.
fn oracle(
    first: Geometry,
    second: Option<Geometry>,
    pages: PageSize,
    addresses: &[u64],
) -> (TlbCounts, Vec<u64>) {
    let (mut first, mut second) = (Level::new(first), second.map(Level::new));
    let (mut counts, mut walks) = (TlbCounts::default(), Vec::new());
    for address in addresses {
        let page = address >> pages.shift();
        if first.access(page) {
            continue;
        }
        counts.first_tlb_misses += 1;
        if second.as_mut().is_some_and(|second| second.access(page)) {
            counts.second_tlb_hits += 1;
        } else {
            walks.push(page);
        }
    }
    (counts, walks)
}

fn geometry() -> impl Strategy<Value = Geometry> {
    (0u32..4, 1u32..7).prop_map(|(sets, ways)| Geometry { entries: ways << sets, ways })
}

fn processor() -> impl Strategy<Value = Processor> {
    let second = || prop::option::of(geometry());
    (geometry(), geometry(), second(), second()).prop_map(|(small, large, second, second_large)| {
        Processor {
            name: "any".into(),
            title: String::new(),
            nested: true,
            levels: 4,
            first_tlb: TlbLevel { small, large, unified: false },
            second_tlb: SecondTlb {
                small: second,
                large: second_large,
                cycles: LOOK_UP as u32,
                unified: false,
            },
            walk_cache: None,
            nested_tlb: None,
            caches: Vec::new(),
            memory_cycles: 100,
            sources: Vec::new(),
            assumed: Vec::new(),
        }
    })
}

/// Addresses as programs make them: a few pages over and over, neighbours, and far ones; in few enough
/// regions that sets fill up, some of which share a place among the recent ones.
fn addresses() -> impl Strategy<Value = Vec<u64>> {
    let page = prop_oneof![
        4 => 0u64..4,
        3 => 0u64..64,
        2 => (0u64..12).prop_map(|region| region << 9),
        1 => (0u64..3).prop_map(|region| region << 19),
    ];
    let address = (page, 0u64..4096).prop_map(|(page, offset)| (page << 12) | offset);
    prop::collection::vec(address, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tlbs_miss_what_the_oracle_misses(
        processors in prop::collection::vec(processor(), 1..5),
        addresses in addresses(),
    ) {
        let mut tlbs = Tlbs::new(&processors);
        addresses.iter().for_each(|&address| tlbs.access(address));
        let misses: Vec<Miss> = tlbs.drain_misses().collect();
        prop_assert_eq!(tlbs.accesses(), addresses.len() as u64);
        for (number, processor) in processors.iter().enumerate() {
            for (size, first, second) in [
                (PageSize::Small, processor.first_tlb.small, processor.second_tlb.small),
                (PageSize::Large, processor.first_tlb.large, processor.second_tlb.large),
            ] {
                let (counts, walks) = oracle(first, second, size, &addresses);
                prop_assert_eq!(tlbs.counts(number, size), counts);
                let walked: Vec<u64> = misses
                    .iter()
                    .filter(|miss| usize::from(miss.processor) == number && miss.pages == size)
                    .map(|miss| miss.address >> size.shift())
                    .collect();
                prop_assert_eq!(walked, walks);
            }
        }
    }

    #[test]
    fn each_access_that_the_first_level_lacks_waits_for_the_second(
        processor in processor(),
        addresses in addresses(),
    ) {
        let mut shared = Shared::new(vec![processor.clone()], 1.0).unwrap();
        let mut core = Core::new(&shared);
        addresses.iter().for_each(|&address| { core.access(address); });
        core.walk(&mut shared);
        for layout in &core.results(&shared)[0].layouts {
            let pages = layout.layout.entry_pages();
            let (first, second) = match pages {
                PageSize::Small => (processor.first_tlb.small, processor.second_tlb.small),
                PageSize::Large => (processor.first_tlb.large, processor.second_tlb.large),
            };
            let (hits, walks) = oracle(first, second, pages, &addresses);
            let waited = match (processor.second_tlb.small, processor.second_tlb.large) {
                (None, None) => 0,
                // Those that find their page there, and those that must walk after all.
                _ => LOOK_UP * (hits.second_tlb_hits + walks.len() as u64),
            };
            prop_assert_eq!(layout.second_tlb_cycles, waited);
            prop_assert_eq!(layout.walks.walks, walks.len() as u64);
        }
    }
}

#[test]
fn what_look_ups_cost_by_hand() {
    let of = |small: Option<u32>, large: Option<u32>| {
        let whole = |entries| Geometry { entries, ways: entries };
        Processor {
            name: "hand".into(),
            title: String::new(),
            nested: true,
            levels: 4,
            first_tlb: TlbLevel { small: whole(2), large: whole(1), unified: false },
            second_tlb: SecondTlb {
                small: small.map(whole),
                large: large.map(whole),
                cycles: LOOK_UP as u32,
                unified: false,
            },
            walk_cache: None,
            nested_tlb: None,
            caches: Vec::new(),
            memory_cycles: 100,
            sources: Vec::new(),
            assumed: Vec::new(),
        }
    };
    // Small pages 0 1 0 2 1 0 and 512, which is of the next large one. The first level has two: 0, 1
    // miss; 0 hits; 2 takes the place of 1; 1 that of 0; 0 that of 2; 512: six misses. The second has
    // three and is asked for 0 1 2 1 0 512: 1 and 0 are there, four walk.
    // Large pages: 0 misses, then hits, 1 misses: two misses, and nothing twice: two walks.
    let addresses = [0, 1, 0, 2, 1, 0, 512].map(|page: u64| page << 12);
    for (small, large, expected) in [
        (Some(3), Some(3), [(6 * LOOK_UP, 4), (2 * LOOK_UP, 2)]),
        // One for small pages alone is looked up for the large ones too, and never has them.
        (Some(3), None, [(6 * LOOK_UP, 4), (2 * LOOK_UP, 2)]),
        (None, None, [(0, 6), (0, 2)]),
    ] {
        let mut shared = Shared::new(vec![of(small, large)], 1.0).unwrap();
        let mut core = Core::new(&shared);
        addresses.iter().for_each(|&address| {
            core.access(address);
        });
        core.walk(&mut shared);
        let results = core.results(&shared);
        // Native: small, then large pages; no cache, so that 4 and 3 references of a walk take 100
        // cycles each.
        for (layout, (waited, walks), references) in
            [(&results[0].layouts[0], expected[0], 4), (&results[0].layouts[1], expected[1], 3)]
        {
            assert_eq!(layout.second_tlb_cycles, waited, "{small:?} {large:?}");
            assert_eq!(layout.walks.walks, walks);
            assert_eq!(layout.walks.cycles, walks * references * 100);
        }
    }
}
