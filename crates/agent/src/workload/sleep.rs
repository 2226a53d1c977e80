//! How late a sleeping thread wakes: the time that scheduler, timer and hypervisor add to a sleep.
//!
//! It measures what cyclictest(8) (rt-tests) does: a thread sleeps to an absolute time, looks at the clock,
//! and so on at a fixed interval. A wake-up may be so late that the times of the next ones are over. Those
//! are left out and counted as missed: woken at once, they would look punctual beside it.

use std::io;

use anyhow::{Context as _, Result, anyhow, ensure};
use hypertare_plan::Sleep;

use super::clock::{STOP_NS, from_seconds, now_ns, sleep_exactly, sleep_once, to_seconds};
use super::latencies::{Latencies, rows};
use super::{Alone, Context, Outcome, WorkloadKind};
use crate::process::cpus;
use crate::values::Definition;
use crate::workload::standalone;

/// A wake-up is some microseconds of work even in a thread that does nothing else.
const LEAST_INTERVAL_NS: u64 = 10_000;

impl WorkloadKind for Sleep {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "time over which was counted"),
        ("wakeups", "wakeups", "wake-ups of all threads"),
        (
            "missed",
            "wakeups",
            "those whose time was over before their thread woke from the one before",
        ),
        (
            "wakeup_min_ns",
            "ns",
            "least wake-up latency: from the time asked for to the thread's own look",
        ),
        ("wakeup_mean_ns", "ns", "mean wake-up latency"),
        ("wakeup_p50_ns", "ns", "median wake-up latency"),
        ("wakeup_p90_ns", "ns", "90th percentile of the wake-up latency"),
        ("wakeup_p99_ns", "ns", "99th percentile of the wake-up latency"),
        ("wakeup_p999_ns", "ns", "99.9th percentile of the wake-up latency"),
        ("wakeup_max_ns", "ns", "greatest wake-up latency"),
    ];

    /// Sleeps and wakes until `duration_s` is over or it is asked to stop; both are a good end.
    fn run(&self, context: &Context) -> Result<Outcome> {
        check(self)?;
        let cpus = own_cpus(self.threads)?;
        let interval_ns = from_seconds(self.interval_s);
        let duration_ns = from_seconds(self.duration_s);
        let begin = now_ns();
        let slept = std::thread::scope(|scope| {
            let start = |&cpu: &Option<u32>| {
                let sleep = move || sleep(cpu, interval_ns, duration_ns, context);
                std::thread::Builder::new().spawn_scoped(scope, sleep)
            };
            let threads = cpus.iter().map(start).collect::<io::Result<Vec<_>>>()?;
            context.ready();
            let failed = |_| Err(anyhow!("a thread that slept has failed"));
            let slept = threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed));
            slept.collect::<Result<Vec<_>>>()
        })?;
        outcome(&slept, duration_ns, to_seconds(now_ns() - begin))
    }
}

fn check(spec: &Sleep) -> Result<()> {
    let &Sleep { interval_s, duration_s, threads } = spec;
    // A thread must notice within that time that it was asked to stop.
    let (least, most) = (to_seconds(LEAST_INTERVAL_NS), to_seconds(STOP_NS));
    ensure!(
        (least..=most).contains(&interval_s),
        "interval_s is {interval_s}: it must be between {least} and {most} seconds"
    );
    ensure!(
        (interval_s..=86_400.0).contains(&duration_s),
        "duration_s is {duration_s}: it must be between interval_s, {interval_s}, and 86400 seconds"
    );
    ensure!(threads > 0, "threads is 0: nothing would be measured");
    Ok(())
}

/// For each thread a CPU that no other one has, as with cyclictest's --affinity, so that none waits for
/// another. One alone may go where the scheduler takes it.
fn own_cpus(threads: u32) -> Result<Vec<Option<u32>>> {
    if threads == 1 {
        return Ok(vec![None]);
    }
    let usable = cpus::of(0)?;
    ensure!(
        usable.len() >= threads as usize,
        "threads is {threads}, each with a CPU of its own, but there are {} that it may use",
        usable.len()
    );
    Ok(usable.into_iter().take(threads as usize).map(Some).collect())
}

/// The measurements of one thread.
struct Slept {
    latencies: Latencies,
    missed: u64,
}

fn sleep(cpu: Option<u32>, interval_ns: u64, duration_ns: u64, context: &Context) -> Result<Slept> {
    cpus::bind(0, cpu.as_slice()).context("a thread cannot be bound to its CPU")?;
    // Else the kernel may add up to 50 µs to a sleep, to wake several threads at once.
    sleep_exactly();
    let mut slept = Slept { latencies: Latencies::new(duration_ns)?, missed: 0 };
    // The first sleep is not counted: its caches are cold, and the later ones' are warm.
    sleep_once(now_ns() + interval_ns);
    let begin = now_ns();
    let last = duration_ns / interval_ns;
    let mut number = 1;
    while number <= last {
        let due = begin + number * interval_ns;
        let Some(woken) = sleep_to(due, context) else { break };
        slept.latencies.record(woken - due);
        let next = number_after(woken - begin, interval_ns);
        slept.missed += next.min(last + 1) - number - 1;
        number = next;
    }
    Ok(slept)
}

