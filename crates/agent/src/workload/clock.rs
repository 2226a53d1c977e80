//! The monotonic clock in nanoseconds, and waits on it that notice a stop.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use super::Context;

/// The longest time in which a workload must notice that it was told to stop.
pub const STOP_NS: u64 = 50_000_000;

/// CLOCK_MONOTONIC, in nanoseconds.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Seconds of a plan as nanoseconds; what does not fit is cut off.
pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

pub fn to_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Sleeps until `due` on the monotonic clock. False when told to stop before that.
pub fn sleep_until(due: u64, context: &Context) -> bool {
    loop {
        let now = now_ns();
        if context.stopped() {
            return false;
        }
        if now >= due {
            return true;
        }
        let slice = due.min(now + STOP_NS);
        // An interrupted sleep is a shorter slice.
        let _ = clock_nanosleep_absolute(
            ClockId::Monotonic,
            &Timespec {
                tv_sec: (slice / 1_000_000_000) as i64,
                tv_nsec: (slice % 1_000_000_000) as i64,
            },
        );
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
