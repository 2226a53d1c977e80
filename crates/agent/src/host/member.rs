//! One node of the standing bench, as the executor knows it: what it was asked, what it owes, and
//! which records it may send. What a node sends is not trusted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hypertare_plan::{
    Container, Hello, InterfaceState, Interval, Line, MAX_CONSOLE_LINES, MAX_TRIAL_BYTES, NicModel,
    Node, NodeKind, NumberedOrder, Order, PROTOCOL, Purpose, Record, TaskResult,
};

use serde::Deserialize;

use super::clock::{self, NodeClock};
use super::event::MemberId;
use super::machine::Started;
use super::plausible;
use crate::links::NodeLink;
use crate::probe::Outside;
use crate::vmm::guest_command_line::model;

pub struct Member {
    pub id: MemberId,
    pub node: Node,
    pub link: Box<dyn NodeLink>,
    /// The order that sets it up, to be sent once it has been heard.
    pub setup: Option<Order>,
    pub begun: Instant,
    /// From its start to its first record.
    pub start: Option<Duration>,
    pub gone: Option<String>,
    /// Its records are for the executor alone: these intervals and results are what it has sent.
    pub is_private: bool,
    pub intervals: Vec<Interval>,
    pub results: Vec<TaskResult>,
    /// Its power is cut: its end is no failure.
    pub is_cut: bool,
    /// What its agent said first.
    hello: Option<Hello>,
    next_number: u64,
    /// Orders that were not answered: what they are about, and when they were given.
    owed: BTreeMap<u64, (String, Instant)>,
    /// Where the node's clock is another one than this host's, or may be.
    clock: Option<NodeClock>,
    /// Tasks of the present phase that have no result yet, what each is for, and when it was ordered.
    running: BTreeMap<String, (Option<Purpose>, Instant)>,
    bytes: usize,
}

/// What a record that was accepted means to the executor.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// To be passed on.
    Record(Record),
    /// To be passed on; the task has failed.
    Failed(Record, String),
    /// An order was not carried out: what it was about, and why.
    Refused(String, String),
    /// Only of interest here.
    Nothing,
    /// Of a trial that is over; not passed on.
    Late(String),
}

impl Member {
    pub fn new(id: MemberId, node: Node, started: Started, begun: Instant) -> Self {
        let setup = Order::Setup {
            node: node.name.clone(),
            interfaces: started.interfaces,
            routes: node.routes.clone(),
            router: node.router.clone(),
            mtu: started.mtu,
            files: node.files.clone(),
        };
        Member {
            id,
            node,
            link: started.link,
            setup: Some(setup),
            begun,
            start: None,
            gone: None,
            is_private: false,
            intervals: Vec::new(),
            results: Vec::new(),
            is_cut: false,
            hello: None,
            next_number: 1,
            owed: BTreeMap::new(),
            clock: None,
            running: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Has the times that it reports compared with this host's clock.
    pub fn watching_its_clock(mut self) -> Self {
        self.clock = Some(NodeClock::default());
        self
    }

    /// The node was saved, and is restored behind another link. Its clock has stood still meanwhile.
    pub fn restored(&mut self, id: MemberId, link: Box<dyn NodeLink>) {
        self.id = id;
        self.link = link;
        self.clock = None;
    }

    /// What its agent said first.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    pub fn name(&self) -> &str {
        &self.node.name
    }

    pub fn alive(&self) -> bool {
        self.gone.is_none()
    }

    /// The machine that the others stand on, whose counters hold what all of them do.
    pub fn is_machine(&self) -> bool {
        matches!(self.node.kind, NodeKind::Host)
    }

    /// Whether it has CPUs of its own, which its machine may keep waiting.
    pub fn is_guest(&self) -> bool {
        matches!(self.node.kind, NodeKind::Guest(_) | NodeKind::Domain(_) | NodeKind::Given(_))
    }

    /// The cgroup of a node that is no process of this sandbox. No other is asked: a guest's QEMU may not
    /// answer.
    pub fn elsewhere(&mut self) -> Option<PathBuf> {
        let NodeKind::Container(Container { engine: Some(_), .. }) = &self.node.kind else {
            return None;
        };
        match self.link.outside() {
            Some(Outside::Cgroup(directory)) => Some(directory),
            _ => None,
        }
    }

    /// How many CPUs it may use: a guest its own, another node those of this machine that it is bound to.
    fn cpus(&self) -> u32 {
        match (self.is_guest(), self.node.cpus.len()) {
            (false, bound) if bound > 0 => bound as u32,
            _ => self.hello.as_ref().map_or(1, |hello| hello.cpus),
        }
    }

    /// A hint for a task that failed with this error: the kernel kills a process that takes more than a
    /// container's memory, and gives no reason. In a guest its own agent finds out.
    pub fn short_of_memory(&self, why: &str) -> &'static str {
        let limited = matches!(&self.node.kind, NodeKind::Container(one) if one.memory.is_some());
        if limited && why.contains("` was killed by SIGKILL") {
            "; a container that takes more than its memory is ended so: give more with --memory (in a \
             study: sut.memory)"
        } else {
            ""
        }
    }

