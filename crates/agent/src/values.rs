//! Every value that a workload reports: its name, its unit, what it is. The controller's responses
//! are made from these; a test on each side holds them together.

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
    ("rtt_jitter_ns", "ns", "mean difference of successive round-trip times (RFC 3550's D, unsmoothed)"),
];

pub const PING_REPLY: &[Definition] = &[("replies", "messages", "requests answered")];

pub const BURN: &[Definition] = &[
    ("elapsed_s", "s", "how long it burned"),
    ("used_s", "s", "CPU time used by all threads"),
    ("share", "", "used time over elapsed time, per thread"),
    ("loops", "loops", "units of work done: what neighbours left of the CPU"),
];
