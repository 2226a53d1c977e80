//! One job: it chooses the next block, knows the block's contents, and records how long each operation
//! took. The calls that read and write blocks are made elsewhere.

use anyhow::{Result, bail};
use blocks::{Label, SplitMix};
use hypertare_plan::{Io, IoPattern};
use rustix::io::Errno;

use crate::workload::clock::SECOND;
use crate::workload::latencies::Latencies;

/// The bit of a block's generation that says that an operation on it is under way.
const BUSY: u32 = 1 << 31;

/// In quantiles a longer operation counts as this long.
const MOST_NS: u64 = 60 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Sync,
}

/// One operation, from its choice to its end.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub kind: Kind,
    /// The contents to write, or to expect.
    pub label: Label,
    /// When it was due; `None`: it begins at once.
    pub due_ns: Option<u64>,
}

/// A job's next step.
pub enum Next {
    Begin(Operation),
    /// Nothing before this time.
    At(u64),
    /// Nothing more.
    Nothing,
}

/// Blocks of one job: `count` of them from `first` on.
#[derive(Clone, Copy, Debug)]
pub struct BlockRange {
    pub first: u64,
    pub count: u64,
}

pub struct Job {
    pub number: u32,
    blocks: BlockRange,
    block: u64,
    seed: u64,
    pattern: IoPattern,
    /// Of 2^32 operations, how many read.
    reads_of: u64,
    sync_every: Option<u32>,
    /// Nanoseconds from one operation to the next.
    every_ns: Option<f64>,
    /// Operations that may be begun.
    left: u64,
    begin_ns: u64,
    end_ns: u64,
    /// How often each block was written, and [`BUSY`].
    generations: Vec<u32>,
    random: SplitMix,
    cursor: u64,
    /// Operations that were begun.
    pub begun: u64,
    unsynced: u32,
    pub done: Done,
}

/// Latencies of the operations of one job or of several.
pub struct Done {
    pub reads: Latencies,
    pub writes: Latencies,
    pub syncs: Latencies,
}

impl Done {
    pub fn new() -> Result<Self> {
        let latencies = || Latencies::new(MOST_NS);
        Ok(Done { reads: latencies()?, writes: latencies()?, syncs: latencies()? })
    }

    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.reads.add(&other.reads)?;
        self.writes.add(&other.writes)?;
        self.syncs.add(&other.syncs)
    }
}

impl Job {
    /// The job `number`, whose blocks hold their generation 0.
    pub fn new(spec: &Io, number: u32, blocks: BlockRange) -> Result<Self> {
        let jobs = f64::from(spec.jobs);
        // Of a fixed count, the first jobs have one more where it cannot be shared evenly.
        let share = |count| {
            count / u64::from(spec.jobs)
                + u64::from(u64::from(number) < count % u64::from(spec.jobs))
        };
        let mut random = SplitMix::new(spec.seed ^ (u64::from(number) << 32));
        let cursor = match spec.pattern {
            IoPattern::Random => random.below(blocks.count),
            IoPattern::Sequential => 0,
        };
        Ok(Job {
            number,
            blocks,
            block: u64::from(spec.block),
            seed: spec.seed,
            pattern: spec.pattern,
            reads_of: (spec.read_share * 2f64.powi(32)).round() as u64,
            sync_every: spec.sync_every,
            every_ns: spec.rate.map(|rate| jobs * SECOND as f64 / rate),
            left: spec.count.map_or(u64::MAX, share),
            begin_ns: 0,
            end_ns: u64::MAX,
            generations: vec![0; usize::try_from(blocks.count)?],
            random,
            cursor,
            begun: 0,
            unsynced: 0,
            done: Done::new()?,
        })
    }

    /// How often a block of this job was written after it was filled.
    pub fn generation(&self, number: u64) -> u32 {
        self.generations[self.index(number)] & !BUSY
    }

    /// Starts the job's time.
    pub fn begin(&mut self, now_ns: u64, duration_ns: u64) {
        self.begin_ns = now_ns;
        self.end_ns = now_ns.saturating_add(duration_ns);
    }

