//! Uses a share of CPUs: as the load of a neighbour, or to measure how much CPU time neighbours leave.

use std::hint::black_box;
use std::io;

use anyhow::{Result, bail};
use hypertare_plan::Burn;

use super::clock::{from_seconds, now_ns, sleep_until, thread_cpu_ns, to_seconds};
use super::{Alone, Context, Outcome, WorkloadKind};
use crate::values::Definition;
use crate::workload::standalone;

/// Short beside a scheduler's slice and long beside a loop.
const PERIOD_NS: u64 = 10_000_000;

const MAX_THREADS: u32 = 1024;

impl WorkloadKind for Burn {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "how long it burned"),
        ("used_s", "s", "CPU time used by all threads"),
        ("share", "", "used time over elapsed time, per thread"),
        ("loops", "loops", "units of work done: what neighbours left of the CPU"),
    ];

    /// Runs `threads` threads that each work for `share` of every period and sleep for the rest, until
    /// `duration_s` is over or it is asked to stop; both are a good end.
    fn run(&self, context: &Context) -> Result<Outcome> {
        if !(0.0..=1.0).contains(&self.share) {
            bail!("share is {}: it must be between 0 and 1", self.share);
        }
        if !(1e-3..=1e6).contains(&self.duration_s) {
            bail!(
                "duration_s is {}: it must be between 0.001 and 1000000 seconds",
                self.duration_s
            );
        }
        if !(1..=MAX_THREADS).contains(&self.threads) {
            bail!("threads is {}: it must be between 1 and {MAX_THREADS}", self.threads);
        }
        let begin = now_ns();
        let end = begin + from_seconds(self.duration_s);
        let burnt = std::thread::scope(|scope| {
            let start = |_| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, || burn(self.share, begin, end, context))
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect::<io::Result<_>>()?;
            context.ready();
            let burnt: Vec<Burnt> = threads.into_iter().filter_map(|t| t.join().ok()).collect();
            anyhow::Ok(burnt)
        })?;
        let elapsed_s = to_seconds(now_ns() - begin);
        let used_s = to_seconds(burnt.iter().map(|thread| thread.used_ns).sum());
        Ok(Outcome::of([
            ("elapsed_s", elapsed_s),
            ("used_s", used_s),
            ("share", used_s / elapsed_s / f64::from(self.threads)),
            ("loops", burnt.iter().map(|thread| thread.loops).sum::<u64>() as f64),
        ]))
    }
}

struct Burnt {
    used_ns: u64,
    loops: u64,
}

fn burn(share: f64, begin: u64, end: u64, context: &Context) -> Burnt {
    let used_before = thread_cpu_ns();
    let mut loops = 0;
    if share == 1.0 {
        while now_ns() < end && !context.stopped() {
            work();
            loops += 1;
        }
        return Burnt { used_ns: thread_cpu_ns() - used_before, loops };
    }
    let quota = (share * PERIOD_NS as f64) as u64;
    let mut excess = 0;
    let mut period_begin = begin;
    while period_begin < end && sleep_until(period_begin, context) {
        // Time that the last loop used beyond its quota is taken off this one. Time that a crowded CPU
        // withheld is not made up for: the load would come later, at the wrong time.
        let period_end = end.min(period_begin + PERIOD_NS);
        let used_at = thread_cpu_ns();
        let allowed = quota.saturating_sub(excess);
        let mut used = 0;
        while used < allowed && now_ns() < period_end {
            work();
            loops += 1;
            used = thread_cpu_ns() - used_at;
        }
        excess = (excess + used).saturating_sub(quota);
        // Periods begin at absolute times; those that passed while the thread had to wait are left out.
        let now = now_ns();
        period_begin = (period_begin + PERIOD_NS).max(now - (now - begin) % PERIOD_NS);
    }
    sleep_until(end, context);
    Burnt { used_ns: thread_cpu_ns() - used_before, loops }
}

