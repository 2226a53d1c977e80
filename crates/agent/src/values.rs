//! Every value that a workload or a probe reports: its name, its unit, what it is. The controller's responses
//! are made from these; a test on each side holds them together.

use hypertare_plan::Probe;

/// Name, unit, meaning.
pub type Definition = (&'static str, &'static str, &'static str);

pub const COMMAND: &[Definition] = &[
    ("elapsed_s", "s", "from before the start of the program to after its end was seen"),
    ("user_s", "s", "CPU time in user mode of the program and all it waited for"),
    ("system_s", "s", "CPU time in the kernel of the program and all it waited for"),
    ("minor_faults", "faults", "page faults served without reading a disk"),
    ("major_faults", "faults", "page faults that had to read"),
    ("voluntary_switches", "switches", "context switches by waiting"),
    ("involuntary_switches", "switches", "context switches by preemption"),
    ("peak_memory_bytes", "B", "largest resident set of any one process"),
    ("exit_status", "", "exit status of the program"),
];

pub const STREAM_SEND: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted"),
    ("sent_bytes", "B", "payload handed to the kernel and accepted"),
    ("sent_packets", "messages", "messages handed to the kernel and accepted"),
    ("all_packets", "messages", "sent_packets, those before, and what tells the end; UDP"),
    ("offered_bps", "b/s", "payload rate asked for; absent when as fast as it goes"),
    ("sent_bps", "b/s", "payload rate achieved"),
    ("retransmits", "segments", "TCP segments sent again, from TCP_INFO"),
    ("rtt_s", "s", "smoothed round-trip time at the end, mean over flows, from TCP_INFO"),
    ("rtt_min_s", "s", "least round-trip time seen by TCP, from TCP_INFO"),
    ("mss_bytes", "B", "segment size in use, from TCP_INFO"),
    ("send_errors", "messages", "messages that the kernel refused (ENOBUFS and the like)"),
    ("late_s", "s", "how far behind its schedule a paced sender was at worst"),
    ("segmentation", "", "1 when the kernel cut the datagrams (UDP_SEGMENT), else 0; UDP only"),
    ("socket_buffer_bytes", "B", "SO_SNDBUF as the kernel set it"),
    ("user_s", "s", "CPU time in user mode of the sender"),
    ("system_s", "s", "CPU time in the kernel of the sender"),
];

/// Of one interval: differences, but for the state of TCP at its end.
pub const STREAM_SEND_INTERVAL: &[Definition] = &[
    ("sent_bytes", "B", "payload handed to the kernel and accepted"),
    ("sent_packets", "messages", "messages handed to the kernel and accepted"),
    ("send_errors", "messages", "messages that the kernel refused"),
    ("retransmits", "segments", "TCP segments sent again, from TCP_INFO"),
    ("rtt_s", "s", "smoothed round-trip time, mean over flows, from TCP_INFO"),
    ("cwnd_bytes", "B", "congestion window, sum over flows, from TCP_INFO"),
];

pub const STREAM_RECEIVE: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted: first to last arrival"),
    ("received_bytes", "B", "payload received, duplicates left out"),
    ("received_packets", "messages", "datagrams received, duplicates left out; reads for TCP"),
    (
        "goodput_bps",
        "b/s",
        "payload received after the first arrival, over elapsed_s (n arrivals are n - 1 gaps)",
    ),
    ("lost_packets", "messages", "sequence numbers below the highest known that never came; UDP"),
    (
        "reordered_packets",
        "messages",
        "datagrams with a number below one that came before (RFC 4737); UDP",
    ),
    ("duplicate_packets", "messages", "further copies of datagrams that had come (RFC 5560); UDP"),
    ("foreign_packets", "messages", "datagrams or connections that were not of this stream"),
    ("all_packets", "messages", "every datagram of the stream, whether it counts or not; UDP"),
    (
        "socket_drops",
        "buffers",
        "dropped for want of room in the socket buffer (SO_RXQ_OVFL's counter); datagrams that \
         travel as one (UDP_SEGMENT, GRO) may count once; UDP",
    ),
    ("socket_buffer_bytes", "B", "SO_RCVBUF as the kernel set it"),
    ("user_s", "s", "CPU time in user mode of the receiver"),
    ("system_s", "s", "CPU time in the kernel of the receiver"),
];

