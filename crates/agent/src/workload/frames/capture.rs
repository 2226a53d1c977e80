//! `hypertare-agent capture`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hypertare_plan::{FrameCapture, FrameVia};

use super::receive;
use crate::net::frames::layout::ETHERNET;
use crate::net::frames::socket;
use crate::units;
use crate::workload::Alone;
use crate::workload::standalone::{self, choice};

/// Count the frames of `generate` that come to an interface, and those that find no room
#[derive(clap::Args)]
pub struct Arguments {
    /// Interface that they come to
    #[arg(value_name = "IFACE")]
    interface: String,
    /// How they come to this program: by calls on a socket, by a ring that it shares with the kernel, or by XDP,
    /// which takes them before the kernel's network sees them
    #[arg(
        long,
        default_value = "packet",
        value_parser = choice::<FrameVia>(&["socket", "packet", "xdp"])
    )]
    via: FrameVia,
    /// Memory in which frames wait to be taken
    #[arg(long, value_name = "SIZE", value_parser = units::parse_small_size, default_value = "4M")]
    ring: u32,
    /// Seconds after which it ends, if the generator has not said so before
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    duration: f64,
    /// Number that distinguishes a generator's frames from those of another one
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u32,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        ensure!(
            (0.001..=86_400.0).contains(&self.duration),
            "duration is {}: it must be from 0.001 to 86400 seconds",
            self.duration
        );
        let stop = standalone::stop_by_signal()?;
        let link = socket::interface(&self.interface)?;
        let name = self.interface.clone();
        let context = standalone::context("capture", stop.clone(), move || {
            eprintln!("capturing at {name}; Ctrl-C ends it");
        });
        let context = context.without_intervals();
        let spec = FrameCapture {
            on: self.interface.clone(),
            via: self.via,
            session: self.session,
            frame: link.mtu + ETHERNET as u32,
            ring: self.ring,
            interval_s: 1.0,
            omit_s: 0.0,
        };
        let end = Instant::now() + Duration::from_secs_f64(self.duration);
        let at_end = stop.clone();
        // This thread ends with the process.
        std::thread::spawn(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            at_end.store(true, Ordering::Relaxed);
        });
        let ended = || stop.store(true, Ordering::Relaxed);
        let outcome = receive::at_link(&spec, &link, &context, &ended)?;
        standalone::print(&context, outcome, self.json, |outcome| {
            let value = |name: &str| outcome.value(name);
            let (frames, seconds) = (value("received_packets"), value("elapsed_s"));
            format!(
                "captured {} frames in {seconds:.2} s: {}/s, {}; {} lost, {} of them dropped at the ring; \
                 CPU {:.0} %\n",
                units::count(frames),
                units::count(frames / seconds),
                units::rate(value("goodput_bps")),
                units::count(value("lost_packets")),
                units::count(value("all_drops")),
                100.0 * (value("user_s") + value("system_s")) / seconds,
            )
        })
    }
}
