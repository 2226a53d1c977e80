//! A setting that can be probed, applied and put back.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KnobSetting {
    pub node: String,
    pub knob: Knob,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Knob {
    /// MTU of an interface, in bytes.
    Mtu { interface: String, bytes: u32 },
    /// An offload by ethtool's short name: rx, tx, sg, tso, gso, gro, lro, ufo, rxvlan, txvlan. With
    /// `ports` it is that of each port of the bridge `interface`, and not of the bridge itself.
    Offload {
        interface: String,
        offload: String,
        on: bool,
        #[serde(default)]
        ports: bool,
    },
    /// Default and largest socket buffers (net.core.[rw]mem_default/_max, net.ipv4.tcp_[rw]mem).
    SocketBuffers { bytes: u64 },
    /// Settings of the network by their names below /proc/sys (`net/ipv4/tcp_notsent_lowat`).
    Sysctls { values: BTreeMap<String, String> },
    /// CPUs that serve an interface's interrupts, counted as the node counts them.
    InterruptCpus { interface: String, cpus: Vec<u32> },
    /// CPUs of receive packet steering of every queue of an interface; none switches it off.
    ReceiveSteering { interface: String, cpus: Vec<u32> },
    /// Packets that one poll may take from each NAPI instance of an interface, 1 to 1024.
    NapiWeight { interface: String, weight: u32 },
    /// What one softirq may take from all instances (net.core.netdev_budget, netdev_budget_usecs);
    /// without `microseconds` that limit stays as it is.
    NapiBudget {
        packets: u32,
        #[serde(default)]
        microseconds: Option<u32>,
    },
    /// Packets that one poll may take from a CPU's backlog (net.core.dev_weight). The weight of a
    /// driver's instances is another.
    DevWeight { packets: u32 },
    /// Descriptors of the rings of an interface, or of the machine's NIC with this MAC address, as in
    /// ethtool(8); what is not given stays as it is.
    RingSizes {
        interface: String,
        #[serde(default)]
        rx: Option<u32>,
        #[serde(default)]
        tx: Option<u32>,
    },
    /// Interrupt coalescing as in ethtool(8); what is not given stays as it is.
    InterruptCoalescing {
        interface: String,
        #[serde(default)]
        rx_usecs: Option<u32>,
        #[serde(default)]
        rx_frames: Option<u32>,
        #[serde(default)]
        tx_usecs: Option<u32>,
        #[serde(default)]
        tx_frames: Option<u32>,
        #[serde(default)]
        adaptive_rx: Option<bool>,
    },
    /// Time for which a waiting socket polls its NIC itself (net.core.busy_poll and busy_read; the
    /// latter is SO_BUSY_POLL of every socket made from then on); 0 switches it off.
    BusyPoll { microseconds: u32 },
    /// Polls without packets before an interface's interrupt is switched on again, and the time, in
    /// ns, after which a timer polls; both 0 is the default.
    DeferHardIrqs { interface: String, polls: u32, flush_timeout_ns: u64 },
    /// Transparent huge pages of a machine (sysfs, transparent_hugepage): who gets them, how hard the
    /// kernel tries in a page fault, and how long khugepaged sleeps between looks for small pages to
    /// turn into huge ones; what is not given stays as it is.
    Thp {
        enabled: ThpEnabled,
        #[serde(default)]
        defrag: Option<ThpDefrag>,
        #[serde(default)]
        scan_sleep_ms: Option<u32>,
    },
    /// Same-page merging of a machine (sysfs, ksm), of memory that asks for it. Switching it off takes
    /// apart what was merged.
    Ksm {
        run: bool,
        #[serde(default)]
        pages_to_scan: Option<u32>,
        #[serde(default)]
        sleep_ms: Option<u32>,
    },
    /// How long KVM polls for a halted virtual CPU's wake-up before it lets others have its CPU, at most
    /// (parameter halt_poll_ns of the module kvm); 0 switches it off.
    HaltPollNs { nanoseconds: u32 },
    /// Weight in Xen's scheduler, 1 to 65535, of a guest of the bench or, without one, of the driver
    /// domain; on the node `host` only. Elsewhere of cgroups, if the bench has `weights`: of a guest's
    /// virtual CPUs, or of the threads that move packets for guests.
    SchedulerWeight {
        weight: u32,
        #[serde(default)]
        guest: Option<String>,
    },
    /// What the machine's NIC with this MAC address sends, by which guests reach others, waits for a rate, in
    /// b/s on the wire: packets with a mark in a class of their own, or all in one.
    TrafficClasses {
        uplink: String,
        rate_bps: u64,
        #[serde(default)]
        marked: Option<MarkedClass>,
    },
}

impl Knob {
    /// The interface that it is about, where it is about one of the node's.
    pub fn interface_mut(&mut self) -> Option<&mut String> {
        match self {
            Knob::Mtu { interface, .. }
            | Knob::Offload { interface, .. }
            | Knob::InterruptCpus { interface, .. }
            | Knob::ReceiveSteering { interface, .. }
            | Knob::NapiWeight { interface, .. }
            | Knob::RingSizes { interface, .. }
            | Knob::InterruptCoalescing { interface, .. }
            | Knob::DeferHardIrqs { interface, .. } => Some(interface),
            _ => None,
        }
    }
}

/// The class of IPv4 packets with a mark; all others are of another. Each may use what the other leaves of the
/// rate that they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MarkedClass {
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// What it has in any case, in b/s; the other class has the rest.
    pub rate_bps: u64,
    /// Rate that no class uses goes to it first; else to both alike.
    pub first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThpEnabled {
    /// Every program.
    Always,
    /// Where a program asks for it.
    Madvise,
    /// None.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThpDefrag {
    /// A page fault waits until a huge page is made free.
    Always,
    /// It does not wait, but wakes who makes some.
    Defer,
    /// As `defer`; where a program asks for it, as `always`.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
    /// As `always` where a program asks for it.
    Madvise,
    /// None.
    Never,
}
