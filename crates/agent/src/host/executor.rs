//! Carries out a plan, step by step, on whatever machine it is given.
//!
//! One thread leads a run from top to bottom; whatever happens meanwhile (records, ends of
//! nodes, the next steps, the wish to end) arrives in one queue, which is looked at whenever there
//! is something to wait for. Nothing is waited for without a deadline.

pub mod life;
mod phase;
pub mod power_cut;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use hypertare_plan::{
    Bench, Hello, Interval, Level, Link, NodeKind, NodeReady, Order, PROTOCOL, Record, Step, Trial,
    Values,
};

use super::check;
use super::event::{Event, MemberId, Why, inbox};
use super::machine::Machine;
use super::member::{Heard, Member};
use crate::links::{Inbox, News};
use crate::process::spawn::signal_name;

/// A node that is asked to kill its tasks and does not answer within this is dead.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// For orders that only read or set something; a weight in Xen's scheduler takes some runs of `xl`.
const ORDER_LIMIT: Duration = Duration::from_secs(30);
/// From starting a process to its first record, which a host with many times its CPUs' work has been seen
/// to take ten seconds for; a guest has its own limit.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Interfaces are quick; copying a large work directory into a guest is not.
const SETUP_LIMIT: Duration = Duration::from_secs(120);
/// For all nodes to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How the plan came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every step was carried out.
    Complete,
    Ended(Why),
    /// The plan is not one.
    BadPlan(String),
}

/// Why a step was not carried out.
#[derive(Debug)]
enum Stop {
    /// Only this step is concerned.
    Failed(String),
    /// Everything ends.
    Ended(Why),
}

type Outcome<T = ()> = Result<T, Stop>;

pub struct Executor<M> {
    machine: M,
    hello: Hello,
    events: Receiver<Event>,
    post: SyncSender<Event>,
    out: Box<dyn FnMut(Record)>,
    clock: Instant,
    plan: VecDeque<Result<Step, String>>,
    complete: bool,
    ended: Option<Why>,
    bench: Option<String>,
    /// Of that bench.
    links: Vec<Link>,
    members: Vec<Member>,
    next_member: MemberId,
    /// The trial that is being executed, and the nodes that it needs.
    trial: Option<u64>,
    needed: BTreeSet<String>,
    /// Tasks whose results are for the executor alone, and what they measured.
    private: BTreeMap<String, Values>,
    /// What went wrong first in this step.
    failure: Option<String>,
    /// The node that it went wrong on.
    blamed: Option<String>,
    demolishing: bool,
    /// The controller computes between steps, and nodes may get ready meanwhile.
    converses: bool,
    anticipated: Option<Asked>,
}

impl<M: Machine> Executor<M> {
    /// `events` must be the other end of `post`, through which nodes will be heard.
    pub fn new(
        machine: M,
        hello: Hello,
        (post, events): (SyncSender<Event>, Receiver<Event>),
        out: impl FnMut(Record) + 'static,
    ) -> Self {
        Executor {
            machine,
            hello,
            events,
            post,
            out: Box::new(out),
            clock: Instant::now(),
            plan: VecDeque::new(),
            complete: false,
            ended: None,
            bench: None,
            links: Vec::new(),
            members: Vec::new(),
            next_member: 0,
            trial: None,
            needed: BTreeSet::new(),
            private: BTreeMap::new(),
            failure: None,
            blamed: None,
            demolishing: false,
            converses: false,
            anticipated: None,
        }
    }

    /// For a controller that sends one step after the other and computes in between.
    pub fn conversing(mut self) -> Self {
        self.converses = true;
        self
    }

    /// Carries out steps until the plan ends or something ends it. Everything made is removed.
    pub fn run(mut self) -> Ending {
        let ending = self.steps();
        if let Ending::BadPlan(why) = &ending {
            self.warn("", why.clone());
        }
        if self.bench.is_some() {
            self.teardown();
        }
        ending
    }