/// One loop: a chain of 4096 steps of a linear congruential generator (Knuth's MMIX constants). It takes a
/// few microseconds, in which no two instructions can overlap and no memory is used.
fn work() {
    let mut x = black_box(1u64);
    for _ in 0..4096 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

/// Use a share of CPUs
#[derive(clap::Args)]
pub struct Arguments {
    /// Of one CPU, for each thread; 0 to 1
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time: f64,
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let context = standalone::context("burn", standalone::stop_by_signal()?, || ());
        let spec = Burn { share: self.share, duration_s: self.time, threads: self.threads };
        let outcome = spec.run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            format!(
                "{:.3} s of CPU time in {:.3} s: {:.1} % of one CPU for each thread, {} loops\n",
                outcome.value("used_s"),
                outcome.value("elapsed_s"),
                100.0 * outcome.value("share"),
                outcome.value("loops"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::emit::Emitter;
    use crate::tried_again::tried_again;

    fn context(stop: &Arc<AtomicBool>) -> Context {
        let emitter = Arc::new(Emitter::new(io::sink()));
        Context::new(("node", 1, "phase", "task"), emitter, stop.clone(), || {})
    }

    fn outcome(share: f64, threads: u32, duration_s: f64) -> Outcome {
        Burn { share, duration_s, threads }.run(&context(&Arc::default())).unwrap()
    }

    #[test]
    fn uses_its_share_and_no_more() {
        let quarter = outcome(0.25, 1, 0.5);
        let values = &quarter.values;
        // Less when the machine is crowded, never more.
        assert!((0.005..0.27).contains(&values["share"]), "{values:?}");
        assert!((values["used_s"] - values["share"] * values["elapsed_s"]).abs() < 1e-9);
        assert!((0.5..2.0).contains(&values["elapsed_s"]), "{values:?}");
        assert!(values["loops"] > 10.0, "{values:?}");
    }

    /// How often this thread gave the CPU up by itself, which no neighbour has a say in.
    fn voluntary_switches() -> i64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    }

    #[test]
    fn a_whole_share_does_not_sleep() {
        let sleeps = |share| {
            let before = voluntary_switches();
            let begin = now_ns();
            let burnt = burn(share, begin, begin + 300_000_000, &context(&Arc::default()));
            assert!(burnt.used_ns > 0 && burnt.loops > 0);
            voluntary_switches() - before
        };
        assert!(sleeps(1.0) <= 2);
        assert!(sleeps(0.1) >= 5);
    }

    #[test]
    fn every_thread_burns() {
        let values = outcome(1.0, 2, 0.3).values;
        let share = values["used_s"] / values["elapsed_s"] / 2.0;
        assert!((values["share"] - share).abs() < 1e-9, "{values:?}");
        assert!(values["share"] > 0.0 && values["share"] < 1.01, "{values:?}");
    }

    #[test]
    fn no_share_only_waits() {
        let none = outcome(0.0, 1, 0.2);
        assert!(none.values["share"] < 0.02, "{:?}", none.values);
        assert_eq!(none.values["loops"], 0.0);
    }

    #[test]
    fn a_stop_is_a_good_end() {
        tried_again(|| {
            for share in [0.5, 1.0] {
                let stop = Arc::new(AtomicBool::new(false));
                let context = context(&stop);
                let spec = Burn { share, duration_s: 60.0, threads: 1 };
                let burner = std::thread::spawn(move || spec.run(&context));
                std::thread::sleep(Duration::from_millis(100));
                stop.store(true, Ordering::Relaxed);
                let asked = Instant::now();
                let values = burner.join().unwrap().unwrap().values;
                assert!(asked.elapsed() < Duration::from_secs(2));
                assert!(values["elapsed_s"] < 3.0 && values["used_s"] > 0.0, "{values:?}");
            }
        });
    }

    #[test]
    fn nonsense_is_refused() {
        for (share, duration_s, threads, word) in [
            (f64::NAN, 1.0, 1, "share"),
            (1.1, 1.0, 1, "share"),
            (0.5, 0.0, 1, "duration_s"),
            (0.5, f64::INFINITY, 1, "duration_s"),
            (0.5, 1.0, 0, "threads"),
            (0.5, 1.0, 5000, "threads"),
        ] {
            let error = Burn { share, duration_s, threads }.run(&context(&Arc::default()));
            assert!(error.unwrap_err().to_string().contains(word));
        }
    }
}
