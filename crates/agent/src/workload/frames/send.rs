//! The generator: a stream's sender with one flow, whose messages are in a ring from which the kernel
//! sends.

use std::io;

use anyhow::{Result, ensure};
use hypertare_plan::FrameSend;

use super::numbered;
use crate::net::Link;
use crate::net::frames::layout::{Mac, blank, check_length};
use crate::net::frames::neighbour;
use crate::net::frames::sent::SendRing;
use crate::net::link::parse_mac;
use crate::net::shared;
use crate::values::Definition;
use crate::workload::stream::account::{BETWEEN_END_MARKS, END_MARKS};
use crate::workload::stream::check;
use crate::workload::stream::datagram::Kind;
use crate::workload::stream::sender::{self, SendFlow, Sent, Timetable};
use crate::workload::{Context, Outcome, WorkloadKind, address, clock};

const MOST_BURST: u32 = 1024;

/// The pause after the kernel refused frames.
const AFTER_REFUSAL_NS: u64 = 50_000;

impl WorkloadKind for FrameSend {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "time over which was counted"),
        ("sent_bytes", "B", "frames handed over and accepted, with their headers, without FCS"),
        ("sent_packets", "frames", "frames handed over and accepted"),
        (
            "all_packets",
            "frames",
            "sent_packets, those before, what announces the end, and send_errors",
        ),
        ("all_bytes", "B", "sent_bytes, and those before"),
        ("all_calls", "calls", "system calls that handed all_bytes over, or tried to"),
        ("offered_bps", "b/s", "rate of frames asked for; absent when as fast as it goes"),
        ("sent_bps", "b/s", "rate of frames achieved"),
        ("send_errors", "frames", "frames that the interface refused (ENOBUFS)"),
        ("late_s", "s", "how far behind its schedule a paced sender was at worst"),
        ("socket_buffer_bytes", "B", "the ring that is sent from"),
        ("user_s", "s", "CPU time in user mode of the sender"),
        ("system_s", "s", "CPU time in the kernel of the sender"),
    ];

    fn run(&self, context: &Context) -> Result<Outcome> {
        let (link, mac) = neighbour::find(address::host(&self.to)?)?;
        let mac = if self.past_card { shared::beside(mac) } else { mac };
        from_link(self, &link, mac, context)
    }
}

/// Sends through this interface to this address, whatever receiver the plan has.
pub fn from_link(spec: &FrameSend, link: &Link, to: Mac, context: &Context) -> Result<Outcome> {
    let timetable = Timetable {
        to: &spec.to,
        flows: 1,
        rate_bps: spec.rate_bps,
        duration_s: spec.duration_s,
        omit_s: spec.omit_s,
        interval_s: spec.interval_s,
    };
    check::timetable(&timetable)?;
    check_length(spec.frame, link.mtu)?;
    ensure!(
        (1..=MOST_BURST).contains(&spec.burst),
        "burst is {}: it must be from 1 to {MOST_BURST} frames",
        spec.burst
    );
    let mut frame = blank(spec.frame as usize, to, parse_mac(&link.mac)?);
    numbered::begin(&mut frame, spec.session, (clock::now_ns() >> 10) as u16);
    let ring = SendRing::open(link, &frame)?;
    let bytes = ring.bytes();
    let flow = Frames {
        ring,
        frame: spec.frame,
        burst: u64::from(spec.burst),
        settled: 0,
        counted: 0,
        others: 0,
    };
    sender::run(&timetable, context, vec![flow], bytes)
}

struct Frames {
    ring: SendRing,
    frame: u32,
    burst: u64,
    settled: u64,
    counted: u64,
    /// Marks of the end, and frames that the interface refused and counts as dropped.
    others: u64,
}

impl Frames {
    fn fill(&mut self, count: u64, kind: Kind, first: u64) {
        let now = clock::now_ns();
        for number in first..first + count {
            if !self.ring.fill(|frame| numbered::number(frame, kind, number, now)) {
                break;
            }
        }
    }
}

impl SendFlow for Frames {
    fn send(&mut self, due: u64, kind: Kind) -> io::Result<Sent> {
        let first = if kind == Kind::Counted { self.counted } else { self.settled };
        self.fill(due.min(self.burst), kind, first);
        let gone = self.ring.send()?;
        if gone.frames == 0 {
            clock::sleep_once(clock::now_ns() + AFTER_REFUSAL_NS);
        }
        self.others += gone.refused;
        match kind {
            Kind::Counted => self.counted += gone.frames,
            _ => self.settled += gone.frames,
        }
        let bytes = gone.frames * u64::from(self.frame);
        Ok(Sent { bytes, messages: gone.frames, refused: gone.refused })
    }

    fn finish(&mut self, counted: u64, _context: &Context) -> Option<String> {
        for _ in 0..END_MARKS {
            self.fill(1, Kind::End, counted);
            // An interface that is gone needs no mark.
            if let Ok(gone) = self.ring.send() {
                self.others += gone.frames + gone.refused;
            }
            clock::sleep_once(clock::now_ns() + BETWEEN_END_MARKS.as_nanos() as u64);
        }
        None
    }

    fn message(&self) -> u32 {
        self.frame
    }

    fn all(&self) -> Option<u64> {
        Some(self.settled + self.counted + self.others)
    }
}
