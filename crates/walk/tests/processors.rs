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
    let cases: [(Change, &str); 10] = [
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
        (
            |p| p.first_tlb.large = Geometry { entries: 8, ways: 8 },
            "first_tlb is unified, and not alike for 4K and 2M",
        ),
        (|p| p.second_tlb.unified = true, "second_tlb is unified"),
        (|p| p.second_tlb.cycles = 0, "second_tlb takes 0 cycles; from 1"),
        (|p| p.caches[0].cycles = 0, "L2 takes 0 cycles; from 1"),
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
fn the_emulator_has_every_part_of_a_description() {
    let of = |name, share| named(name).for_emulator(share, 1.0).unwrap();
    // A quarter of the ways of each cache, in the sets that it has.
    assert_eq!(
        of("phenom2", 0.25),
        "first_all=48/48:second_4k=512/4/5:second_2m=128/2/5:upper_by_place=24/24/2:nested=16/16/2:\
         cache=2048/4/15:shared_cache=24576/12/55:memory=180"
    );
    let zen4 = of("zen4", 0.5);
    assert!(zen4.starts_with("first_all=72/72:second_all=3072/24/7:upper_by_address=64/64/1:"));
    assert!(zen4.ends_with(":cache=8192/4/14:shared_cache=262144/8/50:memory=400"), "{zen4}");
    assert!(of("nehalem", 0.25).starts_with("first_4k=64/4:first_2m=32/4:second_4k=512/4/7:upper"));
    assert!(!of("core2", 0.25).contains("nested"));
}

#[test]
fn walks_cost_more_or_less_in_whole_cycles() {
    let costs = |cost| {
        let parts = named("phenom2").for_emulator(0.25, cost).unwrap();
        let of = |part: &str| part.rsplit(['/', '=']).next().unwrap().parse().unwrap();
        parts.split(':').skip(1).map(of).collect::<Vec<u32>>()
    };
    assert_eq!(costs(1.0), [5, 5, 2, 2, 15, 55, 180]);
    assert_eq!(costs(2.0), [10, 10, 4, 4, 30, 110, 360]);
    assert_eq!(costs(0.5), [3, 3, 1, 1, 8, 28, 90]);
    for wrong in [0.0, 0.09, 10.1, -1.0, f64::NAN, f64::INFINITY] {
        let error = named("phenom2").for_emulator(0.25, wrong).unwrap_err();
        assert!(error.contains("0.1 to 10 times"), "{error}");
    }
    // Of 3 and 14 cycles one is left of each.
    let error = named("core2").for_emulator(0.25, 0.1).unwrap_err();
    assert!(error.contains("nearest first") && error.contains("at 0.1 times"), "{error}");
}

#[test]
fn what_the_emulator_has_no_room_for_is_refused() {
    let mut processor = named("zen4");
    assert!(processor.for_emulator(0.0, 1.0).unwrap_err().contains("share"));
    for (name, cycles) in [("L4", 60), ("L5", 70)] {
        let last = processor.caches[2].clone();
        processor.caches.push(walk::CacheLevel { name: name.into(), cycles, ..last });
    }
    assert_eq!(processor.for_emulator(0.25, 1.0), Err("zen4: 5 caches; at most 4".into()));
    let deep = Processor { levels: 5, ..named("zen4") };
    assert!(deep.for_emulator(0.25, 1.0).unwrap_err().contains("emulated machines have 4"));
    let mut wrong = named("phenom2");
    wrong.memory_cycles = 1;
    assert_eq!(wrong.for_emulator(0.25, 1.0), Err(wrong.check().unwrap_err()));
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
