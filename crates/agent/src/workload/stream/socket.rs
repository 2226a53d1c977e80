//! Sockets of streams: their buffers have the requested size, and their calls return in time to look
//! whether the stream is over.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub use crate::net::socket::{Buffer, in_vain, mark, size_buffer};
use crate::net::socket::{option, word};

/// The longest time that a blocking call may keep a flow from looking whether it must stop.
pub const PATIENCE: Duration = Duration::from_millis(50);

pub fn new(kind: Type, address: SocketAddr) -> Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))
        .with_context(|| format!("no socket for {address}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

pub fn bind(socket: &Socket, address: SocketAddr) -> Result<()> {
    socket.bind(&SockAddr::from(address)).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => ": another program has this port; choose another",
            io::ErrorKind::AddrNotAvailable => ": no interface has this address",
            io::ErrorKind::PermissionDenied => ": ports below 1024 need privilege",
            _ => "",
        };
        anyhow!("cannot bind {address}: {error}{advice}")
    })
}

/// Address and port of flow `flow`.
pub fn of_flow(address: SocketAddr, flow: u32) -> Result<SocketAddr> {
    let port = u32::from(address.port()) + flow;
    let port = u16::try_from(port)
        .map_err(|_| anyhow!("flow {flow} would need port {port}: choose a lower first port"))?;
    Ok(SocketAddr::new(address.ip(), port))
}

/// A sentence when the kernel gave less than was asked for.
pub fn shortfall(buffer: Buffer, asked: Option<u32>, got: usize) -> Option<String> {
    let (name, limit) = match buffer {
        Buffer::Send => ("SO_SNDBUF", "net.core.wmem_max"),
        Buffer::Receive => ("SO_RCVBUF", "net.core.rmem_max"),
    };
    let asked = asked? as usize;
    (got < asked).then(|| {
        format!("{name} is {got} bytes, not the {asked} asked for: raise {limit} (sysctl)")
    })
}

/// Packets dropped at this socket since it was made, mostly for want of room: the counter that
/// SO_RXQ_OVFL attaches to datagrams, read without a cost per datagram.
pub fn drops(socket: &Socket) -> Option<u64> {
    const MEMINFO_DROPS: usize = 8;
    let values = option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, 64).ok()?;
    word(&values, 4 * MEMINFO_DROPS).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_successive_ports() {
        let first = "10.0.0.2:65534".parse().unwrap();
        assert_eq!(of_flow(first, 1).unwrap().port(), 65535);
        assert!(of_flow(first, 2).unwrap_err().to_string().contains("lower first port"));
    }

    #[test]
    fn the_kernel_reports_how_large_a_buffer_is() {
        let socket = new(Type::DGRAM, "127.0.0.1:1".parse().unwrap()).unwrap();
        let got = size_buffer(&socket, Buffer::Receive, Some(65536)).unwrap();
        assert_eq!(got, 131072);
        assert_eq!(shortfall(Buffer::Receive, Some(65536), got), None);
        assert!(shortfall(Buffer::Send, Some(65536), 4096).unwrap().contains("wmem_max"));
    }
}
