//! A node that forwards: the virtual router, which may be a host, a container or a guest.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node reaches a network that it is not on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Network with prefix length, for example `10.78.2.0/24`, `fd78:2::/64`, `0.0.0.0/0`.
    pub to: String,
    /// Address of the next router, on a link of this node.
    pub via: String,
}

/// What a node forwards, and how packets wait in it. It takes in no IPv4 packet whose source is not
/// reached through the interface that it came from (strict reverse path, RFC 3704).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Router {
    #[serde(default = "yes")]
    pub ipv4: bool,
    #[serde(default = "yes")]
    pub ipv6: bool,
    /// Where packets wait that are to be sent, on each of its interfaces; the kernel's choice when
    /// absent.
    #[serde(default)]
    pub queue: Option<Queue>,
    /// Given when it learns of networks from other routers.
    #[serde(default)]
    pub daemon: Option<Daemon>,
}

/// BIRD 2, which speaks OSPF for both families.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// The program as the node sees it, after its loader where it is not installed.
    pub argv: Vec<String>,
    /// Interfaces behind which the other routers are. Networks of the other interfaces are announced
    /// to them; nobody is heard there.
    pub neighbours: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Queue {
    #[serde(default)]
    pub discipline: Option<Discipline>,
    /// Packets that may wait (the interface's `txqueuelen`, and the discipline's own limit).
    #[serde(default)]
    pub length: Option<u32>,
}

/// Queue disciplines of tc(8) at the root of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// First come, first served.
    Pfifo,
    /// Three bands by type of service, each first come, first served.
    PfifoFast,
    /// Fair among flows, with controlled delay.
    FqCodel,
    /// None: what the driver does not take is lost.
    Noqueue,
}

fn yes() -> bool {
    true
}
