//! What is read while a phase runs. A probe is read when the phase's background tasks run, right before
//! its first foreground task starts, and right after the last one has ended; its values are the
//! differences. A guest reads its own before the load on others starts, which may leave it no CPU for
//! that, and where it has none, again when that load has stopped. [`Probe::Drops`] is read once all
//! background tasks have ended: what was still under way has then arrived or not.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    pub node: String,
    pub probe: Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "ProbeName"))]
pub enum Probe {
    /// CPU seconds by mode, context switches and forks, from /proc/stat.
    Stat,
    /// Softirqs by kind, from /proc/softirqs.
    Softirqs,
    /// Interrupts by device, from /proc/interrupts.
    Interrupts,
    /// Packets, bytes, drops and errors by interface, from /proc/net/dev.
    NetDev,
    /// Page faults, swapping, THP and KSM events, from /proc/vmstat.
    Vmstat,
    /// Run and wait time of CPUs, from /proc/schedstat.
    Schedstat,
    /// Protocol counters, from /proc/net/snmp, /proc/net/netstat and /proc/net/softnet_stat.
    NetSnmp,
    /// CPU time of the node's VMM (and of its vhost threads) as its machine sees it. For a container:
    /// of its cgroup. Under Xen: of the domain, also the driver domain's of the node `host`.
    Outside,
    /// In which mode the machine's CPUs worked, and for whom: samples of guests' code, of their virtual CPUs'
    /// threads, of their VMMs' other threads, and of all else. Taking one takes time.
    CpuModes,
    /// Packets per poll by interface, counted by the project's kernel module; the interrupts of those
    /// interfaces; CPU time of ksoftirqd.
    Napi,
    /// Packets per poll by interface where the module does not count them: by the kernel's own tracepoint
    /// napi:napi_poll. That takes microseconds of every poll.
    PollsTraced,
    /// Packets dropped, by place: NIC ring, driver, qdisc, backlog, socket buffer.
    Drops,
    /// KVM's own counters of a guest, read on its host: exits, page faults, TLB flushes, shadow pages.
    Kvm,
    /// Exits of a KVM guest by reason and page faults by error code, counted on its host by the
    /// kernel's own tracepoints kvm:kvm_exit and kvm:kvm_page_fault. That takes time in every exit.
    KvmExits,
    /// Huge pages, THP and KSM: /proc/vmstat, /sys/kernel/mm; CPU time of ksmd and khugepaged.
    Memory,
    /// Memory of the node's VMM: resident and proportional set, pages of hugetlb.
    VmmMemory,
    /// Counters of the node's CPUs: instructions, cycles, TLB misses, cycles of page walks.
    Hardware,
    /// What the process that moves a guest's packets counts: kicks, calls, polls, frames.
    Datapath,
    /// What the machine was like meanwhile: CPU time of others, pressure (PSI), clock speed.
    Conditions,
}

impl Probe {
    /// Read by the host agent about the node, not by the node itself.
    pub fn is_outside(self) -> bool {
        matches!(
            self,
            Probe::Outside
                | Probe::CpuModes
                | Probe::Kvm
                | Probe::KvmExits
                | Probe::VmmMemory
                | Probe::Datapath
                | Probe::Conditions
        )
    }
}
