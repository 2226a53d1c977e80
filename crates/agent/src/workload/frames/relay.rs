//! The machine's work for a guest whose frames bypass its card in both directions: it moves them between
//! the guest's bridge and the memory that both share. It does so itself, and sleeps while no frame comes.
//! Where a core polls for the guest, that core does the work and this task only waits.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use datapath::counters::{self, Count};
use datapath::relay::{Parts, Relay};
use datapath::serve;
use hypertare_plan::FrameRelay;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::net::Links;
use crate::net::frames::layout::{Mac, check_length};
use crate::net::frames::{Filter, socket};
use crate::net::shared::memory::SharedMemory;
use crate::process::cpus;
use crate::values::Definition;
use crate::workload::usage::Usage;
use crate::workload::{Context, Outcome, WorkloadKind};

/// Frames in each direction that one turn moves at most.
const TURN: u16 = 64;
/// Turns between two looks whether to end.
const LOOKS: u32 = 64;
/// The guest cannot notify of a frame. So the memory is polled without a break for this long, and then
/// after naps; a frame from the bridge ends a nap.
const SPIN: Duration = Duration::from_micros(50);
const NAP_NS: i64 = 50_000;

/// Time for the polling core to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks whether to end.
const PATIENCE: Duration = Duration::from_millis(40);

impl WorkloadKind for FrameRelay {
    const VALUES: &'static [Definition] = &[
        ("fed_packets", "frames", "frames that were written into the shared memory"),
        ("taken_packets", "frames", "frames of the guest that were taken from there and sent"),
        ("full_packets", "frames", "frames that found no room there"),
        (
            "refused_packets",
            "frames",
            "frames that the guest may not send, or the interface did not take",
        ),
        ("polled", "0 or 1", "whether a core that polls for the guest did it"),
        (
            "user_s",
            "s",
            "CPU time in user mode, which the guest has from its machine; without such a core's",
        ),
        ("system_s", "s", "CPU time in the kernel, likewise"),
    ];
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        let memory = SharedMemory::open(&self.guest)?;
        let link = Links::open()?.get(&memory.bridge)?;
        check_length(self.frame, link.mtu)?;
        let socket = socket::open()?;
        socket::listen(&socket, &link, &to(memory.address))?;
        let page = counters::page()?;
        let counted = File::from(page.try_clone()?);
        let parts = Parts {
            memory: memory.memory.into(),
            bytes: memory.bytes,
            socket: socket.into(),
            counters: page,
            address: memory.address,
            longest: self.frame as usize,
        };
        let before = Usage::of_thread();
        let polled = memory.polling.is_some();
        match memory.polling {
            Some(polling) => await_end(&polling, &parts, context),
            None => cpus::bind(0, memory.datapath_cpu.as_slice())
                .and_then(|()| move_frames(parts, context)),
        }
        .with_context(|| format!("what {} shares with its machine", self.guest))?;
        let used = Usage::of_thread().since(&before);
        let counts = counters::read(&counted)?;
        let count = |which: Count| counts[which as usize] as f64;
        Ok(Outcome::of([
            ("fed_packets", count(Count::FramesIn)),
            ("taken_packets", count(Count::FramesOut)),
            ("full_packets", count(Count::Full)),
            ("refused_packets", count(Count::Refused)),
            ("polled", f64::from(u8::from(polled))),
            ("user_s", used.user_s()),
            ("system_s", used.system_s()),
        ]))
    }
}

/// A filter for frames that are sent to this address.
fn to(address: Mac) -> Filter {
    let word = |from: usize| u32::from_be_bytes(std::array::from_fn(|at| address[from + at]));
    Filter::new(&[(0, word(0)), (2, word(2))])
}

fn move_frames(parts: Parts, context: &Context) -> Result<()> {
    let mut relay = Relay::new(parts)?;
    context.ready();
    let mut idle_since = None;
    while !context.stopped() {
        for _ in 0..LOOKS {
            if relay.turn(TURN)? > 0 {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                let limit = Timespec { tv_sec: 0, tv_nsec: NAP_NS };
                let mut watched = [PollFd::from_borrowed_fd(relay.socket(), PollFlags::IN)];
                match poll(&mut watched, Some(&limit)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error).context("waiting for frames"),
                }
            }
        }
    }
    Ok(())
}

/// Has the polling core move the frames until this task is asked to stop, or until the core reports why it
/// cannot.
fn await_end(polling: &UnixStream, parts: &Parts, context: &Context) -> Result<()> {
    polling.set_read_timeout(Some(BEGIN_LIMIT))?;
    serve::ask_for_relay(polling, parts)?;
    context.ready();
    polling.set_read_timeout(Some(PATIENCE))?;
    let mut why = String::new();
    while !context.stopped() {
        match (&mut &*polling).take(serve::LONGEST_REASON).read_to_string(&mut why) {
            Ok(_) if why.is_empty() => bail!("what polls for it has ended"),
            Ok(_) => return Err(anyhow!(why)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frames::layout::blank;

    #[test]
    fn frames_to_others_do_not_pass() {
        let filter = to([2, 3, 4, 5, 6, 7]);
        assert!(filter.lets_pass(&blank(60, [2, 3, 4, 5, 6, 7], [1; 6])));
        for other in [[1, 3, 4, 5, 6, 7], [2, 3, 4, 5, 6, 8], [6; 6]] {
            assert!(!filter.lets_pass(&blank(60, other, [2, 3, 4, 5, 6, 7])), "{other:?}");
        }
    }
}