/// Of one interval: differences. A late datagram takes back a loss, so that can be negative.
pub const STREAM_RECEIVE_INTERVAL: &[Definition] = &[
    ("received_bytes", "B", "payload received, duplicates left out"),
    ("received_packets", "messages", "datagrams received, duplicates left out; reads for TCP"),
    ("lost_packets", "messages", "sequence numbers that were skipped, less those that came late"),
    ("reordered_packets", "messages", "datagrams with a number below one that came before"),
    ("duplicate_packets", "messages", "further copies of datagrams that had come"),
    ("socket_drops", "buffers", "dropped for want of room in the socket buffer"),
];

pub const PING_REQUEST: &[Definition] = &[
    ("elapsed_s", "s", "time over which was counted"),
    ("requests", "messages", "requests sent"),
    ("replies", "messages", "answers in time"),
    ("lost_packets", "messages", "requests without an answer in time"),
    ("rtt_min_ns", "ns", "least round-trip time"),
    ("rtt_mean_ns", "ns", "mean round-trip time"),
    ("rtt_p50_ns", "ns", "median round-trip time"),
    ("rtt_p90_ns", "ns", "90th percentile of the round-trip time"),
    ("rtt_p99_ns", "ns", "99th percentile of the round-trip time"),
    ("rtt_p999_ns", "ns", "99.9th percentile of the round-trip time"),
    ("rtt_max_ns", "ns", "greatest round-trip time"),
    (
        "rtt_jitter_ns",
        "ns",
        "mean difference of successive round-trip times (RFC 3550's D, unsmoothed)",
    ),
];

pub const PING_REPLY: &[Definition] = &[("replies", "messages", "requests answered")];

pub const BURN: &[Definition] = &[
    ("elapsed_s", "s", "how long it burned"),
    ("used_s", "s", "CPU time used by all threads"),
    ("share", "", "used time over elapsed time, per thread"),
    ("loops", "loops", "units of work done: what neighbours left of the CPU"),
];

pub const FORK: &[Definition] = &[
    ("elapsed_s", "s", "from before the first fork to the end of the last program"),
    ("forks", "processes", "programs that were executed and ended"),
    ("touched_bytes", "B", "memory that each of them wrote to, one byte a page of 4 KB"),
    ("minor_faults", "faults", "page faults of the programs and of their parent"),
    ("major_faults", "faults", "of those that had to read a disk"),
    ("user_s", "s", "CPU time in user mode of the programs and of their parent"),
    ("system_s", "s", "CPU time in the kernel of the programs and of their parent"),
];

pub const TOUCH: &[Definition] = &[
    ("elapsed_s", "s", "time of the reads"),
    ("accesses", "reads", "reads, each of another cache line of the working set"),
    ("minor_faults", "faults", "page faults during the reads"),
    ("major_faults", "faults", "of those that had to read a disk"),
    ("user_s", "s", "CPU time in user mode during the reads"),
    ("system_s", "s", "CPU time in the kernel during the reads"),
    ("setup_s", "s", "time of mapping and filling the working set before, not in elapsed_s"),
    ("setup_faults", "faults", "page faults of mapping and filling it, not in minor_faults"),
    ("memory_bytes", "B", "size of the working set"),
    ("huge_bytes", "B", "of that in pages of 2 MB, as the kernel says after the reads"),
];

/// Values of probes: they are differences over a phase unless the meaning says otherwise. In a name
/// `*` stands for any text and `#` for a number; the first that fits holds.
pub const PROBES: &[(Probe, &[Definition])] = &[
    (Probe::Stat, STAT),
    (Probe::Softirqs, SOFTIRQS),
    (Probe::Interrupts, INTERRUPTS),
    (Probe::NetDev, NET_DEV),
    (Probe::Vmstat, VMSTAT),
    (Probe::Schedstat, SCHEDSTAT),
    (Probe::NetSnmp, NET_SNMP),
    (Probe::Outside, OUTSIDE),
    (Probe::Napi, NAPI),
    (Probe::Drops, DROPS),
    (Probe::Kvm, KVM),
    (Probe::KvmExits, KVM_EXITS),
    (Probe::Memory, MEMORY),
    (Probe::Hardware, HARDWARE),
];

