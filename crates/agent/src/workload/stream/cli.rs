//! The stream as a tool alone: `hypertare-agent stream --listen` on one machine,
//! `hypertare-agent stream HOST` on the other.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use hypertare_plan::{Level, Line, Record, StreamProtocol, StreamReceive, StreamSend, TaskResult};

use super::control::{self, Conversation, Order, Request};
use super::socket::PATIENCE;
use super::{Context, WorkloadKind, check, table};
use crate::emit::Emitter;
use crate::units::{parse_rate, parse_small_size};
use crate::workload::clock::{self, SECOND};
use crate::workload::standalone;
use crate::workload::{Alone, address};

/// Measure a network path with a stream of messages over TCP or UDP.
///
/// Rates are decimal bits per second (100M is 100,000,000 b/s), sizes binary bytes (128K is 131,072
/// bytes). The server uses its port for control and the ones above it for data: flow k comes in on
/// PORT + 1 + k. With --reverse or --both the server connects back to this machine, to the ports
/// above those.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Address of the machine where `hypertare-agent stream --listen` runs
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    host: Option<String>,
    /// Wait for clients, one after the other
    #[arg(long)]
    listen: bool,
    /// With --listen: end after one client
    #[arg(long, requires = "listen")]
    once: bool,
    /// Port of the control connection
    #[arg(long, default_value_t = 5201, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Send datagrams in place of a TCP stream
    #[arg(long)]
    udp: bool,
    /// The server sends, this machine receives
    #[arg(long, conflicts_with = "both")]
    reverse: bool,
    /// Both send at the same time
    #[arg(long)]
    both: bool,
    /// Connections, or flows of datagrams, each with a thread of its own
    #[arg(long, default_value_t = 1)]
    flows: u32,
    /// Payload to offer per second over all flows, for example 100M; as fast as it goes without
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Size of a message [default: 128K for TCP, 1448 for UDP]
    #[arg(long, value_parser = parse_small_size)]
    message: Option<u32>,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    /// Seconds at the start to send but not to count
    #[arg(long, default_value_t = 0.0)]
    omit: f64,
    /// Seconds from one line of figures to the next
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// Socket buffers of both ends, for example 4M
    #[arg(long, value_parser = parse_small_size)]
    socket_buffer: Option<u32>,
    /// Datagrams handed to the kernel at once, at most
    #[arg(long, requires = "udp")]
    batch: Option<u32>,
    /// Let the kernel cut datagrams out of larger pieces (UDP_SEGMENT): far more of them per second
    #[arg(long, requires = "udp")]
    segmentation: bool,
    /// Let TCP collect small messages while any are under way (Nagle's algorithm, no TCP_NODELAY)
    #[arg(long, conflicts_with = "udp")]
    nagle: bool,
    /// Print records, one JSON object a line, in place of a table
    #[arg(long)]
    json: bool,
}

impl Alone for Args {
    fn run(self) -> Result<()> {
        let interrupted = standalone::stop_by_signal()?;
        match &self.host {
            Some(host) => client(&self, address::host(host)?, &interrupted),
            None => server(&self, &interrupted),
        }
    }
}

/// A task of one end, in a thread of its own.
struct Running {
    thread: JoinHandle<TaskResult>,
    stop: Arc<AtomicBool>,
}

impl Running {
    fn result(self) -> TaskResult {
        self.thread.join().unwrap_or_else(|_| TaskResult {
            error: Some("the task panicked".to_owned()),
            ..TaskResult::default()
        })
    }
}

fn start_sender(node: &str, spec: StreamSend, emitter: Arc<Emitter>) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let context = Context::new((node, 0, "stream", "send"), emitter, stop.clone(), || {});
    let thread = thread::spawn(move || context.result(spec.run(&context)));
    Running { thread, stop }
}

/// Starts a receiver and waits until it listens.
fn start_receiver(node: &str, spec: StreamReceive, emitter: Arc<Emitter>) -> Result<Running> {
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let (node, stopping) = (node.to_owned(), stop.clone());
    // The sender of `ready` lives in the context: when the task fails first, the channel closes.
    let thread = thread::spawn(move || {
        let report = move || ready.send(()).unwrap_or_default();
        let context = Context::new((&node, 0, "stream", "receive"), emitter, stopping, report);
        context.result(spec.run(&context))
    });
    if is_ready.recv().is_ok() {
        return Ok(Running { thread, stop });
    }
    let result = Running { thread, stop }.result();
    Err(anyhow!(result.error.unwrap_or_else(|| "the receiver did not start".to_owned())))
}

// --- the client ---

/// The tasks of both ends, by the command line.
struct Specs {
    here_sends: Option<StreamSend>,
    here_receives: Option<StreamReceive>,
    request: Request,
}

