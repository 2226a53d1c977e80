//! The descriptions that hypertare comes with, and ones that no hardware can be like.

use std::fs;
use std::path::Path;

use walk::{Core, Geometry, Processor, Shared};

fn shipped() -> Vec<Processor> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/hypertare/walk/processors");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| toml::from_str(&fs::read_to_string(file).unwrap()).unwrap()).collect()
}

fn named(name: &str) -> Processor {
    shipped().into_iter().find(|processor| processor.name == name).unwrap()
}

#[test]
fn every_shipped_processor_is_possible_and_says_its_sources() {
    let processors = shipped();
    assert_eq!(processors.len(), 5);
    for processor in processors {
        processor.check().unwrap();
        assert!(!processor.sources.is_empty(), "{}", processor.name);
    }
}

#[test]
fn impossible_geometries_are_refused_in_words() {
    type Change = fn(&mut Processor);
    let cases: [(Change, &str); 6] = [
        (
            |p| p.first_tlb.small = Geometry { entries: 48, ways: 5 },
            "first_tlb, 4K: 48 entries cannot be divided into sets of 5 ways",
        ),
        (
            |p| p.second_tlb.small = Some(Geometry { entries: 48, ways: 4 }),
            "second_tlb, 4K: 48 entries of 4 ways make 12 sets",
        ),
        (|p| p.first_tlb.large = Geometry { entries: 0, ways: 0 }, "first_tlb, 2M: 0 entries"),
        (|p| p.caches[0].size = 1000, "cache L2: 1000 bytes cannot be divided"),
        (|p| p.caches[1].cycles = 3, "name them nearest first"),
        (|p| p.memory_cycles = 20, "memory takes 20 cycles"),
    ];
    for (change, words) in cases {
        let mut processor = named("phenom2");
        change(&mut processor);
        let said = processor.check().unwrap_err();
        assert!(said.starts_with("phenom2: ") && said.contains(words), "{said}");
        assert_eq!(Shared::new(vec![processor], 0.5).err(), Some(said));
    }
}

#[test]
fn shares_and_numbers_of_processors_have_limits() {
    for share in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(Shared::new(vec![named("zen4")], share).err().unwrap().contains("share"));
    }
    assert!(Shared::new(Vec::new(), 0.5).is_err());
    assert!(Shared::new(vec![named("zen4"); 33], 0.5).is_err());
}

#[test]
fn a_core_reports_each_processor_as_if_alone() {
    let run = |processors: Vec<Processor>| {
        let mut shared = Shared::new(processors, 0.25).unwrap();
        let mut core = Core::new(&shared);
        let mut address = 1u64;
        for _ in 0..20_000 {
            // A linear congruential sequence over 64 MB: Knuth's MMIX constants.
            address = address
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            core.access((address >> 33) & 0x3ff_ffff);
            core.walk(&mut shared);
        }
        core.results(&shared)
    };
    let together = run(shipped());
    for (processor, result) in shipped().into_iter().zip(&together) {
        let alone = run(vec![processor]);
        assert_eq!(format!("{:?}", alone[0]), format!("{result:?}"));
        for layout in &result.layouts {
            assert_eq!(
                layout.tlb.first_tlb_misses,
                layout.tlb.second_tlb_hits + layout.walks.walks
            );
            assert!(
                layout.walks.references
                    <= layout.walks.walks * u64::from(layout.uncached_references)
            );
        }
    }
    // No EPT: nothing nested to report.
    let core2 = together.iter().find(|result| result.processor == "core2").unwrap();
    assert_eq!(core2.layouts.len(), 5);
}
