//! Round-trip times: a histogram of all of them and what is told about them.
//!
//! HDR histogram (Tene): buckets of equal width within each power of two, here 1/1000 of the value
//! or finer, from 1 ns to the timeout, whatever is recorded.

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram as Hdr;
use hypertare_plan::Histogram;

use crate::workload::Outcome;

const DIGITS: u8 = 3;

pub struct RoundTrips {
    histogram: Hdr<u64>,
    pub requests: u64,
    pub lost: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    /// The one before, if it was answered.
    last_ns: Option<u64>,
    difference_sum_ns: u64,
    differences: u64,
}

impl RoundTrips {
    pub fn new(timeout_ns: u64) -> Result<Self> {
        let histogram = Hdr::new_with_bounds(1, timeout_ns.max(2), DIGITS)
            .context("no histogram of round-trip times")?;
        Ok(RoundTrips {
            histogram,
            requests: 0,
            lost: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
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
        self.histogram.saturating_record(rtt_ns.max(1));
        self.min_ns = self.min_ns.min(rtt_ns);
        self.max_ns = self.max_ns.max(rtt_ns);
        self.sum_ns += rtt_ns;
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

    /// Values by the names of [`super::request`], and the histogram `rtt`. What cannot
    /// be told of so few answers is absent.
    pub fn outcome(&self, elapsed_s: f64) -> Outcome {
        let mut outcome = Outcome::default();
        outcome
            .set("elapsed_s", elapsed_s)
            .set("requests", self.requests as f64)
            .set("replies", self.replies() as f64)
            .set("lost_packets", self.lost as f64);
        if self.replies() > 0 {
            outcome
                .set("rtt_min_ns", self.min_ns as f64)
                .set("rtt_mean_ns", self.sum_ns as f64 / self.replies() as f64)
                .set("rtt_p50_ns", self.quantile_ns(0.5))
                .set("rtt_p90_ns", self.quantile_ns(0.9))
                .set("rtt_p99_ns", self.quantile_ns(0.99))
                .set("rtt_p999_ns", self.quantile_ns(0.999))
                .set("rtt_max_ns", self.max_ns as f64);
        }
        if self.differences > 0 {
            let jitter_ns = self.difference_sum_ns as f64 / self.differences as f64;
            outcome.set("rtt_jitter_ns", jitter_ns);
        }
        outcome.histograms.insert("rtt".to_owned(), self.buckets());
        outcome
    }

    /// A bucket answers with its highest value, which no quantile of the true values exceeds by
    /// more than the bucket's width; the extremes are known exactly.
    fn quantile_ns(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns) as f64
    }

    fn buckets(&self) -> Histogram {
        let buckets = self
            .histogram
            .iter_recorded()
            .map(|bucket| {
                let value = self.histogram.highest_equivalent(bucket.value_iterated_to());
                (value, bucket.count_at_value())
            })
            .collect();
        Histogram { unit: "ns".to_owned(), buckets }
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
    fn quantiles_are_those_of_the_sorted_values() {
        let values: Vec<u64> = (1..=1000).map(|k| k * 977).collect();
        let outcome = trips(&values).outcome(1.0);
        for (name, expected) in [
            ("rtt_min_ns", 977.0),
            ("rtt_p50_ns", 500.0 * 977.0),
            ("rtt_p90_ns", 900.0 * 977.0),
            ("rtt_p99_ns", 990.0 * 977.0),
            ("rtt_max_ns", 977_000.0),
            ("rtt_mean_ns", 500.5 * 977.0),
        ] {
            let value = outcome.values[name];
            assert!((value / expected - 1.0).abs() < 0.001, "{name}: {value} is not {expected}");
        }
    }

    #[test]
    fn no_bucket_is_wider_than_one_percent() {
        let timeout_ns = 10_000_000_000;
        let trips = RoundTrips::new(timeout_ns).unwrap();
        let mut value = 100u64;
        while value < timeout_ns {
            let low = trips.histogram.lowest_equivalent(value);
            let high = trips.histogram.highest_equivalent(value);
            assert!((high - low + 1) as f64 <= (value as f64 * 0.01).max(1.0), "at {value}");
            value = value * 11 / 10;
        }
    }

    #[test]
    fn the_full_range_is_kept_apart() {
        let outcome = trips(&[1, 999_999_999]).outcome(1.0);
        assert_eq!(outcome.histograms["rtt"].buckets.len(), 2);
        assert_eq!(outcome.values["rtt_min_ns"], 1.0);
        assert_eq!(outcome.values["rtt_max_ns"], 999_999_999.0);
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