/// When it woke; `None` when it was asked to stop.
fn sleep_to(due: u64, context: &Context) -> Option<u64> {
    loop {
        if context.stopped() {
            return None;
        }
        // A signal wakes it early.
        sleep_once(due);
        let now = now_ns();
        if now >= due {
            return Some(now);
        }
    }
}

/// The number of the first whole interval that is not over.
fn number_after(elapsed_ns: u64, interval_ns: u64) -> u64 {
    elapsed_ns / interval_ns + 1
}

fn outcome(slept: &[Slept], duration_ns: u64, elapsed_s: f64) -> Result<Outcome> {
    let mut all = Latencies::new(duration_ns)?;
    slept.iter().try_for_each(|one| all.add(&one.latencies))?;
    let mut outcome = Outcome::of([
        ("elapsed_s", elapsed_s),
        ("wakeups", all.count() as f64),
        ("missed", slept.iter().map(|one| one.missed).sum::<u64>() as f64),
    ]);
    all.report(&mut outcome, "wakeup");
    Ok(outcome)
}

/// Sleep to a time, see how late it was, and so on
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds from one wake-up to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 0.001)]
    interval: f64,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time: f64,
    /// Each on a CPU of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let context = standalone::context("sleep", standalone::stop_by_signal()?, || ());
        let spec =
            Sleep { interval_s: self.interval, duration_s: self.time, threads: self.threads };
        let outcome = spec.run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let values = &outcome.values;
            format!(
                "{} wake-ups in {:.2} s, {} missed\n{}",
                values["wakeups"],
                values["elapsed_s"],
                values["missed"],
                rows(outcome, "wakeup", &["min", "mean", "p50", "p90", "p99", "p999", "max"])
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

    fn context(stop: &Arc<AtomicBool>) -> Context {
        let emitter = Arc::new(Emitter::new(io::sink()));
        Context::new(("node", 1, "phase", "task"), emitter, stop.clone(), || {})
    }

    fn spec(interval_s: f64, duration_s: f64, threads: u32) -> Sleep {
        Sleep { interval_s, duration_s, threads }
    }

    #[test]
    fn every_time_is_met_or_missed() {
        let outcome = spec(0.001, 0.2, 1).run(&context(&Arc::default())).unwrap();
        let values = &outcome.values;
        assert_eq!(values["wakeups"] + values["missed"], 200.0, "{values:?}");
        assert!((0.2..5.0).contains(&values["elapsed_s"]), "{values:?}");
        let latency = |name: &str| values[&format!("wakeup_{name}_ns")];
        assert!(latency("min") > 0.0 && latency("min") <= latency("p50"), "{values:?}");
        assert!(latency("p50") <= latency("p99") && latency("p999") <= latency("max"));
        let counted: u64 = outcome.histograms["wakeup"].buckets.iter().map(|one| one.1).sum();
        assert_eq!(counted as f64, values["wakeups"]);
    }

    #[test]
    fn every_thread_sleeps() {
        let values = spec(0.01, 0.1, 2).run(&context(&Arc::default())).unwrap().values;
        assert_eq!(values["wakeups"] + values["missed"], 20.0, "{values:?}");
    }

    #[test]
    fn the_next_time_is_the_first_that_is_not_over() {
        for (elapsed_ns, number) in [(100, 2), (199, 2), (200, 3), (350, 4)] {
            assert_eq!(number_after(elapsed_ns, 100), number);
        }
    }

    #[test]
    fn none_in_time_is_no_number() {
        let none = Slept { latencies: Latencies::new(1000).unwrap(), missed: 0 };
        let values = outcome(&[none], 1000, 1.0).unwrap().values;
        assert_eq!(values["wakeups"], 0.0);
        assert!(!values.contains_key("wakeup_p50_ns"));
    }

    #[test]
    fn a_stop_is_a_good_end() {
        let stop = Arc::new(AtomicBool::new(false));
        let context = context(&stop);
        let sleeper = std::thread::spawn(move || spec(0.05, 60.0, 1).run(&context));
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        let values = sleeper.join().unwrap().unwrap().values;
        assert!(asked.elapsed() < Duration::from_secs(2));
        assert!(values["elapsed_s"] < 5.0, "{values:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        for (spec, word) in [
            (spec(0.0, 1.0, 1), "interval_s"),
            (spec(f64::NAN, 1.0, 1), "interval_s"),
            (spec(0.06, 1.0, 1), "interval_s"),
            (spec(0.01, 0.005, 1), "duration_s"),
            (spec(0.01, f64::INFINITY, 1), "duration_s"),
            (spec(0.01, 1.0, 0), "threads"),
            (spec(0.01, 1.0, 100_000), "CPU of its own"),
        ] {
            let error = spec.run(&context(&Arc::default())).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
