//! Checks whether data that were made durable before a power cut exist after it.
//!
//! The order in which a job writes follows from its seed. So the check needs only the number of writes for
//! which fdatasync had returned: it repeats the job's choices and then knows the least writing that each
//! block must hold.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context as _, Result, ensure};
use hypertare_plan::{Io, IoVerify};

use super::buffers::Buffers;
use super::job::{Job, Kind, Next};
use super::{acknowledged, check, own_disk, parts};
use crate::values::Definition;
use crate::workload::{Context, Outcome, WorkloadKind};
use blocks::{Label, SECTOR};

impl WorkloadKind for IoVerify {
    const VALUES: &'static [Definition] = &[
        ("blocks", "blocks", "blocks that were read"),
        ("durable_writes", "writes", "writes that fdatasync had returned for"),
        (
            "lost_blocks",
            "blocks",
            "blocks without the last writing that fdatasync had returned for",
        ),
        ("newer_blocks", "blocks", "blocks with a writing that fdatasync had not returned for"),
        ("torn_blocks", "blocks", "of these, blocks with sectors of several writings"),
    ];

    fn run(&self, context: &Context) -> Result<Outcome> {
        check(&acknowledged(&self.writes))?;
        ensure!(
            self.durable.len() == self.writes.jobs as usize,
            "what fdatasync returned for must be known of each job"
        );
        let found = verify(self, &own_disk(self.writes.direct)?, context)?;
        let mut outcome = Outcome::default();
        let durable = self.durable.iter().sum::<u64>();
        outcome
            .set("blocks", found.blocks as f64)
            .set("durable_writes", durable as f64)
            .set("lost_blocks", found.lost as f64)
            .set("newer_blocks", found.newer as f64)
            .set("torn_blocks", found.torn as f64);
        Ok(outcome)
    }
}

/// How often fdatasync may have returned without a report of it. A block of a later write is not taken for
/// one that was being written.
const MOST_UNHEARD: u64 = 64;

#[derive(Debug, Default, PartialEq)]
struct Found {
    blocks: u64,
    lost: u64,
    newer: u64,
    torn: u64,
}

fn verify(spec: &IoVerify, disk: &File, context: &Context) -> Result<Found> {
    let IoVerify { writes, durable } = spec;
    let io = &acknowledged(writes);
    let mut found = Found::default();
    let mut buffers = Buffers::new(1, io.block as usize)?;
    for ((number, part), &durable) in parts(io).zip(durable) {
        let mut least = Job::new(io, number, part)?;
        let mut most = Job::new(io, number, part)?;
        repeat(&mut least, durable, io)?;
        // More was made durable than was reported: the power cut also stopped those that passed reports on.
        let unheard = MOST_UNHEARD * u64::from(writes.sync_every);
        repeat(&mut most, durable.saturating_add(unheard), io)?;
        for number in part.first..part.first + part.count {
            ensure!(!context.stopped(), "it was stopped before every block was read");
            let block = buffers.block_mut(0);
            let offset = number * u64::from(io.block);
            disk.read_exact_at(block, offset)
                .with_context(|| format!("reading {} bytes at offset {offset} failed", io.block))?;
            let label = Label { seed: io.seed, number, generation: least.generation(number) };
            found.add(block, label, most.generation(number));
        }
    }
    Ok(found)
}

/// Goes through the first `count` writes of a job.
fn repeat(job: &mut Job, count: u64, io: &Io) -> Result<()> {
    job.begin(0, u64::MAX);
    while job.begun < count {
        let Next::Begin(operation) = job.next(u64::MAX - 1) else { break };
        let moved = if operation.kind == Kind::Sync { 0 } else { io.block as usize };
        job.ended(operation, Ok(moved), &[], 0)?;
    }
    Ok(())
}

impl Found {
    /// Counts a block, which must hold this writing of it or a later one. Writings up to `most` may have
    /// been under way.
    fn add(&mut self, block: &[u8], least: Label, most: u32) {
        self.blocks += 1;
        let may_be =
            |found: Label| found.number == least.number && found.generation >= least.generation;
        match Label::of(block, least.seed) {
            Some(found) if may_be(found) => {
                self.newer += u64::from(found.generation > least.generation);
            }
            // A disk promises whole sectors only: it may have some of a write that was under way.
            None if is_mixed(block, least, most) => {
                self.newer += 1;
                self.torn += 1;
            }
            _ => self.lost += 1,
        }
    }
}

