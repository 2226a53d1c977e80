//! Nodes that are made and ended within a phase: how long each part of that takes, and what memory they need.
//! All of a phase are made at once, and each part is done by all before the next one begins. What would disturb
//! others is done by one after the other: being asked over the network, being saved and restored, ending.

use std::fs;
use std::time::Instant;

use hypertare_plan::{Bench, Life, Node, NodeKind, Order, Record, Task, TaskResult, Values};

use super::super::member::Member;
use super::phase::{Begun, PhaseRun};
use super::{Executor, ORDER_LIMIT, Outcome, Stop};
use crate::host::machine::Machine;
use crate::probe::memory::kilobytes;
use crate::process::machine_proc;
use crate::values::Definition;
use crate::vmm::backing;

/// What a life reports.
pub const VALUES: &[Definition] = &[
    ("start_s", "s", "from the start of its process to the first record of its agent"),
    ("vmm_s", "s", "of that until its kernel began to count time: VMM and firmware"),
    ("kernel_s", "s", "of that until its agent began: kernel"),
    ("agent_s", "s", "of that the rest: agent, and the way of its first record"),
    ("answer_s", "s", "from the start of its process to its answer that it is set up"),
    ("work_s", "s", "from the start of its process to the end of its first work"),
    ("served_s", "s", "from the start of its process to listening on the network"),
    ("reply_s", "s", "the same, and the first round trip over the network"),
    ("memory_bytes", "B", "memory of its process (PSS) when it has worked"),
    ("vmm_bytes", "B", "of that what is no memory of the guest"),
    ("fitted", "nodes", "that lived at once and answered in less than twice the time of the first"),
    ("crowd_bytes", "B", "memory of their processes (PSS) for each of them"),
    ("slowest", "ratio", "the time that the slowest of them took to answer to that of the first"),
    ("save_s", "s", "saving its state; while that lasts it goes on"),
    ("saved_bytes", "B", "of that state"),
    ("restore_s", "s", "from the start of a new process with that state to an answer"),
    ("stop_s", "s", "from being asked to end to the end of its process"),
    ("restart_s", "s", "after a power cut: from the start of a new process to its answer"),
    ("blocks", "blocks", "blocks of its disk that were looked at after the cut"),
    ("durable_writes", "writes", "writes that fdatasync had returned for before it"),
    ("lost_blocks", "blocks", "blocks without the last writing that fdatasync had returned for"),
    ("newer_blocks", "blocks", "blocks with a writing that fdatasync had not returned for"),
    ("torn_blocks", "blocks", "of these, blocks with sectors of several writings"),
];

/// A node that takes this many times as long as the first one is too late.
const TOO_LATE: f64 = 2.0;
/// One part in this many of the machine's memory stays free when more nodes are made.
const KEPT_FREE: u64 = 8;

/// The first member that lives for this phase, and how each of them goes.
struct Living<'a> {
    run: PhaseRun<'a>,
    first: usize,
    lives: &'a [Life],
    results: Vec<TaskResult>,
}

impl Living<'_> {
    fn set(&mut self, place: usize, name: &str, value: f64) {
        self.results[place].values.insert(name.to_owned(), value);
    }

    fn value(&self, place: usize, name: &str) -> f64 {
        self.results[place].values.get(name).copied().unwrap_or_default()
    }
}

impl<M: Machine> Executor<M> {
    /// Makes the nodes that live for this phase only. They are gone when this returns, however it ends.
    pub(super) fn live(&mut self, run: PhaseRun) -> Outcome {
        let first = self.members.len();
        let result = |life: &Life| TaskResult {
            node: life.of.clone(),
            trial: run.trial,
            phase: run.phase.name.clone(),
            task: life.id.clone(),
            purpose: life.purpose.clone(),
            ..TaskResult::default()
        };
        let lives = run.phase.lives.as_slice();
        let results = lives.iter().map(result).collect();
        let mut living = Living { run, first, lives, results };
        let outcome = self.carry_out_lives(&mut living);
        for mut member in self.members.drain(first..) {
            member.link.kill();
            self.needed.remove(member.name());
        }
        self.private.clear();
        for life in lives {
            if let Err(error) = self.machine.discard(&life.node.name) {
                self.warn(&life.of, format!("a disk is left: {error:#}"));
            }
        }
        outcome?;
        living.results.into_iter().for_each(|result| self.emit(Record::Result(result)));
        Ok(())
    }

