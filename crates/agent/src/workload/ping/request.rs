//! The end that asks and measures.

use anyhow::{Result, anyhow, bail};
use hypertare_plan::{PingProtocol, PingRequest};
use rustix::io::Errno;

use super::frames::{Frames, via};
use super::message::MAX_DATAGRAM;
use super::reply::MAX_MESSAGE;
use super::round_trips::RoundTrips;
use super::wire::{Icmp, Tcp, Udp, Wire, check_length};
use crate::values::Definition;
use crate::workload::clock::{STOP_NS, from_seconds, now_ns, sleep_until, to_seconds};
use crate::workload::{Context, Outcome, WorkloadKind, address};

/// The ICMP header is as long as UDP's: over both versions of IP this fits.
const MAX_ECHO: usize = MAX_DATAGRAM;

impl WorkloadKind for PingRequest {
    const VALUES: &'static [Definition] = &[
        ("elapsed_s", "s", "time over which was counted"),
        ("requests", "messages", "requests sent"),
        ("replies", "messages", "answers in time"),
        ("lost_packets", "messages", "requests without an answer in time"),
        ("rtt_min_ns", "ns", "least round-trip time"),
        ("rtt_mean_ns", "ns", "mean round-trip time"),
        ("rtt_p50_ns", "ns", "median round-trip time"),
        ("rtt_p90_ns", "ns", "90th percentile of the round-trip time"),
        ("rtt_p99_ns", "ns", "99th percentile of the round-trip time"),
        ("rtt_p999_ns", "ns", "99.9th percentile of the round-trip time"),
        ("rtt_max_ns", "ns", "greatest round-trip time"),
        (
            "rtt_jitter_ns",
            "ns",
            "mean difference of successive round-trip times (RFC 3550's D, unsmoothed)",
        ),
    ];

    /// Sends requests until `count` of them, after the omitted ones, are done, or `duration_s` has
    /// passed, or it is asked to stop: what was measured until then is the outcome. It fails when the
    /// other end refuses, or when not one answer came.
    fn run(&self, context: &Context) -> Result<Outcome> {
        check(self)?;
        let mut session = [0; 4];
        rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())?;
        let session = u32::from_ne_bytes(session);
        match self.protocol {
            PingProtocol::Udp => {
                let length = check_length(self.message, MAX_DATAGRAM)?;
                let to = address::with_port(&self.to)?;
                measure(Udp::new(to, length, session, self.dscp)?, self, context)
            }
            PingProtocol::Tcp => {
                let length = check_length(self.message, MAX_MESSAGE)?;
                let to = address::with_port(&self.to)?;
                let wire = Tcp::new(to, length, session, self.dscp, context)?;
                measure(wire, self, context)
            }
            PingProtocol::Icmp => {
                let length = check_length(self.message, MAX_ECHO)?;
                measure(Icmp::new(address::host(&self.to)?, length, session)?, self, context)
            }
            PingProtocol::Frame => {
                let via = via(self.via)?;
                let to = address::host(&self.to)?;
                measure(Frames::new(to, via, self.past_card, self.message, session)?, self, context)
            }
        }
    }
}

fn check(spec: &PingRequest) -> Result<()> {
    let seconds = 1e-6..=1e6;
    for (name, value) in [("duration_s", spec.duration_s), ("timeout_s", spec.timeout_s)] {
        if !seconds.contains(&value) {
            bail!("{name} is {value}: it must be between 0.000001 and 1000000 seconds");
        }
    }
    if !(0.0..=1e6).contains(&spec.interval_s) {
        bail!("interval_s is {}: it must be between 0 and 1000000 seconds", spec.interval_s);
    }
    if spec.via.is_some() && spec.protocol != PingProtocol::Frame {
        bail!("via is of the protocol frame: leave it out");
    }
    if spec.past_card && spec.protocol != PingProtocol::Frame {
        bail!("past_card is of the protocol frame: leave it out");
    }
    let has_socket_of_ports = matches!(spec.protocol, PingProtocol::Udp | PingProtocol::Tcp);
    if spec.dscp.is_some() && !has_socket_of_ports {
        bail!("dscp is of the protocols udp and tcp: leave it out");
    }
    if spec.count == Some(0) {
        bail!("count is 0: nothing would be measured");
    }
    Ok(())
}

