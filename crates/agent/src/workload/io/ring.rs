//! Blocks by io_uring: several operations of a job at the same time, each with a buffer of its own.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{Context as _, Result};
use io_uring::squeue::Flags;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::buffers::Buffers;
use super::job::{Job, Kind, Next, Operation};
use crate::workload::clock::{STOP_NS, now_ns, sleep_once};

/// The disk's place among the ring's files, and the buffers' among its buffers.
const DISK: Fixed = Fixed(0);
const BUFFERS: u16 = 0;

const NOT_TAKEN: &str = "io_uring does not take an operation";

/// An operation that is under way in a buffer.
struct Slot {
    operation: Operation,
    begin_ns: u64,
}

/// An operation that has ended, and whose data are still in its buffer.
struct Ended {
    buffer: usize,
    operation: Operation,
    result: Result<usize, Errno>,
    took_ns: u64,
}

pub struct Ring {
    ring: IoUring,
    /// The kernel has pinned the buffers, so that an operation need not look its pages up.
    has_fixed_buffers: bool,
    depth: usize,
    /// By buffer.
    under_way: Vec<Option<Slot>>,
    free: Vec<usize>,
    ended: Vec<Ended>,
    // After the ring: while that lives the kernel may write to them.
    buffers: Buffers,
}

impl Ring {
    pub fn new(disk: &File, depth: u32, block: u32) -> Result<Self> {
        let mut lean = IoUring::builder();
        // Cheaper for one thread that waits, where the kernel has that (from 6.1 on).
        lean.setup_single_issuer().setup_defer_taskrun();
        let ring = lean.build(depth).or_else(|_| IoUring::new(depth)).context(
            "io_uring cannot be had (kernel.io_uring_disabled, or a filter of system calls): take the engine \
             pread",
        )?;
        let depth = depth as usize;
        // Twice as many: blocks that were read are checked while the next operations are under way.
        let buffers = Buffers::new(2 * depth, block as usize)?;
        let submitter = ring.submitter();
        submitter.register_files(&[disk.as_raw_fd()])?;
        // SAFETY: they live as long as the ring does.
        let has_fixed_buffers = unsafe { submitter.register_buffers(&[buffers.whole()]) }.is_ok();
        let under_way = (0..2 * depth).map(|_| None).collect();
        let free = (0..2 * depth).rev().collect();
        let ended = Vec::with_capacity(depth);
        Ok(Ring { ring, has_fixed_buffers, depth, under_way, free, ended, buffers })
    }

    /// Works until the job has nothing more to do or is `stopped`, and until all its operations have ended.
    pub fn work(mut self, job: &mut Job, stopped: impl Fn() -> bool) -> Result<()> {
        let outcome = self.work_until(job, stopped);
        if self.count_under_way() > 0 {
            // The ring failed with operations under way: the kernel may write to their buffers still.
            std::mem::forget(self);
        }
        outcome
    }

    fn count_under_way(&self) -> usize {
        2 * self.depth - self.free.len() - self.ended.len()
    }

    fn work_until(&mut self, job: &mut Job, stopped: impl Fn() -> bool) -> Result<()> {
        let mut outcome = Ok(());
        let mut now = now_ns();
        loop {
            let mut wake_at = None;
            let mut is_over = outcome.is_err() || stopped();
            let mut last = None;
            while !is_over && self.count_under_way() + usize::from(last.is_some()) < self.depth {
                match job.next(now) {
                    Next::Begin(operation) => {
                        if let Some(before) = last.replace(operation) {
                            self.begin(before)?;
                            self.ring.submit().context(NOT_TAKEN)?;
                        }
                    }
                    Next::At(due) => {
                        wake_at = Some(due);
                        break;
                    }
                    Next::Nothing => is_over = true,
                }
            }
            for Ended { buffer, operation, result, took_ns } in self.ended.drain(..) {
                let ended = job.ended(operation, result, self.buffers.block(buffer), took_ns);
                outcome = outcome.and(ended);
                self.free.push(buffer);
            }
            if let Some(operation) = last {
                self.begin(operation)?;
            }
            if self.count_under_way() > 0 {
                let until = wake_at.map(|due| due.saturating_sub(now_ns()).min(STOP_NS));
                self.wait(until)?;
            } else if let Some(due) = wake_at {
                sleep_once(due.min(now + STOP_NS));
            } else if is_over {
                return outcome;
            }
            now = now_ns();
            self.reap(now);
        }
    }

    /// Puts an operation into the ring, from which the next call of the kernel takes it.
    ///
    /// Each of several operations gets a call of its own, so that the disk begins at once with the first.
    /// The last one's call also waits, which saves one of two calls where there is one operation at a time.
    fn begin(&mut self, operation: Operation) -> Result<()> {
        // There are as many free ones as may be under way, or more.
        let buffer = self.free.pop().context("no free buffer")?;
        if operation.kind == Kind::Write {
            operation.label.fill(self.buffers.block_mut(buffer));
        }
        let begin_ns = operation.due_ns.unwrap_or_else(now_ns);
        self.under_way[buffer] = Some(Slot { operation, begin_ns });
        let entry = self.entry(buffer, &operation).user_data(buffer as u64);
        // SAFETY: file and buffer are there until the ring has ended; nothing else uses this buffer while an
        // operation is under way in it.
        unsafe { self.ring.submission().push(&entry) }.context("the ring is full")
    }

    fn entry(&self, buffer: usize, operation: &Operation) -> squeue::Entry {
        let address = self.buffers.address(buffer);
        let bytes = self.buffers.block(buffer).len() as u32;
        let offset = operation.label.number * u64::from(bytes);
        match (operation.kind, self.has_fixed_buffers) {
            (Kind::Read, true) => {
                opcode::ReadFixed::new(DISK, address, bytes, BUFFERS).offset(offset).build()
            }
            (Kind::Read, false) => opcode::Read::new(DISK, address, bytes).offset(offset).build(),
            (Kind::Write, true) => {
                opcode::WriteFixed::new(DISK, address, bytes, BUFFERS).offset(offset).build()
            }
            (Kind::Write, false) => opcode::Write::new(DISK, address, bytes).offset(offset).build(),
            // It is for all writes before it, which must have ended.
            (Kind::Sync, _) => {
                opcode::Fsync::new(DISK).flags(FsyncFlags::DATASYNC).build().flags(Flags::IO_DRAIN)
            }
        }
    }

    /// Hands the ring's operations over, and waits until one has ended or so many nanoseconds have passed.
    fn wait(&mut self, limit_ns: Option<u64>) -> Result<()> {
        if self.ring.submission().is_empty() && !self.ring.completion().is_empty() {
            return Ok(());
        }
        let waited = match limit_ns {
            None => self.ring.submit_and_wait(1),
            Some(limit) => {
                let limit = Timespec::new().nsec(limit as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        match waited.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR), _)) => Ok(()),
            Err((_, error)) => Err(error).context("io_uring does not say what has ended"),
        }
    }

    fn reap(&mut self, now: u64) {
        let (_, _, completion) = self.ring.split();
        for entry in completion {
            let buffer = entry.user_data() as usize;
            let Some(Slot { operation, begin_ns }) = self.under_way[buffer].take() else {
                continue;
            };
            let result = match entry.result() {
                moved @ 0.. => Ok(moved as usize),
                error => Err(Errno::from_raw_os_error(-error)),
            };
            let took_ns = now.saturating_sub(begin_ns);
            self.ended.push(Ended { buffer, operation, result, took_ns });
        }
    }
}