    fn steps(&mut self) -> Ending {
        let mut greeted = false;
        loop {
            let step = loop {
                match self.plan.pop_front() {
                    Some(Ok(step)) => break step,
                    Some(Err(why)) => return Ending::BadPlan(why),
                    None if self.complete => return Ending::Complete,
                    None => {}
                }
                let deadline = Instant::now() + Duration::from_secs(3600);
                if let Err(Stop::Ended(why)) = self.pump(deadline) {
                    return Ending::Ended(why);
                }
            };
            let outcome = match step {
                Step::Hello { protocol } if protocol != PROTOCOL => {
                    return Ending::BadPlan(format!(
                        "the plan speaks version {protocol} of the protocol, this agent speaks \
                         {PROTOCOL}; use an agent and a controller of the same release"
                    ));
                }
                Step::Hello { .. } => {
                    greeted = true;
                    self.emit(Record::Hello(self.hello.clone()));
                    Ok(())
                }
                _ if !greeted => {
                    return Ending::BadPlan("the plan's first step is not hello".into());
                }
                Step::Bench { bench } => self.bench(&bench),
                Step::Trial { trial } => self.trial(&trial),
                Step::Teardown => {
                    self.teardown();
                    Ok(())
                }
            };
            if let Err(why) = outcome {
                return Ending::Ended(why);
            }
        }
    }

    // -- bench ------------------------------------------------------------------------------------

    fn bench(&mut self, bench: &Bench) -> Result<(), Why> {
        let begun = Instant::now();
        let outcome = if self.bench.is_some() {
            Err(Stop::Failed("a bench stands already; tear it down first".into()))
        } else {
            self.raise(bench)
        };
        let (ended, error) = split(outcome);
        let node = error.as_ref().and(self.blamed.take());
        self.emit(Record::Bench {
            bench: bench.name.clone(),
            seconds_s: begun.elapsed().as_secs_f64(),
            error,
            node,
        });
        ended.map_or(Ok(()), Err)
    }

    fn raise(&mut self, bench: &Bench) -> Outcome {
        check::bench(bench).map_err(Stop::Failed)?;
        self.failure = None;
        self.blamed = None;
        self.trial = None;
        self.needed = bench.nodes.iter().map(|node| node.name.clone()).collect();
        self.bench = Some(bench.name.clone());
        self.links.clone_from(&bench.links);
        let outcome = self.start_nodes(bench).and_then(|()| self.set_up_nodes(0, Self::announce));
        if outcome.is_err() {
            self.demolish();
        }
        outcome
    }

    fn start_nodes(&mut self, bench: &Bench) -> Outcome {
        self.machine.prepare(bench).map_err(|error| Stop::Failed(format!("{error:#}")))?;
        for (index, node) in bench.nodes.iter().enumerate() {
            let begun = Instant::now();
            let (id, inbox) = self.next_inbox();
            let started = self.machine.start(bench, index, None, inbox).map_err(|error| {
                self.blamed = Some(node.name.clone());
                Stop::Failed(format!("node {} cannot be started: {error:#}", node.name))
            })?;
            for warning in &started.warnings {
                self.warn(&node.name, warning.clone());
            }
            self.take_in(Member::new(id, node.clone(), started, begun));
        }
        Ok(())
    }

    /// Where a new node will be heard.
    fn next_inbox(&mut self) -> (MemberId, Inbox) {
        let id = self.next_member;
        self.next_member += 1;
        (id, inbox(id, self.post.clone()))
    }

    fn take_in(&mut self, member: Member) {
        let member = self.watched(member);
        self.members.push(member);
    }

    /// On an emulated machine all nodes have one clock, which counts instructions.
    fn watched(&self, member: Member) -> Member {
        if self.converses { member.watching_its_clock() } else { member }
    }

