//! The kernel's report of a TCP connection (TCP_INFO), by the offsets of `struct tcp_info` in linux/tcp.h,
//! which only ever grows at its end.

use std::io;

use socket2::Socket;

use crate::net::socket::{option, word};

const SND_MSS: usize = 16;
const RTT: usize = 68;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const MIN_RTT: usize = 148;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    pub mss_bytes: u32,
    pub rtt_s: f64,
    /// Absent before Linux 4.6, and before the first sample.
    pub rtt_min_s: Option<f64>,
    pub cwnd_bytes: u64,
    /// Since the connection began.
    pub retransmits: u32,
}

pub fn read(socket: &Socket) -> io::Result<TcpInfo> {
    Ok(parse(&option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, 256)?))
}

fn parse(bytes: &[u8]) -> TcpInfo {
    let mss_bytes = word(bytes, SND_MSS).unwrap_or(0);
    let micro = |offset| word(bytes, offset).map(|value| f64::from(value) / 1e6);
    TcpInfo {
        mss_bytes,
        rtt_s: micro(RTT).unwrap_or(0.0),
        rtt_min_s: micro(MIN_RTT).filter(|&rtt| rtt < f64::from(u32::MAX) / 1e6),
        cwnd_bytes: u64::from(word(bytes, SND_CWND).unwrap_or(0)) * u64::from(mss_bytes),
        retransmits: word(bytes, TOTAL_RETRANS).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn offsets_are_those_of_the_kernels_structure() {
        assert_eq!(SND_MSS, offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert_eq!(RTT, offset_of!(libc::tcp_info, tcpi_rtt));
        assert_eq!(SND_CWND, offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert_eq!(TOTAL_RETRANS, offset_of!(libc::tcp_info, tcpi_total_retrans));
    }

    #[test]
    fn an_old_kernels_shorter_answer_is_read_too() {
        let mut bytes = [0u8; 104];
        bytes[SND_MSS..SND_MSS + 4].copy_from_slice(&1448u32.to_ne_bytes());
        bytes[SND_CWND..SND_CWND + 4].copy_from_slice(&10u32.to_ne_bytes());
        bytes[RTT..RTT + 4].copy_from_slice(&250u32.to_ne_bytes());
        let info = parse(&bytes);
        assert_eq!((info.mss_bytes, info.cwnd_bytes, info.rtt_min_s), (1448, 14480, None));
        assert_eq!(info.rtt_s, 250e-6);
        assert_eq!(parse(&[]), TcpInfo::default());
    }
}
