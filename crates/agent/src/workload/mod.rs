//! What one task does. Every workload is a module with `run(&spec, &Context) -> Result<Outcome>`;
//! it executes in a process of its own, so that its usage is exactly its own and it can be killed.

pub mod address;
pub mod burn;
pub mod clock;
pub mod command;
pub mod confine;
pub mod context;
pub mod descendants;
pub mod fork;
mod output;
pub mod ping;
pub mod process;
pub mod stream;
pub mod system_calls;
pub mod touch;
mod usage;

use anyhow::Result;
use hypertare_plan::{Task, TaskResult, Workload};

pub use context::{Context, Outcome};

/// Executes one task to its end and tells how it went; a failure is a result too.
pub fn execute(task: &Task, context: &Context) -> TaskResult {
    let outcome = bind(task).and_then(|()| run(&task.workload, context));
    context.result(outcome)
}

fn run(workload: &Workload, context: &Context) -> Result<Outcome> {
    match workload {
        Workload::Command(spec) => command::run(spec, context),
        Workload::StreamSend(spec) => stream::send(spec, context),
        Workload::StreamReceive(spec) => stream::receive(spec, context),
        Workload::PingRequest(spec) => ping::request(spec, context),
        Workload::PingReply(spec) => ping::reply(spec, context),
        Workload::Burn(spec) => burn::run(spec, context),
        Workload::Fork(spec) => fork::run(spec, context),
        Workload::Touch(spec) => touch::run(spec, context),
    }
}

/// Binds this process to the task's CPUs, counted among those that it may use already.
fn bind(task: &Task) -> Result<()> {
    if task.cpus.is_empty() {
        return Ok(());
    }
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let usable: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let mut chosen = rustix::thread::CpuSet::new();
    for &index in &task.cpus {
        let cpu = usable.get(index as usize).ok_or_else(|| {
            anyhow::anyhow!("CPU {index} was asked for, but the node may use {} only", usable.len())
        })?;
        chosen.set(*cpu);
    }
    rustix::thread::sched_setaffinity(None, &chosen)?;
    Ok(())
}
