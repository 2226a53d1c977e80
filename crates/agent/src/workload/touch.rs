//! Reads memory in random order: the extreme of work that needs page tables and changes none.
//!
//! A chase of pointers: each line of 64 bytes holds the address of the next, all lines lie on one
//! cycle, so each read waits for the one before and the whole of every TLB miss and page walk is in
//! the time (McVoy & Staelin, "lmbench", USENIX 1996, `lat_mem_rd`; Drepper, "What every programmer
//! should know about memory", 2007, section 3.3.2, with random order so that no prefetcher helps).
//! Computed addresses (a generator's numbers as indices) would let a CPU overlap walks and hide their time.
//!
//! The order is the same in every run and on every platform. The cycle is laid in the order of the
//! addresses, so that filling the working set is one pass over it: a shuffle would make as many
//! random accesses before the counted ones, which a model of page walks cannot distinguish.

mod cycle;
mod mapping;
pub mod standalone;

use anyhow::{Result, bail, ensure};
use hypertare_plan::{Pages, Touch};

use super::clock::{from_seconds, now_ns, to_seconds};
use super::usage::Usage;
use super::{Context, Outcome, WorkloadKind};
use crate::values::Definition;
use cycle::Cycle;
use mapping::Mapping;

/// Reads from one look at the clock to the next: some milliseconds at worst.
const CHUNK: u64 = 1 << 14;

const LINE: usize = 64;

impl WorkloadKind for Touch {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "time of the reads"),
        ("accesses", "reads", "reads, each of another cache line of the working set"),
        ("minor_faults", "faults", "page faults during the reads"),
        ("major_faults", "faults", "of those that had to read a disk"),
        ("user_s", "s", "CPU time in user mode during the reads"),
        ("system_s", "s", "CPU time in the kernel during the reads"),
        ("setup_s", "s", "time of mapping and filling the working set before, not in elapsed_s"),
        ("setup_faults", "faults", "page faults of mapping and filling it, not in minor_faults"),
        ("memory_bytes", "B", "size of the working set"),
        ("huge_bytes", "B", "of that in pages of 2 MB, as the kernel says after the reads"),
    ];

    /// Fills the working set and reads in it.
    ///
    /// Fails when the memory cannot be had as asked for, and when a fixed count is stopped before it is
    /// done.
    fn run(&self, context: &Context) -> Result<Outcome> {
        let (mapping, mut outcome) = work(self, context)?;
        let huge = mapping.huge_bytes()?;
        if self.pages == Some(Pages::Transparent) && huge == 0 {
            context
                .warn("no page of the working set is huge: is THP switched off here?".to_owned());
        }
        outcome.set("huge_bytes", huge as f64);
        Ok(outcome)
    }
}

/// The measurements, with their working set. It does not ask the kernel for the pages' sizes, as `run`
/// does: the answer is as long as the process's map of memory, so that reading it is different work in each
/// run.
fn work(spec: &Touch, context: &Context) -> Result<(Mapping, Outcome)> {
    let end = End::of(spec)?;
    let setup = (now_ns(), Usage::now());
    let mut mapping = Mapping::new(spec.memory, spec.pages)?;
    fill(mapping.lines(), &Cycle::new(spec.memory / LINE as u64));
    let setup_s = to_seconds(now_ns() - setup.0);
    let setup_faults = Usage::now().since(&setup.1).faults();
    context.ready();
    let before = Usage::now();
    let begin = now_ns();
    let accesses = read(&mapping, &end, begin, context)?;
    let elapsed_s = to_seconds(now_ns() - begin);
    let usage = Usage::now().since(&before);
    let mut outcome = Outcome::default();
    outcome
        .set("elapsed_s", elapsed_s)
        .set("accesses", accesses as f64)
        .set("setup_s", setup_s)
        .set("setup_faults", setup_faults as f64)
        .set("memory_bytes", spec.memory as f64);
    usage.report(&mut outcome);
    Ok((mapping, outcome))
}

/// When to end.
enum End {
    Count(u64),
    After(u64),
}

impl End {
    fn of(spec: &Touch) -> Result<Self> {
        match (spec.count, spec.duration_s) {
            (Some(count), None) => {
                ensure!(count > 0, "count is 0, but must be at least 1");
                Ok(End::Count(count))
            }
            (None, Some(seconds)) => {
                let allowed = seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0;
                ensure!(allowed, "duration_s is {seconds}, but must be above 0 and at most 86400");
                Ok(End::After(from_seconds(seconds)))
            }
            _ => bail!("count or duration_s must be given, and not both"),
        }
    }
}

