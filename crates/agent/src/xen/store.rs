//! The store in which domains find each other: what it says of them, and that one of them has ended.
//!
//! Source: Xen's docs/misc/xenstore.txt (requests, the watch `@releaseDomain`) and
//! public/io/xs_wire.h.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const SOCKET: &str = "/run/xenstored/socket";
const LIMIT: Duration = Duration::from_secs(30);

const LIST: u32 = 1;
const READ: u32 = 2;
const WATCH: u32 = 4;
const WRITE: u32 = 11;
const REMOVE: u32 = 13;
const EVENT: u32 = 15;
const ERROR: u32 = 16;
/// XENSTORE_PAYLOAD_MAX
const MOST_PAYLOAD: u32 = 4096;
/// What it says of a path that is not there.
const NOT_THERE: &str = "ENOENT";

/// What the store holds, by paths like `/local/domain/0/name`.
pub struct Store<S>(S);

impl Store<UnixStream> {
    /// # Errors
    /// The store's daemon does not run here, or may not be asked by this user.
    pub fn open() -> Result<Self> {
        let stream = connect()?;
        stream.set_read_timeout(Some(LIMIT)).context("setting a limit for Xen's store")?;
        Ok(Store(stream))
    }
}

impl<S: Read + Write> Store<S> {
    /// Nothing for a path that is not there.
    pub fn read(&mut self, path: &str) -> Result<Option<String>> {
        let answer = self.ask(READ, &[path, "\0"])?;
        Ok(answer.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    /// The names directly below; none for a path that is not there.
    pub fn list(&mut self, path: &str) -> Result<Vec<String>> {
        let answer = self.ask(LIST, &[path, "\0"])?.unwrap_or_default();
        let names = answer.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    pub fn write(&mut self, path: &str, value: &str) -> Result<()> {
        self.ask(WRITE, &[path, "\0", value]).map(drop)
    }

    /// With everything below.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        self.ask(REMOVE, &[path, "\0"]).map(drop)
    }

    /// Domains by number and name.
    pub fn domains(&mut self) -> Result<Vec<(u32, String)>> {
        let mut found = Vec::new();
        for number in self.list("/local/domain")?.iter().filter_map(|number| number.parse().ok()) {
            if let Some(name) = self.name_of(number)? {
                found.push((number, name));
            }
        }
        Ok(found)
    }

    pub fn name_of(&mut self, domain: u32) -> Result<Option<String>> {
        self.read(&format!("/local/domain/{domain}/name"))
    }

    fn ask(&mut self, kind: u32, payload: &[&str]) -> Result<Option<Vec<u8>>> {
        send(&mut self.0, kind, payload.concat().as_bytes())?;
        loop {
            match receive(&mut self.0)? {
                (EVENT, _) => {}
                (ERROR, why) if why.starts_with(NOT_THERE.as_bytes()) => return Ok(None),
                (ERROR, why) => bail!(
                    "Xen's store says {} of {}",
                    String::from_utf8_lossy(why.trim_ascii_end()).trim_end_matches('\0'),
                    payload.first().unwrap_or(&"")
                ),
                (_, answer) => return Ok(Some(answer)),
            }
        }
    }
}

/// Reports ends of domains, of whichever.
pub struct Ends<S>(S);

impl Ends<UnixStream> {
    /// # Errors
    /// The store's daemon does not run here, or will not report.
    pub fn watch() -> Result<Self> {
        Ends::of(connect()?)
    }
}

impl<S: Read + Write> Ends<S> {
    fn of(mut stream: S) -> Result<Self> {
        send(&mut stream, WATCH, b"@releaseDomain\0end\0")?;
        Ok(Ends(stream))
    }

    /// Waits for the next end; the answer to the request, and the event that follows every new watch,
    /// are taken for one too.
    pub fn await_next(&mut self) -> Result<()> {
        match receive(&mut self.0)? {
            (ERROR, why) => bail!("Xen's store says {}", String::from_utf8_lossy(&why)),
            _ => Ok(()),
        }
    }
}

fn connect() -> Result<UnixStream> {
    let stream = UnixStream::connect(SOCKET);
    stream.with_context(|| format!("connecting to Xen's store at {SOCKET}"))
}

/// A message: its kind, two numbers that are not needed here, and the length of what follows.
fn send(stream: &mut impl Write, kind: u32, payload: &[u8]) -> Result<()> {
    let mut message = Vec::new();
    for word in [kind, 0, 0, payload.len() as u32] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(payload);
    stream.write_all(&message).context("asking Xen's store")
}

fn receive(stream: &mut impl Read) -> Result<(u32, Vec<u8>)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).context("Xen's store is silent")?;
    let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap_or_default());
    let (kind, length) = (word(0), word(12));
    if length > MOST_PAYLOAD {
        bail!("Xen's store sent {length} bytes at once");
    }
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).context("Xen's store is silent")?;
    Ok((kind, payload))
}