    /// Has been heard: its agent works.
    pub fn is_up(&self) -> bool {
        self.start.is_some()
    }

    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// What it was asked to do and has not answered.
    pub fn owed(&self) -> Option<&str> {
        self.owed.values().next().map(|(about, _)| about.as_str())
    }

    pub fn owes_number(&self, number: u64) -> bool {
        self.owed.contains_key(&number)
    }

    pub fn runs(&self, task: &str) -> bool {
        self.running.contains_key(task)
    }

    pub fn runs_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Sends an order; `about` says in plain words what it is for.
    pub fn order(&mut self, about: &str, order: Order) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        if let Order::Start { task, .. } = &order {
            self.running.insert(task.id.clone(), (task.purpose.clone(), Instant::now()));
        }
        self.owed.insert(number, (about.to_owned(), Instant::now()));
        self.link.send(&NumberedOrder { number, order });
        number
    }

    /// A new trial: what was sent before does not count against it.
    pub fn begin_trial(&mut self) {
        self.bytes = 0;
    }

    /// No answer or result is expected of it any more.
    pub fn forget(&mut self) {
        self.owed.clear();
        self.running.clear();
    }

    pub fn console(&mut self) -> Vec<String> {
        let mut lines = self.link.console();
        let surplus = lines.len().saturating_sub(MAX_CONSOLE_LINES);
        lines.drain(..surplus);
        lines
    }

    /// Of a node whose records are for the executor alone.
    pub fn keep(&mut self, record: Record) {
        match record {
            Record::Interval(interval) => self.intervals.push(interval),
            Record::Result(result) => self.results.push(result),
            _ => {}
        }
    }

    /// Checks a record. An error says why the node cannot be trusted any more.
    pub fn hear(
        &mut self,
        record: Record,
        bytes: usize,
        trial: Option<u64>,
    ) -> Result<Heard, String> {
        self.bytes += bytes;
        if self.bytes > MAX_TRIAL_BYTES {
            return Err(format!("it sent more than {MAX_TRIAL_BYTES} bytes during one trial"));
        }
        match sender(&record) {
            None => {
                return Err(format!(
                    "it sent a record that a node may not send: {}",
                    kind(&record)
                ));
            }
            Some("") if self.hello.is_none() && matches!(record, Record::Hello(_)) => {}
            Some(name) if name == self.node.name => {}
            Some(name) => return Err(format!("it sent a record in the name of {name:?}")),
        }
        if self.hello.is_none() && !matches!(record, Record::Hello(_)) {
            return Err(format!("it sent a record of the kind {} before hello", kind(&record)));
        }
        match record {
            Record::Hello(hello) => self.hear_hello(hello),
            Record::Done { number, error, clock_s, .. } => {
                let Some((about, given)) = self.owed.remove(&number) else {
                    return Err(format!("it answered an order {number} that it was not given"));
                };
                if let Some(clock) = &mut self.clock {
                    clock.take(clock_s, given, Instant::now())?;
                }
                Ok(error.map_or(Heard::Nothing, |error| Heard::Refused(about, error)))
            }
            Record::Result(result) => {
                if Some(result.trial) != trial {
                    return Ok(Heard::Late(format!("the result of task {}", result.task)));
                }
                let Some((purpose, ordered)) = self.running.remove(&result.task) else {
                    return Ok(Heard::Late(format!(
                        "a result of task {:?}, which does not run",
                        result.task
                    )));
                };
                let untrue = self.clock.as_ref().and_then(|_| {
                    let given_s = ordered.elapsed().as_secs_f64();
                    plausible::check(&result.values, given_s, self.cpus()).err()
                });
                let failure = result.error.as_ref().or(untrue.as_ref()).map(|error| {
                    format!("task {} on {} failed: {error}", result.task, result.node)
                });
                let record = Record::Result(TaskResult { purpose, ..result });
                Ok(match failure {
                    Some(failure) => Heard::Failed(record, failure),
                    None => Heard::Record(record),
                })
            }
            Record::Interval(interval) => match self.running.get(&interval.task) {
                Some((purpose, _)) if Some(interval.trial) == trial => {
                    let purpose = purpose.clone();
                    Ok(Heard::Record(Record::Interval(Interval { purpose, ..interval })))
                }
                _ => Ok(Heard::Late(format!("an interval of task {:?}", interval.task))),
            },
            Record::Probe(ref probe) if Some(probe.trial) != trial => {
                Ok(Heard::Late(format!("values of the probe {:?}", probe.probe)))
            }
            Record::Knob(ref knob) if Some(knob.trial) != trial => {
                Ok(Heard::Late(format!("what became of the knob {:?}", knob.knob)))
            }
            Record::Interface(ref state) => match self.lacks_queues(state) {
                Some(why) => Err(why),
                None => Ok(Heard::Record(record)),
            },
            other => Ok(Heard::Record(other)),
        }
    }

    /// The error of a guest's card that has other queues than it was given: the guest's kernel uses as many
    /// as it can, and reports no error.
    fn lacks_queues(&self, state: &InterfaceState) -> Option<String> {
        let NodeKind::Guest(guest) = &self.node.kind else { return None };
        let card = self.node.interfaces.iter().find(|one| one.name == state.interface)?;
        let has = (state.rx_queues, state.tx_queues);
        if model(card) != NicModel::VirtioNet
            || has == (guest.settings.queues, guest.settings.queues)
        {
            return None;
        }
        Some(format!(
            "its {} uses {} queues to receive and {} to send, but sut.queues asks for {}: a guest uses \
             one by each CPU that is online, and needs a kernel that knows several",
            state.interface, has.0, has.1, guest.settings.queues
        ))
    }

    /// The first hello says that the agent works, and names nobody; the second one comes with the
    /// name, and is the one to pass on.
    fn hear_hello(&mut self, hello: Hello) -> Result<Heard, String> {
        if hello.protocol != PROTOCOL {
            return Err(format!(
                "its agent ({}) speaks version {} of the protocol, this one speaks {PROTOCOL}; \
                 use the same agent on both sides",
                hello.agent, hello.protocol
            ));
        }
        let is_booted = self.is_guest() && !matches!(self.node.kind, NodeKind::Given(_));
        if self.clock.is_some() && is_booted {
            clock::check_uptime(hello.uptime_s, self.begun)?;
        }
        if self.hello.is_none() {
            self.start = Some(self.begun.elapsed());
            self.hello = Some(hello);
            return Ok(Heard::Nothing);
        }
        Ok(Heard::Record(Record::Hello(hello)))
    }
}

/// The node that a record names; nothing for records that only a host agent sends.
fn sender(record: &Record) -> Option<&str> {
    match record {
        Record::Hello(hello) => Some(&hello.node),
        Record::Done { node, .. } | Record::Log { node, .. } => Some(node),
        Record::Interface(state) => Some(&state.node),
        Record::Interval(interval) => Some(&interval.node),
        Record::Result(result) => Some(&result.node),
        Record::Probe(probe) => Some(&probe.node),
        Record::Knob(knob) => Some(&knob.node),
        Record::Node(_)
        | Record::Bench { .. }
        | Record::Teardown { .. }
        | Record::TrialBegin { .. }
        | Record::TrialEnd { .. }
        | Record::Console { .. }
        | Record::Survey(_) => None,
    }
}

fn kind(record: &Record) -> String {
    #[derive(Deserialize)]
    struct Tag {
        record: String,
    }
    let line = record.to_line().unwrap_or_default();
    serde_json::from_slice(&line).map_or_else(|_| String::new(), |Tag { record }| record)
}
