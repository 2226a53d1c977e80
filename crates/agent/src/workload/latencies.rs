//! Durations of repeated events: a histogram of all of them, and the values that are reported.
//!
//! HDR histogram (Tene): buckets of equal width within each power of two, here 1/1000 of the value
//! or finer, from 1 ns to the longest time that is distinguished, whatever is recorded.

use anyhow::{Context, Result};
use hdrhistogram::Histogram as Hdr;
use hypertare_plan::Histogram;

use super::Outcome;
use crate::units;

const DIGITS: u8 = 3;

/// A row for each of these values of NAME, for people; a dash for one that is absent.
pub fn rows(outcome: &Outcome, name: &str, values: &[&str]) -> String {
    let row = |value: &&str| {
        let ns = outcome.values.get(&format!("{name}_{value}_ns")).copied();
        let time = ns.map_or_else(|| "-".to_owned(), units::three_digits);
        format!("  {value:<6} {time:>9}\n")
    };
    values.iter().map(row).collect()
}

pub struct Latencies {
    histogram: Hdr<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
}

impl Latencies {
    /// In quantiles a longer time than `most_ns` counts as `most_ns`. All memory is written to, so that
    /// recording causes no page fault.
    pub fn new(most_ns: u64) -> Result<Self> {
        let mut histogram = Hdr::new_with_bounds(1, most_ns.max(2), DIGITS)
            .context("no histogram of so long times")?;
        histogram.clear();
        Ok(Latencies { histogram, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 })
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += ns;
    }

    /// Adds all times of another one with the same range.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.histogram.add(&other.histogram)?;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        Ok(())
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Sets `NAME_min_ns` and so on, and the histogram NAME. Without any time, only the empty histogram is
    /// set.
    pub fn report(&self, outcome: &mut Outcome, name: &str) {
        let buckets = self.histogram.iter_recorded().map(|bucket| {
            let value = self.histogram.highest_equivalent(bucket.value_iterated_to());
            (value, bucket.count_at_value())
        });
        let histogram = Histogram { unit: "ns".to_owned(), buckets: buckets.collect() };
        outcome.histograms.insert(name.to_owned(), histogram);
        if self.count() == 0 {
            return;
        }
        for (what, ns) in [
            ("min", self.min_ns as f64),
            ("mean", self.sum_ns as f64 / self.count() as f64),
            ("p50", self.quantile_ns(0.5)),
            ("p90", self.quantile_ns(0.9)),
            ("p99", self.quantile_ns(0.99)),
            ("p999", self.quantile_ns(0.999)),
            ("max", self.max_ns as f64),
        ] {
            outcome.set(&format!("{name}_{what}_ns"), ns);
        }
    }

    /// A bucket answers with its highest value, which differs from the true quantile by less than the
    /// bucket's width; the extremes are known exactly.
    fn quantile_ns(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(values: &[u64]) -> Outcome {
        let mut latencies = Latencies::new(1_000_000_000).unwrap();
        values.iter().for_each(|&value| latencies.record(value));
        let mut outcome = Outcome::default();
        latencies.report(&mut outcome, "rtt");
        outcome
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let values: Vec<u64> = (1..=1000).map(|k| k * 977).collect();
        let outcome = reported(&values);
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
        let most_ns = 10_000_000_000;
        let latencies = Latencies::new(most_ns).unwrap();
        let mut value = 100u64;
        while value < most_ns {
            let low = latencies.histogram.lowest_equivalent(value);
            let high = latencies.histogram.highest_equivalent(value);
            assert!((high - low + 1) as f64 <= (value as f64 * 0.01).max(1.0), "at {value}");
            value = value * 11 / 10;
        }
    }

    #[test]
    fn the_full_range_is_kept_apart() {
        let outcome = reported(&[1, 999_999_999]);
        assert_eq!(outcome.histograms["rtt"].buckets.len(), 2);
        assert_eq!(outcome.values["rtt_min_ns"], 1.0);
        assert_eq!(outcome.values["rtt_max_ns"], 999_999_999.0);
    }

    #[test]
    fn two_together_are_one_of_all() {
        let parts: [&[u64]; 2] = [&[5, 700, 90], &[3, 40_000]];
        let mut both = Latencies::new(1_000_000_000).unwrap();
        for values in parts {
            let mut part = Latencies::new(1_000_000_000).unwrap();
            values.iter().for_each(|&value| part.record(value));
            both.add(&part).unwrap();
        }
        let mut outcome = Outcome::default();
        both.report(&mut outcome, "rtt");
        assert_eq!(outcome, reported(&parts.concat()));
    }

    #[test]
    fn none_is_no_number() {
        let outcome = reported(&[]);
        assert!(outcome.values.is_empty() && outcome.histograms["rtt"].buckets.is_empty());
    }
}
