//! Records of a stream as lines for people.

use hypertare_plan::{Interval, TaskResult, Values};

use crate::units;

/// A value's name, its label here, and its format; in the order in which values are shown.
type Column = (&'static str, &'static str, fn(f64) -> String);

const COLUMNS: &[Column] = &[
    ("sent_packets", "sent", units::count),
    ("received_packets", "received", units::count),
    ("lost_packets", "lost", units::count),
    ("reordered_packets", "reordered", units::count),
    ("duplicate_packets", "duplicate", units::count),
    ("socket_drops", "dropped at the socket", units::count),
    ("foreign_packets", "not of this stream", units::count),
    ("send_errors", "refused", units::count),
    ("retransmits", "retransmitted", units::count),
    ("rtt_s", "RTT", units::time),
    ("rtt_min_s", "least RTT", units::time),
    ("cwnd_bytes", "cwnd", units::size),
    ("mss_bytes", "segment", units::size),
    ("late_s", "late by", units::time),
];

/// Shown only when they are not zero.
const EXCEPTIONS: &[&str] =
    &["duplicate_packets", "socket_drops", "foreign_packets", "send_errors", "reordered_packets"];

pub fn interval(interval: &Interval) -> String {
    let bytes = bytes(&interval.values);
    let rate = bytes * 8.0 / (interval.end_s - interval.begin_s).max(1e-9);
    format!(
        "{:<17} {:>6.1} - {:<6.1} s {:>12}   {}",
        end(&interval.node, &interval.task),
        interval.begin_s,
        interval.end_s,
        units::rate(rate),
        columns(&interval.values, true),
    )
}

pub fn result(result: &TaskResult) -> String {
    let end = end(&result.node, &result.task);
    if let Some(error) = &result.error {
        return format!("{end:<17} failed: {error}");
    }
    let value = |name: &str| result.values.get(name).copied();
    let elapsed_s = value("elapsed_s").unwrap_or(0.0);
    let rate = value("goodput_bps").or(value("sent_bps")).unwrap_or(0.0);
    let busy_s = value("user_s").unwrap_or(0.0) + value("system_s").unwrap_or(0.0);
    let busy = if elapsed_s > 0.0 { busy_s / elapsed_s * 100.0 } else { 0.0 };
    format!(
        "{end:<17} {} in {}: {}, {}, CPU {busy:.0} %{}",
        units::size(bytes(&result.values)),
        units::time(elapsed_s),
        units::rate(rate),
        columns(&result.values, false),
        share_lost(&result.values),
    )
}

fn end(node: &str, task: &str) -> String {
    format!("{node} {task}s")
}

fn bytes(values: &Values) -> f64 {
    values.get("sent_bytes").or(values.get("received_bytes")).copied().unwrap_or(0.0)
}

fn columns(values: &Values, all: bool) -> String {
    let shown: Vec<String> = COLUMNS
        .iter()
        .filter_map(|(name, label, written)| {
            let value = *values.get(*name)?;
            let shown = value != 0.0 || (!EXCEPTIONS.contains(name) && !all) || *name == "rtt_s";
            let shown = shown || (all && matches!(*name, "lost_packets" | "retransmits"));
            shown.then(|| format!("{label} {}", written(value)))
        })
        .collect();
    shown.join(", ")
}

fn share_lost(values: &Values) -> String {
    let Some(&lost) = values.get("lost_packets") else { return String::new() };
    let sent = lost + values.get("received_packets").copied().unwrap_or(0.0);
    if sent > 0.0 { format!(", {:.3} % lost", lost / sent * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, f64)]) -> Values {
        pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn a_result_reports_what_was_lost() {
        let result = result(&TaskResult {
            node: "server".to_owned(),
            task: "receive".to_owned(),
            values: values(&[
                ("elapsed_s", 2.0),
                ("received_bytes", 1024.0),
                ("received_packets", 75.0),
                ("lost_packets", 25.0),
                ("goodput_bps", 4e6),
            ]),
            ..TaskResult::default()
        });
        assert!(result.contains("server receives"), "{result}");
        assert!(result.contains("1.00 KiB in 2.00 s: 4.00 Mb/s"), "{result}");
        assert!(result.contains("received 75, lost 25") && result.contains("25.000 % lost"));
    }

    #[test]
    fn a_failure_is_reported_as_one() {
        let error = Some("no sender came".to_owned());
        let result = result(&TaskResult { error, ..TaskResult::default() });
        assert!(result.contains("failed: no sender came"));
    }
}
