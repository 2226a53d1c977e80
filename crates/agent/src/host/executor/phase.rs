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
use crate::probe::{self, Outside, ProbeContext, VhostUserBackend};
use crate::process::machine_proc;
use crate::workload;

/// From asking what listens to stop to having its result.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The same once something else has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Between the end of what listens and of what fails for that, whichever is heard of first.
const HEARD_LATE: Duration = Duration::from_millis(100);

/// A phase that is being carried out.
#[derive(Clone, Copy)]
pub(super) struct PhaseRun<'a> {
    pub(super) trial: u64,
    pub(super) phase: &'a Phase,
    pub(super) deadline: Instant,
}

impl PhaseRun<'_> {
    /// An order may take as long as the phase, or as any other order.
    fn patient(&self) -> Instant {
        self.deadline.max(Instant::now() + ORDER_LIMIT)
    }
}

/// A task that a node was asked to start.
pub(super) struct Begun {
    pub(super) index: usize,
    pub(super) task: String,
    number: u64,
}

impl Begun {
    /// Whether its node has not yet reported that it was started.
    pub(super) fn starts<M>(&self, all: &Executor<M>) -> bool {
        all.members[self.index].owes_number(self.number)
    }

    /// Whether it starts, or works.
    pub(super) fn runs<M>(&self, all: &Executor<M>) -> bool {
        self.starts(all) || all.members[self.index].runs(&self.task)
    }
}

impl<M: Machine> Executor<M> {
    pub(super) fn phase(&mut self, trial: u64, phase: &Phase) -> Outcome {
        let deadline = Instant::now() + Duration::from_secs_f64(phase.limit_s);
        let run = PhaseRun { trial, phase, deadline };
        let (background, foreground): (Vec<_>, Vec<_>) =
            phase.tasks.iter().partition(|task| task.background);
        let (listeners, load): (Vec<_>, Vec<_>) =
            background.into_iter().partition(|task| workload::listens(&task.workload));
        let prepared = foreground.iter().filter(|task| workload::prepares(&task.workload));
        let stopped: Vec<_> = listeners.iter().chain(prepared).copied().collect();
        self.get_ready(run, &stopped)?;
        self.begin_inside(run, Member::is_guest)?;
        self.get_ready(run, &load)?;
        self.begin_inside(run, |member| !member.is_guest() && !member.is_machine())?;
        let outside = self.begin_outside(phase);
        self.begin_inside(run, Member::is_machine)?;
        let worked = self.work(run, &foreground).and_then(|()| self.live(run));
        worked.or_else(|stop| self.with_last_words(stop, &listeners))?;
        let machine = self.ask_for_ends(run, Member::is_machine, |probe| probe != Probe::Drops);
        self.await_answers(&machine, run.patient())?;
        // All of them are read before the first is reported.
        let measured: Vec<_> =
            outside.into_iter().map(|(index, begun)| (index, begun.end())).collect();
        for (index, measured) in measured {
            let name = self.members[index].name().to_owned();
            for one in measured {
                one.notes.iter().for_each(|note| self.warn(&name, note.clone()));
                self.emit(Record::Probe(one.record(&name, trial, &phase.name)));
            }
        }
        self.end_others(run, &load)?;
        self.stop(&stopped, Instant::now() + STOP_LIMIT)?;
        let drops = self.ask_for_ends(run, |_| true, |probe| probe == Probe::Drops);
        self.await_answers(&drops, run.patient())?;
        self.check_failure()
    }

    // -- tasks ------------------------------------------------------------------------------------

    /// Starts background tasks that need nothing of each other.
    pub(super) fn get_ready(&mut self, run: PhaseRun, tasks: &[&Task]) -> Outcome {
        let begun = self.start(run, tasks);
        self.settle(run, &begun, "start", |all, one| one.starts(all))
    }

    /// Has the foreground tasks work, and waits for the ends of their work.
    pub(super) fn work(&mut self, run: PhaseRun, tasks: &[&Task]) -> Outcome {
        let (prepared, others): (Vec<_>, Vec<_>) =
            tasks.iter().partition(|task| workload::prepares(&task.workload));
        let mut begun = self.start(run, &others);
        begun.extend(prepared.into_iter().map(|task| self.go(task)));
        let goes_on = |task: &str| others.iter().any(|one| one.id == task);
        self.settle(run, &begun, "end", |all, one| {
            one.starts(all) || goes_on(&one.task) && one.runs(all)
        })
    }

    pub(super) fn start(&mut self, run: PhaseRun, tasks: &[&Task]) -> Vec<Begun> {
        let start = |&task: &&Task| {
            let (trial, phase) = (run.trial, run.phase.name.clone());
            let order = Order::Start { trial, phase, task: task.clone() };
            self.order(task, &format!("starting task {}", task.id), order)
        };
        tasks.iter().map(start).collect()
    }

    pub(super) fn go(&mut self, task: &Task) -> Begun {
        let order = Order::Go { task: task.id.clone() };
        self.order(task, &format!("task {} to begin", task.id), order)
    }

    fn ask_to_stop(&mut self, task: &Task) -> Begun {
        let order = Order::Stop { task: task.id.clone() };
        self.order(task, &format!("stopping task {}", task.id), order)
    }

    /// Gives the task's node an order that concerns it.
    fn order(&mut self, task: &Task, about: &str, order: Order) -> Begun {
        let index = self.index(&task.node);
        let number = self.members[index].order(about, order);
        Begun { index, task: task.id.clone(), number }
    }

