//! Both ends over loopback, through real sockets.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hypertare_plan::{Interval, Level, Record, StreamProtocol, StreamReceive, StreamSend};

use super::{Context, Outcome, WorkloadKind, receiver, sender};
use crate::emit::Emitter;
use crate::tried_again::tried_again;
use crate::values::Definition;

/// A first port with `count` free ones from it on, that no other test has.
fn ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let seed = 20_000 + (std::process::id() % 300) as u16 * 30;
    loop {
        let first = seed + NEXT.fetch_add(count, Relaxed);
        let free = |port: u16| {
            TcpListener::bind(("127.0.0.1", port)).is_ok()
                && UdpSocket::bind(("127.0.0.1", port)).is_ok()
        };
        if (first..first + count).all(free) {
            return first;
        }
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn records(&self) -> Vec<Record> {
        let bytes = self.0.lock().unwrap();
        bytes.split_inclusive(|&b| b == b'\n').map(|l| serde_json::from_slice(l).unwrap()).collect()
    }

    fn intervals(&self) -> Vec<Interval> {
        let of =
            |record| if let Record::Interval(interval) = record { Some(interval) } else { None };
        self.records().into_iter().filter_map(of).collect()
    }

    fn warns(&self, sentence: &str) -> bool {
        self.records().iter().any(|record| match record {
            Record::Log { level, text, .. } => *level == Level::Warning && text.contains(sentence),
            _ => false,
        })
    }

    /// Waits until the intervals reported so far have more than `least` of a value together.
    fn wait(&self, value: &str, least: f64) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.intervals().iter().map(|one| one.values[value]).sum::<f64>() <= least {
            assert!(Instant::now() < limit, "no {value} in 20 s");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A task in a thread of its own, that can be stopped.
struct Task {
    log: Log,
    stop: Arc<AtomicBool>,
    ready: mpsc::Receiver<()>,
    thread: JoinHandle<anyhow::Result<Outcome>>,
}

impl Task {
    fn start(work: impl FnOnce(&Context) -> anyhow::Result<Outcome> + Send + 'static) -> Self {
        let (log, stop) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let (report, ready) = mpsc::channel();
        let (emitter, stopping) = (Arc::new(Emitter::new(log.clone())), stop.clone());
        let thread = thread::spawn(move || {
            let report = move || report.send(()).unwrap_or_default();
            work(&Context::new(("node", 1, "phase", "task"), emitter, stopping, report))
        });
        Task { log, stop, ready, thread }
    }

    fn receiver(spec: StreamReceive) -> Self {
        let task = Self::start(move |context| spec.run(context));
        let _ = task.ready.recv_timeout(Duration::from_secs(5));
        task
    }

    fn sender(spec: StreamSend) -> Self {
        Self::start(move |context| spec.run(context))
    }

    fn end(self) -> (anyhow::Result<Outcome>, Log) {
        (self.thread.join().unwrap(), self.log)
    }

    fn stop(self) -> (anyhow::Result<Outcome>, Log) {
        self.stop_within(Duration::from_secs(2))
    }

    fn stop_within(self, limit: Duration) -> (anyhow::Result<Outcome>, Log) {
        self.stop.store(true, Relaxed);
        let began = Instant::now();
        let ended = self.end();
        assert!(began.elapsed() < limit, "it took {:?} to stop", began.elapsed());
        ended
    }
}

fn specs(protocol: StreamProtocol, flows: u32, message: u32) -> (StreamSend, StreamReceive) {
    let address = format!("127.0.0.1:{}", ports(flows as u16));
    let send = StreamSend {
        protocol,
        to: address.clone(),
        duration_s: 0.4,
        flows,
        message,
        rate_bps: None,
        socket_buffer: None,
        batch: None,
        segmentation: false,
        nodelay: true,
        interval_s: 0.1,
        omit_s: 0.0,
        dscp: None,
    };
    let receive = StreamReceive {
        protocol,
        on: address,
        flows,
        message,
        socket_buffer: Some(1 << 20),
        batch: None,
        interval_s: 0.1,
        omit_s: 0.0,
        every_ns: None,
    };
    (send, receive)
}

/// Runs both ends, and checks what is always so.
fn run(specs: (StreamSend, StreamReceive)) -> (Outcome, Outcome, Log, Log) {
    let receiver = Task::receiver(specs.1);
    let (sent, sender_log) = Task::sender(specs.0).end();
    let (received, receiver_log) = receiver.stop();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    check_names(&sent, sender::VALUES, &sender_log);
    check_names(&received, receiver::VALUES, &receiver_log);
    check_sum(&sender_log, "sent_bytes", &sent);
    check_sum(&receiver_log, "received_bytes", &received);
    (sent, received, sender_log, receiver_log)
}

fn check_names(outcome: &Outcome, values: &[Definition], log: &Log) {
    let known = |name: &String| values.iter().any(|known| known.0 == name);
    for name in outcome.values.keys() {
        assert!(known(name), "{name} has no definition");
    }
    for name in log.intervals().iter().flat_map(|interval| interval.values.keys()) {
        // TCP's window is the one value that is of intervals alone.
        assert!(known(name) || name == "cwnd_bytes", "{name} of an interval has no definition");
    }
}

/// Intervals follow each other and add up to the whole.
fn check_sum(log: &Log, name: &str, outcome: &Outcome) {
    let intervals = log.intervals();
    let sum: f64 = intervals.iter().map(|interval| interval.values[name]).sum();
    assert_eq!(sum, outcome.values[name]);
    assert!(intervals.windows(2).all(|pair| pair[0].end_s == pair[1].begin_s));
}

fn close(value: f64, expected: f64, tolerance: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off < tolerance, "{value}, {expected} was expected");
}

#[test]
fn tcp_flows_arrive_whole() {
    tried_again(|| {
        let (sent, received, sender_log, receiver_log) =
            run(specs(StreamProtocol::Tcp, 3, 16 << 10));
        assert_eq!(sent.values["sent_bytes"], received.values["received_bytes"]);
        assert!(sent.values["sent_packets"] > 100.0);
        assert!(sent.values["rtt_s"] > 0.0 && sent.values["mss_bytes"] > 500.0);
        close(sent.values["elapsed_s"], 0.4, 0.5);
        assert!((3..=5).contains(&sender_log.intervals().len()));
        assert!(receiver_log.intervals().len() >= 3);
        assert!(receiver_log.intervals()[0].begin_s == 0.0);
    });
}

#[test]
fn small_messages_wait_for_others_only_when_they_are_reported_to() {
    for nodelay in [true, false] {
        let (mut send, receive) = specs(StreamProtocol::Tcp, 1, 64);
        send.nodelay = nodelay;
        let (sent, received, ..) = run((send, receive));
        assert_eq!(sent.values["nodelay"], f64::from(u8::from(nodelay)));
        assert_eq!(sent.values["sent_bytes"], received.values["received_bytes"]);
    }
}

#[test]
fn udp_datagrams_are_sent_received_or_lost() {
    for segmentation in [false, true] {
        let (mut send, receive) = specs(StreamProtocol::Udp, 2, 64);
        (send.segmentation, send.duration_s) = (segmentation, 0.2);
        let (sent, received, ..) = run((send, receive));
        let (sent, received) = (sent.values, received.values);
        assert!(sent["sent_packets"] > 10.0, "however busy the host is");
        assert_eq!(sent["sent_bytes"], sent["sent_packets"] * 64.0);
        assert_eq!(sent["sent_packets"], received["received_packets"] + received["lost_packets"]);
        assert_eq!(received["duplicate_packets"] + received["foreign_packets"], 0.0);
    }
}

#[test]
fn both_ends_omit_the_start() {
    tried_again(|| {
        let (mut send, mut receive) = specs(StreamProtocol::Udp, 1, 1000);
        (send.omit_s, receive.omit_s, send.rate_bps) = (0.3, 0.3, Some(8e6));
        let (sent, received, ..) = run((send, receive));
        close(sent.values["sent_packets"], 400.0, 0.25);
        let arrived = received.values["received_packets"] + received.values["lost_packets"];
        assert_eq!(arrived, sent.values["sent_packets"]);

        let (mut send, mut receive) = specs(StreamProtocol::Tcp, 1, 1000);
        (send.omit_s, receive.omit_s, send.rate_bps) = (0.3, 0.3, Some(8e6));
        let (sent, received, ..) = run((send, receive));
        close(sent.values["sent_bytes"], 400e3, 0.25);
        close(received.values["received_bytes"], 400e3, 0.25);
        close(received.values["elapsed_s"], 0.4, 0.5);
    });
}

#[test]
fn the_offered_rate_is_kept() {
    tried_again(|| {
        let (mut send, receive) = specs(StreamProtocol::Udp, 3, 200);
        (send.rate_bps, send.duration_s) = (Some(16e6), 1.0);
        let (sent, received, ..) = run((send, receive));
        close(sent.values["sent_bps"], 16e6, 0.1);
        close(received.values["goodput_bps"], 16e6, 0.15);
        assert_eq!(sent.values["offered_bps"], 16e6);

        let (mut send, receive) = specs(StreamProtocol::Tcp, 1, 128 << 10);
        (send.rate_bps, send.duration_s) = (Some(1e6), 1.0);
        let (sent, received, ..) = run((send, receive));
        close(sent.values["sent_bps"], 1e6, 0.1);
        close(received.values["goodput_bps"], 1e6, 0.15);
    });
}

#[test]
fn a_sender_that_cannot_keep_the_rate_counts_from_the_end_of_what_is_omitted() {
    tried_again(|| {
        let (mut send, mut receive) = specs(StreamProtocol::Udp, 1, 64);
        (send.omit_s, receive.omit_s, send.rate_bps) = (0.5, 0.5, Some(1e12));
        let (sent, received, log, _) = run((send, receive));
        assert!(sent.values["sent_bps"] < 1e11);
        close(sent.values["elapsed_s"], 0.4, 0.25);
        let by_receiver = received.values["received_packets"] + received.values["lost_packets"];
        assert_eq!(sent.values["sent_packets"], by_receiver);
        // Nothing of the time that is counted goes by without datagrams that count.
        let first = &log.intervals()[0];
        assert!(first.values["sent_packets"] > 0.05 * sent.values["sent_packets"], "{first:?}");
        let reported: f64 = log.intervals().iter().map(|one| one.end_s - one.begin_s).sum();
        close(reported, sent.values["elapsed_s"], 0.1);
    });
}

#[test]
fn a_receiver_without_a_sender_says_so() {
    for protocol in [StreamProtocol::Tcp, StreamProtocol::Udp] {
        let (_, receive) = specs(protocol, 2, 64);
        let receiver = Task::receiver(receive);
        thread::sleep(Duration::from_millis(50));
        let error = receiver.stop().0.unwrap_err().to_string();
        assert!(error.contains("no sender came to 127.0.0.1"), "{error}");
    }
}

#[test]
fn missing_flows_are_named() {
    for protocol in [StreamProtocol::Tcp, StreamProtocol::Udp] {
        let (mut send, receive) = specs(protocol, 3, 64);
        (send.flows, send.duration_s) = (1, 0.05);
        let receiver = Task::receiver(receive);
        Task::sender(send).end().0.unwrap();
        let error = receiver.stop().0.unwrap_err().to_string();
        assert!(error.contains("never came: 1, 2"), "{error}");
    }
}

#[test]
fn a_receiver_that_is_stopped_early_reports_what_came() {
    stopped_early(StreamProtocol::Tcp);
    // A sender that others keep from its CPU for 50 ms has fallen silent, as far as anybody can see.
    tried_again(|| stopped_early(StreamProtocol::Udp));
}

fn stopped_early(protocol: StreamProtocol) {
    let (mut send, receive) = specs(protocol, 1, 1400);
    (send.duration_s, send.rate_bps) = (30.0, Some(10e6));
    let receiver = Task::receiver(receive);
    let sender = Task::sender(send);
    receiver.log.wait("received_bytes", 10_000.0);
    // Datagrams that still come are waited for.
    let limit = if protocol == StreamProtocol::Udp { 5 } else { 2 };
    let (received, log) = receiver.stop_within(Duration::from_secs(limit));
    assert!(received.unwrap().values["received_bytes"] > 10_000.0);
    // TCP's sender sends again what was lost; datagrams that a queue holds are the next one's.
    assert_eq!(log.warns("datagrams still came"), protocol == StreamProtocol::Udp);
    // The sender notices by itself that nobody is there any more.
    let error = sender.end().0.unwrap_err().to_string();
    assert!(error.contains("receive"), "{error}");
}

#[test]
fn a_sender_that_is_stopped_reports_what_went() {
    let (mut send, receive) = specs(StreamProtocol::Tcp, 2, 1 << 14);
    send.duration_s = 30.0;
    let receiver = Task::receiver(receive);
    let sender = Task::sender(send);
    sender.log.wait("sent_bytes", 0.0);
    let sent = sender.stop().0.unwrap();
    assert!(sent.values["elapsed_s"] < 29.0 && sent.values["sent_bytes"] > 0.0);
    receiver.stop().0.unwrap();
}

#[test]
fn strangers_are_not_counted() {
    let (mut send, receive) = specs(StreamProtocol::Udp, 1, 64);
    (send.rate_bps, send.duration_s) = (Some(512_000.0), 0.2);
    let receiver = Task::receiver(receive.clone());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 15, 16, 64, 9000] {
        stranger.send_to(&vec![0xa5; length], &receive.on).unwrap();
    }
    let sent = Task::sender(send).end().0.unwrap();
    let received = receiver.stop().0.unwrap();
    assert_eq!(received.values["received_packets"], sent.values["sent_packets"]);
    assert!(received.values["foreign_packets"] >= 5.0);

    let (send, receive) = specs(StreamProtocol::Tcp, 1, 64);
    let receiver = Task::receiver(receive.clone());
    let mut stranger = TcpStream::connect(&receive.on).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let sent = Task::sender(send).end().0.unwrap();
    let received = receiver.stop().0.unwrap();
    assert_eq!(received.values["received_bytes"], sent.values["sent_bytes"]);
    assert_eq!(received.values["foreign_packets"], 1.0);
}

