//! `hypertare-agent stream` as a user runs it: two processes, over loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use hypertare_plan::{Record, TaskResult};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");

/// A server on a port of its own, killed when the test ends.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(extra: &[&str]) -> Self {
        let port = free_port();
        let mut child = Command::new(AGENT)
            .args(["stream", "--listen", "--port", &port.to_string()])
            .args(extra)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.contains("listening on port"), "{line}");
        std::thread::spawn(move || said.lines().count());
        Server { child, port }
    }

    fn client(&self, args: &[&str]) -> Output {
        client(self.port, args)
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a process that this test started and has not yet waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port with free ones above it, below those that the kernel hands out.
fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port =
            10_000 + (std::process::id() % 400) as u16 * 20 + NEXT.fetch_add(10, Ordering::Relaxed);
        if (port..port + 10).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

fn client(port: u16, args: &[&str]) -> Output {
    let port = port.to_string();
    Command::new(AGENT).args(["stream", "127.0.0.1", "--port", &port]).args(args).output().unwrap()
}

fn results(output: &Output) -> Vec<TaskResult> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .filter_map(|line| match serde_json::from_str(line).unwrap() {
            Record::Result(result) => Some(result),
            _ => None,
        })
        .collect()
}

fn wait(child: &mut Child, limit: Duration) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < limit, "it did not end within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn both_ends_tell_both_directions() {
    let mut server = Server::start(&["--once"]);
    let output = server.client(&["--udp", "--both", "--rate", "4M", "--time", "0.3", "--json"]);
    let mut reported: Vec<(String, String)> =
        results(&output).into_iter().map(|result| (result.node, result.task)).collect();
    reported.sort();
    let expected =
        [("client", "receive"), ("client", "send"), ("server", "receive"), ("server", "send")];
    assert_eq!(reported, expected.map(|(node, task)| (node.to_owned(), task.to_owned())));
    assert!(wait(&mut server.child, Duration::from_secs(2)).success());
}

#[test]
fn a_person_reads_a_table_with_units() {
    let server = Server::start(&[]);
    let output =
        server.client(&["--reverse", "--rate", "8M", "--time", "0.3", "--interval", "0.1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("server sends") && text.contains("client receives"), "{text}");
    assert!(text.contains("Mb/s") && text.contains("RTT"), "{text}");
}

#[test]
fn a_server_outlives_nonsense_and_clients_that_die() {
    let server = Server::start(&[]);
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(stranger);
    std::thread::sleep(Duration::from_millis(200));

    let port = server.port.to_string();
    let mut dying = Command::new(AGENT)
        .args(["stream", "127.0.0.1", "--port", &port, "--both", "--rate", "8M", "--time", "60"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let busy = server.client(&["--time", "0.1"]);
    assert!(String::from_utf8_lossy(&busy.stderr).contains("another client is being served"));
    dying.kill().unwrap();
    dying.wait().unwrap();
    std::thread::sleep(Duration::from_millis(1000));

    assert_eq!(results(&server.client(&["--time", "0.1", "--rate", "8M", "--json"])).len(), 2);
}

#[test]
fn an_interrupt_ends_with_the_figures_so_far() {
    let mut server = Server::start(&[]);
    let port = server.port.to_string();
    let mut client = Command::new(AGENT)
        .args(["stream", "127.0.0.1", "--port", &port, "--rate", "8M", "--time", "60", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal(&client, libc::SIGINT);
    assert!(wait(&mut client, Duration::from_secs(5)).success());
    let results = results(&client.wait_with_output().unwrap());
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.error.is_none()));

    signal(&server.child, libc::SIGINT);
    assert!(wait(&mut server.child, Duration::from_secs(2)).success());
}

#[test]
fn errors_say_what_to_do() {
    let refused = client(free_port(), &["--time", "0.1"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("nobody listens at 127.0.0.1") && text.contains("--listen"), "{text}");

    for flows in ["0", "129", "4294967295"] {
        let many = client(free_port(), &["--flows", flows]);
        let text = String::from_utf8_lossy(&many.stderr).into_owned();
        assert!(text.contains("flows"), "{text}");
    }
    let size = client(free_port(), &["--message", "12Q"]);
    assert_eq!(size.status.code(), Some(2));
}
