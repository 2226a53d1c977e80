//! Parts counted by hand.

use super::Mark::{Begin, End};
use super::*;
use crate::{LAYOUTS, LayoutResult, ProcessorResult, TlbCounts, Walks};

/// A program that has made so many instructions; each of its counts is another number of times as many.
fn counts(instructions: u64) -> Counts {
    let layout = LayoutResult {
        layout: LAYOUTS[0],
        uncached_references: 4,
        tlb: TlbCounts { first_tlb_misses: 3 * instructions, second_tlb_hits: 4 * instructions },
        second_tlb_cycles: 5 * instructions,
        walks: Walks {
            walks: 6 * instructions,
            references: 7 * instructions,
            memory_references: 8 * instructions,
            walk_cache_hits: 9 * instructions,
            nested_tlb_hits: 10 * instructions,
            cycles: 11 * instructions,
        },
    };
    let processor = ProcessorResult { processor: "p".into(), layouts: vec![layout] };
    Counts { instructions, accesses: 2 * instructions, processors: vec![processor] }
}

fn after(marks: &[(Mark, u64)]) -> Marks {
    let mut made = Marks::default();
    marks.iter().for_each(|&(mark, now)| made.take(mark, counts(now)));
    made
}

#[test]
fn what_lies_between_marks_counts_and_without_marks_everything() {
    for (marks, counted) in [
        (vec![], 100),
        (vec![(Begin, 10), (End, 30)], 20),
        (vec![(Begin, 10), (End, 30), (Begin, 50), (End, 55)], 20 + 5),
        // Begun twice: the first stands.
        (vec![(Begin, 10), (Begin, 20), (End, 30)], 20),
        // An end without beginning, alone and after a part.
        (vec![(End, 30)], 100),
        (vec![(Begin, 10), (End, 30), (End, 60)], 20),
        (vec![(End, 5), (Begin, 10), (End, 30)], 20),
        // No end: to the program's.
        (vec![(Begin, 10)], 90),
        (vec![(Begin, 10), (End, 30), (Begin, 60)], 20 + 40),
    ] {
        let made = after(&marks);
        assert_eq!(made.counted(counts(100)), counts(counted), "{marks:?}");
        assert_eq!(made.any(), marks.iter().any(|(mark, _)| *mark == Begin), "{marks:?}");
    }
}

#[test]
fn a_failed_exec_leaves_the_part_going_on() {
    let mut marks = after(&[(Begin, 10)]);
    assert_eq!(marks.counted(counts(20)), counts(10));
    marks.take(End, counts(30));
    assert_eq!(marks.counted(counts(40)), counts(20));
}

#[test]
fn a_part_before_the_first_access_counts_from_nothing() {
    let mut marks = Marks::default();
    marks.take(Begin, Counts::default());
    assert_eq!(marks.counted(Counts::default()), Counts::default());
    assert_eq!(marks.counted(counts(7)), counts(7));
}

#[test]
fn a_child_is_where_its_parent_was() {
    let counted = |marks: &[(Mark, u64)]| after(marks).of_child().counted(counts(5));
    assert_eq!(counted(&[]), counts(5));
    assert_eq!(counted(&[(Begin, 10)]), counts(5));
    assert_eq!(counted(&[(Begin, 10), (End, 30)]), Counts::default());
    assert_eq!(counted(&[(Begin, 10), (End, 30), (Begin, 40)]), counts(5));
    // Its own marks, of its own counts.
    let mut child = after(&[(Begin, 10), (End, 30)]).of_child();
    child.take(Begin, counts(1));
    assert_eq!(child.counted(counts(5)), counts(4));
    let mut child = after(&[(Begin, 10)]).of_child();
    child.take(End, counts(2));
    assert_eq!(child.counted(counts(5)), counts(2));
}

#[test]
fn counts_of_threads_that_seem_to_run_backwards_are_nothing() {
    assert_eq!(counts(5).since(&counts(7)), counts(0));
}

#[test]
fn a_mark_is_what_its_call_says() {
    for mark in [Begin, End] {
        let (option, which) = mark.arguments();
        assert_eq!(Mark::of(option as u64, which), Some(mark));
        // The upper half of the register is whatever was there.
        assert_eq!(Mark::of(option as u64 | (7 << 32), which), Some(mark));
        assert_eq!(Mark::of(option as u64, 3), None);
        // PR_SET_NAME.
        assert_eq!(Mark::of(15, which), None);
    }
}
