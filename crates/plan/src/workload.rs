//! What a node does in a trial.

use std::collections::BTreeMap;
use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Pages;
#[cfg(feature = "schema")]
use crate::path::Path;

/// One workload on one node. Its `id` is unique in its phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub id: String,
    pub node: String,
    /// Runs until the phase's foreground tasks have ended (a receiver, an echo, a neighbour's load).
    #[serde(default)]
    pub background: bool,
    /// CPUs to bind to, counted from 0 among those that the node may use; none means all of them.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Passed on with what the task reports; nothing is done by it.
    #[serde(default)]
    pub purpose: Option<Purpose>,
    pub workload: Workload,
}

/// What a task is there for, among those of its phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Purpose {
    /// In the words of the workload that it is part of: `send`, `receive`, `load`.
    pub role: String,
    /// Number of its system under test with its peer, from 1, where several work at once.
    #[serde(default)]
    pub pair: Option<u32>,
    /// Of the stream that it is an end of.
    #[serde(default)]
    pub direction: Option<Direction>,
}

/// From one end of a pair to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the system under test, or through it, to its peer.
    Out,
    /// To the system under test.
    Back,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Workload {
    Command(Command),
    StreamSend(StreamSend),
    StreamReceive(StreamReceive),
    PingRequest(PingRequest),
    PingReply(PingReply),
    Burn(Burn),
    Fork(Fork),
    Touch(Touch),
    Sleep(Sleep),
    FrameSend(FrameSend),
    FrameCapture(FrameCapture),
    FrameFeed(FrameFeed),
    FrameRelay(FrameRelay),
    Cpuid(Cpuid),
    Serve(Serve),
    Io(Io),
    IoFill(IoFill),
    IoVerify(IoVerify),
}

/// A program with its arguments. Its elapsed time, `wait4` usage and exit status are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub argv: Vec<String>,
    /// The whole environment; a PATH is added if there is none.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub cwd: Option<PathBuf>,
    /// Run in the node's view of the machine's files, with the work directory laid afresh first.
    #[serde(default)]
    pub in_files: bool,
    /// A shell command run before the measured one, in the same place, not measured.
    #[serde(default)]
    pub prepare: Option<String>,
    /// The file that it has as standard input, from its beginning; without, /dev/null.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub input: Option<PathBuf>,
    /// It is not counted: a guest looks on, to have in memory what the next ones use of the share.
    #[serde(default)]
    pub warmup: bool,
    /// Count its calls that wait for a disk, which slows these: of a run that is not counted.
    #[serde(default)]
    pub watch_syncs: bool,
    /// It has a terminal of its own as its standard input, output and error.
    #[serde(default)]
    pub tty: bool,
}

/// A program that others speak with. Says `ready` once it listens; ends when asked to, and not before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Serve {
    pub argv: Vec<String>,
    /// The whole environment; a PATH is added if there is none.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub cwd: Option<PathBuf>,
    /// Run in the node's view of the machine's files, with the work directory laid afresh first.
    #[serde(default)]
    pub in_files: bool,
}

impl Workload {
    /// Whether it runs a program in the node's view of the machine's files.
    pub fn in_files(&self) -> bool {
        match self {
            Workload::Command(command) => command.in_files,
            Workload::Serve(serve) => serve.in_files,
            _ => false,
        }
    }