    pub fn next(&mut self, now_ns: u64) -> Next {
        if now_ns >= self.end_ns {
            return Next::Nothing;
        }
        if self.sync_every.is_some_and(|every| self.unsynced >= every) {
            self.unsynced = 0;
            let label = Label { seed: self.seed, number: 0, generation: 0 };
            return Next::Begin(Operation { kind: Kind::Sync, label, due_ns: None });
        }
        if self.left == 0 {
            return Next::Nothing;
        }
        let due_ns = self.every_ns.map(|every| self.begin_ns + (self.begun as f64 * every) as u64);
        if let Some(due) = due_ns
            && due > now_ns
        {
            return if due >= self.end_ns { Next::Nothing } else { Next::At(due) };
        }
        self.left -= 1;
        self.begun += 1;
        Next::Begin(self.operation(due_ns))
    }

    /// # Errors
    /// The operation failed, or it did not read the data that were written last.
    pub fn ended(
        &mut self,
        operation: Operation,
        result: Result<usize, Errno>,
        block: &[u8],
        took_ns: u64,
    ) -> Result<()> {
        let Operation { kind, label, .. } = operation;
        let offset = label.number * self.block;
        let moved = match (kind, result) {
            (Kind::Sync, Ok(_)) => {
                self.done.syncs.record(took_ns);
                return Ok(());
            }
            (Kind::Sync, Err(error)) => bail!("fdatasync failed: {error}"),
            (Kind::Read, Err(error)) => {
                bail!("reading {} bytes at offset {offset} failed: {error}", self.block)
            }
            (Kind::Write, Err(error)) => {
                bail!("writing {} bytes at offset {offset} failed: {error}", self.block)
            }
            (_, Ok(moved)) => moved as u64,
        };
        let verb = if kind == Kind::Read { "reading" } else { "writing" };
        if moved != self.block {
            bail!("{verb} {} bytes at offset {offset} ended after {moved}", self.block);
        }
        let at = self.index(label.number);
        self.generations[at] &= !BUSY;
        match kind {
            Kind::Read => {
                self.done.reads.record(took_ns);
                label.check(block).map_err(|mismatch| anyhow::anyhow!("{mismatch}"))?;
            }
            Kind::Write => {
                self.done.writes.record(took_ns);
                self.generations[at] = label.generation;
            }
            Kind::Sync => {}
        }
        Ok(())
    }

    fn operation(&mut self, due_ns: Option<u64>) -> Operation {
        let number = self.place();
        let at = self.index(number);
        let before = self.generations[at];
        self.generations[at] |= BUSY;
        let reads = u64::from(self.random.draw() as u32) < self.reads_of;
        let (kind, generation) = if reads {
            (Kind::Read, before)
        } else {
            self.unsynced += 1;
            // Without an end: after 2^31 writings the generation starts again.
            (Kind::Write, (before + 1) & !BUSY)
        };
        Operation { kind, label: Label { seed: self.seed, number, generation }, due_ns }
    }

    /// The next block without an operation under way; one exists, because there are more blocks than
    /// concurrent operations.
    fn place(&mut self) -> u64 {
        if self.pattern == IoPattern::Random {
            self.cursor = self.random.below(self.blocks.count);
        }
        loop {
            let number = self.blocks.first + self.cursor;
            self.cursor = (self.cursor + 1) % self.blocks.count;
            if self.generations[self.index(number)] & BUSY == 0 {
                return number;
            }
        }
    }

