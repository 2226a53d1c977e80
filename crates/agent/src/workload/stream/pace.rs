//! When the next message is due.
//!
//! Message i is due at `origin + i * period`, whatever happened to those before it: the schedule is
//! the clock's, so errors do not add up and the mean rate is exact. Messages go in groups, because
//! every sleep costs some microseconds of CPU: what is due, then nothing for a [`QUANTUM`].
//!
//! A sender that was delayed catches up, within bounds: no group holds more than [`GROUP`] worth of
//! messages, groups follow each other at no more than [`HASTE`] times the rate, and messages that are late
//! by more than [`DEBT`] are given up (the schedule moves, and `late` counts it).

use crate::workload::clock::{SECOND, to_seconds};

/// Least time from one group to the next: a tenth of what iperf3 takes.
const QUANTUM: u64 = SECOND / 10_000;

/// Most schedule time that one group may cover: more than a tick of a kernel without high
/// resolution timers, which wakes a sleeper every 4 or 10 ms only.
const GROUP: u64 = SECOND / 50;

const HASTE: u64 = 4;

/// Most schedule time that is ever caught up.
const DEBT: u64 = SECOND / 2;

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
    next: u64,
    /// Messages that a group may hold, and that this one holds already.
    group_limit: u64,
    group: u64,
    group_began: u64,
    /// When the next group may begin.
    free_at: u64,
    late: u64,
}

impl Pacer {
    /// `period_s`: seconds from one message to the next; the first is due at `origin`.
    pub fn new(origin: u64, period_s: f64) -> Self {
        let period = (period_s * SECOND as f64).max(f64::MIN_POSITIVE);
        Pacer {
            origin,
            period,
            next: 0,
            group_limit: ((GROUP as f64 / period) as u64).max(1),
            group: 0,
            group_began: origin,
            free_at: origin,
            late: 0,
        }
    }

    /// How many messages are due. Messages due at or after `limit` never go, even when the clock is past
    /// it.
    pub fn due(&mut self, now: u64, limit: u64) -> Due {
        let mut due = self.next_due();
        let at = due.max(self.free_at);
        if due < limit && now < at {
            return Due::At(at.min(limit));
        }
        let behind = now.saturating_sub(due);
        if behind > DEBT {
            self.origin += behind - DEBT;
            due = self.next_due();
        }
        if due >= limit {
            return Due::At(limit);
        }
        self.late = self.late.max(behind);
        if self.group == 0 {
            self.group_began = now;
        }
        Due::Now(self.due_by(now.min(limit - 1), due).min(self.group_limit - self.group))
    }

    /// Notes that messages went. The group is complete when it is full or nothing more is due.
    pub fn sent(&mut self, messages: u64, now: u64) {
        self.next += messages;
        self.group += messages;
        if self.group >= self.group_limit || self.next_due() > now {
            let covered = (self.group as f64 * self.period) as u64;
            self.free_at = self.group_began + QUANTUM.max(covered / HASTE);
            self.group = 0;
        }
    }

    /// When the next message is due.
    pub fn next_due(&self) -> u64 {
        self.time_of(self.next)
    }

    /// Gives up what is due before `time` and has not gone.
    pub fn skip_to(&mut self, time: u64) {
        let schedule = time.saturating_sub(self.origin);
        self.next = self.next.max((schedule as f64 / self.period) as u64);
        while self.next_due() < time {
            self.next += 1;
        }
    }

    pub fn forget_lateness(&mut self) {
        self.late = 0;
    }

    /// How far behind its schedule the sender was at worst, in seconds.
    pub fn late_s(&self) -> f64 {
        to_seconds(self.late)
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
    fn a_coarse_clock_keeps_the_rate() {
        let sent: u64 = run(1e-5, 3, 10_000_000).iter().map(|group| group.1).sum();
        assert!(300_000 - sent <= 1_500, "{sent} of 300000");
    }

    #[test]
    fn a_group_may_go_in_parts() {
        let mut pacer = Pacer::new(START, 1e-5);
        let now = START + 1_000_000;
        assert_eq!(pacer.due(now, u64::MAX), Due::Now(101));
        pacer.sent(64, now);
        assert_eq!(pacer.due(now, u64::MAX), Due::Now(37));
        pacer.sent(37, now);
        assert_eq!(pacer.due(now, u64::MAX), Due::At(now + 1_010_000 / 4));
    }

    #[test]
    fn a_sender_that_cannot_keep_up_is_not_slowed_further() {
        let mut pacer = Pacer::new(START, 1e-5);
        let mut now = START;
        for _ in 0..10_000 {
            let Due::Now(count) = pacer.due(now, u64::MAX) else { panic!("made to wait") };
            let taken = count.min(64);
            now += taken * 20_000;
            pacer.sent(taken, now);
        }
    }

    #[test]
    fn catching_up_is_bounded() {
        let mut pacer = Pacer::new(START, 1e-5);
        let begin = START + SECOND;
        let (mut now, mut went) = (begin, 0);
        while now < begin + SECOND / 10 {
            match pacer.due(now, u64::MAX) {
                Due::Now(count) => {
                    assert!(count <= 2000);
                    went += count;
                    pacer.sent(count, now);
                }
                Due::At(at) => now = at,
            }
        }
        let at_this_haste = HASTE * 10_000 + 2000;
        assert!(went <= at_this_haste && went > 20_000, "{went}, {at_this_haste} are allowed");
        assert!(pacer.late_s() > 0.99);
    }

    #[test]
    fn what_is_too_late_is_given_up() {
        let mut pacer = Pacer::new(START, 0.01);
        assert_eq!(pacer.due(START + 10 * SECOND, u64::MAX), Due::Now(2));
        assert_eq!(pacer.next_due(), START + 10 * SECOND - DEBT);
    }

    #[test]
    fn what_is_given_up_never_goes() {
        let mut pacer = Pacer::new(START, 0.003);
        assert_eq!(pacer.due(START + 100_000_000, u64::MAX), Due::Now(6));
        pacer.skip_to(START + 100_000_000);
        assert_eq!(pacer.next_due(), START + 102_000_000);
        pacer.skip_to(START + 50_000_000);
        assert_eq!(pacer.next_due(), START + 102_000_000);
        pacer.skip_to(START + 102_000_000);
        assert_eq!(pacer.next_due(), START + 102_000_000);
        assert_eq!(pacer.due(START + 101_000_000, u64::MAX), Due::At(START + 102_000_000));
    }

    #[test]
    fn nothing_that_is_due_after_the_limit_goes() {
        let mut pacer = Pacer::new(START, 0.001);
        let limit = START + 3_000_000;
        let late = START + SECOND / 10;
        assert_eq!(pacer.due(late, limit), Due::Now(3));
        pacer.sent(3, late);
        assert_eq!(pacer.due(late, limit), Due::At(limit));
        assert_eq!(pacer.due(late + 2 * SECOND, limit), Due::At(limit));
    }
}