    /// Sets up the nodes from the `first` on, each as soon as it has booted, while others still boot.
    fn set_up_nodes(
        &mut self,
        first: usize,
        mut is_ready: impl FnMut(&mut Self, usize) -> Outcome,
    ) -> Outcome {
        let mut waiting: Vec<usize> = (first..self.members.len()).collect();
        while !waiting.is_empty() {
            for &index in &waiting {
                let member = &mut self.members[index];
                if member.is_up()
                    && let Some(setup) = member.setup.take()
                {
                    member.order("its setup", setup);
                }
            }
            let (ready, rest): (Vec<usize>, Vec<usize>) = waiting.iter().partition(|&&index| {
                let member = &self.members[index];
                member.alive() && member.setup.is_none() && !member.owes()
            });
            for index in ready {
                is_ready(self, index)?;
            }
            waiting = rest;
            self.check_failure()?;
            let Some(&first) =
                waiting.iter().min_by_key(|&&index| setup_deadline(&self.members[index]))
            else {
                break;
            };
            let deadline = setup_deadline(&self.members[first]);
            if !self.pump(deadline)? && Instant::now() >= deadline {
                let late = &self.members[first];
                let limit = deadline.duration_since(late.begun).as_secs_f64();
                let what = if late.is_up() { "was not set up" } else { "was not heard" };
                self.lose(first, format!("it {what} within {limit} s of its start"));
            }
        }
        Ok(())
    }

    fn announce(&mut self, index: usize) -> Outcome {
        let member = &mut self.members[index];
        let about = member.link.about().map_err(|error| {
            self.blamed = Some(member.node.name.clone());
            Stop::Failed(format!("node {} cannot be used: {error:#}", member.node.name))
        })?;
        let record = Record::Node(NodeReady {
            node: member.node.name.clone(),
            start_s: member.start.unwrap_or_default().as_secs_f64(),
            ready_s: member.begun.elapsed().as_secs_f64(),
            ..about
        });
        self.emit(record);
        Ok(())
    }

    fn teardown(&mut self) {
        let begun = Instant::now();
        self.demolish();
        self.emit(Record::Teardown { seconds_s: begun.elapsed().as_secs_f64() });
    }

    fn demolish(&mut self) {
        self.demolishing = true;
        for member in self.members.iter_mut().filter(|member| member.alive()) {
            member.order("its end", Order::End);
        }
        let deadline = Instant::now() + END_LIMIT;
        while self.members.iter().any(Member::alive) && Instant::now() < deadline {
            // That everything is to end is known already.
            let _ = self.pump(deadline);
        }
        for mut member in self.members.drain(..) {
            if !member.link.ended(deadline) {
                member.link.kill();
            }
        }
        self.machine.remove();
        self.bench = None;
        self.anticipated = None;
        self.demolishing = false;
    }

    // -- trial ------------------------------------------------------------------------------------

    fn trial(&mut self, trial: &Trial) -> Result<(), Why> {
        let begun = Instant::now();
        self.emit(Record::TrialBegin { trial: trial.id, t_s: self.seconds() });
        self.trial = Some(trial.id);
        self.needed = check::needed(trial);
        self.failure = None;
        for member in &mut self.members {
            member.begin_trial();
        }
        let outcome = self.execute(trial);
        let (ended, error) = split(outcome);
        let ended = ended.or(self.ended);
        self.trial = None;
        // Before the end is reported: then the controller computes, and may take the CPU.
        self.anticipate(trial);
        self.emit(Record::TrialEnd {
            trial: trial.id,
            t_s: self.seconds(),
            elapsed_s: begun.elapsed().as_secs_f64(),
            error,
            lost: self.lost(),
        });
        ended.map_or(Ok(()), Err)
    }