    /// Waits until no task is late any more, for as long as the phase may take.
    fn settle(
        &mut self,
        run: PhaseRun,
        begun: &[Begun],
        verb: &str,
        is_late: impl Fn(&Self, &Begun) -> bool,
    ) -> Outcome {
        let in_time = self.wait(run.deadline, |all| {
            all.failure.is_some() || !begun.iter().any(|one| is_late(all, one))
        })?;
        self.check_failure()?;
        if in_time {
            return Ok(());
        }
        let late: Vec<&Begun> = begun.iter().filter(|one| is_late(self, one)).collect();
        Err(self.too_long(run.phase, &late, verb))
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
            if self.runs(task) {
                stopping.push(self.ask_to_stop(task));
            } else {
                let text = format!("background task {} ended before it was asked to", task.id);
                self.warn(&task.node, text);
            }
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

    /// A foreground task may have failed because a listener had failed, whose failure may be heard a moment
    /// later: then that is the reason. Listeners that still run are stopped in good order, so that their
    /// results are kept.
    fn with_last_words(&mut self, stop: Stop, listeners: &[&Task]) -> Outcome {
        let Stop::Failed(why) = stop else { return Err(stop) };
        if self.members.iter().any(|one| !one.alive() && self.needed.contains(one.name())) {
            // A node that is lost is the reason itself.
            return Err(Stop::Failed(why));
        }
        let first = self.failure.take();
        let ended = |all: &Self| !listeners.iter().any(|task| all.runs(task));
        self.wait(Instant::now() + HEARD_LATE, |all| all.failure.is_some() || ended(all))?;
        let theirs = self.failure.take();
        for task in listeners {
            if self.runs(task) {
                self.ask_to_stop(task);
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

    fn runs(&self, task: &Task) -> bool {
        self.members[self.index(&task.node)].runs(&task.id)
    }

    fn names(&self, tasks: &[&Begun]) -> String {
        let name =
            |one: &&Begun| format!("task {} on {}", one.task, self.members[one.index].name());
        tasks.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    // -- probes -----------------------------------------------------------------------------------

    /// Some nodes' own counters.
    fn begin_inside(&mut self, run: PhaseRun, of: impl Fn(&Member) -> bool) -> Outcome {
        let asked = self.ask_inside(
            run.phase,
            of,
            |_| true,
            |probes| Order::ProbeBegin { trial: run.trial, phase: run.phase.name.clone(), probes },
        );
        self.await_answers(&asked, run.patient())
    }

    fn begin_outside(&mut self, phase: &Phase) -> Vec<(usize, probe::Reading)> {
        let elsewhere: Vec<_> = self.members.iter_mut().filter_map(Member::elsewhere).collect();
        let mut asked = Vec::new();
        for (index, probes) in self.by_node(phase, Probe::is_outside) {
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

    /// All but the machine are asked to read while the load still runs; guests may have to wait for its end.
    fn end_others(&mut self, run: PhaseRun, load: &[&Task]) -> Outcome {
        let is_other = |member: &Member| !member.is_machine();
        let Asked { about, at, numbers } =
            self.ask_for_ends(run, is_other, |probe| probe != Probe::Drops);
        let (guests, others) =
            numbers.into_iter().partition(|&(index, _)| self.members[index].is_guest());
        let others = Asked { about: about.clone(), at, numbers: others };
        self.await_answers(&others, run.patient())?;
        self.stop(load, run.patient())?;
        self.await_answers(&Asked { about, at, numbers: guests }, run.patient())
    }

    fn ask_for_ends(
        &mut self,
        run: PhaseRun,
        of: impl Fn(&Member) -> bool,
        some: impl Fn(Probe) -> bool,
    ) -> Asked {
        self.ask_inside(run.phase, of, some, |probes| Order::ProbeEnd {
            trial: run.trial,
            phase: run.phase.name.clone(),
            probes,
        })
    }

    /// Gives nodes an order about probes that they read by themselves.
    fn ask_inside(
        &mut self,
        phase: &Phase,
        of: impl Fn(&Member) -> bool,
        some: impl Fn(Probe) -> bool,
        order: impl Fn(Vec<Probe>) -> Order,
    ) -> Asked {
        let mut probes = self.by_node(phase, |probe| !probe.is_outside() && some(probe));
        probes.retain(|&(index, _)| of(&self.members[index]));
        let orders = probes.into_iter().map(|(index, probes)| (index, order(probes))).collect();
        self.ask("reading probes", orders)
    }

    /// Some of the phase's probes by their nodes, in the order of the plan.
    fn by_node(&self, phase: &Phase, some: impl Fn(Probe) -> bool) -> Vec<(usize, Vec<Probe>)> {
        let mut nodes: Vec<(usize, Vec<Probe>)> = Vec::new();
        for request in phase.probes.iter().filter(|request| some(request.probe)) {
            let node = self.index(&request.node);
            match nodes.iter_mut().find(|(index, _)| *index == node) {
                Some((_, probes)) => probes.push(request.probe),
                None => nodes.push((node, vec![request.probe])),
            }
        }
        nodes
    }
}

fn nodes_of(tasks: &[&Begun]) -> Vec<usize> {
    tasks.iter().map(|one| one.index).collect()
}

/// A process that moves packets of several guests counts in equal parts for those that are probed.
fn share_movers<'a>(outsides: impl Iterator<Item = &'a mut Outside>) {
    let mut movers: Vec<&mut VhostUserBackend> = outsides.filter_map(Outside::backend).collect();
    let pids: Vec<i32> = movers.iter().map(|backend| backend.pid).collect();
    for backend in &mut movers {
        backend.guests = pids.iter().filter(|&&pid| pid == backend.pid).count() as u32;
    }
}
