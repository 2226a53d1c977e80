//! The receiving end: one thread a flow, and the caller's thread, which reports the intervals.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Result, anyhow, bail};
use hypertare_plan::{StreamProtocol, StreamReceive, Values};
use socket2::Socket;

use super::gaps::Gaps;
use super::sequence::Sequence;
use super::socket::{self, PATIENCE};
use super::{Context, Outcome};
use crate::values::Definition;
use crate::workload::clock::{self, SECOND, seconds_between};
use crate::workload::usage::Usage;

pub const VALUES: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted: first to last arrival"),
    ("received_bytes", "B", "payload received, duplicates left out"),
    ("received_packets", "messages", "datagrams received, duplicates left out; reads for TCP"),
    (
        "goodput_bps",
        "b/s",
        "payload received after the first arrival, over elapsed_s (n arrivals are n - 1 gaps)",
    ),
    ("lost_packets", "messages", "sequence numbers below the highest known that never came; UDP"),
    (
        "reordered_packets",
        "messages",
        "datagrams with a number below one that came before (RFC 4737); UDP",
    ),
    ("duplicate_packets", "messages", "further copies of datagrams that had come (RFC 5560); UDP"),
    ("foreign_packets", "messages", "datagrams or connections that were not of this stream"),
    ("all_packets", "messages", "every datagram of the stream, whether it counts or not; UDP"),
    ("all_bytes", "B", "payload of the stream, whether it counts or not"),
    ("all_calls", "calls", "system calls that asked for it, those in vain too"),
    (
        "socket_drops",
        "buffers",
        "dropped for want of room in the socket buffer (SO_RXQ_OVFL's counter); datagrams that \
         travel as one (UDP_SEGMENT, GRO) may count once; UDP",
    ),
    ("socket_buffer_bytes", "B", "SO_RCVBUF as the kernel set it"),
    (
        "jitter_ns",
        "ns",
        "interarrival jitter (RFC 3550), mean over the stream; where it is asked for",
    ),
    (
        "gap_min_ns",
        "ns",
        "least time from one message of a flow to the next; where it is asked for",
    ),
    ("gap_mean_ns", "ns", "mean of those"),
    ("gap_p50_ns", "ns", "median of those"),
    ("gap_p90_ns", "ns", "90th percentile of those"),
    ("gap_p99_ns", "ns", "99th percentile of those"),
    ("gap_p999_ns", "ns", "99.9th percentile of those"),
    ("gap_max_ns", "ns", "longest of those"),
    ("user_s", "s", "CPU time in user mode of the receiver"),
    ("system_s", "s", "CPU time in the kernel of the receiver"),
];

/// How long the receiver waits at most for data under way after the order to stop.
const DRAIN_LIMIT: u64 = SECOND / 4;
/// The same for datagrams and frames, which stay on their way when the sender ends: a queue of a thousand full
/// frames needs as long on a line of 4 Mb/s, and its rest would disturb the next trial; a ring of 8 MB may hold
/// 60,000 frames that a slow guest has not taken yet.
const DATAGRAM_DRAIN_LIMIT: u64 = 3 * SECOND;

const NEVER: u64 = u64::MAX;

/// How arrivals are reported.
#[derive(Clone, Copy)]
pub struct Telling<'a> {
    /// The receiver's address, for an error.
    pub on: &'a str,
    pub interval_s: f64,
    /// Whether messages are numbered, so that missing ones are known.
    pub is_numbered: bool,
}

impl<'a> From<&'a StreamReceive> for Telling<'a> {
    fn from(spec: &'a StreamReceive) -> Self {
        Telling {
            on: &spec.on,
            interval_s: spec.interval_s,
            is_numbered: spec.protocol == StreamProtocol::Udp,
        }
    }
}

/// A place where a flow arrives.
pub trait Inlet: Sync {
    /// Messages that it dropped for want of room; `None` where it does not know.
    fn drops(&self) -> Option<u64>;
}

impl Inlet for Socket {
    fn drops(&self) -> Option<u64> {
        socket::drops(self)
    }
}

/// The yield of one call to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub now: u64,
    pub bytes: u64,
    pub packets: u64,
}