    fn execute(&mut self, trial: &Trial) -> Outcome {
        // No order to get ready is open any more when a trial begins.
        if let Some(asked) = self.anticipated.take() {
            self.await_or_lose(&asked, ORDER_LIMIT)?;
        }
        self.check_trial(trial)?;
        let outcome = self.with_knobs(trial);
        match &outcome {
            // The nodes are about to end, and put their knobs back when they do.
            Err(Stop::Ended(_)) => return outcome,
            Err(Stop::Failed(why)) => self.kill_tasks(why),
            Ok(()) => {}
        }
        let put_back = self.put_back_knobs(trial);
        outcome.and(put_back)
    }

    /// While the controller computes the next step, nodes that had tasks get ready for the next ones.
    fn anticipate(&mut self, trial: &Trial) {
        if !self.converses || self.ended.is_some() {
            return;
        }
        let tasks = trial.phases.iter().flat_map(|phase| &phase.tasks);
        let nodes: BTreeSet<&str> = tasks.map(|task| task.node.as_str()).collect();
        let there = |name: &&str| self.members.iter().any(|m| m.name() == *name && m.alive());
        let orders =
            nodes.into_iter().filter(there).map(|name| (self.index(name), Order::Anticipate));
        let orders = orders.collect();
        self.anticipated = Some(self.ask("getting ready", orders));
    }

    /// A node that this trial needed and that is gone.
    fn lost(&self) -> Option<String> {
        let gone = |name: &&String| self.members.iter().any(|m| m.name() == *name && !m.alive());
        self.needed.iter().find(gone).cloned()
    }

    fn check_trial(&mut self, trial: &Trial) -> Outcome {
        if self.bench.is_none() {
            return Err(Stop::Failed("there is no bench to execute the trial on".into()));
        }
        check::trial(trial).map_err(Stop::Failed)?;
        for name in &self.needed {
            let found = self.members.iter_mut().find(|member| member.name() == name);
            let Some(member) = found else {
                return Err(Stop::Failed(format!("the bench has no node {name}")));
            };
            if let Some(why) = &member.gone {
                return Err(Stop::Failed(format!("node {name} is gone: {why}")));
            }
            let stands = member.link.check();
            stands
                .map_err(|error| Stop::Failed(format!("node {name} cannot be used: {error:#}")))?;
        }
        Ok(())
    }

    fn with_knobs(&mut self, trial: &Trial) -> Outcome {
        for setting in &trial.knobs {
            let order = Order::Apply { trial: trial.id, knob: setting.knob.clone() };
            let asked = self.ask("a knob", vec![(self.index(&setting.node), order)]);
            self.await_answers(&asked, Instant::now() + ORDER_LIMIT)?;
        }
        for phase in &trial.phases {
            self.phase(trial.id, phase)?;
        }
        Ok(())
    }

    /// Has all nodes that still live put their knobs back, however the trial went.
    fn put_back_knobs(&mut self, trial: &Trial) -> Outcome {
        let nodes: BTreeSet<&String> = trial.knobs.iter().map(|setting| &setting.node).collect();
        self.failure = None;
        let alive = nodes.into_iter().map(|name| self.index(name));
        let alive = alive.filter(|&index| self.members[index].alive());
        let orders = alive.map(|index| (index, Order::PutBack { trial: trial.id })).collect();
        let asked = self.ask("putting knobs back", orders);
        self.await_or_lose(&asked, ORDER_LIMIT)?;
        self.check_failure()
    }

