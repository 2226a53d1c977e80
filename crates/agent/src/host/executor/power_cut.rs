//! Whether data that fdatasync had returned for are on the disk after a power cut. A node writes to a disk
//! of its own and reports for how many writes fdatasync has returned. During a write it is ended as by a
//! power cut: its process is killed, and all that the machine below it holds of the disk, in its page cache
//! and in the disk's own cache, is lost. A new node with the same disk then reads it.
//!
//! The machine below does not boot anew. What it would lose by that is its memory: of the disk that is the page
//! cache, which is of the device that goes.

use std::time::{Duration, Instant};

use hypertare_plan::{Interval, IoVerify, Life, PowerCut, Task, Values, Workload};

use super::phase::PhaseRun;
use super::{Executor, Outcome, Stop};
use crate::host::machine::Machine;
use crate::workload::io;

/// From the end of a node's process to the end of what it sent before.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

impl<M: Machine> Executor<M> {
    /// Returns what was found on the disk.
    pub(super) fn cut_power(
        &mut self,
        run: PhaseRun,
        life: &Life,
        cut: &PowerCut,
        index: usize,
    ) -> Outcome<Values> {
        self.write_until(run, life, cut)?;
        self.end_abruptly(index)?;
        let durable = durable(&self.members[index].intervals, cut.writes.jobs);
        let begun = Instant::now();
        let member = self.begin(&life.node)?;
        self.members[index] = self.watched(member);
        self.set_up_nodes(index, |_, _| Ok(()))?;
        let restart_s = begun.elapsed().as_secs_f64();
        let verify = IoVerify { writes: cut.writes.clone(), durable };
        let verify = task_of(life, "verify", false, Workload::IoVerify(verify));
        self.work(run, &[&verify])?;
        let results = std::mem::take(&mut self.members[index].results);
        let found = results.into_iter().find(|result| result.task == verify.id);
        let mut values = found.map(|result| result.values).unwrap_or_default();
        values.insert("restart_s".to_owned(), restart_s);
        Ok(values)
    }

    /// Fills the disk, and has it written to up to the instant of the cut.
    fn write_until(&mut self, run: PhaseRun, life: &Life, cut: &PowerCut) -> Outcome {
        let writes = io::acknowledged(&cut.writes);
        let fill = task_of(life, "fill", true, Workload::IoFill(io::filling(&writes)));
        self.get_ready(run, &[&fill])?;
        self.stop(&[&fill], run.deadline)?;
        let write = task_of(life, "write", false, Workload::Io(writes));
        self.get_ready(run, &[&write])?;
        self.go(&write);
        let instant = Instant::now() + Duration::from_secs_f64(cut.after_s);
        self.wait(instant, |all| all.failure.is_some())?;
        self.check_failure()
    }

    /// All that the node had sent by then counts, even if it is heard only now.
    fn end_abruptly(&mut self, index: usize) -> Outcome {
        let member = &mut self.members[index];
        member.is_cut = true;
        member.link.kill();
        let name = member.name().to_owned();
        let limit = Instant::now() + SILENCE_LIMIT;
        if !self.wait(limit, |all| !all.members[index].alive())? {
            return Err(Stop::Failed(format!("node {name} is heard although its power is cut")));
        }
        self.machine.cut_power(&name).map_err(|error| {
            Stop::Failed(format!("the power of the disk of {name} cannot be cut: {error:#}"))
        })
    }
}

fn task_of(life: &Life, name: &str, background: bool, workload: Workload) -> Task {
    Task {
        id: format!("{}.{name}", life.id),
        node: life.node.name.clone(),
        background,
        cpus: vec![],
        purpose: None,
        workload,
    }
}

/// How many writes of each job are durable, by what was said last of it.
fn durable(said: &[Interval], jobs: u32) -> Vec<u64> {
    let mut durable = vec![0; jobs as usize];
    for Interval { values, .. } in said {
        let (Some(&job), Some(&count)) = (values.get("job"), values.get("durable")) else {
            continue;
        };
        if let Some(place) = durable.get_mut(job as usize) {
            *place = count as u64;
        }
    }
    durable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_each_job_counts() {
        let said = |job: f64, durable: f64| Interval {
            node: "x".to_owned(),
            trial: 1,
            phase: "phase".to_owned(),
            task: "write".to_owned(),
            begin_s: 0.0,
            end_s: 1.0,
            values: [("job", job), ("durable", durable)].map(|(k, v)| (k.to_owned(), v)).into(),
            heard_s: None,
            purpose: None,
        };
        let all = [said(0.0, 8.0), said(1.0, 8.0), said(0.0, 16.0), said(7.0, 99.0)];
        assert_eq!(durable(&all, 2), [16, 8]);
        assert_eq!(durable(&[], 2), [0, 0]);
    }
}
