//! Round-trip times, the number of lost requests, and the difference from one time to the next.

use anyhow::Result;

use crate::workload::Outcome;
use crate::workload::latencies::Latencies;

pub struct RoundTrips {
    latencies: Latencies,
    pub requests: u64,
    pub lost: u64,
    /// The time of the request before, if it was answered.
    last_ns: Option<u64>,
    difference_sum_ns: u64,
    differences: u64,
}

impl RoundTrips {
    /// No answer is waited for longer than `timeout_ns`.
    pub fn new(timeout_ns: u64) -> Result<Self> {
        Ok(RoundTrips {
            latencies: Latencies::new(timeout_ns)?,
            requests: 0,
            lost: 0,
            last_ns: None,
            difference_sum_ns: 0,
            differences: 0,
        })
    }

    pub fn replies(&self) -> u64 {
        self.requests - self.lost
    }

    pub fn answered(&mut self, rtt_ns: u64) {
        self.requests += 1;
        self.latencies.record(rtt_ns);
        if let Some(last_ns) = self.last_ns.replace(rtt_ns) {
            self.difference_sum_ns += last_ns.abs_diff(rtt_ns);
            self.differences += 1;
        }
    }

    pub fn lost(&mut self) {
        self.requests += 1;
        self.lost += 1;
        self.last_ns = None;
    }

    /// Values by the names of [`super::request`], and the histogram `rtt`. A value for which there are too
    /// few answers is absent.
    pub fn outcome(&self, elapsed_s: f64) -> Outcome {
        let mut outcome = Outcome::default();
        outcome
            .set("elapsed_s", elapsed_s)
            .set("requests", self.requests as f64)
            .set("replies", self.replies() as f64)
            .set("lost_packets", self.lost as f64);
        self.latencies.report(&mut outcome, "rtt");
        if self.differences > 0 {
            let jitter_ns = self.difference_sum_ns as f64 / self.differences as f64;
            outcome.set("rtt_jitter_ns", jitter_ns);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trips(values: &[u64]) -> RoundTrips {
        let mut trips = RoundTrips::new(1_000_000_000).unwrap();
        values.iter().for_each(|&value| trips.answered(value));
        trips
    }

    #[test]
    fn jitter_does_not_reach_over_a_lost_one() {
        let mut trips = trips(&[100, 130]);
        trips.lost();
        trips.answered(1000);
        trips.answered(1010);
        let outcome = trips.outcome(1.0);
        assert_eq!(outcome.values["rtt_jitter_ns"], 20.0);
        assert_eq!(outcome.values["requests"], 5.0);
        assert_eq!(outcome.values["lost_packets"], 1.0);
    }

    #[test]
    fn nothing_answered_is_no_number() {
        let outcome = trips(&[]).outcome(1.0);
        assert!(!outcome.values.contains_key("rtt_p50_ns"));
        assert!(outcome.histograms["rtt"].buckets.is_empty());
    }
}
