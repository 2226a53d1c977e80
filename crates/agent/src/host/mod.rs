//! The host agent: makes benches and carries out plans. It hands orders to the agents of its nodes,
//! checks what they report, and passes it on.
//!
//! `hypertare-agent host` is two processes: the outside waits and cleans up ([`sandbox`]), the
//! inside is the first process of namespaces of its own and does the work ([`executor`], on
//! [`local`]). On a host of Xen there is a third ([`crate::xen::keeper`]).

mod check;
mod clock;
mod disk;
mod event;
mod executor;
mod local;
mod machine;
mod member;
mod plausible;
mod qcow2;
pub mod sandbox;

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hypertare_plan::{AGENT_PREFIX, CONSOLE_PREFIX, REFUSED, Record};

use crate::emit::Emitter;
use crate::node::given::Heard;
use crate::node::hello::hello;
use crate::process::cgroup::Scope;
use crate::process::namespaces::mount_scratch;
use crate::process::{failed, signals, spawn, wait_until};
use crate::xen::toolstack::XenToolstack;
use event::{Event, Why};
pub use executor::life::VALUES as VALUES_OF_A_LIFE;
use executor::{Ending, Executor};
use local::Local;
use sandbox::Network;

/// Events and records that may wait in a queue, each of at most `MAX_LINE` bytes. Senders wait while it is
/// full.
const QUEUE: usize = 64;

/// Exit status after a plan that cannot be understood.
const BAD_PLAN: u8 = 2;

#[derive(clap::Args)]
pub struct Arguments {
    /// The network that commands see
    #[arg(long, value_enum, default_value_t)]
    network: Network,
    /// Steps come over a connection that may be cut: end after some seconds without a line
    #[arg(long)]
    reached: bool,
}

/// `hypertare-agent host`.
pub fn main(arguments: &Arguments) -> ExitCode {
    match sandbox::run(arguments.network, arguments.reached) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => failed(&error),
    }
}

#[derive(clap::Args)]
pub struct InsideArguments {
    /// What this run's cgroups are called
    #[arg(long)]
    scope: String,
    #[arg(long, value_enum, default_value_t)]
    network: Network,
    /// Why there can be no guests of Xen
    #[arg(long)]
    no_xen: Option<String>,
    #[arg(long)]
    reached: bool,
}

