//! Orders to a working task's process: the line `go`, to begin the work that it has prepared; the line
//! `stop`, or the end of the input. Other lines are ignored; none is kept, however long.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// The most bytes of a line that are read, more than any order has.
const LONGEST: u64 = 64;

pub struct Orders(BufReader<File>);

impl Orders {
    /// To be called after the assignment was read from `input`.
    pub fn new(input: BufReader<File>) -> Self {
        Orders(input)
    }

    /// Returns at an order to stop; calls `go` at each order to begin.
    pub fn await_stop(mut self, go: impl Fn()) {
        loop {
            match next(&mut self.0) {
                Word::Stop => return,
                Word::Go => go(),
                Word::Other => {}
            }
        }
    }

    /// Whether an order to stop has come by now.
    pub fn say_stop(&mut self) -> bool {
        while self.has_some() {
            if matches!(next(&mut self.0), Word::Stop) {
                return true;
            }
        }
        false
    }

    fn has_some(&self) -> bool {
        let mut input = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
        !self.0.buffer().is_empty()
            || poll(&mut input, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }
}

enum Word {
    Go,
    Stop,
    Other,
}

fn next(input: &mut impl BufRead) -> Word {
    let mut line = Vec::new();
    match input.take(LONGEST).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => Word::Stop,
        Ok(_) => match line.trim_ascii() {
            b"stop" => Word::Stop,
            b"go" => Word::Go,
            _ => Word::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn orders() -> (Orders, PipeWriter) {
        let (read, write) = std::io::pipe().unwrap();
        (Orders::new(BufReader::new(File::from(OwnedFd::from(read)))), write)
    }

    #[test]
    fn stop_and_the_end_are_heeded_and_nothing_else() {
        let (mut orders, mut who) = orders();
        assert!(!orders.say_stop());
        who.write_all(b"halt\n").unwrap();
        who.write_all(&[b'x'; 1000]).unwrap();
        who.write_all(b"\n").unwrap();
        assert!(!orders.say_stop());
        who.write_all(b"go on\nstop\nrest\n").unwrap();
        assert!(orders.say_stop());
        drop(who);
        assert!(orders.say_stop(), "the end is one, too");
    }

    #[test]
    fn what_came_with_the_line_before_counts() {
        let (mut orders, mut who) = orders();
        who.write_all(b"assignment\nstop\n").unwrap();
        let mut first = String::new();
        orders.0.read_line(&mut first).unwrap();
        assert!(orders.say_stop());
    }

    #[test]
    fn who_waits_is_reported() {
        for last in [&b"stop\n"[..], b""] {
            let (orders, mut who) = orders();
            let gone = Arc::new(AtomicU32::new(0));
            let counted = gone.clone();
            let count = move || {
                counted.fetch_add(1, Ordering::Relaxed);
            };
            let waiting = std::thread::spawn(move || orders.await_stop(count));
            who.write_all(b"halt\ngo\n").unwrap();
            who.write_all(last).unwrap();
            drop(who);
            waiting.join().unwrap();
            assert_eq!(gone.load(Ordering::Relaxed), 1);
        }
    }
}
