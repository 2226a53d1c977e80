//! What several tests need.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that is free for UDP and TCP, from below those that the kernel gives out by itself: no
/// other program's connection takes it between here and its use.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let number = std::process::id() * 61 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + (number % 20_000) as u16;
        let addresses = [("127.0.0.1", port), ("::1", port)];
        if addresses.iter().all(|a| UdpSocket::bind(a).is_ok() && TcpListener::bind(a).is_ok()) {
            return port;
        }
    }
    panic!("no free port");
}