fn measure(wire: impl Wire, spec: &PingRequest, context: &Context) -> Result<Outcome> {
    let mut asker = Asker {
        wire,
        context,
        to: &spec.to,
        number: 0,
        timeout_ns: from_seconds(spec.timeout_s),
        interval_ns: from_seconds(spec.interval_s),
        duration_ns: from_seconds(spec.duration_s),
    };
    // The longest time of an answer is known, and with it the histogram's range.
    asker.ask(spec.omit, &mut RoundTrips::new(asker.timeout_ns)?)?;
    let mut trips = RoundTrips::new(asker.timeout_ns)?;
    let elapsed_ns = asker.ask(spec.count.unwrap_or(u64::MAX), &mut trips)?;
    if trips.replies() == 0 {
        bail!(
            "{} answered none of {} requests within {} s each",
            spec.to,
            trips.requests,
            spec.timeout_s
        );
    }
    Ok(trips.outcome(to_seconds(elapsed_ns)))
}

struct Asker<'a, W> {
    wire: W,
    context: &'a Context,
    to: &'a str,
    number: u32,
    timeout_ns: u64,
    interval_ns: u64,
    duration_ns: u64,
}

enum Answer {
    After(u64),
    Lost,
    Stopped,
}

impl<W: Wire> Asker<'_, W> {
    /// Asks `count` times, or as often as the duration allows. Returns how long that took.
    fn ask(&mut self, count: u64, trips: &mut RoundTrips) -> Result<u64> {
        let begin = now_ns();
        let end = begin + self.duration_ns;
        let mut slot = 0;
        let mut now = begin;
        for _ in 0..count {
            if self.interval_ns > 0 {
                // Requests are due at whole intervals from the start. Those that a late answer made
                // impossible are left out: in a burst they would measure each other.
                slot = (now - begin).div_ceil(self.interval_ns).max(slot);
                let due = (begin + slot * self.interval_ns).min(end);
                slot += 1;
                sleep_until(due, self.context);
                now = now_ns();
            }
            if now >= end || self.context.stopped() {
                break;
            }
            self.number = self.number.wrapping_add(1);
            self.wire.prepare(self.number);
            let sent = now_ns();
            match self.round_trip(sent)? {
                Answer::After(rtt_ns) => {
                    trips.answered(rtt_ns);
                    now = sent + rtt_ns;
                }
                Answer::Lost => {
                    trips.lost();
                    now = now_ns();
                }
                Answer::Stopped => break,
            }
        }
        Ok(now_ns() - begin)
    }

    /// Sends the prepared request and waits for its answer, and for no other.
    #[inline]
    fn round_trip(&mut self, sent: u64) -> Result<Answer> {
        loop {
            match self.wire.send() {
                Ok(()) => break,
                // The device's queue is full: what it drops is lost like any other.
                Err(Errno::NOBUFS) => {
                    return match sleep_until(sent + self.timeout_ns, self.context) {
                        true => Ok(Answer::Lost),
                        false => Ok(Answer::Stopped),
                    };
                }
                Err(error) => self.go_on_after(error)?,
            }
            if self.context.stopped() {
                return Ok(Answer::Stopped);
            }
            if now_ns() - sent > self.timeout_ns {
                bail!(
                    "no request could be sent to {} for {} s",
                    self.to,
                    to_seconds(self.timeout_ns)
                );
            }
        }
        loop {
            let received = self.wire.receive();
            let waited = now_ns() - sent;
            match received {
                Ok(Some(number)) if number == self.number && waited <= self.timeout_ns => {
                    return Ok(Answer::After(waited));
                }
                // A late answer to an earlier request, or a stranger's message.
                Ok(_) => {}
                Err(error) => self.go_on_after(error)?,
            }
            if waited >= self.timeout_ns {
                return Ok(Answer::Lost);
            }
            if self.context.stopped() {
                return Ok(Answer::Stopped);
            }
            // Off the quick path already: wait for exactly what is left.
            let left = (self.timeout_ns - waited).min(STOP_NS);
            self.wire.wait(left)?;
            if now_ns() - sent >= self.timeout_ns {
                return Ok(Answer::Lost);
            }
        }
    }

    /// An error, unless it only means that nothing has happened yet.
    fn go_on_after(&self, error: Errno) -> Result<()> {
        let to = self.to;
        match error {
            Errno::AGAIN | Errno::INTR => Ok(()),
            Errno::CONNREFUSED => Err(anyhow!("nothing listens at {to} (connection refused)")),
            Errno::CONNRESET | Errno::PIPE => Err(anyhow!("{to} closed the connection")),
            Errno::PROTO => Err(anyhow!("{to} does not answer as a ping listener does")),
            Errno::MSGSIZE => Err(anyhow!("the message is too long for the way to {to}")),
            error => Err(anyhow!("the way to {to} failed: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use hypertare_plan::PingReply;

    use super::*;
    use crate::emit::Emitter;
    use crate::tried_again::tried_again;
    use crate::workload::ping::common::free_port;
    use crate::workload::ping::message;

    fn context(stop: &Arc<AtomicBool>, ready: impl Fn() + Send + Sync + 'static) -> Context {
        let emitter = Arc::new(Emitter::new(std::io::sink()));
        Context::new(("node", 1, "phase", "task"), emitter, stop.clone(), ready)
    }

    fn spec(protocol: PingProtocol, to: String, count: u64) -> PingRequest {
        PingRequest {
            protocol,
            to,
            message: 64,
            count: Some(count),
            duration_s: 5.0,
            interval_s: 0.0,
            timeout_s: 0.5,
            omit: 0,
            via: None,
            past_card: false,
            dscp: None,
        }
    }

    fn ask(spec: &PingRequest) -> Result<Outcome> {
        spec.run(&context(&Arc::default(), || {}))
    }

    fn free(host: &str) -> String {
        SocketAddr::new(host.parse().unwrap(), free_port()).to_string()
    }

    /// Runs `ask` beside a replier; returns how many requests that one answered.
    fn beside_replier(protocol: PingProtocol, on: &str, ask: impl FnOnce()) -> f64 {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let context = context(&stop, move || ready.send(()).unwrap());
        let spec = PingReply { protocol, on: on.to_owned(), message: 9000, via: None };
        let replier = std::thread::spawn(move || spec.run(&context));
        is_ready.recv_timeout(Duration::from_secs(5)).unwrap();
        ask();
        stop.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        let outcome = replier.join().unwrap().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(2), "the replier heeds a stop");
        outcome.values["replies"]
    }

    fn measures(protocol: PingProtocol, host: &str) {
        let on = free(host);
        let replies = beside_replier(protocol, &on, || {
            let mut spec = spec(protocol, on.clone(), 200);
            spec.omit = 50;
            let outcome = ask(&spec).unwrap();
            assert_eq!(outcome.values["requests"], 200.0);
            assert_eq!(outcome.values["lost_packets"], 0.0);
            let total: u64 = outcome.histograms["rtt"].buckets.iter().map(|&(_, n)| n).sum();
            assert_eq!(total, 200);
            let rtt = |name: &str| outcome.values[&format!("rtt_{name}_ns")];
            assert!(rtt("min") > 0.0 && rtt("min") <= rtt("p50") && rtt("p50") <= rtt("max"));
            assert!(rtt("max") <= outcome.values["elapsed_s"] * 1e9);
        });
        assert_eq!(replies, 250.0);
    }

    #[test]
    fn udp() {
        measures(PingProtocol::Udp, "127.0.0.1");
        measures(PingProtocol::Udp, "::1");
    }

    #[test]
    fn tcp() {
        measures(PingProtocol::Tcp, "127.0.0.1");
        measures(PingProtocol::Tcp, "::1");
    }

    #[test]
    fn icmp() {
        for host in ["127.0.0.1", "::1"] {
            match ask(&spec(PingProtocol::Icmp, host.to_owned(), 100)) {
                Ok(outcome) => assert_eq!(outcome.values["replies"], 100.0),
                // Whoever may not needs to know what to do.
                Err(error) => assert!(error.to_string().contains("ping_group_range"), "{error}"),
            }
        }
    }

    #[test]
    fn large_messages() {
        for protocol in [PingProtocol::Udp, PingProtocol::Tcp] {
            let on = free("127.0.0.1");
            beside_replier(protocol, &on, || {
                let mut spec = spec(protocol, on.clone(), 20);
                spec.message = 9000;
                assert_eq!(ask(&spec).unwrap().values["replies"], 20.0);
                spec.message = 9001;
                let error = ask(&PingRequest { timeout_s: 0.02, count: Some(2), ..spec });
                error.expect_err("longer than the replier takes");
            });
        }
    }

    #[test]
    fn requests_are_spaced() {
        tried_again(|| {
            let on = free("127.0.0.1");
            beside_replier(PingProtocol::Udp, &on, || {
                let spec = PingRequest {
                    interval_s: 0.01,
                    duration_s: 0.305,
                    ..spec(PingProtocol::Udp, on.clone(), 1000)
                };
                let outcome = ask(&spec).unwrap();
                // 31 slots; a busy machine may miss some of them but never makes more.
                assert!(
                    (10.0..=31.0).contains(&outcome.values["requests"]),
                    "{:?}",
                    outcome.values
                );
                assert!((0.25..1.0).contains(&outcome.values["elapsed_s"]), "{:?}", outcome.values);
            });
        });
    }

    /// Answers by hand: `play` sees every request's number and the datagram.
    fn beside_player(
        play: impl Fn(&UdpSocket, u32, &mut [u8]) + Send + 'static,
        ask: impl FnOnce(String),
    ) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let on = socket.local_addr().unwrap().to_string();
        let player = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            for number in 1.. {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                socket.connect(from).unwrap();
                play(&socket, number, &mut buffer[..length]);
            }
        });
        ask(on);
        player.join().unwrap();
    }

    #[test]
    fn lost_ones_are_counted() {
        tried_again(|| {
            let play = |socket: &UdpSocket, number: u32, request: &mut [u8]| {
                message::turn_into_answer(request);
                if !number.is_multiple_of(4) {
                    socket.send(request).unwrap();
                }
            };
            beside_player(play, |on| {
                let spec = PingRequest { timeout_s: 0.1, ..spec(PingProtocol::Udp, on, 12) };
                let outcome = ask(&spec).unwrap();
                assert_eq!(outcome.values["requests"], 12.0);
                assert_eq!(outcome.values["replies"], 9.0);
                assert_eq!(outcome.values["lost_packets"], 3.0);
                assert!(outcome.values["rtt_max_ns"] <= 100e6);
            });
        });
    }

    #[test]
    fn late_answers_are_not_the_next_ones() {
        // Every second request is answered after the timeout, while the next one waits: whoever
        // takes that answer for the next request's sees a round trip that is far too short.
        let play = |socket: &UdpSocket, number: u32, request: &mut [u8]| {
            message::turn_into_answer(request);
            let late = !number.is_multiple_of(2);
            std::thread::sleep(Duration::from_millis(if late { 120 } else { 20 }));
            socket.send(request).unwrap();
        };
        beside_player(play, |on| {
            let spec = PingRequest { timeout_s: 0.1, ..spec(PingProtocol::Udp, on, 10) };
            let outcome = ask(&spec).unwrap();
            assert!(outcome.values["lost_packets"] >= 5.0, "{:?}", outcome.values);
            assert!(outcome.values["rtt_min_ns"] >= 20e6, "{:?}", outcome.values);
        });
    }

    #[test]
    fn strange_datagrams_are_passed_over() {
        let play = |socket: &UdpSocket, _: u32, request: &mut [u8]| {
            let mut other = request.to_vec();
            message::write_request(&mut other, 0, 1);
            message::turn_into_answer(&mut other);
            socket.send(request).unwrap();
            message::turn_into_answer(request);
            for strange in [&b""[..], b"hello", &[0xff; 64], &[0; 1500], &request[..63], &other] {
                socket.send(strange).unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
            socket.send(request).unwrap();
        };
        beside_player(play, |on| {
            let outcome = ask(&spec(PingProtocol::Udp, on, 10)).unwrap();
            assert_eq!(outcome.values["replies"], 10.0);
            assert!(outcome.values["rtt_min_ns"] >= 5e6, "{:?}", outcome.values);
        });
    }

    #[test]
    fn silence_is_a_failure() {
        beside_player(
            |_, _, _| (),
            |on| {
                let spec = PingRequest { timeout_s: 0.02, ..spec(PingProtocol::Udp, on, 3) };
                let error = ask(&spec).unwrap_err().to_string();
                assert!(error.contains("none of 3 requests"), "{error}");
            },
        );
    }

    #[test]
    fn nobody_there_is_a_failure() {
        for protocol in [PingProtocol::Udp, PingProtocol::Tcp] {
            let error = format!("{:#}", ask(&spec(protocol, free("127.0.0.1"), 3)).unwrap_err());
            assert!(error.to_lowercase().contains("connection refused"), "{error}");
        }
    }

    #[test]
    fn what_is_not_ours_is_a_failure_on_tcp() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let on = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            use std::io::Write;
            listener.accept().unwrap().0.write_all(&[b'x'; 64]).unwrap();
            drop(listener.accept().unwrap());
        });
        let error = ask(&spec(PingProtocol::Tcp, on.clone(), 3)).unwrap_err().to_string();
        assert!(error.contains("ping listener") || error.contains("closed"), "{error}");
        let error = ask(&spec(PingProtocol::Tcp, on, 3)).unwrap_err().to_string();
        assert!(error.contains("closed"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_stop_ends_it_with_what_there_is() {
        tried_again(|| {
            let on = free("127.0.0.1");
            beside_replier(PingProtocol::Udp, &on, || {
                let stop = Arc::new(AtomicBool::new(false));
                let context = context(&stop, || {});
                let spec = PingRequest {
                    interval_s: 0.01,
                    ..spec(PingProtocol::Udp, on.clone(), 100_000)
                };
                let asker = std::thread::spawn(move || spec.run(&context));
                std::thread::sleep(Duration::from_millis(200));
                stop.store(true, Ordering::Relaxed);
                let asked = Instant::now();
                let outcome = asker.join().unwrap().unwrap();
                assert!(asked.elapsed() < Duration::from_secs(2));
                assert!(outcome.values["replies"] > 1.0);
            });
        });
    }

    #[test]
    fn nonsense_is_refused() {
        let good = spec(PingProtocol::Udp, "127.0.0.1:9".to_owned(), 1);
        for (bad, word) in [
            (PingRequest { message: 8, ..good.clone() }, "message"),
            (PingRequest { duration_s: f64::NAN, ..good.clone() }, "duration_s"),
            (PingRequest { timeout_s: 0.0, ..good.clone() }, "timeout_s"),
            (PingRequest { interval_s: -1.0, ..good.clone() }, "interval_s"),
            (PingRequest { count: Some(0), ..good.clone() }, "count"),
            (PingRequest { past_card: true, ..good.clone() }, "past_card"),
            (PingRequest { to: "nowhere".to_owned(), ..good.clone() }, "nowhere"),
        ] {
            let error = ask(&bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