impl Specs {
    fn new(args: &Args, host: IpAddr) -> Result<Self> {
        let last = u32::from(args.port).saturating_add(args.flows.saturating_mul(2));
        if args.flows == 0 || last > u32::from(u16::MAX) {
            bail!("{} flows above port {} do not fit", args.flows, args.port);
        }
        let there_port = args.port + 1;
        let here_port = there_port + args.flows as u16;
        let any: IpAddr = match host {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (forward, reverse) = (!args.reverse, args.reverse || args.both);
        let specs = Specs {
            here_sends: forward.then(|| args.send(SocketAddr::new(host, there_port))),
            here_receives: reverse.then(|| args.receive(SocketAddr::new(any, here_port))),
            request: Request {
                hypertare_stream: control::VERSION,
                receive: forward.then(|| args.receive(SocketAddr::new(any, there_port))),
                send: reverse.then(|| args.send(SocketAddr::new(any, here_port))),
            },
        };
        check::send(&args.send(SocketAddr::new(host, there_port)))?;
        Ok(specs)
    }
}

impl Args {
    fn protocol(&self) -> StreamProtocol {
        if self.udp { StreamProtocol::Udp } else { StreamProtocol::Tcp }
    }

    fn message(&self) -> u32 {
        self.message.unwrap_or(if self.udp { 1448 } else { 128 << 10 })
    }

    fn send(&self, to: SocketAddr) -> StreamSend {
        StreamSend {
            protocol: self.protocol(),
            to: to.to_string(),
            duration_s: self.time,
            flows: self.flows,
            message: self.message(),
            rate_bps: self.rate,
            socket_buffer: self.socket_buffer,
            batch: self.batch,
            segmentation: self.segmentation,
            nodelay: !self.nagle,
            interval_s: self.interval,
            omit_s: self.omit,
            dscp: None,
        }
    }

    fn receive(&self, on: SocketAddr) -> StreamReceive {
        StreamReceive {
            protocol: self.protocol(),
            on: on.to_string(),
            flows: self.flows,
            message: self.message(),
            socket_buffer: self.socket_buffer,
            batch: self.batch,
            interval_s: self.interval,
            omit_s: self.omit,
            every_ns: None,
        }
    }
}

/// How long connecting may take, and each answer on the control connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

fn client(args: &Args, host: IpAddr, interrupted: &AtomicBool) -> Result<()> {
    let specs = Specs::new(args, host)?;
    let server = SocketAddr::new(host, args.port);
    let connection = connect(server)?;
    let (lines, inbox) = mpsc::channel();
    let emitter = Arc::new(Emitter::new(LineSender { lines: lines.clone(), line: Vec::new() }));
    let mut screen = Screen { json: args.json, failures: Vec::new() };

    let receiver = specs
        .here_receives
        .map(|spec| start_receiver("client", spec, emitter.clone()))
        .transpose()?;
    control::write(&connection, &specs.request)?;
    let there = Conversation::new(connection.try_clone()?)?;
    let patience = clock::from_seconds(args.time + args.omit) + 4 * ANSWER_LIMIT.as_nanos() as u64;
    relay(there, lines, clock::now_ns() + patience);
    let mut talk = Talk { inbox, screen: &mut screen, done: VecDeque::new(), results: Vec::new() };

    talk.wait_until(ANSWER_LIMIT, |talk| !talk.done.is_empty())?;
    if let Some(Some(refusal)) = talk.done.pop_front() {
        bail!("{server} refused: {refusal}");
    }
    let sends_there = specs.request.send.is_some();
    control::write(&connection, &Order::Begin)?;
    let sender = specs.here_sends.map(|spec| start_sender("client", spec, emitter.clone()));
    let over = |talk: &Talk| {
        sender.as_ref().is_none_or(|sender| sender.thread.is_finished())
            && (!sends_there || talk.results.iter().any(|result| result.task == "send"))
    };
    talk.wait_until(Duration::from_nanos(patience), |talk| {
        interrupted.load(Relaxed) || over(talk)
    })?;
    if let Some(sender) = &sender {
        sender.stop.store(interrupted.load(Relaxed), Relaxed);
    }
    let here_sent = sender.map(Running::result);
    control::write(&connection, &Order::End)?;
    talk.wait_until(ANSWER_LIMIT, |talk| !talk.done.is_empty())?;
    let here_received = receiver.map(|receiver| {
        receiver.stop.store(true, Relaxed);
        receiver.result()
    });
    // Shows the lines that have come already.
    while let Ok(line) = talk.inbox.try_recv() {
        let _ = line.and_then(|line| talk.take(&line));
    }
    let results =
        here_sent.into_iter().chain(here_received).chain(std::mem::take(&mut talk.results));
    let mut results: Vec<TaskResult> = results.collect();
    results.sort_by_key(|result| (result.task != "send", result.node.clone()));
    screen.summary(args, server, &results);
    if screen.failures.is_empty() { Ok(()) } else { bail!("{}", screen.failures.join("; ")) }
}

fn connect(server: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&server, ANSWER_LIMIT).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            anyhow!(
                "nobody listens at {server}: start `hypertare-agent stream --listen --port {}` \
                 there",
                server.port()
            )
        } else {
            anyhow!(
                "cannot reach {server}: {error}; is the address right, does a firewall block it?"
            )
        }
    })?;
    connection.set_nodelay(true)?;
    connection.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(connection)
}

