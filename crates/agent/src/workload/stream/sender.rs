//! The sending end: one thread a flow, and the caller's thread, which keeps the time.
//!
//! Flows that send as fast as they can never read the clock: they read the [`Stage`], a word that the
//! caller's thread changes on time. Paced flows have to read the clock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Result, anyhow, bail};
use hypertare_plan::{StreamSend, Values};
use socket2::Socket;

use super::datagram::Kind;
use super::pace::{Due, Pacer};
use super::socket::PATIENCE;
use super::tcp_info::{self, TcpInfo};
use super::{Context, Outcome};
use crate::values::Definition;
use crate::workload::clock::{self, seconds_between};
use crate::workload::usage::Usage;

pub const VALUES: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted"),
    ("sent_bytes", "B", "payload handed to the kernel and accepted"),
    ("sent_packets", "messages", "messages handed to the kernel and accepted"),
    ("all_packets", "messages", "sent_packets, those before, and what announces the end; UDP"),
    ("all_bytes", "B", "sent_bytes, and those before"),
    ("all_calls", "calls", "system calls that handed all_bytes over, or tried to"),
    ("offered_bps", "b/s", "payload rate asked for; absent when as fast as it goes"),
    ("sent_bps", "b/s", "payload rate achieved"),
    ("retransmits", "segments", "TCP segments sent again, from TCP_INFO"),
    ("rtt_s", "s", "smoothed round-trip time at the end, mean over flows, from TCP_INFO"),
    ("rtt_min_s", "s", "least round-trip time seen by TCP, from TCP_INFO"),
    ("mss_bytes", "B", "segment size in use, from TCP_INFO"),
    ("send_errors", "messages", "messages that the kernel refused (ENOBUFS and the like)"),
    ("late_s", "s", "how far behind its schedule a paced sender was at worst"),
    ("segmentation", "", "1 when the kernel cut the datagrams (UDP_SEGMENT), else 0; UDP only"),
    ("nodelay", "", "1 where small messages go at once (TCP_NODELAY), else 0; TCP only"),
    ("socket_buffer_bytes", "B", "SO_SNDBUF as the kernel set it"),
    ("user_s", "s", "CPU time in user mode of the sender"),
    ("system_s", "s", "CPU time in the kernel of the sender"),
];

/// When to send, and how fast.
#[derive(Clone, Copy)]
pub struct Timetable<'a> {
    /// The receiver's address, for an error.
    pub to: &'a str,
    pub flows: u32,
    pub rate_bps: Option<f64>,
    pub duration_s: f64,
    pub omit_s: f64,
    pub interval_s: f64,
}

impl<'a> From<&'a StreamSend> for Timetable<'a> {
    fn from(spec: &'a StreamSend) -> Self {
        Timetable {
            to: &spec.to,
            flows: spec.flows,
            rate_bps: spec.rate_bps,
            duration_s: spec.duration_s,
            omit_s: spec.omit_s,
            interval_s: spec.interval_s,
        }
    }
}

/// The yield of one call to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub bytes: u64,
    pub messages: u64,
    pub refused: u64,
}

/// One flow of messages, ready to send.
pub trait SendFlow: Send {
    /// Hands at most `due` messages to the kernel.
    fn send(&mut self, due: u64, kind: Kind) -> io::Result<Sent>;

    /// Announces to the receiver that the stream is over, after `counted` messages that count, and waits
    /// for a limited time until the receiver has all of it. Returns a warning.
    fn finish(&mut self, counted: u64, context: &Context) -> Option<String>;

    /// The socket, where TCP_INFO reports about it.
    fn connection(&self) -> Option<Arc<Socket>> {
        None
    }

    /// Bytes of one message as it is sent.
    fn message(&self) -> u32;

    /// All messages that were sent: those that count, those that do not, and marks of the end. `None` where
    /// the flow cannot know.
    fn all(&self) -> Option<u64> {
        None
    }

    /// Whether the kernel cuts the messages out of larger pieces; `None` where there is no choice.
    fn segments(&self) -> Option<bool> {
        None
    }
}

/// The stage of the stream.
struct Stage(AtomicU8);

const SETTLING: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

impl Stage {
    fn get(&self) -> u8 {
        self.0.load(Relaxed)
    }

    fn advance(&self, stage: u8) {
        self.0.fetch_max(stage, Relaxed);
    }
}

/// Planned times of the clock, in nanoseconds.
#[derive(Clone, Copy)]
struct Schedule {
    start: u64,
    count_from: u64,
    end: u64,
}