    /// Kills all tasks. A node that does not answer this order is given up.
    fn kill_tasks(&mut self, reason: &str) {
        let busy = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.alive() && (member.owes() || member.runs_any()));
        let kill = || Order::Kill { reason: reason.to_owned() };
        let orders = busy.map(|(index, _)| (index, kill())).collect();
        let asked = self.ask("killing its tasks", orders);
        // That everything is to end is known already.
        let _ = self.await_or_lose(&asked, KILL_LIMIT);
        for (index, _) in asked.numbers {
            self.members[index].forget();
        }
    }

    /// Waits for the answers, and gives up the nodes that do not answer in time.
    fn await_or_lose(&mut self, asked: &Asked, limit: Duration) -> Outcome {
        self.wait(Instant::now() + limit, |all| all.silent(asked).next().is_none())?;
        for index in self.silent(asked).collect::<Vec<_>>() {
            if self.members[index].alive() {
                let what = self.members[index].owed().unwrap_or("anything").to_owned();
                self.lose(index, format!("it did not answer {what} within {} s", limit.as_secs()));
            }
        }
        Ok(())
    }

    // -- waiting ----------------------------------------------------------------------------------

    /// Gives orders to nodes, all at once; `about` says in plain words what they are for.
    fn ask(&mut self, about: &str, orders: Vec<(usize, Order)>) -> Asked {
        let at = Instant::now();
        let numbers = orders
            .into_iter()
            .map(|(index, order)| (index, self.members[index].order(about, order)))
            .collect();
        Asked { about: about.to_owned(), at, numbers }
    }

    /// Waits for the answers of all of them.
    fn await_answers(&mut self, asked: &Asked, deadline: Instant) -> Outcome {
        let in_time =
            self.wait(deadline, |all| all.failure.is_some() || all.silent(asked).next().is_none())?;
        self.check_failure()?;
        if in_time {
            return Ok(());
        }
        let silent: Vec<usize> = self.silent(asked).collect();
        let names: Vec<&str> = silent.iter().map(|&index| self.members[index].name()).collect();
        let (limit, names) = (asked.at.elapsed().as_secs(), names.join(", "));
        let why = self.starved(&silent);
        Err(Stop::Failed(format!("{names} did not answer within {limit} s ({}){why}", asked.about)))
    }

    fn silent(&self, asked: &Asked) -> impl Iterator<Item = usize> {
        let owing = |&&(index, number): &&(usize, u64)| self.members[index].owes_number(number);
        asked.numbers.iter().filter(owing).map(|&(index, _)| index)
    }

    /// What most likely keeps one of several guests from answering, and what to do about it.
    fn starved(&self, silent: &[usize]) -> &'static str {
        let guests = self.members.iter().filter(|member| member.is_guest()).count();
        if guests < 2 || !silent.iter().any(|&index| self.members[index].is_guest()) {
            return "";
        }
        "; most likely it got no CPU: the others' load and the weights leave it none. Take fewer \
         guests (sut.guests), less load beside them, or a lower weight of the driver domain \
         (knobs.driver_weight)"
    }

    /// Waits until the condition holds; false if it did not before the deadline.
    fn wait(&mut self, deadline: Instant, until: impl Fn(&Self) -> bool) -> Outcome<bool> {
        loop {
            if until(self) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.pump(deadline)?;
        }
    }

    /// Takes in the next event, if one comes before the deadline.
    fn pump(&mut self, deadline: Instant) -> Outcome<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = match self.events.recv_timeout(left) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => Event::End(Why::ControllerGone),
        };
        match event {
            Event::Step(step) => self.plan.push_back(Ok(step)),
            Event::BadStep(why) => self.plan.push_back(Err(why)),
            Event::PlanEnd => self.complete = true,
            Event::Node { member, news } => self.hear(member, news),
            Event::End(why) => {
                if self.ended.is_none() {
                    self.ended = Some(why);
                    return Err(Stop::Ended(why));
                }
            }
        }
        Ok(true)
    }

    fn hear(&mut self, id: MemberId, news: News) {
        // Of a bench that does not stand any more, or of a node that is not listened to any more.
        let Some(index) = self.members.iter().position(|member| member.id == id && member.alive())
        else {
            return;
        };
        let (record, bytes) = match news {
            News::Record(record, bytes) => (*record, bytes),
            News::Gone(why) => return self.lose(index, why),
        };
        match self.members[index].hear(record, bytes, self.trial) {
            Ok(Heard::Record(Record::Result(result)))
                if self.private.contains_key(&result.task) =>
            {
                self.private.insert(result.task, result.values);
            }
            Ok(Heard::Record(record)) if self.members[index].is_private => {
                self.members[index].keep(record);
            }
            Ok(Heard::Record(Record::Interval(interval))) => {
                let heard_s = Some(self.seconds());
                self.emit(Record::Interval(Interval { heard_s, ..interval }));
            }
            Ok(Heard::Record(record)) => self.emit(record),
            Ok(Heard::Failed(record, why)) => {
                if !self.members[index].is_private {
                    self.emit(record);
                }
                let hint = self.members[index].short_of_memory(&why);
                self.fail(index, format!("{why}{hint}"));
            }
            Ok(Heard::Refused(about, why)) => {
                let name = self.members[index].name();
                let text = format!("{about} on {name} failed: {why}");
                self.fail(index, text);
            }
            Ok(Heard::Late(what)) => {
                let name = self.members[index].name().to_owned();
                self.warn(&name, format!("came too late and is left out: {what}"));
            }
            Ok(Heard::Nothing) => {}
            Err(why) => self.lose(index, why),
        }
    }

    /// Gives a node up.
    fn lose(&mut self, index: usize, why: String) {
        let member = &mut self.members[index];
        if self.demolishing || member.is_cut {
            member.gone = Some(why);
            return;
        }
        let why = member.link.failure().map_or(why.clone(), |known| format!("{why}: {known}"));
        let name = member.name().to_owned();
        let lines = member.console();
        member.link.kill();
        member.forget();
        member.gone = Some(why.clone());
        if !lines.is_empty() {
            self.emit(Record::Console { node: name.clone(), lines });
        }
        if self.needed.contains(&name) {
            self.fail(index, format!("node {name} failed: {why}"));
        } else {
            self.warn(&name, format!("node {name} failed: {why}"));
        }
    }

    fn fail(&mut self, index: usize, why: String) {
        if self.failure.is_none() {
            self.failure = Some(why);
            self.blamed = Some(self.members[index].name().to_owned());
        }
    }

    fn check_failure(&self) -> Outcome {
        self.failure.clone().map_or(Ok(()), |why| Err(Stop::Failed(why)))
    }

    /// The node's place; that it exists was checked before the trial began.
    fn index(&self, node: &str) -> usize {
        self.members.iter().position(|member| member.name() == node).unwrap_or_default()
    }

    fn warn(&mut self, node: &str, text: String) {
        self.emit(Record::Log { node: node.to_owned(), level: Level::Warning, text });
    }

    fn emit(&mut self, record: Record) {
        (self.out)(record);
    }

    fn seconds(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }
}

