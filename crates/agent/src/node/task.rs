//! One task of a node: its process, and a thread that attends to it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use hypertare_plan::{Assignment, Command, Line, Record, TaskResult, Workload};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::files::View;
use super::node_emitter::NodeEmitter;
use super::opened::Watch;
use crate::boot_contract::{DISK_VARIABLE, is_own_machine};
use crate::lines::Lines;
use crate::process::shortage::Shortage;
use crate::process::spawn::signal_name;
use crate::workload;
use crate::workload::process::{self, Child, Ready};

/// A task that runs, or is about to.
pub struct Running {
    node_emitter: Arc<NodeEmitter>,
    /// Of the order that started it.
    number: u64,
    answered: AtomicBool,
    assignment: Assignment,
    view: Option<Arc<View>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A process that waits for a task.
    spare: Option<Child>,
    child: Option<Child>,
    /// Asked to stop, perhaps before its process was there.
    stopped: bool,
    /// Why it was killed.
    killed: Option<String>,
    /// Of the order to begin with what it has prepared, until that is answered.
    going: Option<u64>,
}

impl Running {
    pub fn new(
        node_emitter: Arc<NodeEmitter>,
        number: u64,
        assignment: Assignment,
        view: Option<Arc<View>>,
        spare: Option<Child>,
    ) -> Self {
        Running {
            node_emitter,
            number,
            answered: AtomicBool::new(false),
            assignment,
            view,
            state: Mutex::new(State { spare, ..State::default() }),
        }
    }

    pub fn task(&self) -> &str {
        &self.assignment.task.id
    }

