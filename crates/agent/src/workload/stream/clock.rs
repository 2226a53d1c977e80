//! The monotonic clock in nanoseconds, and sleeping to a point of it.

use std::num::NonZeroU64;

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

pub const SECOND: u64 = 1_000_000_000;

pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Sleeps to an absolute time, so that being woken late never adds up. Returns early on a signal;
/// callers look at the clock again anyway.
pub fn sleep_until(time: u64) {
    let request = Timespec { tv_sec: (time / SECOND) as i64, tv_nsec: (time % SECOND) as i64 as _ };
    let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &request);
}

/// Lets this thread's sleeps end when they should: the kernel otherwise groups them in 50 µs.
pub fn sleep_exactly() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64) as u64
}

/// Seconds from `begin` to `end`; none when `end` is before it.
pub fn seconds(begin: u64, end: u64) -> f64 {
    end.saturating_sub(begin) as f64 / SECOND as f64
}