    fn index(&self, number: u64) -> usize {
        // It fits: each block of the job has an entry in memory.
        (number - self.blocks.first) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hypertare_plan::IoEngine;

    use super::*;

    fn spec() -> Io {
        Io {
            pattern: IoPattern::Random,
            engine: IoEngine::IoUring,
            block: 512,
            span: 8 * 512,
            start: 0,
            depth: 4,
            jobs: 1,
            read_share: 0.5,
            direct: false,
            sync_every: None,
            rate: None,
            count: None,
            duration_s: 1.0,
            seed: 5,
            acknowledges: false,
        }
    }

    fn job(spec: &Io) -> Job {
        let mut job = Job::new(spec, 0, BlockRange { first: 8, count: 8 }).unwrap();
        job.begin(1000, SECOND);
        job
    }

    fn begin(job: &mut Job, now_ns: u64) -> Operation {
        match job.next(now_ns) {
            Next::Begin(operation) => operation,
            Next::At(due) => panic!("nothing before {due}"),
            Next::Nothing => panic!("nothing more"),
        }
    }

    #[test]
    fn no_two_operations_at_once_are_on_one_block() {
        let mut job = job(&spec());
        for _ in 0..100 {
            let under_way: Vec<_> = (0..8).map(|_| begin(&mut job, 1000)).collect();
            let numbers: BTreeSet<_> = under_way.iter().map(|one| one.label.number).collect();
            assert_eq!(numbers, (8..16).collect());
            for operation in under_way {
                let mut block = [0; 512];
                operation.label.fill(&mut block);
                job.ended(operation, Ok(512), &block, 7).unwrap();
            }
        }
        let (reads, writes) = (job.done.reads.count(), job.done.writes.count());
        assert_eq!(reads + writes, 800);
        // Binomial: 400 and six standard deviations.
        assert!((315..485).contains(&reads), "{reads}");
    }

    #[test]
    fn a_read_wants_the_last_writing() {
        let mut job = job(&Io { read_share: 0.0, pattern: IoPattern::Sequential, ..spec() });
        for generation in [1, 2] {
            for number in 8..16 {
                let write = begin(&mut job, 1000);
                assert_eq!((write.kind, write.label.number), (Kind::Write, number));
                assert_eq!(write.label.generation, generation);
                job.ended(write, Ok(512), &[], 7).unwrap();
            }
        }
        job.reads_of = 1 << 32;
        let read = begin(&mut job, 1000);
        assert_eq!((read.kind, read.label.generation), (Kind::Read, 2));
        let mut old = [0; 512];
        Label { generation: 1, ..read.label }.fill(&mut old);
        let why = job.ended(read, Ok(512), &old, 7).unwrap_err().to_string();
        assert!(why.contains("should be its writing 2, and is writing 1 of block 8"), "{why}");
    }

    #[test]
    fn errors_name_the_offset() {
        let mut job = job(&Io { read_share: 1.0, pattern: IoPattern::Sequential, ..spec() });
        let (first, second) = (begin(&mut job, 1000), begin(&mut job, 1000));
        let why = job.ended(first, Err(Errno::IO), &[], 7).unwrap_err().to_string();
        assert!(why.starts_with("reading 512 bytes at offset 4096 failed: "), "{why}");
        let why = job.ended(second, Ok(100), &[], 7).unwrap_err().to_string();
        assert!(why.contains("at offset 4608 ended after 100"), "{why}");
    }

    #[test]
    fn what_was_written_is_made_durable_after_so_many_writes() {
        let mut job = job(&Io { read_share: 0.0, sync_every: Some(2), count: Some(4), ..spec() });
        let mut kinds = Vec::new();
        while let Next::Begin(operation) = job.next(1000) {
            kinds.push(operation.kind);
            job.ended(operation, Ok(512), &[], 7).unwrap();
        }
        use Kind::{Sync, Write};
        assert_eq!(kinds, [Write, Write, Sync, Write, Write, Sync]);
    }

    #[test]
    fn operations_begin_at_their_rate_and_end_with_the_time() {
        let mut job = job(&Io { rate: Some(4.0), ..spec() });
        assert_eq!(begin(&mut job, 1000).due_ns, Some(1000));
        let Next::At(due) = job.next(2000) else { panic!("too early") };
        assert_eq!(due, 1000 + SECOND / 4);
        // Late, it is counted from its own time on.
        assert_eq!(begin(&mut job, due + 5).due_ns, Some(due));
        assert!(matches!(job.next(1000 + SECOND), Next::Nothing));
    }
}
