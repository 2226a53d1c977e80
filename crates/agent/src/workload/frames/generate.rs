//! `hypertare-agent generate`.

use std::net::IpAddr;

use anyhow::Result;
use hypertare_plan::FrameSend;

use super::send;
use crate::net::frames::{neighbour, socket};
use crate::net::link::parse_mac;
use crate::units;
use crate::workload::standalone;
use crate::workload::{Alone, address};

/// Send numbered frames from an interface, past the IP stack, for `capture` at the other end
#[derive(clap::Args)]
pub struct Arguments {
    /// Interface that they leave by
    #[arg(value_name = "IFACE")]
    interface: String,
    /// Who gets them: a MAC address, or the IP address of a neighbour
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Bytes of a frame with its header, without FCS: 60 up to the MTU and 14
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    frame: u32,
    /// Bits of frames a second, for example 100M; as fast as it goes without
    #[arg(long, value_parser = units::parse_rate)]
    rate: Option<f64>,
    /// Frames handed over at once, at most
    #[arg(long, value_name = "N", default_value_t = 32)]
    burst: u32,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    duration: f64,
    /// Number that distinguishes its frames from those of another generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u32,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let context = standalone::context("generate", standalone::stop_by_signal()?, || ());
        let context = context.without_intervals();
        let link = socket::interface(&self.interface)?;
        let to = match self.to.contains(':') && self.to.parse::<IpAddr>().is_err() {
            true => parse_mac(&self.to)?,
            false => {
                let (by, mac) = neighbour::find(address::host(&self.to)?)?;
                anyhow::ensure!(
                    by.name == self.interface,
                    "{} is reached by {}, not by {}",
                    self.to,
                    by.name,
                    self.interface
                );
                mac
            }
        };
        let spec = FrameSend {
            to: self.to,
            past_card: false,
            session: self.session,
            frame: self.frame,
            duration_s: self.duration,
            rate_bps: self.rate,
            burst: self.burst,
            interval_s: 1.0,
            omit_s: 0.0,
        };
        let outcome = send::from_link(&spec, &link, to, &context)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let value = |name: &str| outcome.value(name);
            let (frames, seconds) = (value("sent_packets"), value("elapsed_s"));
            format!(
                "sent {} frames of {} bytes in {seconds:.2} s: {}/s, {}; {} refused; CPU {:.0} %\n",
                units::count(frames),
                self.frame,
                units::count(frames / seconds),
                units::rate(value("sent_bps")),
                units::count(value("send_errors")),
                100.0 * (value("user_s") + value("system_s")) / seconds,
            )
        })
    }
}
