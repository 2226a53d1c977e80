//! Nodes that are made and ended within a phase: how long each part of that takes, and what memory they need.
//! All of a phase are made at once, and each part is done by all before the next one begins.

use std::fs;
use std::time::{Duration, Instant};

use hypertare_plan::{Bench, Life, Node, Order, Phase, Record, TaskResult};

use super::super::member::Member;
use super::power_cut::TaskSource;
use super::{END_LIMIT, Executor, Outcome, Stop};
use crate::host::machine::Machine;
use crate::probe::memory::kilobytes;
use crate::values::Definition;

/// What a life tells.
pub const VALUES: &[Definition] = &[
    ("start_s", "s", "from the start of its process to the first record of its agent"),
    ("vmm_s", "s", "of that until its kernel began to count time: VMM and firmware"),
    ("kernel_s", "s", "of that until its agent began: kernel"),
    ("agent_s", "s", "of that the rest: agent, and the way of its first record"),
    ("answer_s", "s", "from the start of its process to its answer that it is set up"),
    ("memory_bytes", "B", "memory of its process (PSS) when it has answered"),
    ("save_s", "s", "saving its state; while that lasts it goes on"),
    ("saved_bytes", "B", "of that state"),
    ("restore_s", "s", "from the start of a new process with that state to an answer"),
    ("stop_s", "s", "from being told to end to the end of its process"),
    ("restart_s", "s", "after a power cut: from the start of a new process to its answer"),
    ("blocks", "blocks", "blocks of its disk that were looked at after the cut"),
    ("durable_writes", "writes", "writes that fdatasync had returned for before it"),
    ("lost_blocks", "blocks", "blocks without the last writing that fdatasync had returned for"),
    ("newer_blocks", "blocks", "blocks with a writing that fdatasync had not returned for"),
    ("torn_blocks", "blocks", "of these, blocks with sectors of several writings"),
];

/// The first member that lives for this phase, and how each of them goes.
struct Living<'a> {
    first: usize,
    lives: &'a [Life],
    results: Vec<TaskResult>,
    deadline: Instant,
}

