//! Records out, one JSON object a line.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hypertare_plan::{MAX_LINE, Record};

/// Writes records to one place, whole lines only, from any thread.
pub struct Emitter {
    out: Mutex<Out>,
}

struct Out {
    to: Box<dyn Write + Send>,
    held: Vec<u8>,
}

impl Emitter {
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Emitter { out: Mutex::new(Out { to: Box::new(out), held: Vec::new() }) }
    }

    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }

    /// Writes one record, and before it those that were held back. A reader that has gone away is an
    /// error the caller may ignore: whoever read the records also decides when to stop.
    pub fn emit(&self, record: &Record) -> io::Result<()> {
        let mut out = self.hold(record)?;
        let lines = std::mem::take(&mut out.held);
        out.to.write_all(&lines)?;
        out.to.flush()
    }

    /// Holds one record back until the next that is written: each write of a guest costs it an
    /// interrupt.
    pub fn emit_with_next(&self, record: &Record) -> io::Result<()> {
        self.hold(record).map(drop)
    }

    fn hold(&self, record: &Record) -> io::Result<MutexGuard<'_, Out>> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(io::Error::other(format!("a record of {} bytes is too long", line.len())));
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.held.append(&mut line);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hypertare_plan::Level;

    use super::*;

    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(text: &str) -> Record {
        Record::Log { node: "n".into(), level: Level::Warning, text: text.into() }
    }

    #[test]
    fn what_is_held_back_comes_with_the_next_in_one_write() {
        let writes = Writes::default();
        let emitter = Emitter::new(writes.clone());
        emitter.emit_with_next(&said("one")).unwrap();
        emitter.emit_with_next(&said("two")).unwrap();
        assert!(writes.0.lock().unwrap().is_empty());
        emitter.emit(&said("three")).unwrap();
        emitter.emit(&said("four")).unwrap();
        let writes = writes.0.lock().unwrap();
        let lines: Vec<usize> = writes
            .iter()
            .map(|write| write.iter().filter(|&&byte| byte == b'\n').count())
            .collect();
        assert_eq!(lines, [3, 1]);
        let all = String::from_utf8(writes.concat()).unwrap();
        let places: Vec<_> =
            ["one", "two", "three", "four"].iter().map(|word| all.find(word).unwrap()).collect();
        assert!(places.is_sorted(), "{all}");
    }

    #[test]
    fn a_record_that_is_too_long_leaves_the_others_alone() {
        let writes = Writes::default();
        let emitter = Emitter::new(writes.clone());
        let error = emitter.emit(&said(&"x".repeat(MAX_LINE))).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
        emitter.emit(&said("next")).unwrap();
        assert!(writes.0.lock().unwrap().concat().len() < 200);
    }
}