/// The inside of `hypertare-agent host`.
pub fn inside(arguments: &InsideArguments) -> ExitCode {
    let scope = Scope::named(&arguments.scope);
    let outcome = carry_out(&scope, arguments);
    sandbox::leave(&scope);
    match outcome {
        Ok(Ending::Complete | Ending::Ended(Why::ControllerGone)) => ExitCode::SUCCESS,
        Ok(Ending::Ended(Why::Signal(signal))) => {
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
        Ok(Ending::BadPlan(why)) => {
            eprintln!("{AGENT_PREFIX}{why}");
            ExitCode::from(BAD_PLAN)
        }
        Err(error) if is_refusal(&error) => {
            eprintln!("{AGENT_PREFIX}{:#}", spawn::explain_refusal(&error));
            ExitCode::from(REFUSED as u8)
        }
        Err(error) => failed(&error),
    }
}

/// Carries out a plan on a machine that has nothing else to do: the emulated one, whose init calls
/// this. No sandbox: its kernel ends with it, and with that whatever was made.
pub fn carry_out_alone(plan: std::fs::File, records: std::fs::File) -> Result<()> {
    mount_scratch()?;
    let machine = Local::new(Scope::own()?, Network::Own, Ok(XenToolstack::of_own_machine()))?;
    let (post, events) = sync_channel(QUEUE);
    let steps = post.clone();
    std::thread::spawn(move || event::read_plan(plan, true, None, &steps));
    let emitter = Emitter::new(records);
    let out = move |record| {
        if let Err(error) = emitter.emit(&record) {
            eprintln!("{CONSOLE_PREFIX}a record is lost: {error}");
        }
    };
    match Executor::new(machine, hello(""), (post, events), out).run() {
        Ending::Complete => Ok(()),
        Ending::BadPlan(why) => anyhow::bail!("{why}"),
        Ending::Ended(why) => anyhow::bail!("the plan was ended: {why:?}"),
    }
}

/// A user namespace may be made here, but nothing may be done in it.
fn is_refusal(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<rustix::io::Errno>();
    matches!(code, Some(&rustix::io::Errno::PERM | &rustix::io::Errno::ACCESS))
}

fn carry_out(scope: &Scope, arguments: &InsideArguments) -> Result<Ending> {
    let lifeline = sandbox::enter()?;
    let signals = signals::signal_descriptor()?;
    let no_xen = arguments.no_xen.clone();
    let xen =
        no_xen.map_or_else(|| XenToolstack::in_sandbox(scope).map_err(|e| format!("{e:#}")), Err);
    let machine = Local::new(scope.clone(), arguments.network, xen)?;
    let (post, events) = sync_channel(QUEUE);
    // What ends everything: a signal, or the end of the outside.
    let ended = post.clone();
    sandbox::watch_lifeline(lifeline, move || end_soon(&ended));
    let ended = post.clone();
    std::thread::spawn(move || {
        while let Some(signal) = signals::take_signal(&signals) {
            let _ = ended.send(Event::End(Why::Signal(signal)));
        }
    });
    read_plan(&post, arguments.reached)?;
    let (records, written) = write_records(&post)?;
    let out = together(move |some| {
        // That nobody reads any more is reported as an event.
        let _ = records.send(some);
    });
    let ending = Executor::new(machine, hello(""), (post, events), out).conversing().run();
    // The executor's end of the queue is closed now; what is in it still goes out.
    let deadline = Instant::now() + Duration::from_secs(1);
    wait_until(deadline, Duration::from_millis(1), || written.is_finished());
    Ok(ending)
}

/// Reads the plan's steps. If they come over a connection, all ends once that has been silent for too long.
fn read_plan(post: &SyncSender<Event>, reached: bool) -> Result<()> {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let status = rustix::fs::fstat(&input).context("standard input is not open")?;
    let is_file = rustix::fs::FileType::from_raw_mode(status.st_mode).is_file();
    let heard = reached.then(Heard::default);
    if let Some(heard) = &heard {
        let post = post.clone();
        heard.or_else(move || {
            end_soon(&post);
            std::thread::sleep(sandbox::GRACE);
            // All that is in the sandbox ends with its first process.
            std::process::exit(1);
        });
    }
    let post = post.clone();
    std::thread::spawn(move || {
        event::read_plan(std::fs::File::from(input), is_file, heard.as_ref(), &post);
    });
    Ok(())
}

/// Records go out from a thread of their own, so that a slow reader does not hold up the executor
/// until a whole queue waits.
fn write_records(
    post: &SyncSender<Event>,
) -> Result<(SyncSender<Vec<Record>>, std::thread::JoinHandle<()>)> {
    let (records, queue) = sync_channel::<Vec<Record>>(QUEUE);
    let post = post.clone();
    let emitter = Emitter::held_stdout().context("standard output is not open")?;
    let written = std::thread::spawn(move || {
        let is_closed = |error: std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        let mut open = true;
        for together in queue {
            if open && emitter.emit_all(&together).is_err_and(is_closed) {
                open = false;
                end_soon(&post);
            }
        }
    });
    Ok((records, written))
}

/// Holds records that nobody waits for until the next one that is waited for: each write wakes the
/// controller, which takes a CPU from the trial.
fn together(send: impl Fn(Vec<Record>)) -> impl FnMut(Record) {
    let mut held = Vec::new();
    move |record| {
        // What comes shortly before its trial's end, or is of no use before it.
        let waits = matches!(record, Record::Knob(_) | Record::Result(_) | Record::Probe(_));
        held.push(record);
        if !waits || held.len() >= QUEUE {
            send(std::mem::take(&mut held));
        }
    }
}

/// Reports that the controller is gone, from a thread of its own: the executor, which is to take the event,
/// may itself be waiting for the calling thread.
fn end_soon(post: &SyncSender<Event>) {
    let post = post.clone();
    std::thread::spawn(move || post.send(Event::End(Why::ControllerGone)));
}
