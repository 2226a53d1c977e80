//! Records out, one JSON object a line.

use std::io::{self, Write};
use std::sync::Mutex;

use hypertare_plan::{MAX_LINE, Record};

/// Writes records to one place, whole lines only, from any thread.
pub struct Emitter {
    out: Mutex<Box<dyn Write + Send>>,
}

impl Emitter {
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Emitter { out: Mutex::new(Box::new(out)) }
    }

    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }

    /// Writes one record. A reader that has gone away is an error the caller may ignore: whoever
    /// read the records also decides when to stop.
    pub fn emit(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(io::Error::other(format!("a record of {} bytes is too long", line.len())));
        }
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        out.write_all(&line)?;
        out.flush()
    }
}
