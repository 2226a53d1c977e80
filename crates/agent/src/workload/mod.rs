//! Workloads: the work of one task. It executes in a process of its own, so that its usage is exactly its
//! own and it can be killed.
//!
//! A workload is a module that implements [`WorkloadKind`] for its type in plans and [`Alone`] for its
//! command line, and a line of the table below. Nothing else names it.

pub mod address;
pub mod burn;
pub mod clock;
pub mod command;
pub mod confine;
pub mod context;
pub mod cpuid;
pub mod descendants;
pub mod fork;
pub mod frames;
pub mod io;
mod latencies;
mod mark;
pub mod orders;
mod output;
pub mod ping;
pub mod process;
pub mod sleep;
mod standalone;
pub mod stream;
pub mod syncs;
pub mod system_calls;
pub mod touch;
mod usage;

use anyhow::{Context as _, Result};
use hypertare_plan::{Task, TaskResult, Workload};

use crate::process::cpus;
use crate::values::Definition;
pub use context::{Context, Outcome};

/// A kind of work that a plan can ask for; implemented for the plan's own type.
pub trait WorkloadKind {
    /// The values of its result.
    const VALUES: &'static [Definition];

    /// Whether other tasks need it to be ready, and it does no work of its own.
    const LISTENS: bool = false;

    /// Whether it reports that it is ready, waits for the word to begin, reports that the work is done, and
    /// waits to be stopped, so that neither its start nor its end is in any counter.
    const PREPARES: bool = false;

    /// Does the work, to its end or until it is asked to stop.
    ///
    /// # Errors
    /// The work cannot be done as asked for, and why; then there are no values.
    fn run(&self, context: &Context) -> Result<Outcome>;
}

/// The arguments with which a workload is run without a plan.
pub trait Alone {
    fn run(self) -> Result<()>;
}

/// By module: its verb with the verb's arguments, and the kinds of work that plans can ask for.
macro_rules! workloads {
    ($($verb:ident($arguments:ty): $($kind:ident),+;)+) => {
        // The comment of the arguments' type describes each verb there.
        #[derive(clap::Subcommand)]
        pub enum Verb {
            $($verb($arguments),)+
        }

        impl Verb {
            pub fn run(self) -> Result<()> {
                match self {
                    $(Verb::$verb(arguments) => arguments.run(),)+
                }
            }
        }

        /// The values of each workload's result, by its name in plans.
        pub fn values() -> Vec<(String, &'static [Definition])> {
            vec![$($((
                name_in_plans(stringify!($kind)),
                <hypertare_plan::$kind as WorkloadKind>::VALUES,
            ),)+)+]
        }

        /// Whether other tasks need it to be ready, and it does no work of its own.
        pub fn listens(workload: &Workload) -> bool {
            match workload {
                $($(Workload::$kind(_) => <hypertare_plan::$kind as WorkloadKind>::LISTENS,)+)+
            }
        }

        /// Whether it waits for the word to begin, and to be stopped when its work is done.
        pub fn prepares(workload: &Workload) -> bool {
            match workload {
                $($(Workload::$kind(_) => <hypertare_plan::$kind as WorkloadKind>::PREPARES,)+)+
            }
        }

        fn run(workload: &Workload, context: &Context) -> Result<Outcome> {
            match workload {
                $($(Workload::$kind(spec) => WorkloadKind::run(spec, context),)+)+
            }
        }
    };
}

workloads! {
    Stream(stream::cli::Args): StreamSend, StreamReceive;
    Ping(ping::standalone::Arguments): PingRequest, PingReply;
    Burn(burn::Arguments): Burn;
    Fork(fork::standalone::Arguments): Fork;
    Touch(touch::standalone::Arguments): Touch;
    Sleep(sleep::Arguments): Sleep;
    Generate(frames::generate::Arguments): FrameSend;
    Capture(frames::capture::Arguments): FrameCapture, FrameFeed, FrameRelay;
    Cpuid(cpuid::Arguments): Cpuid;
    Io(io::standalone::Arguments): Io, IoFill, IoVerify;
    Command(command::standalone::Arguments): Command, Serve;
}

/// `StreamSend` is `stream_send` in a plan.
fn name_in_plans(kind: &str) -> String {
    let mut name = String::new();
    for (at, character) in kind.char_indices() {
        if at > 0 && character.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(character.to_ascii_lowercase());
    }
    name
}

/// Executes one task to its end and returns its result; a failure is a result too.
pub fn execute(task: &Task, context: &Context) -> TaskResult {
    let outcome = bind(task).and_then(|()| run(&task.workload, context));
    context.result(outcome)
}

/// Binds this process to the task's CPUs, counted among those that it may use already.
fn bind(task: &Task) -> Result<()> {
    if task.cpus.is_empty() {
        return Ok(());
    }
    let usable = cpus::of(0)?;
    let chosen = task.cpus.iter().map(|&index| {
        usable.get(index as usize).copied().with_context(|| {
            format!("CPU {index} was asked for, but the node may use {} only", usable.len())
        })
    });
    cpus::bind(0, &chosen.collect::<Result<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_plans() {
        let burn = Workload::Burn(hypertare_plan::Burn { share: 1.0, duration_s: 1.0, threads: 1 });
        assert_eq!(serde_json::to_value(burn).unwrap()["type"], name_in_plans("Burn"));
        assert_eq!(name_in_plans("StreamSend"), "stream_send");
    }
}