#[cfg(test)]
pub mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A store that works, and holds what it is given.
    pub fn in_memory(holds: &[(&str, &str)]) -> Store<UnixStream> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let held = holds.iter().map(|&(path, value)| (path.to_owned(), value.to_owned()));
        let mut held: BTreeMap<String, String> = held.collect();
        std::thread::spawn(move || {
            while let Ok((kind, payload)) = receive(&mut theirs) {
                let text = String::from_utf8(payload).unwrap();
                let (path, value) = text.split_once('\0').unwrap();
                let below = |name: &String| name == path || name.starts_with(&format!("{path}/"));
                let found = held.keys().any(below);
                let answer = match kind {
                    WRITE => {
                        held.insert(path.to_owned(), value.to_owned());
                        "OK\0".to_owned()
                    }
                    _ if !found => "ENOENT\0".to_owned(),
                    READ => held.get(path).cloned().unwrap_or_default(),
                    REMOVE => {
                        held.retain(|name, _| !below(name));
                        "OK\0".to_owned()
                    }
                    _ => {
                        let below = held.keys().filter_map(|name| name.strip_prefix(path));
                        let names =
                            below.filter_map(|rest| rest.strip_prefix('/')?.split('/').next());
                        let names: BTreeSet<&str> = names.collect();
                        names.into_iter().map(|name| format!("{name}\0")).collect()
                    }
                };
                let kind = if answer == "ENOENT\0" { ERROR } else { kind };
                send(&mut theirs, kind, answer.as_bytes()).unwrap();
            }
        });
        Store(ours)
    }

    fn message(kind: u32, payload: &[u8]) -> Vec<u8> {
        let words = [kind, 0, 0, payload.len() as u32];
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(payload.iter().copied()).collect()
    }

    #[test]
    fn every_message_is_one_end_and_an_error_is_reported() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ends = Ends::of(ours).unwrap();
        let mut request = vec![0; 16 + 19];
        theirs.read_exact(&mut request).unwrap();
        assert_eq!(request, message(WATCH, b"@releaseDomain\0end\0"));
        theirs.write_all(&message(WATCH, b"OK\0")).unwrap();
        theirs.write_all(&message(15, b"@releaseDomain\0end\0")).unwrap();
        theirs.write_all(&message(ERROR, b"EACCES\0")).unwrap();
        assert!(ends.await_next().is_ok() && ends.await_next().is_ok());
        assert!(ends.await_next().unwrap_err().to_string().contains("EACCES"));
        theirs.write_all(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]).unwrap();
        assert!(ends.await_next().unwrap_err().to_string().contains("at once"));
        drop(theirs);
        assert!(ends.await_next().unwrap_err().to_string().contains("silent"));
    }

    /// A store that answers each request with the next of these, and what it was asked.
    fn asked<T>(
        answers: &[(u32, &[u8])],
        ask: impl FnOnce(&mut Store<UnixStream>) -> T,
    ) -> (T, Vec<u8>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for (kind, payload) in answers {
            theirs.write_all(&message(*kind, payload)).unwrap();
        }
        let mut store = Store(ours);
        let found = ask(&mut store);
        drop(store);
        let mut requests = Vec::new();
        theirs.read_to_end(&mut requests).unwrap();
        (found, requests)
    }

    #[test]
    fn requests_and_answers_are_those_of_the_protocol() {
        let (found, request) = asked(&[(EVENT, b"@x\0t\0"), (READ, b"xen1")], |s| s.read("/a"));
        assert_eq!((found.unwrap(), request), (Some("xen1".to_owned()), message(READ, b"/a\0")));
        let (found, request) = asked(&[(WRITE, b"OK\0")], |s| s.write("/a", "256"));
        assert!(found.is_ok());
        assert_eq!(request, message(WRITE, b"/a\x00256"));
        let (found, request) = asked(&[(REMOVE, b"OK\0")], |s| s.remove("/a"));
        assert!(found.is_ok());
        assert_eq!(request, message(REMOVE, b"/a\0"));
        let (found, _) = asked(&[(LIST, b"0\x007\0")], |s| s.list("/local/domain"));
        assert_eq!(found.unwrap(), ["0", "7"]);
    }

    #[test]
    fn what_is_not_there_is_no_error_and_everything_else_is() {
        let (found, _) = asked(&[(ERROR, b"ENOENT\0")], |s| s.read("/a"));
        assert_eq!(found.unwrap(), None);
        let (found, _) = asked(&[(ERROR, b"ENOENT\0")], |s| s.list("/a"));
        assert!(found.unwrap().is_empty());
        let (found, _) = asked(&[(ERROR, b"EACCES\0")], |s| s.write("/a", "1"));
        assert!(found.unwrap_err().to_string().contains("EACCES"));
    }

    #[test]
    fn domains_without_a_name_are_on_their_way_and_not_reported() {
        let answers: [(u32, &[u8]); 4] =
            [(LIST, b"0\x007\x008\0"), (READ, b"Domain-0"), (ERROR, b"ENOENT\0"), (READ, b"mail")];
        let (found, _) = asked(&answers, Store::domains);
        assert_eq!(found.unwrap(), [(0, "Domain-0".to_owned()), (8, "mail".to_owned())]);
    }
}
