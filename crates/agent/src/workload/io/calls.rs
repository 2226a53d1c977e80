//! Blocks by pread(2) and pwrite(2): one operation of a job at a time.

use std::fs::File;

use anyhow::Result;
use rustix::fs::fdatasync;
use rustix::io::{pread, pwrite};

use super::buffers::Buffers;
use super::job::{Job, Kind, Next};
use crate::workload::clock::{STOP_NS, now_ns, sleep_once};

/// Works until the job has nothing more to do or is `stopped`. Whenever it calls `synced`, all writes that
/// it has begun are durable.
pub fn work(
    disk: &File,
    block: u32,
    job: &mut Job,
    stopped: impl Fn() -> bool,
    synced: impl Fn(&Job),
) -> Result<()> {
    let mut buffers = Buffers::new(1, block as usize)?;
    let mut now = now_ns();
    while !stopped() {
        let operation = match job.next(now) {
            Next::Begin(operation) => operation,
            Next::At(due) => {
                sleep_once(due.min(now + STOP_NS));
                now = now_ns();
                continue;
            }
            Next::Nothing => break,
        };
        let offset = operation.label.number * u64::from(block);
        let buffer = buffers.block_mut(0);
        if operation.kind == Kind::Write {
            operation.label.fill(buffer);
        }
        let begin = operation.due_ns.unwrap_or_else(now_ns);
        let result = match operation.kind {
            Kind::Read => pread(disk, &mut *buffer, offset),
            Kind::Write => pwrite(disk, buffer, offset),
            Kind::Sync => fdatasync(disk).map(|()| 0),
        };
        now = now_ns();
        job.ended(operation, result, buffers.block(0), now.saturating_sub(begin))?;
        if operation.kind == Kind::Sync {
            synced(job);
        }
    }
    Ok(())
}
