//! The program that chooses frames: those of our type with a filter's words go to the socket of their
//! queue, all others to the kernel as if the program did not exist.
//!
//! Source: Linux, Documentation/bpf/standardization/instruction-set.rst; `struct xdp_md` of linux/bpf.h.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::net::frames::{ETHER_TYPE, Filter, TYPE_AT};

const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const LOAD_4: u8 = 0x61;
const LOAD_2: u8 = 0x69;
const IF_GREATER: u8 = 0x2d;
/// Compares 32 bits (Linux 5.1).
const IF_UNLIKE: u8 = 0x56;
/// Takes two instructions, for 64 bits: here a map's address, which the kernel puts in place of its
/// descriptor.
const LOAD_MAP: u8 = 0x18;
const PSEUDO_MAP: u8 = 1;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// One instruction as the kernel has it: operation, registers (source, destination), offset, constant.
pub type Instruction = u64;

const fn instruction(operation: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    let bytes = [
        [operation, from << 4 | to],
        offset.to_le_bytes(),
        [value.to_le_bytes()[0], value.to_le_bytes()[1]],
        [value.to_le_bytes()[2], value.to_le_bytes()[3]],
    ];
    let mut whole = 0;
    let mut at = 8;
    while at > 0 {
        at -= 1;
        whole = whole << 8 | bytes[at / 2][at % 2] as u64;
    }
    whole
}

/// `map` has a socket for each queue.
pub fn choosing(map: &OwnedFd, filter: &Filter) -> Vec<Instruction> {
    let kind = (LOAD_2, TYPE_AT, i32::from(ETHER_TYPE.to_be()));
    // In this machine's byte order.
    let words = filter.words().iter().map(|&(at, word)| (LOAD_4, at, word.to_be() as i32));
    let tests = [kind].into_iter().chain(words);
    let end = tests.clone().map(|(_, at, _)| at + 4).max().unwrap_or_default() as i32;
    // r6 the frame's description, r2 its begin, r3 its end, r4 how far it has to reach.
    let mut program = vec![
        instruction(MOVE, 6, 1, 0, 0),
        instruction(LOAD_4, 2, 1, DATA, 0),
        instruction(LOAD_4, 3, 1, DATA_END, 0),
        instruction(MOVE, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, end),
    ];
    // Each of these jumps to the end; the distance is filled in last.
    let mut jumps = vec![(program.len(), IF_GREATER, 4, 3, 0)];
    program.push(0);
    for (load, at, wanted) in tests {
        program.push(instruction(load, 5, 2, at as i16, 0));
        jumps.push((program.len(), IF_UNLIKE, 5, 0, wanted));
        program.push(0);
    }
    program.extend([
        instruction(LOAD_4, 2, 6, RX_QUEUE_INDEX, 0),
        instruction(LOAD_MAP, 1, PSEUDO_MAP, 0, map.as_raw_fd()),
        0,
        // For a frame whose queue has no socket (Linux 5.3).
        instruction(SET, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    let pass = program.len();
    program.extend([instruction(SET, 0, 0, 0, XDP_PASS), instruction(EXIT, 0, 0, 0, 0)]);
    for (from, operation, to, other, value) in jumps {
        program[from] = instruction(operation, to, other, (pass - from - 1) as i16, value);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn an_instruction_on_the_wire() {
        let bytes = instruction(IF_UNLIKE, 5, 2, -2, 0x0102_0304).to_le_bytes();
        assert_eq!(bytes, [0x56, 0x25, 0xfe, 0xff, 4, 3, 2, 1]);
    }

    #[test]
    fn type_and_words_are_compared_as_they_stand_in_the_frame() {
        let program = choosing(&map(), &Filter::new(&[(14, 7), (18, 0x6874_7331)]));
        let bytes: Vec<[u8; 8]> = program[4..].iter().map(|one| one.to_le_bytes()).collect();
        assert_eq!(bytes[0][4..], [22, 0, 0, 0], "no byte beyond is looked at");
        let loads: Vec<(u8, u8)> = [2, 4, 6].map(|at| (bytes[at][0], bytes[at][2])).into();
        assert_eq!(loads, [(LOAD_2, 12), (LOAD_4, 14), (LOAD_4, 18)]);
        assert_eq!(bytes[3][4..], [0x88, 0xb5, 0, 0]);
        assert_eq!(bytes[5][4..], [0, 0, 0, 7]);
        assert_eq!(bytes[7][4..], *b"hts1");
    }

    #[test]
    fn what_is_unlike_goes_on_to_the_kernel() {
        let program = choosing(&map(), &Filter::new(&[(14, 7)]));
        let jumps = [IF_GREATER, IF_UNLIKE].map(u64::from);
        for (at, one) in
            program.iter().enumerate().filter(|(_, one)| jumps.contains(&(*one & 0xff)))
        {
            let target = at + 1 + (one >> 16 & 0xffff) as usize;
            assert_eq!(program[target], instruction(SET, 0, 0, 0, XDP_PASS));
            assert_eq!(target + 2, program.len());
        }
    }
}