/// Each time also by CPU: `cpu0.busy_s`.
const STAT: &[Definition] = &[
    ("*user_s", "s", "CPU time in user mode, guests included"),
    ("*guest_nice_s", "s", "CPU time of niced guests; already in nice_s"),
    ("*nice_s", "s", "CPU time in user mode at low priority, guests included"),
    ("*system_s", "s", "CPU time in the kernel"),
    ("*idle_s", "s", "CPU time without anything to do"),
    ("*iowait_s", "s", "CPU time without anything to do but wait for a disk; unreliable (proc(5))"),
    ("*softirq_s", "s", "CPU time in softirqs"),
    ("*irq_s", "s", "CPU time in interrupts"),
    ("*steal_s", "s", "time in which the hypervisor ran others though this CPU had work"),
    ("*guest_s", "s", "CPU time of guests; already in user_s"),
    ("*busy_s", "s", "CPU time in which it ran: user, nice, system, irq and softirq"),
    ("context_switches", "switches", "context switches of all CPUs"),
    ("forks", "processes", "processes and threads begun"),
    ("interrupts", "interrupts", "interrupts served"),
];

const SOFTIRQS: &[Definition] = &[
    ("cpu#.*", "softirqs", "softirqs of one kind on one CPU, for example cpu0.NET_RX"),
    ("*", "softirqs", "softirqs of one kind, for example NET_RX"),
];

const INTERRUPTS: &[Definition] = &[(
    "*",
    "interrupts",
    "interrupts by the driver's name for them (virtio0-input.0) or the architecture's (LOC)",
)];

/// By interface: `eth0.rx_bytes`.
const NET_DEV: &[Definition] = &[
    ("*.rx_bytes", "B", "received by the interface"),
    ("*.rx_packets", "packets", "received; after GRO in hardware or a peer's TSO, large ones"),
    ("*.rx_errors", "packets", "received and bad"),
    ("*.rx_dropped", "packets", "received and dropped for want of room or of a taker"),
    ("*.rx_fifo", "packets", "lost because the ring was full"),
    ("*.rx_frame", "packets", "with alignment errors"),
    ("*.rx_compressed", "packets", "received compressed"),
    ("*.rx_multicast", "packets", "received to a multicast address"),
    ("*.tx_bytes", "B", "sent by the interface"),
    ("*.tx_packets", "packets", "sent; before TSO, large ones"),
    ("*.tx_errors", "packets", "not sent, by an error"),
    ("*.tx_dropped", "packets", "not sent, for want of room"),
    ("*.tx_fifo", "packets", "not sent, by an underrun"),
    ("*.tx_collisions", "collisions", "collisions"),
    ("*.tx_carrier", "packets", "not sent, for want of a carrier"),
    ("*.tx_compressed", "packets", "sent compressed"),
];

const VMSTAT: &[Definition] = &[
    ("pgpgin", "KiB", "read from block devices"),
    ("pgpgout", "KiB", "written to block devices"),
    ("*", "events", "memory events by the kernel's name, for example pgfault; some are pages"),
];

/// Each also by CPU: `cpu0.run_s`.
const SCHEDSTAT: &[Definition] = &[
    ("*run_s", "s", "time that tasks ran"),
    ("*wait_s", "s", "time that tasks were ready and waited for a CPU"),
    ("*timeslices", "slices", "times that a task got the CPU"),
];

/// Those of softnet also by CPU: `cpu0.softnet_processed`.
const NET_SNMP: &[Definition] = &[
    ("*softnet_processed", "packets", "taken from the CPU's backlog or polled"),
    ("*softnet_dropped", "packets", "dropped because the CPU's backlog was full"),
    ("*softnet_time_squeeze", "times", "polling ended with work left (netdev_budget)"),
    ("*softnet_received_rps", "times", "woken to take packets steered from another CPU"),
    ("*softnet_flow_limit", "packets", "dropped by the flow limit"),
    ("TcpExt.TCPMemoryPressuresChrono", "ms", "time under memory pressure"),
    ("*Octets", "B", "bytes by the kernel's name, for example IpExt.InOctets"),
    ("*.*", "events", "protocol and counter by the kernel's names, for example Tcp.RetransSegs"),
];