    /// What its program finds around itself, where it runs one.
    pub fn env_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        match self {
            Workload::Command(command) => Some(&mut command.env),
            Workload::Serve(serve) => Some(&mut serve.env),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamProtocol {
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamSend {
    pub protocol: StreamProtocol,
    /// Address and port of the receiver, `10.77.0.2:5201`. Flow k uses port + k.
    pub to: String,
    pub duration_s: f64,
    #[serde(default = "one")]
    pub flows: u32,
    /// Bytes of one message: one `write` for TCP, one datagram's payload for UDP.
    pub message: u32,
    /// Offered payload rate over all flows, in bits per second; none means as fast as it goes.
    #[serde(default)]
    pub rate_bps: Option<f64>,
    /// SO_SNDBUF in bytes; none keeps the kernel's.
    #[serde(default)]
    pub socket_buffer: Option<u32>,
    /// Messages handed to the kernel in one call, at most (UDP).
    #[serde(default)]
    pub batch: Option<u32>,
    /// UDP segmentation by the kernel (UDP_SEGMENT).
    #[serde(default)]
    pub segmentation: bool,
    /// Small messages go at once (TCP_NODELAY); else TCP collects them while any are under way.
    #[serde(default = "yes")]
    pub nodelay: bool,
    #[serde(default = "default_interval")]
    pub interval_s: f64,
    /// Seconds at the start that are sent but not counted.
    #[serde(default)]
    pub omit_s: f64,
    /// Mark of each packet (DSCP, RFC 2474), 0 to 63; none keeps the kernel's, which is 0.
    #[serde(default)]
    pub dscp: Option<u8>,
}

/// Listens, says `ready`, counts what arrives; ends when asked to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamReceive {
    pub protocol: StreamProtocol,
    /// Address and port to bind, `0.0.0.0:5201`. Flow k uses port + k.
    pub on: String,
    #[serde(default = "one")]
    pub flows: u32,
    /// Largest message expected, in bytes.
    pub message: u32,
    /// SO_RCVBUF in bytes; none keeps the kernel's.
    #[serde(default)]
    pub socket_buffer: Option<u32>,
    #[serde(default)]
    pub batch: Option<u32>,
    #[serde(default = "default_interval")]
    pub interval_s: f64,
    #[serde(default)]
    pub omit_s: f64,
    /// Given where gaps between messages and their jitter are to be reported, over UDP: one of a flow is sent
    /// each so many ns.
    #[serde(default)]
    pub every_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PingProtocol {
    Udp,
    Tcp,
    Icmp,
    /// Frames of the local experimental EtherType, past both IP stacks.
    Frame,
}

/// Sends a request, waits for its answer, notes the round-trip time, and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PingRequest {
    pub protocol: PingProtocol,
    /// `10.77.0.2:7000`; for ICMP and frames the address alone.
    pub to: String,
    /// Bytes of a request and of its answer; of a frame behind its header.
    #[serde(default = "default_ping_message")]
    pub message: u32,
    /// Ends after so many counted requests, or after `duration_s`, whichever is first.
    #[serde(default)]
    pub count: Option<u64>,
    pub duration_s: f64,
    /// Seconds between requests; 0 sends the next as soon as the answer is there.
    #[serde(default)]
    pub interval_s: f64,
    /// An answer later than this is lost.
    #[serde(default = "default_ping_timeout")]
    pub timeout_s: f64,
    /// Requests before those, which are not counted and not in `duration_s`.
    #[serde(default)]
    pub omit: u64,
    /// How frames come in; what comes in by shared memory goes out by it.
    #[serde(default)]
    pub via: Option<FrameVia>,
    /// To the memory that who answers, a guest, shares with its machine, past its card.
    #[serde(default)]
    pub past_card: bool,
    /// Mark of each request (DSCP, RFC 2474), 0 to 63, over UDP or TCP; none keeps the kernel's, which is 0.
    #[serde(default)]
    pub dscp: Option<u8>,
}

/// Answers UDP or TCP requests, or frames, until asked to stop. ICMP is answered by the kernel itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PingReply {
    pub protocol: PingProtocol,
    /// Address and port; for frames the address alone, which gives the interface.
    pub on: String,
    /// Largest request that is answered, in bytes.
    #[serde(default = "default_ping_message")]
    pub message: u32,
    /// How frames come in; what comes in by shared memory goes out by it.
    #[serde(default)]
    pub via: Option<FrameVia>,
}

/// Uses a share of each of `cpus` CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Burn {
    /// 0 to 1, of each CPU.
    pub share: f64,
    pub duration_s: f64,
    #[serde(default = "one")]
    pub threads: u32,
}

/// Forks, executes a program that writes to memory and ends, and waits for it, again and again: what
/// makes and unmakes page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fork {
    pub count: u64,
    /// Bytes that each program writes to, one byte a page of 4 KB.
    #[serde(default)]
    pub touch: u64,
}

/// Reads memory in random order, each read after the one before: what needs page tables and changes
/// none. Ends after `count` reads or after `duration_s`; exactly one of them is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Touch {
    /// Bytes of the working set.
    pub memory: u64,
    /// Pages of the working set in the node; none leaves them to its kernel.
    #[serde(default)]
    pub pages: Option<Pages>,
    #[serde(default)]
    pub count: Option<u64>,
    #[serde(default)]
    pub duration_s: Option<f64>,
}

/// Sleeps to a time, sees how late it woke, and so on, each thread for itself: on a CPU of its own where
/// there are several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// Seconds from one wake-up to the next; at most those in which a task must heed a stop.
    pub interval_s: f64,
    pub duration_s: f64,
    #[serde(default = "one")]
    pub threads: u32,
}

/// Executes CPUID so often, for which a guest with hardware virtualisation leaves for its hypervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cpuid {
    pub count: u64,
}

/// Writes every block of a span of its node's disk, makes that durable, says `ready`; ends when asked to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IoFill {
    /// The same as those of who works on them.
    pub block: u32,
    pub span: u64,
    #[serde(default)]
    pub start: u64,
    #[serde(default = "yes")]
    pub direct: bool,
    #[serde(default)]
    pub seed: u64,
}

