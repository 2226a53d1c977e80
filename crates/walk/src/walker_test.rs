//! Walks counted by hand.

use super::*;
use crate::processor::{CacheLevel, NestedTlb, SecondTlb, TlbLevel, WalkCache};
use crate::{Geometry, LAYOUTS};

const MEMORY: u32 = 100;

/// A processor that remembers nothing of a walk.
fn bare() -> Processor {
    let geometry = Geometry { entries: 2, ways: 2 };
    Processor {
        name: "bare".into(),
        title: String::new(),
        nested: true,
        levels: 4,
        first_tlb: TlbLevel { small: geometry, large: geometry, unified: false },
        second_tlb: SecondTlb { small: None, large: None, cycles: 0, unified: false },
        walk_cache: None,
        nested_tlb: None,
        caches: Vec::new(),
        memory_cycles: MEMORY,
        sources: Vec::new(),
        assumed: Vec::new(),
    }
}

fn walked(processor: &Processor, layout: Layout, addresses: &[u64]) -> Walks {
    processor.check().expect("a possible processor");
    let mut tables = Tables::new(layout, processor.levels);
    let mut shared = SharedCaches::new(processor, 1.0);
    let mut walker = Walker::new(processor, layout, 1.0);
    for &address in addresses {
        walker.walk(address, &mut tables, &mut shared);
    }
    walker.walks
}

fn nested(guest: PageSize, host: PageSize) -> Layout {
    Layout { paging: Paging::Nested, guest_pages: guest, host_pages: Some(host) }
}

#[test]
fn without_caches_a_nested_walk_takes_mn_m_n_references() {
    use PageSize::{Large, Small};
    for (layout, references) in [
        (nested(Small, Small), 24),
        (nested(Small, Large), 19),
        (nested(Large, Small), 19),
        (nested(Large, Large), 15),
    ] {
        let walks = walked(&bare(), layout, &[0x7fff_1234_5678]);
        assert_eq!(walks.references, references, "{layout:?}");
        assert_eq!(walks.cycles, references * u64::from(MEMORY));
        assert_eq!(u64::from(layout.uncached_references(4)), references);
    }
}

#[test]
fn without_caches_every_layout_takes_what_it_says() {
    for levels in [3, 4, 5] {
        let processor = Processor { levels, ..bare() };
        for layout in LAYOUTS {
            let walks = walked(&processor, layout, &[0x1234_5678, 0x1234_5678, 0x7fff_0000]);
            let expected = 3 * u64::from(layout.uncached_references(levels));
            assert_eq!(walks.references, expected, "{levels} levels, {layout:?}");
            assert_eq!(walks.memory_references, expected);
        }
    }
}

#[test]
fn a_translation_cache_leaves_the_last_level_to_walk() {
    let cache = WalkCache { kind: WalkCacheKind::Translation, entries: 8, ways: 8, cycles: 1 };
    let processor = Processor { walk_cache: Some(cache), ..bare() };
    // Two pages of one table: 4 references, then the leaf alone. Then one of another table under the
    // same upper one: 2. Each walk asks the cache once.
    let walks = walked(&processor, LAYOUTS[0], &[0, 0x1000, 0x20_0000]);
    assert_eq!(walks.references, 4 + 1 + 2);
    assert_eq!(walks.walk_cache_hits, 2);
    assert_eq!(walks.cycles, 7 * u64::from(MEMORY) + 3);
}

#[test]
fn a_table_cache_makes_upper_steps_quick() {
    let cache = WalkCache { kind: WalkCacheKind::Table, entries: 8, ways: 8, cycles: 2 };
    let processor = Processor { walk_cache: Some(cache), ..bare() };
    // 4 references; then 3 upper entries from the cache and the leaf; the same page again: the leaf is
    // never held.
    let walks = walked(&processor, LAYOUTS[0], &[0, 0x1000, 0x1000]);
    assert_eq!(walks.references, 4 + 1 + 1);
    assert_eq!(walks.walk_cache_hits, 6);
    assert_eq!(walks.cycles, 6 * u64::from(MEMORY) + 6 * 2);
}

