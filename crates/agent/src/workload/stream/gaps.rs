//! How regularly messages arrive that were sent at regular times: the gaps between them, and RFC 3550's
//! interarrival jitter.
//!
//! Source: RFC 3550, 6.4.1 and A.8: D is the change of the transit time from one message to the next, and J
//! moves to |D| by a sixteenth of their difference. The clocks' offset cancels out. The time of sending
//! follows from a message's number, because senders keep to their rate.

use anyhow::Result;

use super::Outcome;
use crate::workload::clock::SECOND;
use crate::workload::latencies::Latencies;

/// The longest gap that is distinguished.
const MOST_NS: u64 = 10 * SECOND;

const GAIN: f64 = 1.0 / 16.0;

pub struct Gaps {
    every_ns: f64,
    histogram: Latencies,
    /// Number and time of the message before.
    last: Option<(u64, u64)>,
    jitter_ns: f64,
    sum_ns: f64,
    count: u64,
}

impl Gaps {
    /// For messages that are sent one every so many ns.
    pub fn new(every_ns: f64) -> Result<Self> {
        let histogram = Latencies::new(MOST_NS)?;
        Ok(Gaps { every_ns, histogram, last: None, jitter_ns: 0.0, sum_ns: 0.0, count: 0 })
    }

    /// Notes that a message came; one with a lower number than the message before is ignored.
    pub fn note(&mut self, number: u64, now: u64) {
        let Some((before, then)) = self.last else {
            self.last = Some((number, now));
            return;
        };
        if number <= before {
            return;
        }
        let gap_ns = now - then;
        self.histogram.record(gap_ns);
        let change_ns = gap_ns as f64 - (number - before) as f64 * self.every_ns;
        self.jitter_ns += (change_ns.abs() - self.jitter_ns) * GAIN;
        self.sum_ns += self.jitter_ns;
        self.count += 1;
        self.last = Some((number, now));
    }

    /// Sets `gap_min_ns` and so on, the histogram `gap`, and `jitter_ns`: of all flows, each by its gaps.
    pub fn report<'a>(flows: impl Iterator<Item = &'a Gaps>, outcome: &mut Outcome) -> Result<()> {
        let mut all = Latencies::new(MOST_NS)?;
        let (mut sum_ns, mut count) = (0.0, 0);
        for flow in flows {
            all.add(&flow.histogram)?;
            sum_ns += flow.sum_ns;
            count += flow.count;
        }
        all.report(outcome, "gap");
        if count > 0 {
            outcome.set("jitter_ns", sum_ns / count as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(arrivals: &[(u64, u64)]) -> Outcome {
        let mut gaps = Gaps::new(1000.0).unwrap();
        arrivals.iter().for_each(|&(number, now)| gaps.note(number, now));
        let mut outcome = Outcome::default();
        Gaps::report(std::iter::once(&gaps), &mut outcome).unwrap();
        outcome
    }

    #[test]
    fn what_comes_as_it_was_sent_has_no_jitter() {
        let outcome = reported(&[(0, 500), (1, 1500), (2, 2500), (5, 5500)]);
        assert_eq!(outcome.values["jitter_ns"], 0.0);
        assert_eq!(outcome.values["gap_max_ns"], 3000.0);
        assert_eq!(outcome.values["gap_min_ns"], 1000.0);
    }

    #[test]
    fn jitter_is_the_rfcs_by_hand() {
        // D: 160, 0, -320. J: 10, 10 - 10/16 = 9.375, 9.375 + (320 - 9.375)/16 = 28.7890625.
        let outcome = reported(&[(0, 0), (1, 1160), (2, 2160), (3, 2840)]);
        let expected = (10.0 + 9.375 + 28.789_062_5) / 3.0;
        assert!((outcome.values["jitter_ns"] - expected).abs() < 1e-9, "{:?}", outcome.values);
    }

    #[test]
    fn what_came_late_is_no_gap() {
        let outcome = reported(&[(0, 0), (2, 2000), (1, 2100), (2, 2200), (3, 3000)]);
        assert_eq!(outcome.values["jitter_ns"], 0.0);
        let gaps: u64 = outcome.histograms["gap"].buckets.iter().map(|&(_, count)| count).sum();
        assert_eq!(gaps, 2);
    }

    #[test]
    fn one_message_has_no_gap() {
        assert!(!reported(&[(0, 7)]).values.contains_key("jitter_ns"));
    }
}
