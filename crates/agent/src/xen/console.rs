//! A PV guest's console as the way in and out: records among whatever else is printed there.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use hypertare_plan::MAX_LINE;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The guest's end.
pub const DEVICE: &str = "/dev/hvc0";

/// How a record begins: it is one line of JSON, and `record` is its first key.
const RECORD: &[u8] = b"{\"record\":";

/// Opens a terminal and makes it carry bytes as they are: no echo, no line editing, no signals.
pub fn open(path: &Path) -> Result<OwnedFd> {
    // A terminal of whoever leads a session without one would end it with its own end.
    let mut options = File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    let made = tcgetattr(&file).and_then(|mut settings| {
        settings.make_raw();
        tcsetattr(&file, OptionalActions::Now, &settings)
    });
    made.with_context(|| format!("setting up {}", path.display()))?;
    Ok(file.into())
}

/// The records that come out of a console; other lines go to whoever keeps what was printed.
pub struct Records<R, F> {
    input: BufReader<R>,
    printed: F,
    /// Of a record that was read and not yet taken.
    rest: VecDeque<u8>,
}

impl<R: Read, F: FnMut(String)> Records<R, F> {
    pub fn new(input: R, printed: F) -> Self {
        Records { input: BufReader::new(input), printed, rest: VecDeque::new() }
    }

    /// The next line that is a record; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        loop {
            let mut line = Vec::new();
            let most = MAX_LINE as u64 + 1;
            match (&mut self.input).take(most).read_until(b'\n', &mut line) {
                Ok(0) => return Ok(false),
                Ok(_) if line.starts_with(RECORD) => {
                    self.rest.extend(line);
                    return Ok(true);
                }
                Ok(_) => self.print(&line),
                // The other end of a pseudo-terminal is gone.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn print(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        if !text.is_empty() {
            (self.printed)(text);
        }
    }
}

impl<R: Read, F: FnMut(String)> Read for Records<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !self.next()? {
            return Ok(0);
        }
        self.rest.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sort(input: &[u8]) -> (String, Vec<String>) {
        let mut printed = Vec::new();
        let mut records = String::new();
        let mut reader = Records::new(input, |line| printed.push(line));
        reader.read_to_string(&mut records).unwrap();
        (records, printed)
    }

    #[test]
    fn records_are_reported_from_what_is_printed() {
        let input = b"[    0.1] Linux\r\n{\"record\":\"hello\"}\n\r\nhypertare: oh\n{\"record\":\"done\"}\n";
        let (records, printed) = sort(input);
        assert_eq!(records, "{\"record\":\"hello\"}\n{\"record\":\"done\"}\n");
        assert_eq!(printed, ["[    0.1] Linux", "hypertare: oh"]);
        assert_eq!(sort(b""), (String::new(), vec![]));
        // Cut off: whoever parses it says so.
        assert_eq!(sort(b"{\"record\":").0, "{\"record\":");
    }

    #[test]
    fn a_terminal_carries_bytes_as_they_are() {
        let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let slave = open(Path::new(name.to_str().unwrap())).unwrap();
        let mut master = File::from(master);
        let mut slave = File::from(slave);
        let bytes = b"{\"record\":\"\x03\x04\x7f\"}\r\n";
        slave.write_all(bytes).unwrap();
        let mut seen = vec![0; bytes.len()];
        master.read_exact(&mut seen).unwrap();
        assert_eq!(seen, bytes);
        master.write_all(bytes).unwrap();
        slave.read_exact(&mut seen).unwrap();
        assert_eq!(seen, bytes);
        drop(slave);
        // Nothing came back as an echo, and the end reads as the end.
        let mut left = String::new();
        Records::new(master, |_| ()).read_to_string(&mut left).unwrap();
        assert_eq!(left, "");
    }
}