#[test]
fn a_translation_cache_shortens_both_dimensions() {
    let cache = WalkCache { kind: WalkCacheKind::Translation, entries: 64, ways: 64, cycles: 1 };
    let processor = Processor { walk_cache: Some(cache), ..bare() };
    let layout = nested(PageSize::Small, PageSize::Small);
    // The guest's tables and its first page are five pages that lie in one 2 MB region of the guest's
    // memory: the first host walk takes 4 references, the other four the leaf alone; and 4 guest
    // references: 12. Again: the guest's leaf entry, whose place is remembered, 1, and the host's leaf
    // for the data, 1.
    assert_eq!(walked(&processor, layout, &[0]).references, 12);
    assert_eq!(walked(&processor, layout, &[0, 0]).references, 12 + 2);
}

#[test]
fn a_nested_tlb_saves_the_second_dimension() {
    let tlb = NestedTlb { entries: 8, ways: 8, cycles: 3 };
    let processor = Processor { nested_tlb: Some(tlb), ..bare() };
    let layout = nested(PageSize::Small, PageSize::Large);
    // All of the guest's memory so far is one host page: one host walk of 3, 4 guest references. Then
    // 4 guest references alone. Five look-ups of the nested TLB a walk.
    let walks = walked(&processor, layout, &[0, 0]);
    assert_eq!(walks.references, 3 + 4 + 4);
    assert_eq!(walks.nested_tlb_hits, 4 + 5);
    assert_eq!(walks.cycles, 11 * u64::from(MEMORY) + 10 * 3);
}

#[test]
fn each_host_page_of_a_large_guest_page_is_walked_to() {
    let tlb = NestedTlb { entries: 16, ways: 16, cycles: 3 };
    let processor = Processor { nested_tlb: Some(tlb), ..bare() };
    let layout = nested(PageSize::Large, PageSize::Small);
    // One guest page of 2 MB, of which the host backs each 4 KB with a page of its own. The first walk:
    // 3 guest entries and the data, each with a host walk of 4: 3 + 16. An address in the next 4 KB: the
    // guest's three tables are in the nested TLB, the data's host page is another one: 3 + 4. The last
    // 4 KB of the guest page: the same. The first again, at another byte: all four are held: 3.
    let walks = walked(&processor, layout, &[0, 0x1000, 0x1f_f000, 0x8]);
    assert_eq!(walks.references, 19 + 7 + 7 + 3);
    assert_eq!(walks.nested_tlb_hits, 3 + 3 + 4);
    assert_eq!(walks.cycles, 36 * u64::from(MEMORY) + 16 * 3);
}

#[test]
fn entries_of_one_line_come_together() {
    let cache = CacheLevel { name: "L1".into(), size: 4096, ways: 8, cycles: 4, shared: false };
    let processor = Processor { caches: vec![cache], ..bare() };
    // Pages 0 to 7 have their leaf entries in one line, page 8 in the next: 4 lines from memory for the
    // first walk, 1 for the last; all else, 4 references a walk, from the cache.
    let addresses: Vec<u64> = (0..9).map(|page| page << 12).collect();
    let walks = walked(&processor, LAYOUTS[0], &addresses);
    assert_eq!(walks.references, 36);
    assert_eq!(walks.memory_references, 5);
    assert_eq!(walks.cycles, 5 * u64::from(MEMORY) + 31 * 4);
}

#[test]
fn a_shared_cache_serves_the_second_core() {
    let cache = CacheLevel { name: "L3".into(), size: 4096, ways: 8, cycles: 40, shared: true };
    let processor = Processor { caches: vec![cache], ..bare() };
    let mut tables = Tables::new(LAYOUTS[0], 4);
    let mut shared = SharedCaches::new(&processor, 1.0);
    let mut cores = [(); 2].map(|()| Walker::new(&processor, LAYOUTS[0], 1.0));
    for core in &mut cores {
        core.walk(0, &mut tables, &mut shared);
    }
    assert_eq!(cores.map(|core| core.walks.memory_references), [4, 0]);
}