const OUTSIDE: &[Definition] = &[
    ("cpu_s", "s", "CPU time of everything that makes the node, each part once"),
    ("user_s", "s", "of that in user mode, guest code included"),
    ("system_s", "s", "of that in the kernel"),
    ("guest_s", "s", "CPU time in which a virtual CPU ran guest code (KVM); already in user_s"),
    ("vcpu_s", "s", "CPU time of the virtual CPUs' threads"),
    ("vmm_s", "s", "CPU time of the VMM's other threads and children"),
    ("vhost_s", "s", "CPU time of the vhost workers"),
    ("cgroup_cpu_s", "s", "CPU time by the node's cgroup; where it is given, cpu_s is the same"),
    ("memory_bytes", "B", "resident sets at the end, summed: shared pages count in each process"),
    ("peak_memory_bytes", "B", "largest resident set of any one process since it began"),
    ("voluntary_switches", "switches", "context switches by waiting; threads alive at the end"),
    (
        "involuntary_switches",
        "switches",
        "context switches by preemption; threads alive at the end",
    ),
];

/// By interface: `eth0.polls`; with them the histogram `eth0.packets_per_poll`.
const NAPI: &[Definition] = &[
    ("*.polls", "polls", "times that the driver was polled"),
    ("*.polled_packets", "packets", "received in these polls"),
    ("*.interrupts", "interrupts", "hardware interrupts of the interface, or of its shared line"),
    ("ksoftirqd_s", "s", "CPU time of ksoftirqd on all CPUs: softirqs put off to a thread"),
];

/// By place; those with a point by interface.
const DROPS: &[Definition] = &[
    ("*.ring", "packets", "the NIC had no buffer left"),
    ("*.receive", "packets", "dropped by the driver or right behind it, full backlog included"),
    ("*.damaged", "packets", "received damaged (checksum or alignment of the frame)"),
    ("*.transmit", "packets", "not sent by the driver; of a tap, its queue was full (tx_dropped)"),
    ("*.queue", "packets", "dropped by the queueing discipline"),
    ("socket", "packets", "UDP: the socket's buffer was full"),
    ("tcp", "packets", "TCP: the socket's queues were full; TCP sends them again"),
    ("memory", "packets", "UDP: no memory left for all sockets (udp_mem)"),
    ("no_port", "packets", "UDP: nobody received at that port"),
    ("checksum", "packets", "UDP: wrong checksum"),
    ("ip_receive", "packets", "refused or discarded by IP on their way in"),
    ("ip_transmit", "packets", "without a route or discarded by IP on their way out"),
    ("backlog", "packets", "the CPU's backlog was full; also in `receive` of the interface"),
];

/// By the kernel's own names (Documentation/virt/kvm, `kvm_vm_stats_desc`, `kvm_vcpu_stats_desc`).
const KVM: &[Definition] = &[
    ("pages_4k_level", "pages", "pages of 4 KB that the guest is mapped by at the end"),
    ("pages_2m_level", "pages", "pages of 2 MB that the guest is mapped by at the end"),
    ("pages_1g_level", "pages", "pages of 1 GB that the guest is mapped by at the end"),
    ("*_level", "", "no counter: how much there is at the end, by the kernel's name"),
    ("exits", "exits", "from the guest to the hypervisor"),
    ("pf_taken", "faults", "page faults of the guest that came to the hypervisor"),
    ("pf_fixed", "faults", "of those that it mended by mapping a page"),
    ("pf_guest", "faults", "of those that it passed on to the guest's own kernel"),
    ("tlb_flush", "flushes", "TLB flushes for the guest"),
    ("mmu_shadow_zapped", "pages", "page tables of the hypervisor that were given up"),
    ("mmu_pte_write", "writes", "guest writes to its page tables that were intercepted"),
    ("*_exits", "exits", "from the guest to the hypervisor, of one kind"),
    ("*_ns", "ns", "time by the kernel's name, for example halt_wait_ns"),
    ("*", "events", "events by the kernel's name"),
];

