//! What goes to a node and what comes apart from its records, each on a thread of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hypertare_plan::{Line, MAX_CONSOLE_LINES, NumberedOrder};

/// A line of a console is cut after this many bytes.
const LONGEST_LINE: u64 = 4096;

/// Three of these in silence end an agent that is elsewhere (`node/given.rs`).
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// Orders on their way to a node, written by a thread of their own: a node that does not read blocks
/// nobody.
pub struct Orders(Sender<Vec<u8>>);

impl Orders {
    /// With a `heartbeat` for an agent that ends after a while without a word: an empty line is no order.
    pub fn new(mut output: impl Write + Send + 'static, heartbeat: Option<Duration>) -> Self {
        let (sender, lines) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            loop {
                let next = match heartbeat {
                    Some(most) => lines.recv_timeout(most),
                    None => lines.recv().map_err(Into::into),
                };
                let line = match next {
                    Ok(line) => line,
                    Err(RecvTimeoutError::Timeout) => b"\n".to_vec(),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                // That the node is gone is seen where its records are read.
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        });
        Orders(sender)
    }

    pub fn send(&self, order: &NumberedOrder) {
        if let Ok(line) = order.to_line() {
            let _ = self.0.send(line);
        }
    }
}

/// The last lines of what a node prints apart from its records.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    pub fn follow(input: File) -> Self {
        let tail = Tail::default();
        let kept = tail.clone();
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            while let Ok(1..) =
                std::io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut line)
            {
                kept.push(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
                line.clear();
            }
        });
        tail
    }

    pub fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_CONSOLE_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