/// Whole lines of records, from this end's tasks into the client's inbox.
struct LineSender {
    lines: Sender<Result<String>>,
    line: Vec<u8>,
}

impl Write for LineSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let line =
                String::from_utf8_lossy(&std::mem::replace(&mut self.line, rest)).into_owned();
            let _ = self.lines.send(Ok(line));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hands the server's lines on, until the connection ends.
fn relay(mut there: Conversation, lines: Sender<Result<String>>, limit: u64) {
    thread::spawn(move || {
        loop {
            let line = match there.next(limit, || true) {
                Ok(Some(line)) => Ok(line),
                Ok(None) => Err(anyhow!("the server closed the control connection")),
                Err(error) => Err(error),
            };
            let last = line.is_err();
            if lines.send(line).is_err() || last {
                return;
            }
        }
    });
}

/// The client's side of the conversation.
struct Talk<'a> {
    inbox: Receiver<Result<String>>,
    screen: &'a mut Screen,
    /// The server's answers: an error, or `None`.
    done: VecDeque<Option<String>>,
    /// The server's results.
    results: Vec<TaskResult>,
}

impl Talk<'_> {
    /// Shows the lines that come until `over`.
    fn wait_until(&mut self, limit: Duration, over: impl Fn(&Self) -> bool) -> Result<()> {
        let limit = clock::now_ns() + limit.as_nanos() as u64;
        while !over(self) {
            match self.inbox.recv_timeout(PATIENCE) {
                Ok(line) => self.take(&line?)?,
                Err(RecvTimeoutError::Timeout) if clock::now_ns() < limit => {}
                Err(_) => bail!("the server did not answer in time"),
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let record =
            Record::from_line(line.as_bytes()).context("the server sent something else")?;
        match record {
            Record::Done { error, .. } => self.done.push_back(error),
            Record::Result(result) => self.results.push(result),
            record => self.screen.show(&record),
        }
        Ok(())
    }
}

/// Where figures go.
struct Screen {
    json: bool,
    failures: Vec<String>,
}

impl Screen {
    fn show(&self, record: &Record) {
        match record {
            record if self.json => {
                // A reader that has gone away (`| head`) is no failure of the measurement.
                let mut out = io::stdout().lock();
                let line = record.to_line().unwrap_or_default();
                let _ = out.write_all(&line).and_then(|()| out.flush());
            }
            Record::Interval(interval) => print_line(&table::interval(interval)),
            Record::Log { node, level: Level::Warning, text } => eprintln!("{node}: {text}"),
            _ => {}
        }
    }

    fn summary(&mut self, args: &Args, server: SocketAddr, results: &[TaskResult]) {
        if !self.json {
            let protocol = if args.udp { "UDP" } else { "TCP" };
            let message = args.message();
            print_line(&format!(
                "\n{protocol} with {server}, {} flow(s), messages of {message} bytes:",
                args.flows
            ));
        }
        for result in results {
            if self.json {
                self.show(&Record::Result(result.clone()));
            } else {
                print_line(&table::result(result));
            }
            if let Some(error) = &result.error {
                self.failures.push(format!("{} could not {}: {error}", result.node, result.task));
            }
        }
    }
}

/// A reader that has gone away is no failure here either.
fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

// --- the server ---

fn server(args: &Args, interrupted: &AtomicBool) -> Result<()> {
    let listener = listen(args.port)?;
    listener.set_nonblocking(true)?;
    eprintln!("listening on port {}; data comes on the ports above it", args.port);
    let mut session: Option<JoinHandle<Result<()>>> = None;
    let stop = Arc::new(AtomicBool::new(false));
    while !interrupted.load(Relaxed) {
        if session.as_ref().is_some_and(JoinHandle::is_finished) {
            let outcome = session.take().map(JoinHandle::join);
            let outcome = outcome.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| bail!("it panicked"));
            if args.once {
                return outcome;
            }
            if let Err(error) = outcome {
                eprintln!("{error:#}");
            }
        }
        match listener.accept() {
            Ok((connection, client)) if session.is_some() => turn_away(&connection, client),
            Ok((connection, client)) => {
                let stop = stop.clone();
                session = Some(thread::spawn(move || {
                    serve(&connection, client, &stop)
                        .with_context(|| format!("client {}", client.ip().to_canonical()))
                }));
            }
            Err(_) => clock::sleep_once(clock::now_ns() + SECOND / 50),
        }
    }
    stop.store(true, Relaxed);
    session.map_or(Ok(()), |session| session.join().unwrap_or_else(|_| bail!("it panicked")))
}

