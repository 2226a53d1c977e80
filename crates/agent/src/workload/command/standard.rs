//! A command's standard input, output and error: a file and two pipes, or a terminal.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::workload::output::Stream;

/// The size of a terminal that nobody looks at.
const WINDOW: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The command's side.
pub enum Standard {
    /// Input, output, error.
    Files([OwnedFd; 3]),
    /// A terminal by its name. The command's process opens it and becomes its owner; it is also held open
    /// here, so that it does not end before that.
    Terminal { name: CString, _held: OwnedFd },
}

/// This side: output and error.
pub type Streams = (Stream, Stream);

/// # Errors
/// The input cannot be opened.
pub fn files(input: &Path) -> Result<(Standard, Streams)> {
    let (stdout, stdout_write) = Stream::new()?;
    let (stderr, stderr_write) = Stream::new()?;
    let stdin = std::fs::File::open(input).with_context(|| {
        format!("its standard input {} cannot be opened there", input.display())
    })?;
    Ok((Standard::Files([stdin.into(), stdout_write, stderr_write]), (stdout, stderr)))
}

/// A terminal of the command's own; the text that it shows is the output.
///
/// # Errors
/// The kernel gives no terminal.
pub fn terminal() -> Result<(Standard, Streams)> {
    let open = || -> rustix::io::Result<(OwnedFd, CString, OwnedFd)> {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&own)?;
        unlockpt(&own)?;
        tcsetwinsize(&own, WINDOW)?;
        let name = ptsname(&own, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let held = rustix::fs::open(&name, flags, Mode::empty())?;
        Ok((own, name, held))
    };
    let (own, name, held) = open().context("it can have no terminal of its own here")?;
    let streams = (Stream::of_terminal(own)?, Stream::none());
    Ok((Standard::Terminal { name, _held: held }, streams))
}
