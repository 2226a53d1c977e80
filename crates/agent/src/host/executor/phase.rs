//! One phase of a trial. Its order:
//!
//! 1. What listens (receivers, echoes) starts, and what prepares its work, all at once, and gets ready.
//! 2. Guests read their counters: under load they may not get the CPU for it.
//! 3. What only disturbs (neighbours' load) starts, all at once.
//! 4. All other nodes read their counters, then what is read from outside of nodes is read here, and last the
//!    machine's own are read: they hold neither a start nor the reading of others.
//! 5. The foreground tasks start, or go on with what they have prepared, all at once, and run to their end. What
//!    lives for this phase only is made then, and ended.
//! 6. The machine's are read again, then what is read from outside, and all other nodes are asked to read theirs.
//!    Once all but the guests have, the load is stopped. A guest that had to wait for a CPU has its own counters later
//!    then: they also hold the end of the load.
//! 7. What listens is stopped, and what has done the work that it had prepared; what counts drops is read when nothing is under way any more.

use std::time::{Duration, Instant};

use hypertare_plan::{Order, Phase, Probe, Record, Task};

use super::super::member::Member;
use super::{Asked, Executor, ORDER_LIMIT, Outcome, Stop};
use crate::host::machine::Machine;
use crate::probe::{self, Outside, ProbeContext, Reading, VhostUserBackend};
use crate::process::machine_proc;
use crate::workload;

/// From asking what listens to stop to having its result.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The same once something else has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Between the end of what listens and of what fails for that, whichever is heard of first.
const HEARD_LATE: Duration = Duration::from_millis(100);

/// A task that a node was asked to start.
pub(super) struct Begun {
    pub(super) index: usize,
    pub(super) task: String,
    number: u64,
}

impl Begun {
    /// Whether its node has not said yet that it was started.
    pub(super) fn starts<M>(&self, all: &Executor<M>) -> bool {
        all.members[self.index].owes_number(self.number)
    }

    /// Whether it starts, or works.
    pub(super) fn runs<M>(&self, all: &Executor<M>) -> bool {
        self.starts(all) || all.members[self.index].runs(&self.task)
    }
}

type Outsides = Vec<(usize, Reading)>;

impl<M: Machine> Executor<M> {
    pub(super) fn phase(&mut self, trial: u64, phase: &Phase) -> Outcome {
        let deadline = Instant::now() + Duration::from_secs_f64(phase.limit_s);
        let (background, foreground): (Vec<_>, Vec<_>) =
            phase.tasks.iter().partition(|task| task.background);
        let (listeners, load): (Vec<_>, Vec<_>) =
            background.into_iter().partition(|task| workload::listens(&task.workload));
        let prepared = foreground.iter().filter(|task| workload::prepares(&task.workload));
        let stopped: Vec<_> = listeners.iter().chain(prepared).copied().collect();
        self.get_ready(trial, phase, &stopped, deadline)?;
        self.begin_inside(trial, phase, Member::is_guest, deadline)?;
        self.get_ready(trial, phase, &load, deadline)?;
        let is_neither = |member: &Member| !member.is_guest() && !member.is_machine();
        self.begin_inside(trial, phase, is_neither, deadline)?;
        let outside = self.begin_outside(phase);
        self.begin_inside(trial, phase, Member::is_machine, deadline)?;
        let worked = self
            .work(trial, phase, &foreground, deadline)
            .and_then(|()| self.live(trial, phase, deadline));
        worked.or_else(|stop| self.with_last_words(stop, &listeners))?;
        self.end_inside(trial, phase, Member::is_machine, deadline)?;
        self.end_outside(trial, phase, outside);
        self.end_others(trial, phase, &load, deadline)?;
        self.stop(&stopped, Instant::now() + STOP_LIMIT)?;
        let drops = self.ask_for_ends(trial, phase, |_| true, |probe| probe == Probe::Drops);
        self.await_answers(&drops, patient(deadline))?;
        self.check_failure()
    }

    // -- tasks ------------------------------------------------------------------------------------

    /// Starts background tasks that need nothing of each other.
    pub(super) fn get_ready(
        &mut self,
        trial: u64,
        phase: &Phase,
        tasks: &[&Task],
        deadline: Instant,
    ) -> Outcome {
        let begun = self.start(trial, phase, tasks);
        self.settle(phase, deadline, (&begun, "start"), |all, one| one.starts(all))
    }

    /// Has the foreground tasks work, and waits for the ends of their work.
    pub(super) fn work(
        &mut self,
        trial: u64,
        phase: &Phase,
        tasks: &[&Task],
        deadline: Instant,
    ) -> Outcome {
        let (prepared, others): (Vec<_>, Vec<_>) =
            tasks.iter().partition(|task| workload::prepares(&task.workload));
        let mut begun = self.start(trial, phase, &others);
        begun.extend(prepared.into_iter().map(|task| self.go(task)));
        let goes_on = |task: &str| others.iter().any(|one| one.id == task);
        self.settle(phase, deadline, (&begun, "end"), |all, one| {
            one.starts(all) || goes_on(&one.task) && one.runs(all)
        })
    }

