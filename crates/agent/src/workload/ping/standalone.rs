//! `hypertare-agent ping`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Result, bail};
use hypertare_plan::{Histogram, PingProtocol, PingReply, PingRequest};

use crate::units;
use crate::workload::latencies::rows;
use crate::workload::standalone;
use crate::workload::{Alone, Outcome, WorkloadKind, address, ping};

/// Round-trip times over UDP, TCP or ICMP
#[derive(clap::Args)]
#[command(override_usage = "hypertare-agent ping --listen [--port PORT]\n       \
                            hypertare-agent ping [OPTIONS] HOST")]
pub struct Arguments {
    /// Address of a host where `ping --listen` runs (for --icmp: of any host)
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    host: Option<String>,
    /// Answer UDP and TCP requests until interrupted
    #[arg(long)]
    listen: bool,
    #[arg(long, default_value_t = 7000)]
    port: u16,
    /// Ask over a TCP connection
    #[arg(long, conflicts_with_all = ["icmp", "listen"])]
    tcp: bool,
    /// Ask the other end's kernel
    #[arg(long, conflicts_with = "listen")]
    icmp: bool,
    /// End after so many requests
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Seconds between requests; 0 sends the next one when the answer is there
    #[arg(long, value_name = "SECONDS", default_value_t = 0.01)]
    interval: f64,
    /// Seconds after which to end
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time: f64,
    /// Seconds after which an answer is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    timeout: f64,
    /// Bytes of a request and of its answer
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    message: u32,
    /// Print the result record
    #[arg(long, conflicts_with = "listen")]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let stop = standalone::stop_by_signal()?;
        let Some(host) = &self.host else { return listen(self.port, &stop) };
        let spec = request(&self, address::host(host)?);
        let context = standalone::context("ping", stop, || ());
        let outcome = spec.run(&context)?;
        standalone::print(&context, outcome, self.json, |outcome| summary(&spec, outcome))
    }
}

fn request(arguments: &Arguments, host: IpAddr) -> PingRequest {
    let protocol = match (arguments.tcp, arguments.icmp) {
        (true, _) => PingProtocol::Tcp,
        (_, true) => PingProtocol::Icmp,
        _ => PingProtocol::Udp,
    };
    let to = match protocol {
        PingProtocol::Icmp => host.to_string(),
        _ => SocketAddr::new(host, arguments.port).to_string(),
    };
    PingRequest {
        protocol,
        to,
        message: arguments.message,
        count: arguments.count,
        duration_s: arguments.time,
        interval_s: arguments.interval,
        timeout_s: arguments.timeout,
        omit: 0,
        via: None,
        past_card: false,
        dscp: None,
    }
}

/// Answers both protocols on all addresses.
fn listen(port: u16, stop: &Arc<AtomicBool>) -> Result<()> {
    // Both families where the host has both.
    let any: IpAddr = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    let on = SocketAddr::new(any, port).to_string();
    let still_to_come = AtomicU32::new(2);
    let both_ready = {
        let on = on.clone();
        move || {
            if still_to_come.fetch_sub(1, Ordering::Relaxed) == 1 {
                eprintln!("answering UDP and TCP at {on}; Ctrl-C ends it");
            }
        }
    };
    let context = standalone::context("ping", stop.clone(), both_ready);
    let answer = |protocol| {
        let message = ping::MAX_DATAGRAM as u32;
        let outcome = PingReply { protocol, on: on.clone(), message, via: None }.run(&context);
        // One alone is not what was asked for.
        stop.store(true, Ordering::Relaxed);
        outcome
    };
    let (udp, tcp) = std::thread::scope(|scope| {
        let tcp = scope.spawn(|| answer(PingProtocol::Tcp));
        (answer(PingProtocol::Udp), tcp.join())
    });
    let Ok(tcp) = tcp else { bail!("the TCP listener failed") };
    let (udp, tcp) = (udp?.values["replies"], tcp?.values["replies"]);
    writeln!(io::stdout(), "answered {udp} requests over UDP and {tcp} over TCP")?;
    Ok(())
}

fn summary(spec: &PingRequest, outcome: &Outcome) -> String {
    let (requests, lost) = (outcome.value("requests"), outcome.value("lost_packets"));
    let protocol = format!("{:?}", spec.protocol).to_uppercase();
    let text = format!(
        "{} over {protocol}, {} bytes: {requests} requests in {:.2} s, {} answered, {lost} lost ({:.3} %)\n",
        spec.to,
        spec.message,
        outcome.value("elapsed_s"),
        outcome.value("replies"),
        100.0 * lost / requests,
    );
    let names = ["min", "mean", "p50", "p90", "p99", "p999", "max", "jitter"];
    text + &rows(outcome, "rtt", &names) + &bars(&outcome.histograms["rtt"])
}

const ROWS: usize = 12;
const WIDTH: u64 = 50;

/// A row for each part of the range, all of the same ratio from end to end, but for the slowest
/// 0.1 %: a single straggler would squeeze all others into one row.
fn bars(histogram: &Histogram) -> String {
    let total: u64 = histogram.buckets.iter().map(|&(_, count)| count).sum();
    let mut seen = 0;
    let highest = histogram.buckets.iter().find_map(|&(value, count)| {
        seen += count;
        (seen >= total - total / 1000).then_some(value)
    });
    let (Some(&(lowest, _)), Some(highest)) = (histogram.buckets.first(), highest) else {
        return String::new();
    };
    let ratio = (highest as f64 / lowest as f64).powf(1.0 / ROWS as f64).max(1.001);
    let mut counts = [0; ROWS + 1];
    for &(value, count) in &histogram.buckets {
        let row = (value as f64 / lowest as f64).ln() / ratio.ln();
        let row = if value > highest { ROWS } else { (row as usize).min(ROWS - 1) };
        counts[row] += count;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let mut text = String::new();
    for (row, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let from =
            if row == ROWS { highest as f64 } else { lowest as f64 * ratio.powi(row as i32) };
        let bar = "#".repeat((count * WIDTH).div_ceil(most) as usize);
        text += &format!("  from {:>9} {count:>9} {bar}\n", units::three_digits(from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_in_a_bar() {
        for buckets in [
            vec![(1000, 1)],
            vec![(1000, 5), (1001, 3)],
            (1..5000).map(|k| (k * 100, k % 7)).collect(),
        ] {
            let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
            let text = bars(&Histogram { unit: "ns".to_owned(), buckets });
            let shown: u64 = text
                .lines()
                .map(|line| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
                .sum();
            assert_eq!(shown, total, "{text}");
        }
        assert_eq!(bars(&Histogram { unit: "ns".to_owned(), buckets: vec![] }), "");
    }
}
