//! QEMU's machine protocol (QMP): the few questions asked of a VMM, and the events that report how a
//! VM ended. One JSON object a line, see "QEMU QMP Reference Manual".
//!
//! The `qapi` crate (0.15) would give the types of every command, but not what is needed here: its
//! reader panics when QEMU dies before its greeting, takes lines of any length, cannot time out
//! within a line without losing it, and fails on an event that a newer QEMU has added; and it
//! doubles the time to build the agent. Eight commands and two events are typed below instead.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Longest message taken from QEMU, in bytes: `query-cpus-fast` takes some 300 for each CPU.
const MAX_MESSAGE: usize = 256 << 10;

/// Most messages taken in one look for events.
const MAX_EVENTS: usize = 1000;

/// Between two looks at how far QEMU has saved a guest.
const SAVING: Duration = Duration::from_millis(1);

/// Longest wait for an answer. QEMU's main loop answers in milliseconds, unless the host is short
/// of CPU.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const CLOSED: &str = "QEMU has closed its control connection";

/// A QMP connection. After an error it is of no more use; the VM is not affected.
pub struct Qmp {
    stream: UnixStream,
    unread: Vec<u8>,
    version: Option<Version>,
    commands: u64,
    ending: Option<Ending>,
}

/// QEMU's version, for example `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Version {
    qemu: VersionTriple,
    package: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct VersionTriple {
    major: u32,
    minor: u32,
    micro: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let VersionTriple { major, minor, micro } = self.qemu;
        write!(f, "{major}.{minor}.{micro}")?;
        match self.package.trim() {
            "" => Ok(()),
            package if package.starts_with('(') => write!(f, " {package}"),
            package => write!(f, " ({package})"),
        }
    }
}

/// Why a VM ended, as QEMU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A panic that the guest reported through a pvpanic device.
    Panicked,
    /// The reason of a SHUTDOWN event, for example `guest-reset`.
    Shutdown { guest: bool, reason: String },
}

/// Any message: the greeting, an answer, an error or an event. Members of later QEMUs are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(rename = "QMP")]
    greeting: Option<Greeting>,
    id: Option<u64>,
    #[serde(rename = "return")]
    answer: Option<Value>,
    error: Option<Refusal>,
    event: Option<String>,
    data: Value,
}

#[derive(Deserialize)]
struct Greeting {
    version: Version,
}

#[derive(Deserialize)]
struct Refusal {
    desc: String,
}

#[derive(Deserialize)]
struct Kvm {
    enabled: bool,
}

#[derive(Deserialize)]
struct Cpu {
    #[serde(rename = "cpu-index")]
    index: u32,
    #[serde(rename = "thread-id")]
    thread: i32,
}

#[derive(Deserialize)]
struct Migration {
    status: Option<String>,
    #[serde(rename = "error-desc")]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Shutdown {
    guest: bool,
    reason: String,
}

/// Sends bytes with a descriptor, and returns how many were taken.
fn send_with(stream: &UnixStream, bytes: &[u8], file: BorrowedFd) -> Result<usize> {
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut beside, SendFlags::empty())
        .context("QEMU does not take files any more")
}