    /// Asks it to end in good order.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        if let Some(child) = &mut state.child {
            child.stop();
        }
    }

    /// Has it begin with what it has prepared. The order is answered when the work is done.
    pub fn go(self: &Arc<Self>, number: u64) {
        let mut state = self.state();
        state.going = Some(number);
        let Some(child) = &mut state.child else { return };
        child.go();
        let Ok(mut ready) = child.ready.try_clone() else { return };
        let this = self.clone();
        std::thread::spawn(move || {
            if ready.is_ready() {
                this.answer_go(Ok(()));
            }
        });
    }

    /// Ends it; its result is a failure with this reason.
    pub fn kill(&self, reason: &str) {
        let mut state = self.state();
        state.killed.get_or_insert_with(|| reason.to_owned());
        if let Some(child) = &mut state.child
            && let Err(error) = child.kill()
        {
            self.node_emitter.warn(format!("task {} cannot be killed: {error:#}", self.task()));
        }
    }

    /// Runs the task from beginning to end; its result is reported in any case, and its order is answered.
    /// The result is reported last, when the process is gone and the work directory may be laid afresh,
    /// because the next task may start as soon as the result is known.
    pub fn run(self: &Arc<Self>) {
        let shortage = self.view().ok().flatten().map(|view| view.shortage());
        let shortage = shortage.or_else(|| is_own_machine().then(Shortage::of_machine));
        let mut result = self.attend().unwrap_or_else(|error| {
            let Assignment { trial, phase, task } = &self.assignment;
            TaskResult {
                node: self.node_emitter.node().to_owned(),
                trial: *trial,
                phase: phase.clone(),
                task: task.id.clone(),
                error: Some(format!("{error:#}")),
                ..TaskResult::default()
            }
        });
        if let (Some(error), Some(shortage)) = (&mut result.error, shortage)
            && let Some(why) = shortage.explain(error)
        {
            *error = format!("{why}; {error}");
        }
        if let Some(unused) = self.state().spare.take() {
            unused.discard();
        }
        self.node_emitter.emit(&Record::Result(result));
        self.answer(Err(anyhow!("it ended before it was ready")));
        self.answer_go(Err(anyhow!("it ended before its work was done")));
    }

    /// An error is the task's failure, where it has not reported a result itself.
    fn attend(self: &Arc<Self>) -> Result<TaskResult> {
        let view = self.view()?;
        // Held until the task has ended: meanwhile nothing is laid afresh.
        let _visit = view.as_ref().map(|view| view.enter()).transpose()?;
        let watch = self.watch(view.as_deref());
        let (records, ready) = self.spawn(view.as_deref())?;
        let waiting = self.await_ready(ready);
        let reported = self.pass_on(records);
        let status = self.await_end()?;
        if let Some(waiting) = waiting {
            let _ = waiting.join();
        }
        if let (Some(view), Some(watch)) = (&view, watch) {
            self.keep(view, watch);
        }
        let killed = self.state().killed.clone();
        match (reported, killed) {
            (Ok(Some(result)), _) => Ok(result),
            (_, Some(reason)) => bail!("killed: {reason}"),
            (Err(error), None) => Err(error),
            (Ok(None), None) => bail!("the task's process {}", describe(status)),
        }
    }

    fn view(&self) -> Result<Option<Arc<View>>> {
        if !self.assignment.task.workload.in_files() {
            return Ok(None);
        }
        match &self.view {
            Some(view) => Ok(Some(view.clone())),
            None => bail!("the node was set up without the machine's files"),
        }
    }

    /// Watches a warm-up: the files that it opens are to be in memory for the tasks that count.
    fn watch(&self, view: Option<&View>) -> Option<Watch> {
        let Workload::Command(Command { warmup: true, .. }) = &self.assignment.task.workload else {
            return None;
        };
        view?.watch().unwrap_or_else(|error| {
            self.node_emitter.warn(format!("the file share is part of what is weighed: {error:#}"));
            None
        })
    }

    /// Comes after the task's own end, so that nothing of it is measured.
    fn keep(&self, view: &View, watch: Watch) {
        let Workload::Command(command) = &self.assignment.task.workload else { return };
        let path = command.env.get("PATH").map_or("", String::as_str);
        match watch.end().and_then(|opened| view.keep(&opened, path.as_ref())) {
            Ok(None) => {}
            Ok(Some(left_out)) => self.node_emitter.warn(left_out),
            Err(error) => {
                self.node_emitter
                    .warn(format!("the file share is part of what is weighed: {error:#}"));
            }
        }
    }

    fn spawn(&self, view: Option<&View>) -> Result<(File, Ready)> {
        let mut assignment = self.assignment.clone();
        if let Some(view) = view {
            view.take_in(&mut assignment.task.workload)?;
        }
        // A command's environment is what it is given, and no more.
        if let (Some(env), Ok(disk)) =
            (assignment.task.workload.env_mut(), std::env::var(DISK_VARIABLE))
        {
            env.insert(DISK_VARIABLE.to_owned(), disk);
        }
        // With the lock held: an order to kill or to stop either came before, and is seen here, or comes
        // after, and finds the process.
        let mut state = self.state();
        if let Some(reason) = &state.killed {
            bail!("killed: {reason}");
        }
        let mut child = match state.spare.take() {
            Some(mut spare) => {
                spare.assign(&assignment)?;
                spare
            }
            None => process::spawn(&assignment, view.and_then(View::confinement))?,
        };
        let records = child.records.as_fd().try_clone_to_owned()?;
        let ready = child.ready.try_clone()?;
        if state.stopped {
            child.stop();
        }
        state.child = Some(child);
        Ok((File::from(records), ready))
    }

    /// A foreground task counts as started at once, a background one and one that prepares when it says that
    /// it is ready.
    fn await_ready(self: &Arc<Self>, mut ready: Ready) -> Option<std::thread::JoinHandle<()>> {
        let task = &self.assignment.task;
        if !task.background && !workload::prepares(&task.workload) {
            self.answer(Ok(()));
            return None;
        }
        let this = self.clone();
        Some(std::thread::spawn(move || {
            if ready.is_ready() {
                this.answer(Ok(()));
            }
        }))
    }

    /// Passes on what the process reports, but for its result, which is given back.
    fn pass_on(&self, records: File) -> Result<Option<TaskResult>> {
        let mut lines = Lines::new(records);
        let mut result = None;
        loop {
            let checked = match lines.read() {
                Ok(Some(line)) if line.whole => self.check(&line.bytes),
                Ok(_) => return Ok(result),
                Err(error) => Err(error).context("the task's records cannot be read"),
            };
            match checked {
                Ok(Record::Result(reported)) if result.is_none() => result = Some(reported),
                Ok(record) if result.is_none() => self.node_emitter.emit(&record),
                Ok(_) => self
                    .node_emitter
                    .warn(format!("task {} reported more after its result", self.task())),
                Err(error) => {
                    self.kill(&format!("{error:#}"));
                    return result.map_or(Err(error), |result| Ok(Some(result)));
                }
            }
        }
    }

    fn check(&self, line: &[u8]) -> Result<Record> {
        let record =
            Record::from_line(line).context("the task's process sent what is not a record")?;
        let Assignment { trial, phase, task } = &self.assignment;
        let expected = (self.node_emitter.node(), *trial, phase.as_str(), task.id.as_str());
        let own = match &record {
            Record::Interval(one) => {
                (one.node.as_str(), one.trial, one.phase.as_str(), one.task.as_str()) == expected
            }
            Record::Result(one) => {
                (one.node.as_str(), one.trial, one.phase.as_str(), one.task.as_str()) == expected
            }
            Record::Log { node, .. } => node == self.node_emitter.node(),
            _ => false,
        };
        if !own {
            bail!("the task's process sent a record that is not its own");
        }
        Ok(record)
    }

    /// Waits without holding the lock, so that the task can be killed meanwhile.
    fn await_end(&self) -> Result<ExitStatus> {
        let handle = match &self.state().child {
            Some(child) => child.handle().context("cannot watch the task's process")?,
            None => bail!("the task has no process"),
        };
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut watched, None) {}
        match &mut self.state().child {
            Some(child) => child.wait().context("cannot wait for the task's process"),
            None => bail!("the task has no process"),
        }
    }

    /// Answers the order that started the task, once.
    fn answer(&self, outcome: Result<()>) {
        if !self.answered.swap(true, Ordering::SeqCst) {
            self.node_emitter.done(self.number, outcome);
        }
    }

    /// The same of the order to begin.
    fn answer_go(&self, outcome: Result<()>) {
        if let Some(number) = self.state().going.take() {
            self.node_emitter.done(number, outcome);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code} and without a result"),
        (_, Some(signal)) => format!("was killed by {}", signal_name(signal)),
        _ => "ended without a result".to_owned(),
    }
}