/// Times that all flows share.
pub struct Arrivals {
    /// When the first bytes of any flow came.
    first: AtomicU64,
    /// When the first bytes that count came.
    first_counted: AtomicU64,
}

impl Arrivals {
    pub fn new() -> Self {
        Arrivals { first: AtomicU64::new(NEVER), first_counted: AtomicU64::new(NEVER) }
    }
}

/// A flow's counters for the caller's thread while the flow runs. Only its own thread writes them.
#[repr(align(128))]
pub struct Flow<'a> {
    pub index: u16,
    arrivals: &'a Arrivals,
    ended: AtomicBool,
    bytes: AtomicU64,
    packets: AtomicU64,
    lost: AtomicU64,
    reordered: AtomicU64,
    duplicates: AtomicU64,
    foreign: AtomicU64,
}

impl<'a> Flow<'a> {
    fn new(index: u16, arrivals: &'a Arrivals) -> Self {
        let zero = || AtomicU64::new(0);
        Flow {
            index,
            arrivals,
            ended: AtomicBool::new(false),
            bytes: zero(),
            packets: zero(),
            lost: zero(),
            reordered: zero(),
            duplicates: zero(),
            foreign: zero(),
        }
    }

    /// Notes this flow's first bytes.
    pub fn came(&self, now: u64) {
        self.arrivals.first.fetch_min(now, Relaxed);
    }

    pub fn first_arrival(&self) -> u64 {
        self.arrivals.first.load(Relaxed)
    }

    /// Notes that nothing more will come.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Notes how many messages or connections came that were not this flow's.
    pub fn foreign(&self, count: u64) {
        self.foreign.store(count, Relaxed);
    }

    pub fn report(&self, received: &Received, sequence: Option<&Sequence>) {
        self.bytes.store(received.bytes, Relaxed);
        self.packets.store(received.packets, Relaxed);
        if let Some(sequence) = sequence {
            self.lost.store(sequence.lost(), Relaxed);
            self.reordered.store(sequence.reordered, Relaxed);
            self.duplicates.store(sequence.duplicates, Relaxed);
        }
    }
}

/// The totals of a flow.
#[derive(Default)]
pub struct Received {
    pub bytes: u64,
    pub packets: u64,
    /// With packets that do not count; `None` where that is unknown.
    pub all: Option<u64>,
    /// The same of bytes, and of the calls that asked for them.
    pub all_bytes: u64,
    pub all_calls: u64,
    pub gaps: Option<Gaps>,
    /// Time and bytes of the first arrival.
    first: Option<(u64, u64)>,
    last: u64,
    before: Usage,
    usage: Option<Usage>,
}

impl Received {
    pub fn began(&self) -> bool {
        self.first.is_some()
    }

    #[inline]
    pub fn arrival(&mut self, flow: &Flow, arrival: Arrival) {
        if self.first.is_none() {
            self.first = Some((arrival.now, arrival.bytes));
            self.before = Usage::of_thread();
            flow.arrivals.first_counted.fetch_min(arrival.now, Relaxed);
        }
        self.last = arrival.now;
        self.bytes += arrival.bytes;
        self.packets += arrival.packets;
    }

    /// Ends the account of CPU time; a second call changes nothing.
    pub fn close(&mut self) {
        if self.began() && self.usage.is_none() {
            self.usage = Some(Usage::of_thread().since(&self.before));
        }
    }
}

/// Decides when a flow that was asked to stop has waited long enough for data under way.
pub struct Stop {
    drain: u64,
    limit: Option<u64>,
}

impl Default for Stop {
    fn default() -> Self {
        Stop { drain: DRAIN_LIMIT, limit: None }
    }
}

impl Stop {
    pub fn of_datagrams() -> Self {
        Stop { drain: DATAGRAM_DRAIN_LIMIT, limit: None }
    }

    /// `quiet`: the last call brought nothing.
    pub fn is_due(&mut self, context: &Context, quiet: bool, now: u64) -> bool {
        context.stopped() && (quiet || now >= *self.limit.get_or_insert(now + self.drain))
    }
}