/// Whether every sector of a block is of a writing that it may hold.
fn is_mixed(block: &[u8], least: Label, most: u32) -> bool {
    let writings: Vec<Vec<u8>> = (least.generation..=most)
        .map(|generation| {
            let mut right = vec![0; block.len()];
            Label { generation, ..least }.fill(&mut right);
            right
        })
        .collect();
    let sector = SECTOR as usize;
    (0..block.len() / sector)
        .map(|at| at * sector..(at + 1) * sector)
        .all(|at| writings.iter().any(|right| right[at.clone()] == block[at.clone()]))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use hypertare_plan::{DurableWrites, Record};
    use tempfile::tempfile;

    use super::super::{fill, filling, run};
    use super::*;
    use crate::emit::Emitter;

    const BLOCK: usize = 4096;

    fn writes() -> DurableWrites {
        let span = 64 * BLOCK as u64;
        DurableWrites { block: BLOCK as u32, span, jobs: 2, sync_every: 3, direct: false, seed: 7 }
    }

    fn spec() -> Io {
        Io { count: Some(500), ..acknowledged(&writes()) }
    }

    fn context(to: impl io::Write + Send + 'static) -> Context {
        let emitter = Arc::new(Emitter::new(to));
        Context::new(("node", 1, "phase", "task"), emitter, Arc::new(AtomicBool::new(false)), || {})
    }

    /// A disk that was worked on to the end, and the writes of each job that were acknowledged last.
    fn written() -> (File, Vec<u64>) {
        let disk = tempfile().unwrap();
        disk.set_len(64 * BLOCK as u64).unwrap();
        fill(&filling(&spec()), &disk, &context(io::sink())).unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        run(&spec(), &disk, &context(log.reopen().unwrap())).unwrap();
        let mut durable = vec![0; 2];
        for line in std::fs::read_to_string(log.path()).unwrap().lines() {
            if let Ok(Record::Interval(one)) = serde_json::from_str(line) {
                durable[one.values["job"] as usize] = one.values["durable"] as u64;
            }
        }
        (disk, durable)
    }

    fn found(disk: &File, durable: Vec<u64>) -> Found {
        let spec = IoVerify { writes: writes(), durable };
        verify(&spec, disk, &context(io::sink())).unwrap()
    }

    fn read(disk: &File, number: u64) -> Label {
        let mut block = vec![0; BLOCK];
        disk.read_exact_at(&mut block, number * BLOCK as u64).unwrap();
        Label::of(&block, 7).unwrap()
    }

    fn write(disk: &File, label: Label, at: u64, bytes: std::ops::Range<usize>) {
        let mut block = vec![0; BLOCK];
        label.fill(&mut block);
        disk.write_all_at(&block[bytes.clone()], at * BLOCK as u64 + bytes.start as u64).unwrap();
    }

    #[test]
    fn all_that_was_acknowledged_is_there_and_not_much_more() {
        let (disk, durable) = written();
        // Of 250 writes each, made durable by threes.
        assert_eq!(durable, [249, 249]);
        assert_eq!(found(&disk, durable), Found { blocks: 64, lost: 0, newer: 2, torn: 0 });
        // Had less been acknowledged, more would be newer, and nothing lost.
        let found = found(&disk, vec![9, 9]);
        assert!(found.lost == 0 && found.newer > 50, "{found:?}");
    }

    #[test]
    fn a_write_that_is_gone_is_lost_whatever_is_in_its_place() {
        let (disk, durable) = written();
        let label = read(&disk, 5);
        assert!(label.generation > 1);
        for (other, at) in [
            (Label { generation: label.generation - 1, ..label }, 5),
            (Label { number: 6, ..label }, 5),
        ] {
            write(&disk, other, at, 0..BLOCK);
            assert_eq!(found(&disk, durable.clone()).lost, 1, "{other:?}");
        }
        disk.write_all_at(&[0; BLOCK], 5 * BLOCK as u64).unwrap();
        assert_eq!(found(&disk, durable.clone()).lost, 1);
        write(&disk, label, 5, 0..BLOCK);
        assert_eq!(found(&disk, durable).lost, 0);
    }

    #[test]
    fn a_torn_block_is_lost_unless_it_was_being_written() {
        let least = Label { seed: 7, number: 5, generation: 2 };
        let mut block = vec![0; BLOCK];
        least.fill(&mut block);
        let mut next = vec![0; BLOCK];
        Label { generation: 3, ..least }.fill(&mut next);
        block[..1024].copy_from_slice(&next[..1024]);
        let found = |most| {
            let mut found = Found::default();
            found.add(&block, least, most);
            found
        };
        assert_eq!(found(3), Found { blocks: 1, newer: 1, torn: 1, lost: 0 });
        assert_eq!(found(2), Found { blocks: 1, lost: 1, ..Found::default() });
    }
}