impl Living<'_> {
    fn set(&mut self, place: usize, name: &str, value: f64) {
        self.results[place].values.insert(name.to_owned(), value);
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl<M: Machine> Executor<M> {
    /// What lives for this phase only is made, and is gone when this ends, however that is.
    pub(super) fn live(&mut self, trial: u64, phase: &Phase, deadline: Instant) -> Outcome {
        let first = self.members.len();
        let result = |life: &Life| TaskResult {
            node: life.of.clone(),
            trial,
            phase: phase.name.clone(),
            task: life.id.clone(),
            purpose: life.purpose.clone(),
            ..TaskResult::default()
        };
        let lives = phase.lives.as_slice();
        let results = lives.iter().map(result).collect();
        let mut living = Living { first, lives, results, deadline };
        self.needed.extend(lives.iter().map(|life| life.node.name.clone()));
        let outcome = self.carry_out_lives(trial, phase, &mut living);
        for mut member in self.members.drain(first..) {
            member.link.kill();
        }
        for life in lives {
            self.needed.remove(&life.node.name);
            if let Err(error) = self.machine.discard(&life.node.name) {
                self.warn(&life.of, format!("a disk is left: {error:#}"));
            }
        }
        outcome?;
        living.results.into_iter().for_each(|result| self.emit(Record::Result(result)));
        Ok(())
    }

    fn carry_out_lives(&mut self, trial: u64, phase: &Phase, living: &mut Living) -> Outcome {
        for life in living.lives {
            if self.members.iter().any(|member| member.name() == life.node.name) {
                return Err(Stop::Failed(format!("there is a node {} already", life.node.name)));
            }
            let member = self.begin(&life.node)?;
            self.take_in(member);
        }
        self.set_up_nodes(living.first, |all, index| all.has_answered(living, index))?;
        for place in 0..living.lives.len() {
            if let Some(pid) = self.members[living.first + place].link.pid()
                && let Some(bytes) = pss(pid)
            {
                living.set(place, "memory_bytes", bytes);
            }
        }
        for place in 0..living.lives.len() {
            let life = &living.lives[place];
            if life.restored {
                self.save_and_restore(living, place)?;
            }
            if let Some(cut) = &life.power_cut {
                let begun = TaskSource { trial, phase, life };
                let found = self.cut_power(&begun, cut, living.first + place, living.deadline)?;
                living.results[place].values.extend(found);
            }
        }
        for place in 0..living.lives.len() {
            let index = living.first + place;
            let begun = Instant::now();
            self.members[index].order("its end", Order::End);
            if !self.members[index].link.ended(begun + END_LIMIT) {
                let name = self.members[index].name();
                return Err(Stop::Failed(format!("node {name} did not end when it was told to")));
            }
            living.set(place, "stop_s", begun.elapsed().as_secs_f64());
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, node: &Node) -> Outcome<Member> {
        let begun = Instant::now();
        let (id, inbox) = self.next_inbox();
        let started = self.machine.start(&alone(node), 0, inbox).map_err(|error| {
            Stop::Failed(format!("node {} cannot be started: {error:#}", node.name))
        })?;
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

    fn save_and_restore(&mut self, living: &mut Living, place: usize) -> Outcome {
        let index = living.first + place;
        let node = &living.lives[place].node;
        let failed = |what: &str, error: anyhow::Error| {
            Stop::Failed(format!("node {} cannot be {what}: {error:#}", node.name))
        };
        let begun = Instant::now();
        let saved = self.members[index].link.save(living.left());
        let Some(state) = saved.map_err(|error| failed("saved", error))? else { return Ok(()) };
        living.set(place, "save_s", begun.elapsed().as_secs_f64());
        let bytes = state.metadata().map_err(|error| failed("saved", error.into()))?.len();
        living.set(place, "saved_bytes", bytes as f64);
        self.members[index].link.kill();
        let begun = Instant::now();
        let (id, inbox) = self.next_inbox();
        let started = self.machine.restore(&alone(node), 0, state, inbox);
        let started = started.map_err(|error| failed("restored", error))?;
        self.members[index].restored(id, started.link);
        // An order that has it do nothing.
        let order = Order::Kill { reason: String::new() };
        let asked = self.ask("that it is there again", vec![(index, order)]);
        self.await_answers(&asked, living.deadline)?;
        living.set(place, "restore_s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// A bench of a node that nothing leads to.
fn alone(node: &Node) -> Bench {
    Bench {
        name: node.name.clone(),
        nodes: vec![node.clone()],
        links: vec![],
        weights: false,
        scheduler: None,
        driver: None,
        sidecore: None,
    }
}

/// Of a process, in bytes; nothing where this user may not see it.
fn pss(pid: i32) -> Option<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    resident(&rollup).map(|kilobytes| kilobytes as f64 * 1024.0)
}

/// In kB. PSS leaves pages of hugetlb out, of which a guest's memory may be.
fn resident(rollup: &str) -> Option<u64> {
    let huge = ["Shared_Hugetlb", "Private_Hugetlb"].map(|name| kilobytes(rollup, name));
    Some(kilobytes(rollup, "Pss")? + huge.into_iter().flatten().sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_hugetlb_are_memory_of_its_process() {
        let rollup = "[rollup]\nRss:  900 kB\nPss:  700 kB\nPss_Anon:  600 kB\n";
        assert_eq!(resident(rollup), Some(700));
        let huge = format!("{rollup}Shared_Hugetlb:  2048 kB\nPrivate_Hugetlb:  4096 kB\n");
        assert_eq!(resident(&huge), Some(700 + 2048 + 4096));
        assert_eq!(resident("Rss: 1 kB\n"), None);
    }
}