impl Schedule {
    fn new(spec: &Timetable) -> Self {
        let start = clock::now_ns();
        let count_from = start + clock::from_seconds(spec.omit_s);
        Schedule { start, count_from, end: count_from + clock::from_seconds(spec.duration_s) }
    }
}

/// A flow's counted messages so far. Only its own thread writes; the rest of the cache line stays empty, so
/// that flows do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Tally {
    bytes: AtomicU64,
    messages: AtomicU64,
    refused: AtomicU64,
}

/// The measurements of a flow while it counted.
struct Counted {
    /// With bytes that do not count.
    all_bytes: u64,
    all_calls: u64,
    begin: u64,
    end: u64,
    usage: Usage,
    before: Option<TcpInfo>,
    after: Option<TcpInfo>,
    late_s: Option<f64>,
}

pub fn run<F: SendFlow>(
    spec: &Timetable,
    context: &Context,
    mut flows: Vec<F>,
    socket_buffer: usize,
) -> Result<Outcome> {
    let connections: Vec<Arc<Socket>> = flows.iter().filter_map(F::connection).collect();
    let tallies: Vec<Tally> = flows.iter().map(|_| Tally::default()).collect();
    context.ready();
    let (schedule, stage) = (Schedule::new(spec), Stage(AtomicU8::new(SETTLING)));
    if spec.omit_s == 0.0 {
        stage.advance(COUNTING);
    }
    let mut intervals = Intervals::new(context, &tallies, &connections);

    let results: Vec<Result<Counted>> = thread::scope(|scope| {
        let threads: Vec<_> = flows
            .iter_mut()
            .zip(&tallies)
            .enumerate()
            .map(|(index, (flow, tally))| {
                let pacer = pacer(spec, schedule.start, index as u32, flow.message());
                let stage = &stage;
                scope.spawn(move || {
                    let counted = drive(flow, pacer, schedule, stage, tally);
                    if counted.is_err() {
                        stage.advance(OVER);
                    }
                    if let Some(warning) = flow.finish(tally.messages.load(Relaxed), context) {
                        context.warn(format!("flow {index}: {warning}"));
                    }
                    counted.map_err(|error| anyhow!("flow {index} to {}: {error}", spec.to))
                })
            })
            .collect();
        keep_time(spec, context, schedule, &stage, &mut intervals);
        let panicked = |_| Err(anyhow!("a flow's thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });

    let counted = results.into_iter().collect::<Result<Vec<Counted>>>()?;
    let begin = counted.iter().map(|flow| flow.begin).min().unwrap_or(schedule.count_from);
    let end = counted.iter().map(|flow| flow.end).max().unwrap_or(begin);
    if end <= begin {
        bail!(
            "nothing was sent that counts: the stream was stopped, or what it omits took all its time \
             (more duration, or more CPU for the sender)"
        );
    }
    intervals.report(end);
    let mut outcome = outcome(spec, &tallies, &counted, seconds_between(begin, end), socket_buffer);
    if let Some(segments) = flows.iter().find_map(F::segments) {
        outcome.set("segmentation", f64::from(u8::from(segments)));
    }
    if let Some(connection) = flows.iter().find_map(F::connection) {
        outcome.set("nodelay", f64::from(u8::from(connection.tcp_nodelay()?)));
    }
    if let Some(all) = flows.iter().map(F::all).sum::<Option<u64>>() {
        outcome.set("all_packets", all as f64);
    }
    Ok(outcome)
}

/// The pacer of a flow's share of the offered rate; flows take turns.
fn pacer(spec: &Timetable, start: u64, index: u32, message: u32) -> Option<Pacer> {
    let apart_s = f64::from(message) * 8.0 / spec.rate_bps?;
    let origin = start + clock::from_seconds(apart_s * f64::from(index));
    Some(Pacer::new(origin, apart_s * f64::from(spec.flows)))
}

/// Moves the stage on time and reports the intervals.
fn keep_time(
    spec: &Timetable,
    context: &Context,
    schedule: Schedule,
    stage: &Stage,
    intervals: &mut Intervals,
) {
    let going = || stage.get() != OVER && !context.stopped();
    if wait_until(schedule.count_from, going) {
        stage.advance(COUNTING);
        intervals.begin(clock::now_ns());
        let step = clock::from_seconds(spec.interval_s);
        let mut boundary = schedule.count_from + step;
        // The last interval is reported when the flows have ended; a sliver joins the one before.
        while boundary + step / 10 < schedule.end && wait_until(boundary, going) {
            intervals.report(clock::now_ns());
            boundary += step;
        }
        wait_until(schedule.end, going);
    }
    stage.advance(OVER);
}

/// Whether the time came while it was still going.
fn wait_until(time: u64, going: impl Fn() -> bool) -> bool {
    loop {
        let now = clock::now_ns();
        if !going() {
            return false;
        }
        if now >= time {
            return true;
        }
        clock::sleep_once(time.min(now + PATIENCE.as_nanos() as u64));
    }
}

/// Sends until the stage is over.
fn drive<F: SendFlow>(
    flow: &mut F,
    mut pacer: Option<Pacer>,
    schedule: Schedule,
    stage: &Stage,
    tally: &Tally,
) -> io::Result<Counted> {
    if pacer.is_some() {
        clock::sleep_exactly();
    }
    let connection = flow.connection();
    let info = || connection.as_ref().and_then(|socket| tcp_info::read(socket).ok());
    let mut begun = None;
    let (mut bytes, mut messages, mut refused) = (0, 0, 0);
    let (mut all_bytes, mut all_calls) = (0, 0);
    loop {
        let now = stage.get();
        if now == OVER {
            break;
        }
        let (due, kind) = match &mut pacer {
            None => (u64::MAX, if now == COUNTING { Kind::Counted } else { Kind::Settling }),
            Some(pacer) => match paced(pacer, schedule) {
                Some(due) => due,
                None => continue,
            },
        };
        if kind == Kind::Counted && begun.is_none() {
            // A paced flow's time begins by its schedule: a late start is caught up, and so belongs to it.
            let now = clock::now_ns();
            let begin = pacer.as_ref().map_or(now, |pacer| pacer.next_due().min(now));
            begun = Some((begin, Usage::of_thread(), info()));
            pacer.iter_mut().for_each(Pacer::forget_lateness);
        }
        let sent = flow.send(due, kind)?;
        all_bytes += sent.bytes;
        all_calls += 1;
        if let Some(pacer) = &mut pacer
            && sent.messages > 0
        {
            pacer.sent(sent.messages, clock::now_ns());
        }
        if kind == Kind::Counted {
            bytes += sent.bytes;
            messages += sent.messages;
            refused += sent.refused;
            tally.bytes.store(bytes, Relaxed);
            tally.messages.store(messages, Relaxed);
            tally.refused.store(refused, Relaxed);
        }
    }
    let end = clock::now_ns();
    let late_s = pacer.as_ref().map(Pacer::late_s);
    let (begin, usage, before) = begun.unwrap_or((end, Usage::of_thread(), None));
    let usage = Usage::of_thread().since(&usage);
    Ok(Counted { all_bytes, all_calls, begin, end, usage, before, after: info(), late_s })
}

/// How many messages are due, and of which kind; `None` after a wait for the next one.
fn paced(pacer: &mut Pacer, schedule: Schedule) -> Option<(u64, Kind)> {
    let now = clock::now_ns();
    if now >= schedule.count_from && pacer.next_due() < schedule.count_from {
        // Messages that do not count must not be caught up: a sender that cannot keep the rate would
        // send them in time that is counted. Nor is the time caught up that its last call took beyond
        // the boundary: the stream counts from now on.
        pacer.skip_to(now);
    }
    let (limit, kind) = if pacer.next_due() < schedule.count_from {
        (schedule.count_from, Kind::Settling)
    } else {
        (schedule.end, Kind::Counted)
    };
    match pacer.due(now, limit) {
        Due::Now(due) => Some((due, kind)),
        Due::At(time) => {
            // At the end of the schedule only the stage can move on: wait for it, do not spin.
            let time =
                if now >= schedule.end { now + PATIENCE.as_nanos() as u64 / 50 } else { time };
            clock::sleep_once(time.min(now + PATIENCE.as_nanos() as u64));
            None
        }
    }
}

fn outcome(
    spec: &Timetable,
    tallies: &[Tally],
    counted: &[Counted],
    elapsed_s: f64,
    socket_buffer: usize,
) -> Outcome {
    let total = Totals::of(tallies);
    let mut outcome = Outcome::default();
    outcome
        .set("elapsed_s", elapsed_s)
        .set("sent_bytes", total.bytes as f64)
        .set("sent_packets", total.messages as f64)
        .set("sent_bps", total.bytes as f64 * 8.0 / elapsed_s)
        .set("all_bytes", counted.iter().map(|flow| flow.all_bytes).sum::<u64>() as f64)
        .set("all_calls", counted.iter().map(|flow| flow.all_calls).sum::<u64>() as f64)
        .set("send_errors", total.refused as f64)
        .set("socket_buffer_bytes", socket_buffer as f64)
        .set("user_s", counted.iter().map(|flow| flow.usage.user_s()).sum())
        .set("system_s", counted.iter().map(|flow| flow.usage.system_s()).sum());
    if let Some(rate) = spec.rate_bps {
        let late_s = counted.iter().filter_map(|flow| flow.late_s).fold(0.0, f64::max);
        outcome.set("offered_bps", rate).set("late_s", late_s);
    }
    let after: Vec<TcpInfo> = counted.iter().filter_map(|flow| flow.after).collect();
    if after.is_empty() {
        return outcome;
    }
    let before: u64 =
        counted.iter().filter_map(|flow| flow.before).map(|info| u64::from(info.retransmits)).sum();
    let retransmits: u64 = after.iter().map(|info| u64::from(info.retransmits)).sum();
    outcome
        .set("retransmits", retransmits.saturating_sub(before) as f64)
        .set("rtt_s", mean(after.iter().map(|info| info.rtt_s)))
        .set("mss_bytes", mean(after.iter().map(|info| f64::from(info.mss_bytes))));
    if let Some(least) = after.iter().filter_map(|info| info.rtt_min_s).reduce(f64::min) {
        outcome.set("rtt_min_s", least);
    }
    outcome
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Sums over flows.
#[derive(Clone, Copy, Default)]
struct Totals {
    bytes: u64,
    messages: u64,
    refused: u64,
    retransmits: u64,
}

impl Totals {
    fn of(tallies: &[Tally]) -> Self {
        let sum = |field: fn(&Tally) -> &AtomicU64| {
            tallies.iter().map(|tally| field(tally).load(Relaxed)).sum()
        };
        Totals {
            bytes: sum(|tally| &tally.bytes),
            messages: sum(|tally| &tally.messages),
            refused: sum(|tally| &tally.refused),
            retransmits: 0,
        }
    }
}

/// Reports the changes from one look at the tallies to the next.
struct Intervals<'a> {
    context: &'a Context,
    tallies: &'a [Tally],
    connections: &'a [Arc<Socket>],
    /// When counting began, and when the last look was.
    times: Option<(u64, u64)>,
    last: Totals,
}

impl<'a> Intervals<'a> {
    fn new(context: &'a Context, tallies: &'a [Tally], connections: &'a [Arc<Socket>]) -> Self {
        Intervals { context, tallies, connections, times: None, last: Totals::default() }
    }

    fn begin(&mut self, now: u64) {
        self.times = Some((now, now));
        self.last = Totals { retransmits: retransmits(&self.infos()), ..Totals::default() };
    }

    fn report(&mut self, now: u64) {
        let Some((zero, before)) = self.times else { return };
        if now <= before {
            return;
        }
        let infos = self.infos();
        let total = Totals { retransmits: retransmits(&infos), ..Totals::of(self.tallies) };
        // Differences, but for TCP's state when the interval ends: the round-trip time, a mean over flows, and
        // the congestion window (bytes), a sum over flows.
        let mut values = Values::from([
            ("sent_bytes".to_owned(), (total.bytes - self.last.bytes) as f64),
            ("sent_packets".to_owned(), (total.messages - self.last.messages) as f64),
            ("send_errors".to_owned(), (total.refused - self.last.refused) as f64),
        ]);
        if !infos.is_empty() {
            let resent = total.retransmits.saturating_sub(self.last.retransmits);
            let cwnd = infos.iter().map(|info| info.cwnd_bytes as f64).sum();
            values.insert("retransmits".to_owned(), resent as f64);
            values.insert("rtt_s".to_owned(), mean(infos.iter().map(|info| info.rtt_s)));
            values.insert("cwnd_bytes".to_owned(), cwnd);
        }
        self.context.interval(seconds_between(zero, before), seconds_between(zero, now), values);
        self.times = Some((zero, now));
        self.last = total;
    }

    fn infos(&self) -> Vec<TcpInfo> {
        self.connections.iter().filter_map(|socket| tcp_info::read(socket).ok()).collect()
    }
}

fn retransmits(infos: &[TcpInfo]) -> u64 {
    infos.iter().map(|info| u64::from(info.retransmits)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::clock::SECOND;

    #[test]
    fn a_call_that_ends_after_the_boundary_shortens_what_counts() {
        let now = clock::now_ns();
        let schedule =
            Schedule { start: now - SECOND, count_from: now - SECOND / 50, end: now + SECOND };
        let mut pacer = Pacer::new(schedule.start, 1e-3);
        pacer.sent(900, schedule.count_from - 1);
        paced(&mut pacer, schedule);
        // Not 80 messages that belonged to what is omitted, and none for 20 ms that went by.
        assert!(pacer.next_due() >= now);
    }
}