/// Each line holds the address of the next one.
fn fill(lines: &mut [CacheLine], cycle: &Cycle) {
    let base = lines.as_ptr();
    for (index, line) in lines.iter_mut().enumerate() {
        line.0[0] = base.wrapping_add(cycle.after(index as u64) as usize);
    }
}

/// One cache line.
#[repr(C, align(64))]
struct CacheLine([*const CacheLine; LINE / 8]);

fn read(mapping: &Mapping, end: &End, begin: u64, context: &Context) -> Result<u64> {
    let mut line = mapping.first();
    let mut done = 0;
    loop {
        let chunk = match end {
            End::Count(count) if done == *count => return Ok(done),
            End::Count(count) if context.stopped() => {
                bail!("stopped after {done} of {count} reads")
            }
            End::Count(count) => CHUNK.min(count - done),
            End::After(time) if now_ns() - begin >= *time || context.stopped() => return Ok(done),
            End::After(_) => CHUNK,
        };
        line = chase(line, chunk);
        done += chunk;
    }
}

/// Eight reads a turn: the instructions around a read take virtual time as well, so that the compiler must
/// not choose their number.
#[inline(never)]
fn chase(mut line: *const CacheLine, steps: u64) -> *const CacheLine {
    for _ in 0..steps / 8 {
        line = next(next(next(next(next(next(next(next(line))))))));
    }
    for _ in 0..steps % 8 {
        line = next(line);
    }
    line
}

#[inline(always)]
fn next(line: *const CacheLine) -> *const CacheLine {
    // SAFETY: every line of the mapping holds the address of another one of it.
    unsafe { (&raw const (*line).0).cast::<*const CacheLine>().read_volatile() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;
    use crate::emit::Emitter;

    fn context(stop: bool) -> Context {
        let emitter = Arc::new(Emitter::new(std::io::sink()));
        let stop = Arc::new(AtomicBool::new(stop));
        Context::new(("node", 1, "phase", "task"), emitter, stop, || {})
    }

    fn spec(memory: u64, count: Option<u64>, duration_s: Option<f64>) -> Touch {
        Touch { memory, pages: Some(Pages::Small), count, duration_s }
    }

    proptest! {
        #[test]
        fn so_many_reads_as_asked_for_go_round_every_line(pages in 1u64..40, count in 1u64..40_000) {
            let outcome = spec(pages * 4096, Some(count), None).run(&context(false)).unwrap();
            prop_assert_eq!(outcome.values["accesses"], count as f64);
            // Filling touches every page once; what else faults there is the agent's own.
            prop_assert!(outcome.values["setup_faults"] >= pages as f64);
            let mut mapping = Mapping::new(pages * 4096, Some(Pages::Small)).unwrap();
            fill(mapping.lines(), &Cycle::new(pages * 64));
            let mut line = mapping.first();
            let seen: HashSet<*const CacheLine> =
                (0..pages * 64).map(|_| { line = chase(line, 1); line }).collect();
            prop_assert_eq!(seen.len() as u64, pages * 64);
            prop_assert_eq!(line, mapping.first());
        }
    }

    #[test]
    fn a_duration_ends_it_and_so_does_a_stop() {
        let values = spec(1 << 20, None, Some(0.05)).run(&context(false)).unwrap().values;
        assert!(values["elapsed_s"] >= 0.05 && values["accesses"] >= CHUNK as f64, "{values:?}");
        assert_eq!(values["huge_bytes"], 0.0);
        let stopped = spec(1 << 20, None, Some(60.0)).run(&context(true)).unwrap().values;
        assert!(stopped["elapsed_s"] < 1.0);
        let error = spec(1 << 20, Some(1 << 40), None).run(&context(true)).unwrap_err();
        assert!(error.to_string().starts_with("stopped after 0 of"), "{error}");
    }

    #[test]
    fn nonsense_is_refused() {
        for (spec, word) in [
            (spec(0, Some(1), None), "memory"),
            (spec(5000, Some(1), None), "4096"),
            (spec(u64::MAX << 12, Some(1), None), "memory"),
            (spec(4096, Some(0), None), "count"),
            (spec(4096, None, None), "count or duration_s"),
            (spec(4096, Some(1), Some(1.0)), "count or duration_s"),
            (spec(4096, None, Some(f64::NAN)), "duration_s"),
            (Touch { pages: Some(Pages::Huge), ..spec(4096, Some(1), None) }, "2097152"),
        ] {
            let error = spec.run(&context(false)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