/// Runs `receive` for every inlet until all have ended and the receiver is asked to stop.
pub fn run<I, R>(
    reporting: Telling,
    context: &Context,
    inlets: &[I],
    socket_buffer: usize,
    receive: R,
) -> Result<Outcome>
where
    I: Inlet,
    R: Fn(&I, &Flow) -> Result<Option<Received>> + Sync,
{
    let arrivals = Arrivals::new();
    let flows: Vec<Flow> =
        (0..inlets.len()).map(|index| Flow::new(index as u16, &arrivals)).collect();
    let mut intervals = Intervals::new(reporting, context, &flows, inlets);
    context.ready();

    let results: Vec<Result<Option<Received>>> = thread::scope(|scope| {
        let receive = &receive;
        let threads: Vec<_> = inlets
            .iter()
            .zip(&flows)
            .map(|(inlet, flow)| {
                scope.spawn(move || {
                    receive(inlet, flow).map_err(|error| anyhow!("flow {}: {error:#}", flow.index))
                })
            })
            .collect();
        while !(context.stopped() && threads.iter().all(thread::ScopedJoinHandle::is_finished)) {
            intervals.watch(arrivals.first_counted.load(Relaxed));
        }
        let panicked = |_| Err(anyhow!("a flow's thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });

    let received = all_came(reporting.on, &flows, results)?;
    let last = received.iter().map(|flow| flow.last).max().unwrap_or(0);
    intervals.close(arrivals.first_counted.load(Relaxed), last);
    let mut outcome = outcome(&received, &intervals, socket_buffer);
    if received.iter().any(|flow| flow.gaps.is_some()) {
        Gaps::report(received.iter().filter_map(|flow| flow.gaps.as_ref()), &mut outcome)?;
    }
    Ok(outcome)
}

/// Every flow's totals, or an error that names the missing flows and the reason.
fn all_came(
    on: &str,
    flows: &[Flow],
    results: Vec<Result<Option<Received>>>,
) -> Result<Vec<Received>> {
    let received: Vec<Option<Received>> = results.into_iter().collect::<Result<_>>()?;
    let missing: Vec<String> = (received.iter().enumerate())
        .filter(|(_, flow)| flow.is_none())
        .map(|(index, _)| index.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(received.into_iter().flatten().collect());
    }
    let strangers: u64 = flows.iter().map(|flow| flow.foreign.load(Relaxed)).sum();
    let aside = match strangers {
        0 => String::new(),
        _ => format!(" ({strangers} came that were not this stream's)"),
    };
    if missing.len() == flows.len() {
        bail!("no sender came to {on}{aside}");
    }
    bail!("of {} flows to {on} these never came: {}{aside}", flows.len(), missing.join(", "))
}

fn outcome<I: Inlet>(
    received: &[Received],
    intervals: &Intervals<I>,
    socket_buffer: usize,
) -> Outcome {
    let total = intervals.last;
    let first = received.iter().filter_map(|flow| flow.first).min();
    let last = received.iter().map(|flow| flow.last).max().unwrap_or(0);
    let usage = || received.iter().filter_map(|flow| flow.usage);
    let elapsed_s = first.map_or(0.0, |(begin, _)| seconds_between(begin, last));
    let mut outcome = Outcome::default();
    outcome
        .set("elapsed_s", elapsed_s)
        .set("received_bytes", total.bytes as f64)
        .set("received_packets", total.packets as f64)
        .set("all_bytes", received.iter().map(|flow| flow.all_bytes).sum::<u64>() as f64)
        .set("all_calls", received.iter().map(|flow| flow.all_calls).sum::<u64>() as f64)
        .set("socket_buffer_bytes", socket_buffer as f64)
        .set("foreign_packets", total.foreign as f64)
        .set("user_s", usage().map(|usage| usage.user_s()).sum())
        .set("system_s", usage().map(|usage| usage.system_s()).sum());
    if let Some((_, first_bytes)) = first
        && elapsed_s > 0.0
    {
        // n arrivals are n - 1 gaps: the first one's bytes came before the time began.
        outcome.set("goodput_bps", (total.bytes - first_bytes) as f64 * 8.0 / elapsed_s);
    }
    if intervals.reporting.is_numbered {
        outcome
            .set("lost_packets", total.lost as f64)
            .set("reordered_packets", total.reordered as f64)
            .set("duplicate_packets", total.duplicates as f64);
        if let Some(drops) = total.drops {
            outcome.set("socket_drops", drops as f64);
        }
        if let Some(all) = received.iter().map(|flow| flow.all).sum::<Option<u64>>() {
            outcome.set("all_packets", all as f64);
        }
    }
    outcome
}

/// Sums over flows.
#[derive(Clone, Copy, Default)]
struct Totals {
    bytes: u64,
    packets: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    foreign: u64,
    drops: Option<u64>,
}

/// Reports the changes from one look at the flows to the next.
struct Intervals<'a, I> {
    reporting: Telling<'a>,
    context: &'a Context,
    step: u64,
    flows: &'a [Flow<'a>],
    inlets: &'a [I],
    /// When counting began, when the last look was, and when the next is due.
    times: Option<(u64, u64, u64)>,
    /// Drops before counting began.
    drops_before: u64,
    last: Totals,
}

impl<'a, I: Inlet> Intervals<'a, I> {
    fn new(
        reporting: Telling<'a>,
        context: &'a Context,
        flows: &'a [Flow<'a>],
        inlets: &'a [I],
    ) -> Self {
        Intervals {
            reporting,
            context,
            step: clock::from_seconds(reporting.interval_s),
            flows,
            inlets,
            times: None,
            drops_before: 0,
            last: Totals::default(),
        }
    }

    /// Waits a little, and reports the interval that ended meanwhile.
    fn watch(&mut self, first: u64) {
        let now = clock::now_ns();
        self.begin(first);
        let flowing = self.flows.iter().any(|flow| !flow.ended.load(Relaxed));
        let next = match self.times {
            Some((_, _, due)) if flowing => due,
            _ => NEVER,
        };
        if now >= next {
            self.report(now);
        } else {
            clock::sleep_once(next.min(now + PATIENCE.as_nanos() as u64));
        }
    }

    /// Reports the last interval, up to the last arrival.
    fn close(&mut self, first: u64, last: u64) {
        self.begin(first);
        self.report(last);
        self.last = self.totals();
    }

    fn begin(&mut self, first: u64) {
        if self.times.is_none() {
            if first == NEVER {
                self.drops_before = self.drops().unwrap_or(0);
            } else {
                self.times = Some((first, first, first + self.step));
            }
        }
    }

    fn report(&mut self, now: u64) {
        let Some((zero, before, due)) = self.times else { return };
        if now <= before {
            return;
        }
        let total = self.totals();
        // Differences: a late datagram takes back a loss, so that one can be negative.
        let mut values = Values::from([
            ("received_bytes".to_owned(), (total.bytes - self.last.bytes) as f64),
            ("received_packets".to_owned(), (total.packets - self.last.packets) as f64),
        ]);
        if self.reporting.is_numbered {
            let lost = total.lost as f64 - self.last.lost as f64;
            values.insert("lost_packets".to_owned(), lost);
            let reordered = (total.reordered - self.last.reordered) as f64;
            values.insert("reordered_packets".to_owned(), reordered);
            let duplicates = (total.duplicates - self.last.duplicates) as f64;
            values.insert("duplicate_packets".to_owned(), duplicates);
            if let Some(drops) = total.drops {
                let drops = drops.saturating_sub(self.last.drops.unwrap_or(0));
                values.insert("socket_drops".to_owned(), drops as f64);
            }
        }
        self.context.interval(seconds_between(zero, before), seconds_between(zero, now), values);
        let due = due + (now.saturating_sub(due) / self.step + 1) * self.step;
        self.times = Some((zero, now, due));
        self.last = total;
    }

    fn totals(&self) -> Totals {
        let sum = |field: fn(&'a Flow<'a>) -> &'a AtomicU64| {
            self.flows.iter().map(|flow| field(flow).load(Relaxed)).sum()
        };
        Totals {
            bytes: sum(|flow| &flow.bytes),
            packets: sum(|flow| &flow.packets),
            lost: sum(|flow| &flow.lost),
            reordered: sum(|flow| &flow.reordered),
            duplicates: sum(|flow| &flow.duplicates),
            foreign: sum(|flow| &flow.foreign),
            drops: self.drops().map(|drops| drops.saturating_sub(self.drops_before)),
        }
    }

    fn drops(&self) -> Option<u64> {
        if !self.reporting.is_numbered {
            return None;
        }
        self.inlets.iter().map(Inlet::drops).sum()
    }
}