#[test]
fn a_connection_that_breaks_is_reported_with_its_flow() {
    tried_again(|| {
        let (_, receive) = specs(StreamProtocol::Tcp, 1, 64);
        let receiver = Task::receiver(receive.clone());
        let mut sender = TcpStream::connect(&receive.on).unwrap();
        let mut hello = [0; super::datagram::HEADER];
        super::datagram::write(&mut hello, super::datagram::owner(0, 1), 0);
        sender.write_all(&hello).unwrap();
        sender.write_all(&[1; 100]).unwrap();
        thread::sleep(Duration::from_millis(50));
        // Closing without having waited for what is under way resets the connection.
        socket2::SockRef::from(&sender).set_linger(Some(Duration::ZERO)).unwrap();
        drop(sender);
        thread::sleep(Duration::from_millis(100));
        let error = receiver.stop().0.unwrap_err().to_string();
        assert!(error.contains("flow 0") && error.contains("broke after 100 bytes"), "{error}");
    });
}

#[test]
fn nobody_listening_is_reported() {
    let (send, _) = specs(StreamProtocol::Tcp, 1, 64);
    let error = Task::sender(send).end().0.unwrap_err().to_string();
    assert!(error.contains("nobody listens at 127.0.0.1"), "{error}");

    for segmentation in [false, true] {
        let (mut send, _) = specs(StreamProtocol::Udp, 1, 64);
        send.segmentation = segmentation;
        let error = Task::sender(send).end().0.unwrap_err().to_string();
        assert!(error.contains("nobody receives"), "{error}");
    }
}

#[test]
fn impossible_specifications_are_refused() {
    let (send, receive) = specs(StreamProtocol::Udp, 1, 64);
    let refused = |change: fn(&mut StreamSend)| {
        let mut spec = send.clone();
        change(&mut spec);
        Task::sender(spec).end().0.unwrap_err().to_string()
    };
    assert!(refused(|spec| spec.message = 15).contains("message"));
    assert!(refused(|spec| spec.message = 65508).contains("message"));
    assert!(refused(|spec| spec.flows = 0).contains("flows"));
    assert!(refused(|spec| spec.duration_s = f64::NAN).contains("duration_s"));
    assert!(refused(|spec| spec.rate_bps = Some(-1.0)).contains("rate_bps"));
    assert!(refused(|spec| spec.to = "nowhere".to_owned()).contains("nowhere"));
    let taken = UdpSocket::bind(&receive.on).unwrap();
    let error = Task::receiver(receive).end().0.unwrap_err().to_string();
    assert!(error.contains("another program has this port"), "{error}");
    drop(taken);
}
