//! The last lines of what a guest, or its VMM, prints. All of it is untrusted: lines and their
//! number are bounded, and nothing but printable characters is kept.

use std::collections::VecDeque;

/// Characters kept of one line: the kernel's own messages are shorter.
const MAX_LENGTH: usize = 400;

const PANIC: &str = "Kernel panic - not syncing";

/// The last lines, and the first panic among all that were seen.
#[derive(Debug)]
pub struct Tail {
    most: usize,
    lines: VecDeque<String>,
    open: Vec<u8>,
    panic: Option<String>,
}

impl Tail {
    pub fn new(most: usize) -> Self {
        Tail { most, lines: VecDeque::new(), open: Vec::new(), panic: None }
    }

    /// Takes what was printed, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                // Longer than any line that is kept, in bytes: the rest is of no use.
                _ if self.open.len() < 4 * MAX_LENGTH => self.open.push(byte),
                _ => {}
            }
        }
    }

    /// The last lines, an unfinished one included, control characters escaped.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().cloned().collect();
        let open = readable(&self.open);
        if !open.is_empty() {
            lines.push(open);
        }
        let surplus = lines.len().saturating_sub(self.most);
        lines.drain(..surplus);
        lines
    }

    /// The line by which a Linux kernel says that it panicked, without its time stamp.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    fn end_line(&mut self) {
        let line = readable(&self.open);
        self.open.clear();
        if line.is_empty() {
            return;
        }
        if self.panic.is_none() {
            // At the beginning of a message only: a program may print the words as well.
            let message = match line.strip_prefix('[') {
                Some(stamped) => stamped.split_once("] ").map_or("", |(_, message)| message),
                None => &line,
            };
            self.panic = message.starts_with(PANIC).then(|| message.to_owned());
        }
        if self.lines.len() == self.most {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, character) in String::from_utf8_lossy(bytes.trim_ascii_end()).chars().enumerate() {
        if index == MAX_LENGTH {
            text.push('…');
            break;
        }
        match character {
            '\t' => text.push(' '),
            // Bidirectional controls reorder what a terminal shows of the text around them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.extend(character.escape_unicode());
            }
            _ if character.is_control() => text.extend(character.escape_default()),
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(most: usize, text: &[u8]) -> Tail {
        let mut tail = Tail::new(most);
        tail.push(text);
        tail
    }

    #[test]
    fn keeps_the_last_lines_and_the_unfinished_one() {
        let tail = tail(3, b"a\r\nb\nc\n\nd");
        assert_eq!(tail.lines(), ["b", "c", "d"]);
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut tail = Tail::new(3);
        for byte in "grün\n".as_bytes() {
            tail.push(&[*byte]);
        }
        assert_eq!(tail.lines(), ["grün"]);
    }

    #[test]
    fn control_characters_are_escaped() {
        let tail = tail(3, b"\x1b[2J\x07evil\x9b\xff\nx\xe2\x80\xaey\n");
        assert_eq!(tail.lines()[0], "\\u{1b}[2J\\u{7}evil\u{fffd}\u{fffd}");
        assert_eq!(tail.lines()[1], "x\\u{202e}y");
    }

    #[test]
    fn an_endless_line_takes_bounded_memory() {
        let mut tail = Tail::new(2);
        for _ in 0..10_000 {
            tail.push(&[b'x'; 1000]);
        }
        assert!(tail.open.capacity() <= 8 * MAX_LENGTH);
        assert_eq!(tail.lines()[0].chars().count(), MAX_LENGTH + 1);
    }

    #[test]
    fn many_lines_take_bounded_memory() {
        let mut tail = Tail::new(40);
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        assert_eq!(tail.lines().len(), 40);
        assert_eq!(tail.lines()[39], "line 99999");
        assert!(tail.lines.capacity() <= 128);
    }

    #[test]
    fn a_panic_is_kept_when_it_has_scrolled_away() {
        let mut tail = tail(2, b"[    1.784526] Kernel panic - not syncing: VFS: no root\n");
        tail.push(b"1\n2\n3\n");
        assert_eq!(tail.panic(), Some("Kernel panic - not syncing: VFS: no root"));
    }

    #[test]
    fn talk_of_a_panic_is_none() {
        assert_eq!(tail(2, b"grep: Kernel panic - not syncing\n").panic(), None);
        assert_eq!(tail(2, b"[ Kernel panic - not syncing\n").panic(), None);
    }
}