/// What a SHUTDOWN event says before capabilities are agreed upon is lost, so that is asked for at
/// once; the answer is read together with the first command's.
impl Qmp {
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        let mut qmp = Qmp { stream, unread: Vec::new(), version: None, commands: 0, ending: None };
        qmp.send("qmp_capabilities", Value::Null, None)?;
        Ok(qmp)
    }

    /// The version from QEMU's greeting.
    pub fn version(&mut self) -> Result<String> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while self.version.is_none() {
            self.next_message(deadline)?;
        }
        Ok(self.version.as_ref().map(Version::to_string).unwrap_or_default())
    }

    /// Whether KVM runs the VM.
    pub fn kvm_enabled(&mut self) -> Result<bool> {
        Ok(self.execute::<Kvm>("query-kvm")?.enabled)
    }

    /// Threads of the virtual CPUs, in the order of the CPUs.
    pub fn cpu_threads(&mut self) -> Result<Vec<i32>> {
        let mut cpus = self.execute::<Vec<Cpu>>("query-cpus-fast")?;
        cpus.sort_by_key(|cpu| cpu.index);
        Ok(cpus.into_iter().map(|cpu| cpu.thread).collect())
    }

    /// Writes the guest's state to a file. The guest stands still when this has ended.
    pub fn save(&mut self, file: BorrowedFd, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        // Else QEMU spares a network that is not there: 128 MiB/s.
        let unlimited = json!({"max-bandwidth": i64::MAX});
        self.ask("migrate-set-parameters", unlimited, None, deadline)?;
        self.ask("getfd", json!({"fdname": "state"}), Some(file), deadline)?;
        self.ask("migrate", json!({"uri": "fd:state"}), None, deadline)?;
        loop {
            let answer = self.ask("query-migrate", json!({}), None, deadline)?;
            let Migration { status, error } = serde_json::from_value(answer)?;
            match status.as_deref() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    bail!("QEMU could not save the guest: {}", error.unwrap_or_default())
                }
                _ if Instant::now() >= deadline => {
                    bail!("QEMU had not saved the guest within {limit:?}")
                }
                _ => std::thread::sleep(SAVING),
            }
        }
    }

    /// Asks QEMU to end, without waiting for it.
    pub fn quit(&mut self) -> Result<()> {
        self.send("quit", Value::Null, None).map(drop)
    }

    /// How the VM ended, when QEMU has said so by now. Does not wait.
    pub fn ending(&mut self) -> Option<&Ending> {
        // A QEMU that has gone says nothing more; what it said before is kept.
        for _ in 0..MAX_EVENTS {
            match self.try_message() {
                Ok(Some(message)) => self.note(message),
                Ok(None) | Err(_) => break,
            };
        }
        self.ending.as_ref()
    }

    fn execute<T: DeserializeOwned>(&mut self, command: &str) -> Result<T> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let answer = self
            .ask(command, Value::Null, None, deadline)
            .with_context(|| format!("asking QEMU {command}"))?;
        serde_json::from_value(answer)
            .with_context(|| format!("QEMU's answer to {command} has an unknown form"))
    }

    fn ask(
        &mut self,
        command: &str,
        arguments: Value,
        file: Option<BorrowedFd>,
        deadline: Instant,
    ) -> Result<Value> {
        let id = self.send(command, arguments, file)?;
        loop {
            let Some((answered, result)) = self.next_message(deadline)? else { continue };
            match answered {
                Some(answered) if answered != id => result.map(drop)?,
                _ => return result,
            }
        }
    }

    /// Gives a command, and with it a file where it takes one.
    fn send(&mut self, command: &str, arguments: Value, file: Option<BorrowedFd>) -> Result<u64> {
        let id = self.commands;
        self.commands += 1;
        let mut message = json!({"execute": command, "id": id});
        if !arguments.is_null() {
            message["arguments"] = arguments;
        }
        let line = message.to_string() + "\n";
        let sent = match file {
            None => 0,
            Some(file) => send_with(&self.stream, line.as_bytes(), file)?,
        };
        self.stream
            .write_all(&line.as_bytes()[sent..])
            .context("QEMU does not take commands any more")?;
        Ok(id)
    }

    /// Waits for a message and notes it; given back is the id and content of an answer.
    fn next_message(&mut self, deadline: Instant) -> Result<Option<(Option<u64>, Result<Value>)>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("QEMU did not answer within {ANSWER_LIMIT:?}");
            }
            if let Some(message) = self.buffered()? {
                return Ok(self.note(message));
            }
            self.stream.set_nonblocking(false)?;
            self.stream.set_read_timeout(Some(left))?;
            match self.read() {
                Ok(0) => bail!("{CLOSED}"),
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                // So it is reported where what it was asked has not been read.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => bail!("{CLOSED}"),
                Err(error) => return Err(error).context("reading from QEMU"),
            }
        }
    }

    fn try_message(&mut self) -> Result<Option<Message>> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(Some(message));
            }
            self.stream.set_nonblocking(true)?;
            match self.read() {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if is_pause(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&mut self, message: Message) -> Option<(Option<u64>, Result<Value>)> {
        if let Some(greeting) = message.greeting {
            self.version = Some(greeting.version);
        }
        match message.event.as_deref() {
            Some("GUEST_PANICKED") => self.ending = Some(Ending::Panicked),
            Some("SHUTDOWN") if self.ending.is_none() => {
                self.ending = serde_json::from_value::<Shutdown>(message.data)
                    .ok()
                    .map(|Shutdown { guest, reason }| Ending::Shutdown { guest, reason });
            }
            _ => {}
        }
        match (message.answer, message.error) {
            (_, Some(refusal)) => {
                Some((message.id, Err(anyhow!("QEMU refused: {}", refusal.desc))))
            }
            (Some(answer), None) => Some((message.id, Ok(answer))),
            (None, None) => None,
        }
    }

    fn buffered(&mut self) -> Result<Option<Message>> {
        let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') else {
            if self.unread.len() > MAX_MESSAGE {
                bail!("QEMU sent a message of more than {MAX_MESSAGE} bytes");
            }
            return Ok(None);
        };
        let message = serde_json::from_slice(&self.unread[..end])
            .map_err(|error| anyhow!("QEMU sent what is no QMP message: {error}"))?;
        self.unread.drain(..=end);
        Ok(Some(message))
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 4096];
        let count = self.stream.read(&mut chunk)?;
        self.unread.extend_from_slice(&chunk[..count]);
        Ok(count)
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread::{self, JoinHandle};

    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian 1:7.2"}, "capabilities": ["oob"]}}"#;

    /// A QMP with a peer that greets, and answers each command with the lines that `answers` makes
    /// of the command's name and id, until it makes none.
    fn with_peer(
        answers: impl Fn(&str, u64) -> Option<String> + Send + 'static,
    ) -> (Qmp, JoinHandle<()>) {
        let (near, mut far) = UnixStream::pair().unwrap();
        let peer = thread::spawn(move || {
            let commands = BufReader::new(far.try_clone().unwrap());
            if writeln!(far, "{GREETING}\r").is_err() {
                return;
            }
            for line in commands.lines().map_while(Result::ok) {
                let command: Value = serde_json::from_str(&line).unwrap();
                let name = command["execute"].as_str().unwrap();
                let Some(answer) = answers(name, command["id"].as_u64().unwrap()) else { return };
                // The near end may have seen enough.
                if far.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        (Qmp::new(near).unwrap(), peer)
    }

    fn finish((qmp, peer): (Qmp, JoinHandle<()>)) {
        drop(qmp);
        peer.join().unwrap();
    }

    fn returns(id: u64, value: &str) -> Option<String> {
        Some(format!("{{\"return\": {value}, \"id\": {id}}}\r\n"))
    }

    #[test]
    fn questions_are_answered() {
        let (mut qmp, peer) = with_peer(|command, id| match command {
            "query-kvm" => returns(id, r#"{"enabled": false, "present": true, "new": 1}"#),
            "query-cpus-fast" => returns(
                id,
                r#"[{"cpu-index": 1, "thread-id": 12, "target": "x86_64"},
                    {"cpu-index": 0, "thread-id": 11, "target": "x86_64"}]"#
                    .replace('\n', "")
                    .as_str(),
            ),
            _ => returns(id, "{}"),
        });
        assert_eq!(qmp.version().unwrap(), "7.2.22 (Debian 1:7.2)");
        assert!(!qmp.kvm_enabled().unwrap());
        assert_eq!(qmp.cpu_threads().unwrap(), [11, 12]);
        finish((qmp, peer));
    }

    #[test]
    fn events_are_noted_and_unknown_ones_passed_over() {
        let (mut qmp, peer) = with_peer(|_, id| {
            let events = concat!(
                "{\"event\": \"OF_QEMU_99\", \"data\": 7, \"timestamp\": {}}\r\n",
                "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"guest-reset\"}}\r\n"
            );
            returns(id, r#"{"enabled": true}"#).map(|answer| events.to_owned() + &answer)
        });
        assert!(qmp.kvm_enabled().unwrap());
        let reset = Ending::Shutdown { guest: true, reason: "guest-reset".into() };
        assert_eq!(qmp.ending(), Some(&reset));
        finish((qmp, peer));
    }

    #[test]
    fn a_refusal_is_an_error_that_says_why() {
        let (mut qmp, peer) = with_peer(|_, id| {
            Some(format!(
                "{{\"id\": {id}, \"error\": {{\"class\": \"GenericError\", \"desc\": \"no\"}}}}\n"
            ))
        });
        let error = format!("{:#}", qmp.kvm_enabled().unwrap_err());
        assert_eq!(error, "asking QEMU query-kvm: QEMU refused: no");
        finish((qmp, peer));
    }

    #[test]
    fn malformed_messages_are_errors() {
        for wrong in ["}{\n", "\n", "\u{0}\n", "[1]\n", "{\"event\": 5}\n", "\"QMP\"\n"] {
            let (mut qmp, peer) = with_peer(|_, _| Some(wrong.to_owned()));
            let error = format!("{:#}", qmp.kvm_enabled().unwrap_err());
            assert!(error.contains("no QMP message"), "{wrong:?}: {error}");
            finish((qmp, peer));
        }
        let (mut qmp, peer) = with_peer(|_, id| returns(id, r#"{"enabled": "yes"}"#));
        let error = format!("{:#}", qmp.kvm_enabled().unwrap_err());
        assert!(error.contains("unknown form"), "{error}");
        finish((qmp, peer));
    }

    #[test]
    fn an_endless_message_is_an_error() {
        let (mut qmp, peer) = with_peer(|_, _| Some("x".repeat(4 * MAX_MESSAGE)));
        let error = format!("{:#}", qmp.kvm_enabled().unwrap_err());
        assert!(error.contains("more than"), "{error}");
        assert!(qmp.unread.len() < 2 * MAX_MESSAGE);
        finish((qmp, peer));
    }

    #[test]
    fn a_peer_that_goes_is_an_error() {
        let (mut qmp, peer) = with_peer(|_, _| None);
        let error = format!("{:#}", qmp.kvm_enabled().unwrap_err());
        assert!(error.contains("closed") || error.contains("does not take"), "{error}");
        assert_eq!(qmp.ending(), None);
        finish((qmp, peer));
    }

    #[test]
    fn a_silent_peer_is_given_up() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut qmp = Qmp::new(near).unwrap();
        let begin = Instant::now();
        let error = qmp
            .ask("query-kvm", Value::Null, None, begin + Duration::from_millis(100))
            .unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        assert!(begin.elapsed() < ANSWER_LIMIT);
        drop(far);
    }

    #[test]
    fn a_peer_that_talks_without_end_is_given_up() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let talker = thread::spawn(move || while far.write_all(b"{\"event\": \"X\"}\n").is_ok() {});
        let mut qmp = Qmp::new(near).unwrap();
        let begin = Instant::now();
        assert!(
            qmp.ask("query-kvm", Value::Null, None, begin + Duration::from_millis(200)).is_err()
        );
        assert!(begin.elapsed() < ANSWER_LIMIT);
        drop(qmp);
        talker.join().unwrap();
    }
}