/// Orders that were given at once: each node's place and its order's number.
struct Asked {
    about: String,
    at: Instant,
    numbers: Vec<(usize, u64)>,
}

/// What ends everything, and the error to report.
fn split(outcome: Outcome) -> (Option<Why>, Option<String>) {
    let (why, error) = match outcome {
        Ok(()) => return (None, None),
        Err(Stop::Failed(error)) => return (None, Some(error)),
        Err(Stop::Ended(why @ Why::ControllerGone)) => {
            (why, "interrupted: the controller has ended".to_owned())
        }
        Err(Stop::Ended(why @ Why::Signal(signal))) => {
            (why, format!("interrupted by {}", signal_name(signal)))
        }
    };
    (Some(why), Some(error))
}

fn setup_deadline(member: &Member) -> Instant {
    let limit = match (&member.node.kind, member.is_up()) {
        (_, true) => member.start.unwrap_or_default() + SETUP_LIMIT,
        (NodeKind::Guest(guest), false) => Duration::from_secs_f64(guest.boot_limit_s),
        (NodeKind::Domain(domain), false) => Duration::from_secs_f64(domain.boot_limit_s),
        (_, false) => START_LIMIT,
    };
    member.begun + limit
}

#[cfg(test)]
#[path = "executor_test.rs"]
mod tests;
