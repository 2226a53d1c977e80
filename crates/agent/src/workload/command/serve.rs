//! Executes a server for a measured command on another node, across the link.
//!
//! The server is ready when it has a listening socket. Its output is kept as a command's is, to look into a
//! failure; none of it is a result.

use std::cell::Cell;

use anyhow::{Result, bail};
use hypertare_plan::Serve;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::listeners::Listeners;
use super::{Ended, Given, ProgramEnvironment, descendants, leaving_nothing};
use crate::values::Definition;
use crate::workload::clock::{SECOND, now_ns, sleep_once, to_seconds};
use crate::workload::{Context, Outcome, WorkloadKind};

/// From the start of a server until it must listen.
const LISTEN_NS: u64 = 10 * SECOND;

/// Between two looks for its socket.
const PAUSE_NS: u64 = 5_000_000;

/// Between two looks whether it was asked to stop, once the server has ended.
const IDLE_NS: u64 = 20_000_000;

impl WorkloadKind for Serve {
    const VALUES: &'static [Definition] = &[("listens_s", "s", "from its start until it listened")];
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        leaving_nothing(|| serve(self, context))
    }
}

/// What a server that was started did first.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Listens,
    /// Its end, or that it was asked to end.
    Ends,
    Late {
        on_loopback: bool,
    },
}

/// Runs the server until it is asked to stop. One that serves once may be done before; any other end is an
/// error.
fn serve(spec: &Serve, context: &Context) -> Result<Outcome> {
    let environment = ProgramEnvironment::new(&spec.env, spec.cwd.as_deref())?;
    let before = Listeners::now()?;
    let (first, listens_ns) = (Cell::new(First::Ends), Cell::new(0));
    let ended = environment.execute(&spec.argv, &Given::default(), context, |server| {
        let begin = now_ns();
        first.set(await_socket(server, &before, context));
        match first.get() {
            First::Listens => {
                listens_ns.set(now_ns() - begin);
                context.ready();
            }
            First::Ends => {}
            First::Late { .. } => {
                let _ = descendants::kill_own();
            }
        }
    })?;
    let is_done = first.get() == First::Listens && ended.status == 0;
    if ended.stopped || is_done {
        while !context.stopped() {
            sleep_once(now_ns() + IDLE_NS);
        }
        let mut outcome = Outcome { text: ended.text(), ..Outcome::default() };
        outcome.set("listens_s", to_seconds(listens_ns.get()));
        return Ok(outcome);
    }
    bail!("{}{}", complaint(first.get(), &ended), ended.last_lines())
}

fn complaint(first: First, ended: &Ended) -> String {
    let (how, limit) = (ended.how(), LISTEN_NS / SECOND);
    let what = match first {
        First::Listens => format!("{how} while it was needed"),
        First::Ends if ended.status == 0 => {
            format!("{how} before it listened (it must stay in the foreground)")
        }
        First::Ends => format!("{how} before it listened"),
        First::Late { on_loopback } => {
            let which = if on_loopback { "only one on loopback" } else { "no TCP or UDP socket" };
            format!(
                "had {which} to listen at after {limit} s (let it listen at $HYPERTARE_ADDRESS, or \
                 at all addresses)"
            )
        }
    };
    format!("the server on the peer {what}")
}

fn await_socket(server: Pid, before: &Listeners, context: &Context) -> First {
    let limit = now_ns() + LISTEN_NS;
    let mut on_loopback = false;
    // Its end is seen without reaping it.
    let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while now_ns() < limit {
        // A file that cannot be read now may be readable the next time.
        if let Ok(now) = Listeners::now() {
            if now.can_be_reached(before) {
                return First::Listens;
            }
            on_loopback = now.are_on_loopback(before);
        }
        if context.stopped() || matches!(waitid(WaitId::Pid(server), seen), Ok(Some(_))) {
            return First::Ends;
        }
        sleep_once(now_ns() + PAUSE_NS);
    }
    First::Late { on_loopback }
}