/// On every address of both families, or of IPv4 where there is no IPv6.
fn listen(port: u16) -> Result<TcpListener> {
    let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    let ipv4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    TcpListener::bind(both).or_else(|_| TcpListener::bind(ipv4)).map_err(|error| {
        anyhow!("cannot listen on port {port}: {error}; choose another with --port")
    })
}

fn turn_away(connection: &TcpStream, client: SocketAddr) {
    let error = Some("another client is being served; try again later".to_owned());
    let _ = connection.set_write_timeout(Some(PATIENCE));
    let _ = control::write(connection, &done(0, error));
    eprintln!("turned {} away: busy", client.ip().to_canonical());
}

fn done(number: u64, error: Option<String>) -> Record {
    let clock_s = clock::to_seconds(clock::now_ns());
    Record::Done { node: "server".to_owned(), number, error, clock_s }
}

const GONE: &str = "the client went away before the end";

/// Does what one client asks for. Ends early, and cleanly, when the client goes away.
fn serve(connection: &TcpStream, client: SocketAddr, stop: &AtomicBool) -> Result<()> {
    connection.set_nonblocking(false)?;
    // A client that vanished without a word is noticed, so that the next one can be served.
    let every = Duration::from_secs(5);
    let keepalive = socket2::TcpKeepalive::new().with_time(every).with_interval(every);
    socket2::SockRef::from(connection).set_tcp_keepalive(&keepalive.with_retries(4))?;
    connection.set_nodelay(true)?;
    connection.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut lines = Conversation::new(connection.try_clone()?)?;
    let going = || !stop.load(Relaxed);
    let soon = || clock::now_ns() + ANSWER_LIMIT.as_nanos() as u64;

    let Some(request) = lines.next_as::<Request>(soon(), going)? else { return Ok(()) };
    let here = connection.local_addr()?.ip().to_canonical();
    let prepared = request.between(here, client.ip().to_canonical()).and_then(|request| {
        let emitter = Arc::new(Emitter::new(connection.try_clone()?));
        let receiver = request
            .receive
            .map(|spec| start_receiver("server", spec, emitter.clone()))
            .transpose()?;
        Ok((emitter, receiver, request.send))
    });
    let (emitter, receiver, send) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            control::write(connection, &done(0, Some(format!("{error:#}"))))?;
            return Err(error);
        }
    };
    emitter.emit(&done(0, None))?;

    let began = lines.next_as::<Order>(soon(), going);
    let sender = match began {
        Ok(Some(Order::Begin)) => send.map(|spec| start_sender("server", spec, emitter.clone())),
        _ => None,
    };
    let ended = wait_for_end(&mut lines, sender, &emitter, going);
    let received = receiver.map(|receiver| {
        receiver.stop.store(true, Relaxed);
        receiver.result()
    });
    if let Some(result) = received {
        eprintln!("client {}: {}", client.ip().to_canonical(), table::result(&result));
        emitter.emit(&Record::Result(result)).context(GONE)?;
    }
    emitter.emit(&done(1, None)).context(GONE)?;
    began?;
    ended
}

/// Reports the sender's result as soon as it has ended, and returns when the client says that all is
/// over, has gone away, or the server stops.
fn wait_for_end(
    lines: &mut Conversation,
    mut sender: Option<Running>,
    emitter: &Emitter,
    going: impl Fn() -> bool,
) -> Result<()> {
    let never = u64::MAX;
    let unfinished =
        |sender: &Option<Running>| sender.as_ref().is_none_or(|s| !s.thread.is_finished());
    let order = loop {
        let order = lines.next_as::<Order>(never, || going() && unfinished(&sender));
        match (&order, unfinished(&sender)) {
            (Ok(None), false) => {
                let result = sender.take().map(Running::result);
                result.map_or(Ok(()), |result| emitter.emit(&Record::Result(result)))?;
            }
            _ => break order,
        }
    };
    if let Some(sender) = sender {
        sender.stop.store(true, Relaxed);
        emitter.emit(&Record::Result(sender.result())).context(GONE)?;
    }
    match order? {
        None if going() => bail!(GONE),
        _ => Ok(()),
    }
}
