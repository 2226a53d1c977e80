//! The monotonic clock in nanoseconds, and waits on it that notice a stop.

use std::num::NonZeroU64;

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

use super::Context;

pub const SECOND: u64 = 1_000_000_000;

/// The longest time in which a workload must notice that it was asked to stop.
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

/// Seconds of a plan as nanoseconds, at most as many as fit.
pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

pub fn to_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Seconds from `begin` to `end`; zero when `end` is before `begin`.
pub fn seconds_between(begin: u64, end: u64) -> f64 {
    to_seconds(end.saturating_sub(begin))
}

/// Sleeps until `due` on the monotonic clock. False when asked to stop before that.
pub fn sleep_until(due: u64, context: &Context) -> bool {
    loop {
        let now = now_ns();
        if context.stopped() {
            return false;
        }
        if now >= due {
            return true;
        }
        sleep_once(due.min(now + STOP_NS));
    }
}

/// Sleeps to an absolute time, so that being woken late never adds up. Returns early on a signal;
/// callers look at the clock again anyway.
pub fn sleep_once(until: u64) {
    let until = Timespec { tv_sec: (until / SECOND) as i64, tv_nsec: (until % SECOND) as i64 };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

/// Lets this thread's sleeps end on time: by default the kernel may delay them by up to 50 µs, to group
/// them.
pub fn sleep_exactly() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
