//! When the next message is due.
//!
//! Message i is due at `origin + i * period`, whatever happened to those before it: the schedule is
//! the clock's, so errors do not add up and the mean rate is exact. A sender that was held up
//! catches up, within bounds: at most [`BURST`] worth of messages at once, [`QUANTUM`] apart, and
//! what is more than [`DEBT`] behind is given up (the schedule moves, and `late` tells).

use super::clock::{SECOND, seconds};

/// Least time between two bursts. Sleeping costs some microseconds of CPU, so at high rates
/// messages go in small groups; 100 µs is a tenth of what iperf3 takes.
const QUANTUM: u64 = SECOND / 10_000;

/// Most schedule time that one burst may cover.
const BURST: u64 = SECOND / 500;

/// Most schedule time that is ever caught up.
const DEBT: u64 = SECOND / 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// So many messages may go now.
    Now(u64),
    /// Nothing may go before this time.
    At(u64),
}

#[derive(Clone, Debug)]
pub struct Pacer {
    origin: u64,
    period: f64,
    burst: u64,
    next: u64,
    free_at: u64,
    late: u64,
}

impl Pacer {
    /// `period_s`: seconds from one message to the next; the first is due at `origin`.
    pub fn new(origin: u64, period_s: f64) -> Self {
        let period = (period_s * SECOND as f64).max(f64::MIN_POSITIVE);
        let burst = ((BURST as f64 / period) as u64).max(1);
        Pacer { origin, period, burst, next: 0, free_at: origin, late: 0 }
    }

    /// What is due. Messages due at or after `limit` never go, even when the clock is past it.
    pub fn due(&mut self, now: u64, limit: u64) -> Due {
        let mut due = self.time_of(self.next);
        if due >= limit {
            return Due::At(limit);
        }
        let at = due.max(self.free_at);
        if now < at {
            return Due::At(at);
        }
        self.late = self.late.max(now - due);
        if now - due > DEBT {
            self.origin += now - due - DEBT;
            due = self.time_of(self.next);
            if due >= limit {
                return Due::At(limit);
            }
        }
        Due::Now(self.due_by(now.min(limit - 1), due).min(self.burst))
    }

    pub fn sent(&mut self, messages: u64, now: u64) {
        self.next += messages;
        self.free_at = now + QUANTUM;
    }

    /// When the next message is due.
    pub fn next_due(&self) -> u64 {
        self.time_of(self.next)
    }

    pub fn forget_lateness(&mut self) {
        self.late = 0;
    }

    /// How far behind its schedule the sender was at worst, in seconds.
    pub fn late_s(&self) -> f64 {
        seconds(0, self.late)
    }

    fn time_of(&self, message: u64) -> u64 {
        self.origin.saturating_add((message as f64 * self.period) as u64)
    }

    /// How many messages from the next one, due at `due`, are due by `time`; at least that one.
    fn due_by(&self, time: u64, due: u64) -> u64 {
        let mut count = ((time - due) as f64 / self.period) as u64 + 1;
        // Rounding may have let one in that is due a nanosecond later.
        while count > 1 && self.time_of(self.next.saturating_add(count - 1)) > time {
            count -= 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 5 * SECOND;

    /// Runs the schedule for `seconds` against a clock that wakes `latency` late.
    fn run(period_s: f64, seconds: u64, latency: u64) -> Vec<(u64, u64)> {
        let (mut pacer, mut now, limit) =
            (Pacer::new(START, period_s), START, START + seconds * SECOND);
        let mut bursts = Vec::new();
        loop {
            match pacer.due(now, limit) {
                Due::Now(count) => {
                    bursts.push((now, count));
                    pacer.sent(count, now);
                }
                Due::At(at) if at >= limit => return bursts,
                Due::At(at) => {
                    assert!(at > now);
                    now = at + latency;
                }
            }
        }
    }

    #[test]
    fn the_mean_rate_is_exact_at_any_rate() {
        for (rate, latency) in [(1, 0), (100, 60_000), (9_973, 1_000), (200_000, 55_000)] {
            let sent: u64 = run(1.0 / rate as f64, 3, latency).iter().map(|burst| burst.1).sum();
            let short = 3 * rate - sent;
            let waiting = ((QUANTUM + latency) * rate).div_ceil(SECOND);
            assert!(short <= waiting, "{rate}/s: {sent} sent, {short} short");
        }
    }

    #[test]
    fn slow_streams_send_one_message_at_a_time_on_time() {
        let bursts = run(0.01, 2, 10_000);
        assert_eq!(bursts.len(), 200);
        for (index, (time, count)) in bursts.iter().enumerate() {
            assert_eq!(*count, 1);
            let due = START + index as u64 * SECOND / 100;
            assert!(*time >= due - 1 && *time <= due + 10_000);
        }
    }

    #[test]
    fn fast_streams_send_small_groups() {
        for (_, count) in run(1e-6, 1, 20_000) {
            assert!(count <= 121, "{count} at once");
        }
    }

    #[test]
    fn catching_up_is_bounded() {
        let mut pacer = Pacer::new(START, 1e-5);
        let now = START + SECOND;
        let mut caught_up = 0;
        let mut time = now;
        while let Due::Now(count) = pacer.due(time, u64::MAX) {
            assert!(count <= 200);
            caught_up += count;
            pacer.sent(count, time);
            time += QUANTUM;
        }
        let rate_allows = (DEBT + time - now) / 10_000 + 1;
        assert!(caught_up <= rate_allows, "{caught_up} > {rate_allows}");
        assert!(pacer.late_s() > 0.99);
    }

    #[test]
    fn nothing_that_is_due_after_the_limit_goes() {
        let mut pacer = Pacer::new(START, 0.001);
        let limit = START + 3_000_000;
        assert_eq!(pacer.due(START + SECOND / 100, limit), Due::Now(2));
        pacer.sent(2, START + SECOND / 100);
        let late = START + SECOND / 50;
        assert_eq!(pacer.due(late, limit), Due::Now(1));
        pacer.sent(1, late);
        assert_eq!(pacer.due(late + SECOND, limit), Due::At(limit));
    }
}
