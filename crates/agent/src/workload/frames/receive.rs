//! The capture program: a stream's receiver with one flow, which comes from a source of frames.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use hypertare_plan::{FrameCapture, FrameVia};

use super::{check_ring, numbered};
use crate::net::frame_sources;
use crate::net::frames::layout::check_length;
use crate::net::frames::{FrameSource, Opening};
use crate::net::{Link, Links};
use crate::values::Definition;
use crate::workload::stream::account::Account;
use crate::workload::stream::check;
use crate::workload::stream::receiver::{self, Arrival, Flow, Inlet, Received, Stop, Telling};
use crate::workload::stream::socket::{Buffer, shortfall};
use crate::workload::{Context, Outcome, WorkloadKind, address, clock};

/// Between two questions to the kernel for its drops, which cost a call beside the measured ones.
const BETWEEN_LOOKS_NS: u64 = 10_000_000;

impl WorkloadKind for FrameCapture {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "time over which was counted: first to last arrival"),
        ("received_bytes", "B", "frames captured, with their headers, duplicates left out"),
        ("received_packets", "frames", "frames captured, duplicates left out"),
        (
            "goodput_bps",
            "b/s",
            "frames captured after the first arrival, over elapsed_s (n arrivals are n - 1 gaps)",
        ),
        ("lost_packets", "frames", "numbers below the highest known that never came"),
        (
            "reordered_packets",
            "frames",
            "frames with a number below one that came before (RFC 4737)",
        ),
        ("duplicate_packets", "frames", "further copies of frames that had come (RFC 5560)"),
        ("foreign_packets", "frames", "frames of the session that were not of this stream"),
        ("all_packets", "frames", "every frame of the stream, whether it counts or not"),
        ("all_bytes", "B", "bytes of the stream, whether they count or not"),
        ("all_calls", "calls", "system calls that asked or waited for it, those in vain too"),
        (
            "all_drops",
            "frames",
            "dropped because the ring, or the socket buffer, was full; whether they count or not",
        ),
        ("socket_drops", "frames", "those of them that were dropped since counting began"),
        ("socket_buffer_bytes", "B", "the ring, or the socket buffer, as the kernel gave it"),
        ("user_s", "s", "CPU time in user mode of the receiver"),
        ("system_s", "s", "CPU time in the kernel of the receiver"),
        (
            "xdp_native",
            "0 or 1",
            "by XDP only: 1 where the card's driver chose the frames, 0 where the kernel did behind it",
        ),
        (
            "xdp_zero_copy",
            "0 or 1",
            "by XDP only: 1 where the card put frames into the program's memory itself",
        ),
    ];
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        let link = Links::open()?.holding(address::host(&self.on)?)?;
        at_link(self, &link, context, &|| ())
    }
}

/// Captures at this interface, whatever address the plan has; calls `ended` when the stream has ended.
pub fn at_link(
    spec: &FrameCapture,
    link: &Link,
    context: &Context,
    ended: &(dyn Fn() + Sync),
) -> Result<Outcome> {
    check::reporting(spec.interval_s, spec.omit_s)?;
    check_ring(spec.ring)?;
    check_length(spec.frame, link.mtu)?;
    let source = frame_sources::open(&Opening {
        interface: &link.name,
        via: spec.via,
        ring: spec.ring,
        frame: spec.frame,
        filter: &numbered::of_session(spec.session),
        at_once: false,
    })?;
    let ring_bytes = source.ring_bytes() as usize;
    let reported = source.reported();
    if let Some(warning) = reported.warning {
        context.warn(warning);
    }
    if spec.via == FrameVia::Socket
        && let Some(sentence) = shortfall(Buffer::Receive, Some(spec.ring), ring_bytes)
    {
        context.warn(sentence);
    }
    let inlet = Ring { source: Mutex::new(source), drops: AtomicU64::new(0) };
    let reporting = Telling { on: &spec.on, interval_s: spec.interval_s, is_numbered: true };
    let inlets = [inlet];
    let mut outcome = receiver::run(reporting, context, &inlets, ring_bytes, |inlet, flow| {
        receive(inlet, flow, spec.omit_s > 0.0, context, ended)
    })?;
    outcome.set("all_drops", inlets[0].drops.load(Relaxed) as f64);
    for (name, value) in reported.values {
        outcome.set(name, value);
    }
    Ok(outcome)
}

/// A source of frames, and its drops as far as they are known.
struct Ring {
    source: Mutex<Box<dyn FrameSource>>,
    drops: AtomicU64,
}

impl Inlet for Ring {
    fn drops(&self) -> Option<u64> {
        Some(self.drops.load(Relaxed))
    }
}

/// Counts the frames that arrive. `None` when none did.
fn receive(
    inlet: &Ring,
    flow: &Flow,
    omits: bool,
    context: &Context,
    ended: &dyn Fn(),
) -> Result<Option<Received>> {
    let mut source = inlet.source.lock().unwrap_or_else(PoisonError::into_inner);
    let mut account = Account::new(flow.index, numbered::HEADER_AT);
    let (mut received, mut stop) = (Received::default(), Stop::of_datagrams());
    let mut next_look = 0;
    loop {
        let (mut bytes, mut packets) = (0, 0);
        let taken = source.next(&mut |frame| {
            if account.counts(frame) {
                bytes += frame.len() as u64;
                packets += 1;
            }
        });
        let taken = taken.map_err(|error| anyhow!("cannot capture: {error}"))?;
        let now = clock::now_ns();
        if packets > 0 {
            received.arrival(flow, Arrival { now, bytes, packets });
        }
        if taken > 0 {
            flow.report(&received, Some(&account.sequence));
            flow.foreign(account.foreign);
        }
        if now >= next_look {
            inlet.drops.store(source.drops()?, Relaxed);
            next_look = now + BETWEEN_LOOKS_NS;
        }
        if account.ended && received.began() {
            flow.end();
            received.close();
            ended();
        }
        if stop.is_due(context, account.is_complete() || taken == 0, now) {
            break;
        }
    }
    received.close();
    inlet.drops.store(source.drops()?, Relaxed);
    received.all = Some(account.all);
    received.all_bytes = account.all_bytes;
    received.all_calls = source.calls();
    if omits && received.began() && !account.settled {
        context
            .warn("the capture was to omit a part, but the sender marked nothing to omit".into());
    }
    Ok(account.came().then_some(received))
}
