//! Reads and writes blocks of a disk, and checks each one that it reads.
//!
//! It measures what fio(1) does: operations a second, latencies, CPU time. Before the time that counts, a
//! task of its own writes every block once, so that no read finds a hole, for which no medium is asked.
//! Then each job works on blocks of its own ([`job`]). A block's contents name the block and which writing
//! of it this is ([`blocks`]).

mod buffers;
mod calls;
mod job;
mod ring;
pub mod standalone;
mod verify;

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use blocks::{Label, SECTOR};
use hypertare_plan::{DurableWrites, Io, IoEngine, IoFill, IoPattern};
use rustix::fs::{OFlags, fdatasync};
use rustix::io::Errno;

use super::clock::{STOP_NS, from_seconds, now_ns, sleep_until, to_seconds};
use super::usage::Usage;
use super::{Context, Outcome, WorkloadKind};
use crate::boot_contract::DISK_VARIABLE;
use crate::values::Definition;
use buffers::Buffers;
use job::{BlockRange, Job};
use ring::Ring;

/// The most bytes that one call writes before the time that counts.
const FILLED_AT_ONCE: u64 = 256 << 10;
const MOST_DEPTH: u32 = 4096;
const MOST_JOBS: u32 = 256;
const MOST_S: f64 = 86_400.0;

const VALUES: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted"),
    ("operations", "operations", "reads and writes that ended"),
    ("reads", "operations", "reads that ended, each with the data that were written last"),
    ("writes", "operations", "writes that ended"),
    ("fdatasyncs", "calls", "times that what was written was made durable (fdatasync)"),
    ("bytes", "B", "bytes that were read and written"),
    ("user_s", "s", "CPU time of the task in user mode"),
    ("system_s", "s", "CPU time of the task in its kernel"),
    ("switches", "switches", "context switches of the task, by waiting and by preemption"),
    ("read_min_ns", "ns", "least latency of a read"),
    ("read_mean_ns", "ns", "mean latency of the reads"),
    ("read_p50_ns", "ns", "median latency of the reads"),
    ("read_p90_ns", "ns", "90th percentile of the latency of the reads"),
    ("read_p99_ns", "ns", "99th percentile of the latency of the reads"),
    ("read_p999_ns", "ns", "99.9th percentile of the latency of the reads"),
    ("read_max_ns", "ns", "greatest latency of a read"),
    ("write_min_ns", "ns", "least latency of a write"),
    ("write_mean_ns", "ns", "mean latency of the writes"),
    ("write_p50_ns", "ns", "median latency of the writes"),
    ("write_p90_ns", "ns", "90th percentile of the latency of the writes"),
    ("write_p99_ns", "ns", "99th percentile of the latency of the writes"),
    ("write_p999_ns", "ns", "99.9th percentile of the latency of the writes"),
    ("write_max_ns", "ns", "greatest latency of a write"),
    ("sync_min_ns", "ns", "least latency of an fdatasync"),
    ("sync_mean_ns", "ns", "mean latency of fdatasync"),
    ("sync_p50_ns", "ns", "median latency of fdatasync"),
    ("sync_p90_ns", "ns", "90th percentile of the latency of fdatasync"),
    ("sync_p99_ns", "ns", "99th percentile of the latency of fdatasync"),
    ("sync_p999_ns", "ns", "99.9th percentile of the latency of fdatasync"),
    ("sync_max_ns", "ns", "greatest latency of an fdatasync"),
];

impl WorkloadKind for Io {
    const VALUES: &'static [Definition] = VALUES;
    const PREPARES: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        check(self)?;
        run(self, &own_disk(self.direct)?, context)
    }
}

impl WorkloadKind for IoFill {
    const VALUES: &'static [Definition] =
        &[("setup_s", "s", "time of writing every block once, and of making that durable")];
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        let disk = own_disk(self.direct)?;
        let begin = now_ns();
        fill(self, &disk, context)?;
        let mut outcome = Outcome::default();
        outcome.set("setup_s", to_seconds(now_ns() - begin));
        context.ready();
        while sleep_until(now_ns() + STOP_NS, context) {}
        Ok(outcome)
    }
}

