//! Records out, one JSON object a line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hypertare_plan::{Line, MAX_LINE, Record};

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

    /// An emitter that can hold records back, see [`Emitter::hold`].
    pub fn holding(out: File) -> Self {
        Self::new(BufWriter::new(out))
    }

    pub fn held_stdout() -> io::Result<Self> {
        Ok(Self::holding(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// Writes one record. The caller may ignore that the reader has gone away: the reader of the records
    /// also decides when to stop.
    pub fn emit(&self, record: &Record) -> io::Result<()> {
        self.hold(record)?;
        self.flush()
    }

    /// Writes several at once.
    pub fn emit_all(&self, records: &[Record]) -> io::Result<()> {
        records.iter().try_for_each(|record| self.hold(record))?;
        self.flush()
    }

    /// The same as [`Emitter::emit`], but the record may be held until the next one is emitted.
    pub fn hold(&self, record: &Record) -> io::Result<()> {
        let line = record.to_line()?;
        if line.len() > MAX_LINE {
            return Err(io::Error::other(format!("a record of {} bytes is too long", line.len())));
        }
        self.out().write_all(&line)
    }

    fn flush(&self) -> io::Result<()> {
        self.out().flush()
    }

    fn out(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hypertare_plan::Level;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(text: &str) -> Record {
        Record::Log { node: "n".into(), level: Level::Warning, text: text.into() }
    }

    #[test]
    fn a_record_that_is_too_long_leaves_the_others_alone() {
        let written = Written::default();
        let emitter = Emitter::new(written.clone());
        let error = emitter.emit(&said(&"x".repeat(MAX_LINE))).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
        emitter.emit(&said("next")).unwrap();
        assert!(written.0.lock().unwrap().len() < 200);
    }
}
