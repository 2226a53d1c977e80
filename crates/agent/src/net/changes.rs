//! Notices that the links of a network namespace have changed, in whatever way.

use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// RTNLGRP_LINK, as netlink-sys wants it: the group's number.
const LINKS: u32 = 1;

/// Changes in the namespace of the thread that opened it.
pub struct Changes(Socket);

impl Changes {
    pub fn watch() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket")?;
        socket.bind(&SocketAddr::new(0, 0)).context("binding a netlink socket")?;
        socket.add_membership(LINKS).context("asking for notices of links")?;
        socket.set_non_blocking(true).context("setting up a netlink socket")?;
        Ok(Changes(socket))
    }

    /// Readable once there was a change that [`Changes::forget`] has not taken.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket owns it, and lives as long as what is returned.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }

    /// Takes all changes so far. Notices that the kernel lost are a change, too.
    pub fn forget(&self) {
        while self.0.recv_from_full().is_ok() {}
    }
}