fn own_disk(direct: bool) -> Result<File> {
    let path = std::env::var_os(DISK_VARIABLE).context("the node has no disk")?;
    let path = Path::new(&path);
    open(path, direct)
        .with_context(|| format!("the node's disk ({}) cannot be opened", path.display()))
}

/// Opens a disk to read and write.
///
/// A file in memory is its own page cache, which no call can bypass: there a refusal of O_DIRECT is no
/// error.
fn open(path: &Path, direct: bool) -> Result<File> {
    let open = |flags: OFlags| {
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path)
    };
    if !direct {
        return Ok(open(OFlags::empty())?);
    }
    match open(OFlags::DIRECT) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            let file = open(OFlags::empty())?;
            ensure!(
                rustix::fs::fstatfs(&file)?.f_type == libc::TMPFS_MAGIC,
                "its file system refuses O_DIRECT: take another directory, or direct = false"
            );
            Ok(file)
        }
        other => Ok(other?),
    }
}

fn check(spec: &Io) -> Result<()> {
    let &Io { block, span, depth, jobs, .. } = spec;
    ensure!(
        block > 0 && block.is_multiple_of(SECTOR),
        "block is {block} bytes: it must be a multiple of {SECTOR}"
    );
    ensure!(
        span > 0 && span.is_multiple_of(u64::from(block)),
        "span is {span} bytes: it must be a multiple of block, {block}"
    );
    ensure!(
        spec.start.is_multiple_of(u64::from(block)),
        "start is {}: it must be a multiple of block, {block}",
        spec.start
    );
    ensure!((1..=MOST_DEPTH).contains(&depth), "depth is {depth}: it must be 1 to {MOST_DEPTH}");
    ensure!((1..=MOST_JOBS).contains(&jobs), "jobs is {jobs}: it must be 1 to {MOST_JOBS}");
    ensure!(
        span / u64::from(block) / u64::from(jobs) >= 2 * u64::from(depth),
        "a job has {} blocks of the span, and depth is {depth}: it needs two for each operation under way, so \
         raise span",
        span / u64::from(block) / u64::from(jobs)
    );
    ensure!((0.0..=1.0).contains(&spec.read_share), "read_share is {}: 0 to 1", spec.read_share);
    ensure!(
        spec.engine == IoEngine::IoUring || depth == 1,
        "depth is {depth}: by pread there is one operation of a job at a time"
    );
    ensure!(spec.sync_every != Some(0), "sync_every is 0: it is a number of writes");
    ensure!(spec.count != Some(0), "count is 0: nothing would be measured");
    ensure!(
        spec.rate.is_none_or(|rate| rate > 0.0 && rate <= 1e9),
        "rate is {:?}: it must be above 0 and at most 1e9 operations a second",
        spec.rate
    );
    ensure!(
        spec.duration_s > 0.0 && spec.duration_s <= MOST_S,
        "duration_s is {}: it must be above 0 and at most {MOST_S} seconds",
        spec.duration_s
    );
    ensure!(
        !spec.acknowledges || spec.engine == IoEngine::Pread && spec.read_share == 0.0,
        "acknowledges is for work that only writes, by the engine pread"
    );
    Ok(())
}

/// Works on blocks that were filled, until the time or the count is over.
fn run(spec: &Io, disk: &File, context: &Context) -> Result<Outcome> {
    let jobs = parts(spec).map(|(number, part)| Job::new(spec, number, part));
    let mut jobs = jobs.collect::<Result<Vec<_>>>()?;
    context.ready_to_go()?;
    let before = Usage::now();
    let begin = now_ns();
    work(spec, disk, context, &mut jobs)?;
    let elapsed_s = to_seconds(now_ns() - begin);
    let used = Usage::now().since(&before);
    context.worked();
    // All are added up in the first job's.
    let (first, rest) = jobs.split_first_mut().context("no job")?;
    rest.iter().try_for_each(|job| first.done.add(&job.done))?;
    let done = &first.done;
    let [reads, writes, syncs] =
        [&done.reads, &done.writes, &done.syncs].map(|one| one.count() as f64);
    let mut outcome = Outcome::of([
        ("elapsed_s", elapsed_s),
        ("user_s", used.user_s()),
        ("system_s", used.system_s()),
        ("switches", used.switches as f64),
        ("operations", reads + writes),
        ("reads", reads),
        ("writes", writes),
        ("fdatasyncs", syncs),
        ("bytes", (reads + writes) * f64::from(spec.block)),
    ]);
    done.reads.report(&mut outcome, "read");
    done.writes.report(&mut outcome, "write");
    done.syncs.report(&mut outcome, "sync");
    Ok(outcome)
}