/// Reads and writes blocks of its node's disk, which [`IoFill`] has filled. Every block says which one it is
/// and which writing of it, so that a block that is not what was written last is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Io {
    pub pattern: IoPattern,
    #[serde(default)]
    pub engine: IoEngine,
    /// Bytes that one operation reads or writes: a multiple of 512.
    pub block: u32,
    /// Bytes of the disk that are worked on: a multiple of `block`.
    pub span: u64,
    /// Byte of the disk at which they begin: a multiple of `block`.
    #[serde(default)]
    pub start: u64,
    /// Operations under way at once, of each job.
    pub depth: u32,
    /// Threads, each with a part of the span for itself.
    #[serde(default = "one")]
    pub jobs: u32,
    /// Of the operations, 0 to 1, that read; the others write.
    pub read_share: f64,
    /// Past the page cache of the node's kernel (O_DIRECT).
    #[serde(default = "yes")]
    pub direct: bool,
    /// What was written is made durable (fdatasync) after so many writes of a job; none: never.
    #[serde(default)]
    pub sync_every: Option<u32>,
    /// Operations a second that are begun, over all jobs; none: as fast as it goes.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Ends after so many operations of all jobs, or after `duration_s`, whichever is first.
    #[serde(default)]
    pub count: Option<u64>,
    pub duration_s: f64,
    /// Of the random order of blocks.
    #[serde(default)]
    pub seed: u64,
    /// Says after every fdatasync, in an interval, how many writes of which job are durable. Of work that
    /// only writes, by the engine `pread`: then the order of writes is known to [`IoVerify`].
    #[serde(default)]
    pub acknowledges: bool,
}

/// Writes at random that are made durable again and again, by system calls: [`Io`] that acknowledges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DurableWrites {
    pub block: u32,
    pub span: u64,
    pub jobs: u32,
    pub sync_every: u32,
    pub direct: bool,
    pub seed: u64,
}

/// Reads every block of work that acknowledged until it was ended, and counts those that are older than what
/// had been made durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IoVerify {
    pub writes: DurableWrites,
    /// Writes of each job that fdatasync had returned for.
    pub durable: Vec<u64>,
}

/// The order in which blocks are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoPattern {
    Random,
    Sequential,
}

/// By which system calls blocks are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoEngine {
    /// Rings that the kernel and the program share.
    #[default]
    IoUring,
    /// pread(2) and pwrite(2): one operation at a time.
    Pread,
}

/// How frames come to a program, or from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FrameVia {
    /// A packet socket: the kernel copies frames for calls that ask for many of them.
    Socket,
    /// A ring of frames that the kernel and the program share (PACKET_MMAP).
    Packet,
    /// The same where they come in, before the kernel's network sees them (AF_XDP).
    Xdp,
    /// Memory that a guest shares with its machine, which writes them there: past the guest's card.
    Shared,
}

/// Sends numbered frames of the local experimental EtherType.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameSend {
    /// IP address of who receives them: its neighbour table has the MAC address that they are sent to.
    pub to: String,
    /// To the memory that the receiver, a guest, shares with its machine, past its card.
    #[serde(default)]
    pub past_card: bool,
    /// Frames of another one are not counted.
    pub session: u32,
    /// Bytes of one with its header, without FCS.
    pub frame: u32,
    pub duration_s: f64,
    /// Bits of frames a second; none means as fast as it goes.
    #[serde(default)]
    pub rate_bps: Option<f64>,
    /// Frames handed to the kernel in one call, at most.
    pub burst: u32,
    #[serde(default = "default_interval")]
    pub interval_s: f64,
    /// Seconds at the start that are sent but not counted.
    #[serde(default)]
    pub omit_s: f64,
}

/// Says `ready`, counts what arrives of a session; ends when asked to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameCapture {
    /// IP address of its own, which gives the interface.
    pub on: String,
    pub via: FrameVia,
    pub session: u32,
    /// Longest frame expected, in bytes with its header.
    pub frame: u32,
    /// Bytes of memory in which frames wait to be taken.
    pub ring: u32,
    #[serde(default = "default_interval")]
    pub interval_s: f64,
    #[serde(default)]
    pub omit_s: f64,
}

/// Says `ready`, writes a guest's frames of a session into the memory that it shares with its machine; ends
/// when asked to. On the node that has the guest's bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameFeed {
    /// The guest's node.
    pub guest: String,
    pub session: u32,
    /// Longest frame expected, in bytes with its header.
    pub frame: u32,
    /// Bytes of memory in which frames wait to be written there.
    pub ring: u32,
}

/// Says `ready`, moves frames between a guest's bridge and the memory that the guest shares with its machine,
/// both ways, past the guest's card; ends when asked to. On the node that has the bridge. Where a core polls for
/// the guest's card, that core does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameRelay {
    /// The guest's node.
    pub guest: String,
    /// Longest frame, in bytes with its header.
    pub frame: u32,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn default_interval() -> f64 {
    0.5
}

fn default_ping_message() -> u32 {
    64
}

fn default_ping_timeout() -> f64 {
    1.0
}