    pub(super) fn start(&mut self, trial: u64, phase: &Phase, tasks: &[&Task]) -> Vec<Begun> {
        let mut begun = Vec::new();
        for &task in tasks {
            let order = Order::Start { trial, phase: phase.name.clone(), task: task.clone() };
            let index = self.index(&task.node);
            let number = self.members[index].order(&format!("starting task {}", task.id), order);
            begun.push(Begun { index, task: task.id.clone(), number });
        }
        begun
    }

    pub(super) fn go(&mut self, task: &Task) -> Begun {
        let index = self.index(&task.node);
        let order = Order::Go { task: task.id.clone() };
        let number = self.members[index].order(&format!("task {} to begin", task.id), order);
        Begun { index, task: task.id.clone(), number }
    }

    /// Waits until no task is late any more, for as long as the phase may take.
    fn settle(
        &mut self,
        phase: &Phase,
        deadline: Instant,
        (begun, verb): (&[Begun], &str),
        is_late: impl Fn(&Self, &Begun) -> bool,
    ) -> Outcome {
        let in_time = self.wait(deadline, |all| {
            all.failure.is_some() || !begun.iter().any(|one| is_late(all, one))
        })?;
        self.check_failure()?;
        if in_time {
            return Ok(());
        }
        let late: Vec<&Begun> = begun.iter().filter(|one| is_late(self, one)).collect();
        Err(self.too_long(phase, &late, verb))
    }

    /// The phase's time is over, and these tasks did not do what the verb says.
    pub(super) fn too_long(&self, phase: &Phase, late: &[&Begun], verb: &str) -> Stop {
        Stop::Failed(format!(
            "phase {} took longer than its limit of {} s: {} did not {verb}{}",
            phase.name,
            phase.limit_s,
            self.names(late),
            self.starved(&nodes_of(late))
        ))
    }

    /// Stops background tasks, all at once.
    pub(super) fn stop(&mut self, tasks: &[&Task], deadline: Instant) -> Outcome {
        let asked = Instant::now();
        let mut stopping = Vec::new();
        for task in tasks.iter().rev() {
            let index = self.index(&task.node);
            if !self.members[index].runs(&task.id) {
                let text = format!("background task {} ended before it was asked to", task.id);
                self.warn(&task.node, text);
                continue;
            }
            let order = Order::Stop { task: task.id.clone() };
            let number = self.members[index].order(&format!("stopping task {}", task.id), order);
            stopping.push(Begun { index, task: task.id.clone(), number });
        }
        let in_time = self.wait(deadline, |all| {
            all.failure.is_some() || !stopping.iter().any(|one| one.runs(all))
        })?;
        self.check_failure()?;
        if in_time {
            return Ok(());
        }
        let late: Vec<&Begun> = stopping.iter().filter(|one| one.runs(self)).collect();
        Err(Stop::Failed(format!(
            "{} did not stop within {} s of being asked to{}",
            self.names(&late),
            asked.elapsed().as_secs(),
            self.starved(&nodes_of(&late))
        )))
    }

    /// What worked may have failed because what listens had, which may be heard of a moment later: that is
    /// the reason then. What listens ends in good order, if it does soon, so that what it reported is kept.
    fn with_last_words(&mut self, stop: Stop, listeners: &[&Task]) -> Outcome {
        let Stop::Failed(why) = stop else { return Err(stop) };
        if self.members.iter().any(|one| !one.alive() && self.needed.contains(one.name())) {
            // A node that is lost is the reason itself.
            return Err(Stop::Failed(why));
        }
        let first = self.failure.take();
        let runs = |all: &Self, task: &Task| all.members[all.index(&task.node)].runs(&task.id);
        let ended = |all: &Self| !listeners.iter().any(|task| runs(all, task));
        self.wait(Instant::now() + HEARD_LATE, |all| all.failure.is_some() || ended(all))?;
        let theirs = self.failure.take();
        for task in listeners {
            if runs(self, task) {
                let index = self.index(&task.node);
                let order = Order::Stop { task: task.id.clone() };
                self.members[index].order(&format!("stopping task {}", task.id), order);
            }
        }
        self.wait(Instant::now() + LAST_WORDS, ended)?;
        self.failure = first;
        Err(Stop::Failed(match theirs {
            // With what it printed last, which ends a reason.
            Some(theirs) if theirs.contains('\n') => theirs,
            Some(theirs) => format!("{theirs}; {why}"),
            None => why,
        }))
    }

