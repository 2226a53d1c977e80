//! Which frames a source hands on: those with given words at given places. Where the kernel sees frames
//! first, the filter is a classic BPF program, so that other frames cost nothing.

use std::io;
use std::os::fd::AsRawFd;

use super::ETHER_TYPE;
use crate::net::socket::set_option;

/// The place of a frame's type, after two addresses of six bytes.
pub const TYPE_AT: usize = 12;

/// Words of 32 bits that a frame must have, by the place where they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<(usize, u32)>);

impl Filter {
    /// A filter for frames of our type with these words at these places, in network byte order.
    pub fn new(words: &[(usize, u32)]) -> Self {
        Filter(words.to_vec())
    }

    /// Places and words, for another kind of program.
    pub fn words(&self) -> &[(usize, u32)] {
        &self.0
    }

    /// The same test as the program's, for a frame that is here already.
    #[inline]
    pub fn lets_pass(&self, frame: &[u8]) -> bool {
        let kind = frame.get(TYPE_AT..TYPE_AT + 2);
        kind == Some(&ETHER_TYPE.to_be_bytes()[..])
            && self.0.iter().all(|&(at, word)| {
                frame.get(at..at + 4).is_some_and(|bytes| bytes == word.to_be_bytes())
            })
    }

    /// As the kernel runs it; a load beyond the frame's end refuses the frame.
    fn program(&self) -> Vec<libc::sock_filter> {
        const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
        const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
        let tests = [(LOAD_HALF, TYPE_AT, u32::from(ETHER_TYPE))]
            .into_iter()
            .chain(self.0.iter().map(|&(at, word)| (LOAD_WORD, at, word)));
        let count = 1 + self.0.len();
        let mut program = Vec::new();
        for (index, (load, at, value)) in tests.enumerate() {
            program.push(instruction(load, at as u32, 0));
            // To the last instruction: over the remaining tests, two instructions each, and the one that
            // accepts.
            let refuse = 2 * (count - index - 1) + 1;
            program.push(instruction(IF_EQUAL, value, refuse as u8));
        }
        program.push(instruction(RETURN, u32::MAX, 0));
        program.push(instruction(RETURN, 0, 0));
        program
    }

    /// Has the kernel apply it to all frames that come to a socket from now on.
    pub fn attach(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let mut program = self.program();
        let given = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // The kernel copies the program, which lives through the call.
        set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &given)
    }
}

fn instruction(code: u32, k: u32, if_not: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: if_not, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, words: &[u32]) -> Vec<u8> {
        let mut frame = vec![0xff; TYPE_AT];
        frame.extend(kind.to_be_bytes());
        words.iter().for_each(|word| frame.extend(word.to_be_bytes()));
        frame
    }

    /// What the kernel would make of it.
    fn run(program: &[libc::sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let one = &program[at];
            at += 1;
            let from = one.k as usize;
            match u32::from(one.code) & 0x07 {
                libc::BPF_LD => {
                    let length = if u32::from(one.code) & libc::BPF_H != 0 { 2 } else { 4 };
                    let Some(bytes) = frame.get(from..from + length) else { return false };
                    loaded = bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
                }
                libc::BPF_JMP if loaded != one.k => at += usize::from(one.jf),
                libc::BPF_JMP => {}
                _ => return one.k > 0,
            }
        }
    }

    #[test]
    fn the_program_asks_the_same() {
        let filter = Filter::new(&[(14, 7), (18, 0x6874_7331)]);
        let program = filter.program();
        for (frame, passes) in [
            (frame(ETHER_TYPE, &[7, 0x6874_7331]), true),
            (frame(ETHER_TYPE, &[7, 0x6874_7331, 9]), true),
            (frame(0x0800, &[7, 0x6874_7331]), false),
            (frame(ETHER_TYPE, &[8, 0x6874_7331]), false),
            (frame(ETHER_TYPE, &[7, 0x6874_7332]), false),
            (frame(ETHER_TYPE, &[7]), false),
            (vec![], false),
        ] {
            assert_eq!(filter.lets_pass(&frame), passes, "{frame:?}");
            assert_eq!(run(&program, &frame), passes, "{frame:?}");
        }
    }
}
