//! Lines in, each of bounded length: the reader's half of the protocol.

use std::io::{self, BufRead, BufReader, Read};

use hypertare_plan::MAX_LINE;

/// Reads lines of at most [`MAX_LINE`] bytes.
pub struct Lines<R> {
    input: BufReader<R>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub struct Line {
    /// Without its newline.
    pub bytes: Vec<u8>,
    /// False for the bytes after the last newline: the writer ended in the middle of the line, or left
    /// the newline out.
    pub whole: bool,
}

impl<R: Read> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines { input: BufReader::with_capacity(64 << 10, input), begun: Vec::new() }
    }

    /// The next line, or `None` at the end. A line that is too long is an error of the kind
    /// `InvalidData`. Nothing can be read after it: the next line's start would have to be searched for,
    /// perhaps for ever. After another error, such as a timeout, the same line can be read on.
    pub fn read(&mut self) -> io::Result<Option<Line>> {
        let left = MAX_LINE - self.begun.len();
        self.input.by_ref().take(left as u64).read_until(b'\n', &mut self.begun)?;
        let mut bytes = std::mem::take(&mut self.begun);
        match bytes.last() {
            None => Ok(None),
            Some(b'\n') => {
                bytes.pop();
                Ok(Some(Line { bytes, whole: true }))
            }
            Some(_) if bytes.len() == MAX_LINE => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a line is longer than {MAX_LINE} bytes"),
            )),
            Some(_) => Ok(Some(Line { bytes, whole: false })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_without_their_newline_and_the_last_one_reports_that_it_has_none() {
        let mut lines = Lines::new(&b"one\n\ntwo"[..]);
        assert_eq!(lines.read().unwrap(), Some(Line { bytes: b"one".to_vec(), whole: true }));
        assert_eq!(lines.read().unwrap(), Some(Line { bytes: Vec::new(), whole: true }));
        assert_eq!(lines.read().unwrap(), Some(Line { bytes: b"two".to_vec(), whole: false }));
        assert_eq!(lines.read().unwrap(), None);
    }

    #[test]
    fn the_longest_line_passes_and_one_byte_more_does_not() {
        let mut longest = vec![b'x'; MAX_LINE - 1];
        longest.push(b'\n');
        let line = Lines::new(&longest[..]).read().unwrap().unwrap();
        assert_eq!(line.bytes.len(), MAX_LINE - 1);

        longest.insert(0, b'x');
        let error = Lines::new(&longest[..]).read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    /// Gives its parts one after the other, and has nothing in time between them.
    struct Slow(Vec<&'static [u8]>, bool);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let Some(part) = self.0.pop() else { return Ok(0) };
            into[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn what_came_before_a_pause_is_not_lost() {
        let mut lines = Lines::new(Slow(vec![b"ee\n", b"e\nthr", b"on"], false));
        let mut read = Vec::new();
        loop {
            match lines.read() {
                Ok(Some(line)) => read.push(String::from_utf8(line.bytes).unwrap()),
                Ok(None) => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(read, ["one", "three"]);
    }

    #[test]
    fn an_endless_line_is_refused_in_bounded_memory() {
        assert!(Lines::new(io::repeat(b'x')).read().is_err());
    }
}
