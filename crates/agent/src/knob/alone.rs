//! `hypertare-agent knob`: looks at knobs without a plan. It turns none: nobody would be there to
//! put it back.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use hypertare_plan::{Knob, ThpDefrag, ThpEnabled};

use super::Setting;
use crate::net::ethtool;

/// Look at the settings that a study can change.
#[derive(Args, Debug)]
pub struct KnobArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Print every knob of an interface as it is, or why it is not available here.
    Show { interface: String },
}

pub fn run(args: &KnobArgs) -> Result<()> {
    let Verb::Show { interface } = &args.verb;
    let state = ethtool::state(interface)?;
    let offloads = state.offloads.keys().map(|offload| Knob::Offload {
        interface: interface.clone(),
        offload: offload.clone(),
        on: true,
    });
    let mut out = Vec::new();
    writeln!(out, "{:<24} {}", "driver", state.driver.as_deref().unwrap_or("unknown"))?;
    writeln!(out, "{:<24} {} receive, {} transmit", "queues", state.rx_queues, state.tx_queues)?;
    for knob in knobs(interface).into_iter().chain(offloads) {
        let value = match Setting::of(&knob).and_then(|setting| setting.probe()) {
            Ok(value) if value.is_empty() => "none".to_owned(),
            Ok(value) => value,
            Err(error) => format!("not available here: {error:#}"),
        };
        writeln!(out, "{:<24} {value}", name(&knob))?;
    }
    io::stdout().write_all(&out).context("writing to the standard output")
}

/// What is asked for does not matter to a look, but for CPUs: one that is there.
fn knobs(interface: &str) -> [Knob; 14] {
    let interface = interface.to_owned();
    [
        Knob::Mtu { interface: interface.clone(), bytes: 1500 },
        Knob::InterruptCpus { interface: interface.clone(), cpus: vec![0] },
        Knob::ReceiveSteering { interface: interface.clone(), cpus: vec![] },
        Knob::SocketBuffers { bytes: 1 << 20 },
        Knob::NapiWeight { interface: interface.clone(), weight: 64 },
        Knob::NapiBudget { packets: 300, microseconds: Some(8000) },
        Knob::DevWeight { packets: 64 },
        Knob::SchedulerWeight { weight: 256, guest: None },
        coalescing(&interface, true),
        coalescing(&interface, false),
        Knob::BusyPoll { microseconds: 0 },
        Knob::DeferHardIrqs { interface, polls: 0, flush_timeout_ns: 0 },
        Knob::Thp {
            enabled: ThpEnabled::Always,
            defrag: Some(ThpDefrag::Always),
            scan_sleep_ms: Some(0),
        },
        Knob::Ksm { run: true, pages_to_scan: Some(1), sleep_ms: Some(0) },
    ]
}

/// Time, or packets: few drivers have both.
fn coalescing(interface: &str, time: bool) -> Knob {
    let (usecs, frames) = if time { (Some(0), None) } else { (None, Some(0)) };
    Knob::InterruptCoalescing {
        interface: interface.to_owned(),
        rx_usecs: usecs,
        rx_frames: frames,
        tx_usecs: None,
        tx_frames: None,
        adaptive_rx: None,
    }
}

fn name(knob: &Knob) -> String {
    match knob {
        Knob::Mtu { .. } => "mtu".to_owned(),
        Knob::Offload { offload, .. } => format!("offload {offload}"),
        Knob::SocketBuffers { .. } => "socket_buffers".to_owned(),
        Knob::InterruptCpus { .. } => "interrupt_cpus".to_owned(),
        Knob::ReceiveSteering { .. } => "receive_steering".to_owned(),
        Knob::NapiWeight { .. } => "napi_weight".to_owned(),
        Knob::NapiBudget { .. } => "napi_budget".to_owned(),
        Knob::SchedulerWeight { .. } => "scheduler_weight".to_owned(),
        Knob::DevWeight { .. } => "dev_weight".to_owned(),
        Knob::InterruptCoalescing { rx_usecs: Some(_), .. } => "coalescing rx_usecs".to_owned(),
        Knob::InterruptCoalescing { .. } => "coalescing rx_frames".to_owned(),
        Knob::Thp { .. } => "thp".to_owned(),
        Knob::Ksm { .. } => "ksm".to_owned(),
        Knob::BusyPoll { .. } => "busy_poll".to_owned(),
        Knob::DeferHardIrqs { .. } => "defer_hard_irqs".to_owned(),
    }
}