const KVM_EXITS: &[Definition] = &[
    ("exits_*", "exits", "exits by the kernel's name for their reason, for example exits_npf"),
    (
        "page_faults",
        "faults",
        "page faults of the guest that came to the hypervisor, MMIO included",
    ),
];

const MEMORY: &[Definition] = &[
    ("ksm_saved_bytes_level", "B", "memory that KSM saves at the end"),
    ("*_bytes_level", "B", "memory of a kind at the end: in huge pages, or saved by KSM"),
    ("*_level", "pages", "pages of a kind at the end: reserved ones of 2 MB, KSM's"),
    ("thp_fault_alloc", "faults", "page faults that got a transparent huge page"),
    (
        "thp_*",
        "events",
        "transparent huge pages, by the kernel's name, for example thp_fault_alloc",
    ),
    ("cow_ksm", "faults", "page faults that copied a page which KSM had merged"),
    ("ksm_full_scans", "scans", "times that ksmd came round all memory that may be merged"),
    ("ksm_pages_scanned", "pages", "pages that ksmd looked at"),
    ("ksm_swpin_copy", "pages", "merged pages copied when they came back from swap"),
    ("khugepaged_full_scans", "scans", "times that khugepaged came round all memory"),
    ("khugepaged_pages_collapsed", "pages", "huge pages that khugepaged made of small ones"),
    ("ksmd_s", "s", "CPU time of ksmd, which merges pages"),
    ("khugepaged_s", "s", "CPU time of khugepaged, which makes huge pages of small ones"),
];

/// Of the CPUs that the node may use; everything that runs on them.
const HARDWARE: &[Definition] = &[
    ("cycles", "cycles", "of the CPUs while they were not idle"),
    ("instructions", "instructions", "carried out"),
    ("dtlb_load_misses", "misses", "reads that missed the data TLB, as the kernel counts them"),
    ("dtlb_store_misses", "misses", "writes that missed the data TLB, as the kernel counts them"),
    ("itlb_misses", "misses", "fetches of code that missed the TLB"),
    ("load_walk_cycles", "cycles", "with a page walk for reads under way"),
    ("store_walk_cycles", "cycles", "with a page walk for writes under way"),
];

/// The definition of a value by its name.
pub fn probe_definition(probe: Probe, name: &str) -> Option<&'static Definition> {
    let (_, definitions) = PROBES.iter().find(|(of, _)| *of == probe)?;
    definitions.iter().find(|(pattern, _, _)| fits(pattern.as_bytes(), name.as_bytes()))
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        Some((b'#', rest)) => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && fits(rest, &name[digits..])
        }
        Some((byte, rest)) => name.first() == Some(byte) && fits(rest, &name[1..]),
    }
}

/// By the workload's name in a plan.
pub const ALL: &[(&str, &[Definition])] = &[
    ("command", COMMAND),
    ("stream_send", STREAM_SEND),
    ("stream_receive", STREAM_RECEIVE),
    ("ping_request", PING_REQUEST),
    ("ping_reply", PING_REPLY),
    ("burn", BURN),
    ("fork", FORK),
    ("touch", TOUCH),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_own_definition() {
        let unit = |probe, name| probe_definition(probe, name).map(|(_, unit, _)| *unit);
        let meaning = |name| probe_definition(Probe::Stat, name).map(|(_, _, meaning)| *meaning);
        assert_eq!(unit(Probe::NetDev, "eth0.100.rx_bytes"), Some("B"));
        assert_eq!(unit(Probe::Vmstat, "pgpgin"), Some("KiB"));
        assert_eq!(unit(Probe::Vmstat, "pgfault"), Some("events"));
        assert_eq!(unit(Probe::Stat, "nothing_of_the_kind"), None);
        assert_eq!(meaning("cpu3.irq_s"), Some("CPU time in interrupts"));
        assert_eq!(meaning("softirq_s"), Some("CPU time in softirqs"));
        assert!(fits(b"cpu#.*", b"cpu12.NET_RX") && !fits(b"cpu#.*", b"cpu.NET_RX"));
    }
}
