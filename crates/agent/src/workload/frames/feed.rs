//! The machine's work for a guest that captures past its card: a capture program that writes its frames
//! into the memory that both share.

use anyhow::{Context as _, Result, anyhow};
use datapath::frame_ring::Writer;
use datapath::memory::Mapped;
use hypertare_plan::{FrameFeed, FrameVia};

use super::{check_ring, numbered};
use crate::net::frame_sources;
use crate::net::frames::Opening;
use crate::net::shared::memory::SharedMemory;
use crate::process::cpus;
use crate::values::Definition;
use crate::workload::usage::Usage;
use crate::workload::{Context, Outcome, WorkloadKind};

impl WorkloadKind for FrameFeed {
    const VALUES: &'static [Definition] = &[
        ("fed_packets", "frames", "frames that were written into the shared memory"),
        ("full_packets", "frames", "frames that found no room there"),
        ("ring_drops", "frames", "frames that found no room before they were looked at"),
        ("user_s", "s", "CPU time in user mode, which the guest has from its machine"),
        ("system_s", "s", "CPU time in the kernel, likewise"),
    ];
    const LISTENS: bool = true;

    fn run(&self, context: &Context) -> Result<Outcome> {
        check_ring(self.ring)?;
        let guest = SharedMemory::open(&self.guest)?;
        let mut source = frame_sources::open(&Opening {
            interface: &guest.bridge,
            via: FrameVia::Packet,
            ring: self.ring,
            frame: self.frame,
            filter: &numbered::of_session(self.session),
            at_once: false,
        })?;
        let mut writer = Writer::new(Mapped::new(&guest.memory, 0, guest.bytes)?)?;
        cpus::bind(0, guest.datapath_cpu.as_slice())?;
        context.ready();
        let before = Usage::of_thread();
        let (mut fed, mut full, mut missed) = (0_u64, 0_u64, 0);
        while !context.stopped() {
            let mut failed = None;
            let taken = source.next(&mut |frame| match writer.put(frame) {
                Ok(true) => fed += 1,
                Ok(false) => full += 1,
                Err(error) => failed = Some(error),
            });
            taken.map_err(|error| anyhow!("cannot capture for {}: {error}", self.guest))?;
            if let Some(error) = failed {
                return Err(error).with_context(|| format!("what {} says of the ring", self.guest));
            }
            let drops = source.drops()?;
            writer.lost(drops - missed);
            missed = drops;
        }
        let used = Usage::of_thread().since(&before);
        let mut outcome = Outcome::default();
        outcome.set("user_s", used.user_s()).set("system_s", used.system_s());
        outcome
            .set("fed_packets", fed as f64)
            .set("full_packets", full as f64)
            .set("ring_drops", missed as f64);
        Ok(outcome)
    }
}