/// The number and the blocks of each job. Where blocks cannot be shared evenly, the first jobs have one
/// more.
fn parts(spec: &Io) -> impl Iterator<Item = (u32, BlockRange)> {
    let block = u64::from(spec.block);
    let (begin, blocks) = (spec.start / block, spec.span / block);
    let jobs = u64::from(spec.jobs);
    (0..spec.jobs).map(move |number| {
        let before = |number: u64| blocks / jobs * number + number.min(blocks % jobs);
        let first = before(number.into());
        (number, BlockRange { first: begin + first, count: before(u64::from(number) + 1) - first })
    })
}

fn fill(spec: &IoFill, disk: &File, context: &Context) -> Result<()> {
    let mut seen = disk;
    let size = seen.seek(SeekFrom::End(0)).context("how large the disk is")?;
    let end = spec.start.saturating_add(spec.span);
    ensure!(end <= size, "the disk has {size} bytes, and the span ends at {end}");
    let block = u64::from(spec.block);
    let (begin, blocks) = (spec.start / block, spec.span / block);
    let at_once = (FILLED_AT_ONCE / u64::from(spec.block)).clamp(1, blocks);
    let mut buffers = Buffers::new(1, usize::try_from(at_once * u64::from(spec.block))?)?;
    for first in (0..blocks).step_by(usize::try_from(at_once)?) {
        ensure!(!context.stopped(), "it was stopped before every block was written");
        let count = at_once.min(blocks - first);
        let filled = &mut buffers.block_mut(0)[..usize::try_from(count * u64::from(spec.block))?];
        for (number, block) in (begin + first..).zip(filled.chunks_exact_mut(spec.block as usize)) {
            Label { seed: spec.seed, number, generation: 0 }.fill(block);
        }
        let offset = spec.start + first * block;
        disk.write_all_at(filled, offset)
            .with_context(|| format!("writing {} bytes at offset {offset} failed", filled.len()))?;
    }
    fdatasync(disk).context("what was written before the time that counts cannot be made durable")
}

/// Work that acknowledges durable writes until it is ended.
pub fn acknowledged(writes: &DurableWrites) -> Io {
    let &DurableWrites { block, span, jobs, sync_every, direct, seed } = writes;
    Io {
        pattern: IoPattern::Random,
        engine: IoEngine::Pread,
        block,
        span,
        start: 0,
        depth: 1,
        jobs,
        read_share: 0.0,
        direct,
        sync_every: Some(sync_every),
        rate: None,
        count: None,
        duration_s: MOST_S,
        seed,
        acknowledges: true,
    }
}

/// The task that fills the blocks of this work.
pub fn filling(spec: &Io) -> IoFill {
    let &Io { block, span, start, direct, seed, .. } = spec;
    IoFill { block, span, start, direct, seed }
}

