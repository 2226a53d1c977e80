//! A setting that can be probed, applied and put back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnobSetting {
    pub node: String,
    pub knob: Knob,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Knob {
    /// MTU of an interface, in bytes.
    Mtu { interface: String, bytes: u32 },
    /// An offload by ethtool's short name: rx, tx, sg, tso, gso, gro, lro, ufo, rxvlan, txvlan.
    Offload { interface: String, offload: String, on: bool },
    /// Default and largest socket buffers (net.core.[rw]mem_default/_max, net.ipv4.tcp_[rw]mem).
    SocketBuffers { bytes: u64 },
    /// CPUs that serve an interface's interrupts, counted as the node counts them.
    InterruptCpus { interface: String, cpus: Vec<u32> },
    /// CPUs of receive packet steering of every queue of an interface; none switches it off.
    ReceiveSteering { interface: String, cpus: Vec<u32> },
}