    fn carry_out_lives(&mut self, living: &mut Living) -> Outcome {
        for life in living.lives {
            if self.members.iter().any(|member| member.name() == life.node.name) {
                return Err(Stop::Failed(format!("there is a node {} already", life.node.name)));
            }
            let member = self.begin(&life.node)?;
            self.take_in(member);
        }
        self.set_up_nodes(living.first, |all, index| all.has_answered(living, index))?;
        let works = living.lives.iter().filter_map(|life| life.work.as_ref()).collect::<Vec<_>>();
        self.private.extend(works.iter().map(|task| (task.id.clone(), Values::new())));
        let begun = self.start(living.run, &works);
        self.note_when(living, begun, "work_s", Begun::runs)?;
        for place in 0..living.lives.len() {
            self.be_reached(living, place)?;
        }
        for place in 0..living.lives.len() {
            self.weigh_memory(living, place);
            self.add_others(living, place)?;
        }
        for place in 0..living.lives.len() {
            let life = &living.lives[place];
            if life.restored {
                self.save_and_restore(living, place)?;
            }
            if let Some(cut) = &life.power_cut {
                let found = self.cut_power(living.run, life, cut, living.first + place)?;
                living.results[place].values.extend(found);
            }
        }
        for place in 0..living.lives.len() {
            let index = living.first + place;
            let begun = Instant::now();
            self.members[index].order("its end", Order::End);
            // By the wall clock a guest may have to wait for a CPU.
            if !self.members[index].link.ended(begun + ORDER_LIMIT) {
                let name = self.members[index].name();
                return Err(Stop::Failed(format!("node {name} did not end when it was asked to")));
            }
            living.set(place, "stop_s", begun.elapsed().as_secs_f64());
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, node: &Node) -> Outcome<Member> {
        let begun = Instant::now();
        let (id, inbox) = self.next_inbox();
        let started =
            self.machine.start(&self.bench_of(node), 0, None, inbox).map_err(|error| {
                Stop::Failed(format!("node {} cannot be started: {error:#}", node.name))
            })?;
        self.needed.insert(node.name.clone());
        let mut member = Member::new(id, node.clone(), started, begun);
        member.is_private = true;
        Ok(member)
    }

    fn has_answered(&mut self, living: &mut Living, index: usize) -> Outcome {
        let member = &mut self.members[index];
        let place = index - living.first;
        living.set(place, "answer_s", member.begun.elapsed().as_secs_f64());
        let start_s = member.start.unwrap_or_default().as_secs_f64();
        living.set(place, "start_s", start_s);
        let booted = member.hello().and_then(|hello| Some((hello.uptime_s, hello.began_s?)));
        if let Some((uptime_s, began_s)) = booted {
            living.set(place, "vmm_s", start_s - uptime_s);
            living.set(place, "kernel_s", began_s);
            living.set(place, "agent_s", uptime_s - began_s);
        }
        let known = member.link.about();
        known.map(drop).map_err(|error| {
            Stop::Failed(format!("node {} cannot be used: {error:#}", self.members[index].name()))
        })
    }

    /// The node alone, on the links of the bench.
    fn bench_of(&self, node: &Node) -> Bench {
        Bench {
            name: node.name.clone(),
            nodes: vec![node.clone()],
            links: self.links.clone(),
            weights: false,
            scheduler: None,
            driver: None,
            datapath_cpu: None,
        }
    }

    /// Has the node listen, and a node of the bench ask it. The time to start the asking task does not
    /// count: that could have been started before.
    fn be_reached(&mut self, living: &mut Living, place: usize) -> Outcome {
        let Some(reached) = &living.lives[place].reached else { return Ok(()) };
        let of = |task: &Task| (task.id.clone(), Values::new());
        self.private.extend([of(&reached.answer), of(&reached.ask)]);
        let serving = self.start(living.run, &[&reached.answer]);
        self.note_when(living, serving, "served_s", Begun::starts)?;
        let asking = self.start(living.run, &[&reached.ask]);
        self.note_when(living, asking, "", Begun::runs)?;
        let measured =
            self.private.get(&reached.ask.id).and_then(|values| values.get("rtt_max_ns"));
        let round_trip_s = measured.copied().ok_or_else(|| {
            Stop::Failed(format!("task {} has measured no round trip", reached.ask.id))
        })? / 1e9;
        living.set(place, "reply_s", living.value(place, "served_s") + round_trip_s);
        self.stop(&[&reached.answer], living.run.deadline)
    }

    /// Waits until none of these tasks is late any more, and notes for each living node when that was.
    fn note_when(
        &mut self,
        living: &mut Living,
        mut tasks: Vec<Begun>,
        value: &str,
        is_late: fn(&Begun, &Self) -> bool,
    ) -> Outcome {
        while !tasks.is_empty() {
            let in_time = self.wait(living.run.deadline, |all| {
                all.failure.is_some() || tasks.iter().any(|one| !is_late(one, all))
            })?;
            self.check_failure()?;
            if !in_time {
                let late = tasks.iter().collect::<Vec<_>>();
                return Err(self.too_long(living.run.phase, &late, "end"));
            }
            for one in tasks.extract_if(.., |one| !is_late(one, self)) {
                if let Some(place) = one.index.checked_sub(living.first) {
                    living.set(place, value, self.members[one.index].begun.elapsed().as_secs_f64());
                }
            }
        }
        Ok(())
    }

    fn weigh_memory(&self, living: &mut Living, place: usize) {
        let member = &self.members[living.first + place];
        let Some((pid, bytes)) = member.link.pid().and_then(|pid| Some((pid, pss(pid)?))) else {
            return;
        };
        living.set(place, "memory_bytes", bytes);
        if let NodeKind::Guest(guest) = &member.node.kind
            && let Ok(own) = backing::read(pid, guest.memory)
        {
            living.set(place, "vmm_bytes", bytes - own.resident as f64);
        }
    }

    /// Makes more nodes like it, until one is late or the machine has no memory for another.
    fn add_others(&mut self, living: &mut Living, place: usize) -> Outcome {
        let Some(most) = living.lives[place].most else { return Ok(()) };
        let like = &living.lives[place].node;
        let first_s = living.value(place, "answer_s");
        // Shared memory counts in full for the first node, and less for each further one: the estimate is
        // too high.
        let (mut taken, mut slowest) = (living.value(place, "memory_bytes"), 1.0_f64);
        let (mut count, mut fitted) = (1_u32, 1_u32);
        let others = self.members.len();
        while count < most && slowest < TOO_LATE && has_room(taken / f64::from(count)) {
            count += 1;
            let name = format!("{}-{count}", like.name);
            let member = self.begin(&Node { name, interfaces: vec![], ..like.clone() })?;
            self.take_in(member);
            let mut answered_s = 0.0;
            self.set_up_nodes(self.members.len() - 1, |all, index| {
                answered_s = all.members[index].begun.elapsed().as_secs_f64();
                Ok(())
            })?;
            slowest = slowest.max(answered_s / first_s);
            fitted += u32::from(slowest < TOO_LATE);
            taken +=
                self.members.last().and_then(|one| one.link.pid()).and_then(pss).unwrap_or(0.0);
        }
        let all = [&self.members[living.first + place]].into_iter().chain(&self.members[others..]);
        let taken: f64 = all.filter_map(|one| one.link.pid().and_then(pss)).sum();
        living.set(place, "fitted", fitted.into());
        living.set(place, "crowd_bytes", taken / f64::from(count));
        living.set(place, "slowest", slowest);
        Ok(())
    }

    fn save_and_restore(&mut self, living: &mut Living, place: usize) -> Outcome {
        let index = living.first + place;
        let node = &living.lives[place].node;
        let failed = |what: &str, error: anyhow::Error| {
            Stop::Failed(format!("node {} cannot be {what}: {error:#}", node.name))
        };
        let begun = Instant::now();
        let left = living.run.deadline.saturating_duration_since(begun);
        let saved = self.members[index].link.save(left);
        let Some(state) = saved.map_err(|error| failed("saved", error))? else { return Ok(()) };
        living.set(place, "save_s", begun.elapsed().as_secs_f64());
        let bytes = state.metadata().map_err(|error| failed("saved", error.into()))?.len();
        living.set(place, "saved_bytes", bytes as f64);
        self.members[index].link.kill();
        let begun = Instant::now();
        let (id, inbox) = self.next_inbox();
        let started = self.machine.start(&self.bench_of(node), 0, Some(state), inbox);
        let started = started.map_err(|error| failed("restored", error))?;
        self.members[index].restored(id, started.link);
        // An order that has it do nothing.
        let order = Order::Kill { reason: String::new() };
        let asked = self.ask("that it is there again", vec![(index, order)]);
        self.await_answers(&asked, living.run.deadline)?;
        living.set(place, "restore_s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Whether the machine has memory for one more that takes so much of it.
fn has_room(bytes: f64) -> bool {
    let place = machine_proc::path().unwrap_or_else(|| "/proc".into());
    let text = fs::read_to_string(place.join("meminfo")).unwrap_or_default();
    let [available, total] = ["MemAvailable", "MemTotal"].map(|name| kilobytes(&text, name));
    leaves_room(available.unwrap_or(0), total.unwrap_or(0), bytes)
}

/// In kB, the machine's.
fn leaves_room(available: u64, total: u64, bytes: f64) -> bool {
    available.saturating_sub(total / KEPT_FREE) as f64 * 1024.0 > bytes
}

/// Memory of a process (PSS) in bytes; `None` where this user may not see it.
fn pss(pid: i32) -> Option<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    resident(&rollup).map(|kilobytes| kilobytes as f64 * 1024.0)
}

/// In kB. PSS leaves out pages of hugetlb, which a guest's memory may consist of.
fn resident(rollup: &str) -> Option<u64> {
    let huge = ["Shared_Hugetlb", "Private_Hugetlb"].map(|name| kilobytes(rollup, name));
    Some(kilobytes(rollup, "Pss")? + huge.into_iter().flatten().sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_memory_is_left_alone() {
        assert!(leaves_room(300, 800, 199.0 * 1024.0));
        assert!(!leaves_room(300, 800, 200.0 * 1024.0));
        assert!(!leaves_room(50, 800, 0.0) && !leaves_room(0, 0, 0.0));
    }

    #[test]
    fn pages_of_hugetlb_are_memory_of_its_process() {
        let rollup = "[rollup]\nRss:  900 kB\nPss:  700 kB\nPss_Anon:  600 kB\n";
        assert_eq!(resident(rollup), Some(700));
        let huge = format!("{rollup}Shared_Hugetlb:  2048 kB\nPrivate_Hugetlb:  4096 kB\n");
        assert_eq!(resident(&huge), Some(700 + 2048 + 4096));
        assert_eq!(resident("Rss: 1 kB\n"), None);
    }
}