fn work(spec: &Io, disk: &File, context: &Context, jobs: &mut [Job]) -> Result<()> {
    let failed = AtomicBool::new(false);
    let stopped = || context.stopped() || failed.load(Ordering::Relaxed);
    let begin = now_ns();
    jobs.iter_mut().for_each(|job| job.begin(begin, from_seconds(spec.duration_s)));
    // Reports how many writes of a job are durable.
    let synced = |job: &Job| {
        if spec.acknowledges {
            let values = [("job", f64::from(job.number)), ("durable", job.begun as f64)];
            let values = values.map(|(name, value)| (name.to_owned(), value)).into();
            context.interval(0.0, to_seconds(now_ns() - begin), values);
        }
    };
    let one = |job: &mut Job| {
        let worked = match spec.engine {
            IoEngine::IoUring => {
                Ring::new(disk, spec.depth, spec.block).and_then(|ring| ring.work(job, stopped))
            }
            IoEngine::Pread => calls::work(disk, spec.block, job, stopped, synced),
        };
        failed.fetch_or(worked.is_err(), Ordering::Relaxed);
        worked
    };
    if let [alone] = jobs {
        return one(alone);
    }
    std::thread::scope(|scope| {
        let start = |job| std::thread::Builder::new().spawn_scoped(scope, || one(job));
        let threads = jobs.iter_mut().map(start).collect::<std::io::Result<Vec<_>>>()?;
        let lost = |_| bail!("a job's thread has failed");
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(lost))
            .fold(Ok(()), Result::and)
    })
    .map_err(|error| anyhow!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use tempfile::{NamedTempFile, tempfile};

    use super::*;
    use crate::emit::Emitter;

    fn context(stop: &Arc<AtomicBool>) -> Context {
        let emitter = Arc::new(Emitter::new(io::sink()));
        Context::new(("node", 1, "phase", "task"), emitter, stop.clone(), || {})
    }

    fn spec() -> Io {
        Io {
            pattern: IoPattern::Random,
            engine: IoEngine::IoUring,
            block: 4096,
            span: 1 << 20,
            start: 0,
            depth: 8,
            jobs: 1,
            read_share: 0.5,
            direct: false,
            sync_every: None,
            rate: None,
            count: Some(5000),
            duration_s: 30.0,
            seed: 1,
            acknowledges: false,
        }
    }

    fn filled(spec: &Io, disk: &File, context: &Context) -> Result<Outcome> {
        fill(&filling(spec), disk, context)?;
        run(spec, disk, context)
    }

    fn disk() -> File {
        let file = tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file
    }

    #[test]
    fn every_block_that_is_read_is_the_one_that_was_written() {
        for engine in [IoEngine::IoUring, IoEngine::Pread] {
            for pattern in [IoPattern::Random, IoPattern::Sequential] {
                for jobs in [1, 3] {
                    let depth = if engine == IoEngine::Pread { 1 } else { 8 };
                    let spec = Io { engine, pattern, jobs, depth, sync_every: Some(100), ..spec() };
                    let values = filled(&spec, &disk(), &context(&Arc::default())).unwrap().values;
                    assert_eq!(values["operations"], 5000.0, "{values:?}");
                    assert_eq!(values["reads"] + values["writes"], 5000.0);
                    assert_eq!(values["bytes"], 5000.0 * 4096.0);
                    let syncs = (values["writes"] / 100.0).floor();
                    assert!((syncs - 2.0..=syncs).contains(&values["fdatasyncs"]), "{values:?}");
                    assert!(
                        values["read_min_ns"] > 0.0
                            && values["read_p50_ns"] <= values["read_p99_ns"]
                    );
                    assert!(values["write_p999_ns"] <= values["write_max_ns"]);
                }
            }
        }
    }

    #[test]
    fn two_on_one_disk_have_a_part_each() {
        let disk = disk();
        let half = Io { span: 1 << 19, read_share: 0.0, count: Some(1000), ..spec() };
        let other = Io { start: 1 << 19, ..half.clone() };
        let context = context(&Arc::default());
        fill(&filling(&half), &disk, &context).unwrap();
        filled(&other, &disk, &context).unwrap();
        run(&Io { read_share: 1.0, ..half.clone() }, &disk, &context).unwrap();
        let beyond = Io { start: 1 << 20, ..half };
        let why = filled(&beyond, &disk, &context).unwrap_err().to_string();
        assert_eq!(why, "the disk has 1048576 bytes, and the span ends at 1572864");
    }

    #[test]
    fn a_disk_that_lies_is_found_out() {
        // Another writer puts an old block in a place that is read: what a disk does that loses a write.
        for engine in [IoEngine::IoUring, IoEngine::Pread] {
            let file = NamedTempFile::new().unwrap();
            file.as_file().set_len(1 << 20).unwrap();
            let other = file.reopen().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let depth = if engine == IoEngine::Pread { 1 } else { 8 };
            let spec = Io { engine, depth, read_share: 1.0, count: None, ..spec() };
            let context = context(&stop);
            let reader = std::thread::spawn(move || filled(&spec, file.as_file(), &context));
            std::thread::sleep(Duration::from_millis(200));
            let mut old = vec![0; 4096];
            Label { seed: 1, number: 6, generation: 0 }.fill(&mut old);
            other.write_all_at(&old, 5 * 4096).unwrap();
            let why = reader.join().unwrap().unwrap_err().to_string();
            assert!(why.contains("at offset 20480, block 5 should be its writing 0"), "{why}");
            assert!(why.contains("is writing 0 of block 6"), "{why}");
        }
    }

    #[test]
    fn a_disk_that_ends_early_names_the_offset() {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let other = file.reopen().unwrap();
        let spec = Io { read_share: 1.0, pattern: IoPattern::Sequential, count: None, ..spec() };
        let context = context(&Arc::default());
        let reader = std::thread::spawn(move || filled(&spec, file.as_file(), &context));
        std::thread::sleep(Duration::from_millis(200));
        other.set_len(9 * 4096).unwrap();
        let why = reader.join().unwrap().unwrap_err().to_string();
        assert!(
            why.starts_with("reading 4096 bytes at offset ") && why.contains("ended after 0"),
            "{why}"
        );
    }

    #[test]
    fn a_disk_that_is_full_names_the_offset() {
        for engine in [IoEngine::IoUring, IoEngine::Pread] {
            let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
            let depth = if engine == IoEngine::Pread { 1 } else { 8 };
            let spec = Io { engine, depth, read_share: 0.0, ..spec() };
            let spec = Io { pattern: IoPattern::Sequential, ..spec };
            let why = run(&spec, &full, &context(&Arc::default())).unwrap_err().to_string();
            let said =
                "writing 4096 bytes at offset 0 failed: No space left on device (os error 28)";
            assert_eq!(why, said, "{engine:?}");
        }
    }

    #[test]
    fn operations_of_a_rate_begin_by_the_clock() {
        let spec = Io { rate: Some(1000.0), count: None, duration_s: 0.3, ..spec() };
        let values = filled(&spec, &disk(), &context(&Arc::default())).unwrap().values;
        // All that were due, however late: that is in their latency.
        assert!((250.0..=301.0).contains(&values["operations"]), "{values:?}");
        assert!((0.29..5.0).contains(&values["elapsed_s"]), "{values:?}");
    }

    #[test]
    fn a_stop_is_a_good_end() {
        let stop = Arc::new(AtomicBool::new(false));
        let context = context(&stop);
        let spec = Io { count: None, duration_s: 3600.0, ..spec() };
        let worker = std::thread::spawn(move || filled(&spec, &disk(), &context));
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let values = worker.join().unwrap().unwrap().values;
        assert!(values["operations"] > 0.0 && values["elapsed_s"] < 5.0, "{values:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        for (spec, word) in [
            (Io { block: 0, ..spec() }, "block"),
            (Io { block: 1000, ..spec() }, "block"),
            (Io { span: 4096 + 512, ..spec() }, "span"),
            (Io { span: 8 * 4096, ..spec() }, "raise span"),
            (Io { start: 512, ..spec() }, "start"),
            (Io { depth: 0, ..spec() }, "depth"),
            (Io { jobs: 0, ..spec() }, "jobs"),
            (Io { engine: IoEngine::Pread, ..spec() }, "pread"),
            (Io { read_share: 1.5, ..spec() }, "read_share"),
            (Io { sync_every: Some(0), ..spec() }, "sync_every"),
            (Io { count: Some(0), ..spec() }, "count"),
            (Io { rate: Some(0.0), ..spec() }, "rate"),
            (Io { duration_s: f64::NAN, ..spec() }, "duration_s"),
        ] {
            let error = check(&spec).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let larger = Io { span: 2 << 20, ..spec() };
        let error = filled(&larger, &disk(), &context(&Arc::default())).unwrap_err().to_string();
        assert!(error.starts_with("the disk has 1048576 bytes"), "{error}");
    }
}