    fn names(&self, tasks: &[&Begun]) -> String {
        let name =
            |one: &&Begun| format!("task {} on {}", one.task, self.members[one.index].name());
        tasks.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    // -- probes -----------------------------------------------------------------------------------

    /// Some nodes' own counters.
    fn begin_inside(
        &mut self,
        trial: u64,
        phase: &Phase,
        of: impl Fn(&Member) -> bool,
        deadline: Instant,
    ) -> Outcome {
        let orders = self
            .inside_probes(phase, |_| true)
            .into_iter()
            .filter(|&(index, _)| of(&self.members[index]))
            .map(|(index, probes)| {
                (index, Order::ProbeBegin { trial, phase: phase.name.clone(), probes })
            })
            .collect();
        let asked = self.ask("reading probes", orders);
        self.await_answers(&asked, patient(deadline))
    }

    fn begin_outside(&mut self, phase: &Phase) -> Outsides {
        let elsewhere: Vec<_> = self.members.iter_mut().filter_map(Member::elsewhere).collect();
        let mut asked = Vec::new();
        for (node, probes) in by_node(phase, Probe::is_outside) {
            let index = self.index(&node);
            asked.push((index, probes, self.members[index].link.outside()));
        }
        share_movers(asked.iter_mut().filter_map(|(_, _, outside)| outside.as_mut()));
        asked
            .into_iter()
            .map(|(index, probes, outside)| {
                let machine_proc = machine_proc::path();
                let elsewhere = elsewhere.clone();
                let place =
                    ProbeContext { outside, machine_proc, elsewhere, ..ProbeContext::default() };
                (index, probe::begin(&probes, &place))
            })
            .collect()
    }

    fn end_outside(&mut self, trial: u64, phase: &Phase, outside: Outsides) {
        let measured: Vec<_> =
            outside.into_iter().map(|(index, begun)| (index, begun.end())).collect();
        for (index, measured) in measured {
            let name = self.members[index].name().to_owned();
            for one in measured {
                one.notes.iter().for_each(|note| self.warn(&name, note.clone()));
                self.emit(Record::Probe(one.record(&name, trial, &phase.name)));
            }
        }
    }

    fn end_inside(
        &mut self,
        trial: u64,
        phase: &Phase,
        of: impl Fn(&Member) -> bool,
        deadline: Instant,
    ) -> Outcome {
        let asked = self.ask_for_ends(trial, phase, of, |probe| probe != Probe::Drops);
        self.await_answers(&asked, patient(deadline))
    }

    /// All but the machine are asked to read while the load still runs; guests may have to wait for its end.
    fn end_others(
        &mut self,
        trial: u64,
        phase: &Phase,
        load: &[&Task],
        deadline: Instant,
    ) -> Outcome {
        let is_other = |member: &Member| !member.is_machine();
        let asked = self.ask_for_ends(trial, phase, is_other, |probe| probe != Probe::Drops);
        let (guests, others) = self.apart(asked);
        self.await_answers(&others, patient(deadline))?;
        self.stop(load, patient(deadline))?;
        self.await_answers(&guests, patient(deadline))
    }

    fn ask_for_ends(
        &mut self,
        trial: u64,
        phase: &Phase,
        of: impl Fn(&Member) -> bool,
        some: impl Fn(Probe) -> bool,
    ) -> Asked {
        let orders = self
            .inside_probes(phase, some)
            .into_iter()
            .filter(|&(index, _)| of(&self.members[index]))
            .map(|(index, probes)| {
                (index, Order::ProbeEnd { trial, phase: phase.name.clone(), probes })
            })
            .collect();
        self.ask("reading probes", orders)
    }

    /// What guests were asked, and what all others.
    fn apart(&self, asked: Asked) -> (Asked, Asked) {
        let Asked { about, at, numbers } = asked;
        let (guests, others) =
            numbers.into_iter().partition(|&(index, _)| self.members[index].is_guest());
        (Asked { about: about.clone(), at, numbers: guests }, Asked { about, at, numbers: others })
    }

    /// What nodes read by themselves.
    fn inside_probes(
        &self,
        phase: &Phase,
        some: impl Fn(Probe) -> bool,
    ) -> Vec<(usize, Vec<Probe>)> {
        by_node(phase, |probe| !probe.is_outside() && some(probe))
            .into_iter()
            .map(|(node, probes)| (self.index(&node), probes))
            .collect()
    }
}

fn nodes_of(tasks: &[&Begun]) -> Vec<usize> {
    tasks.iter().map(|one| one.index).collect()
}

/// An order may take as long as the phase, or as any other order.
fn patient(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + ORDER_LIMIT)
}

/// Some of the phase's probes by their nodes, in the order of the plan.
fn by_node(phase: &Phase, some: impl Fn(Probe) -> bool) -> Vec<(String, Vec<Probe>)> {
    let mut nodes: Vec<(String, Vec<Probe>)> = Vec::new();
    for request in phase.probes.iter().filter(|request| some(request.probe)) {
        match nodes.iter_mut().find(|(node, _)| *node == request.node) {
            Some((_, probes)) => probes.push(request.probe),
            None => nodes.push((request.node.clone(), vec![request.probe])),
        }
    }
    nodes
}

/// A process that moves packets of several guests counts for those that are looked at, in equal parts.
fn share_movers<'a>(outsides: impl Iterator<Item = &'a mut Outside>) {
    let mut movers: Vec<&mut VhostUserBackend> = outsides.filter_map(Outside::backend).collect();
    let pids: Vec<i32> = movers.iter().map(|backend| backend.pid).collect();
    for backend in &mut movers {
        backend.guests = pids.iter().filter(|&&pid| pid == backend.pid).count() as u32;
    }
}
