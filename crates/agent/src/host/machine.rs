//! What the executor needs of the machine it runs on. The real one makes namespaces, links and
//! VMMs; tests use one that only pretends.

use std::fs::File;

use anyhow::{Result, bail};
use hypertare_plan::{Bench, Interface};

use crate::links::{Inbox, NodeLink};

/// Makes the nodes and links of a bench.
pub trait Machine {
    /// Makes the links.
    fn prepare(&mut self, bench: &Bench) -> Result<()>;

    /// Starts one node; its records go to the inbox. Nodes are started one after the other and come
    /// up in parallel, so this does not wait for them. With a `state`, the node goes on from that in which
    /// another one of the same kind was saved.
    fn start(
        &mut self,
        bench: &Bench,
        index: usize,
        state: Option<File>,
        inbox: Inbox,
    ) -> Result<Started>;

    /// Cuts the power of a node's disk, which outlives the node; that must have ended.
    fn cut_power(&mut self, _node: &str) -> Result<()> {
        bail!("this machine has no disk whose power can be cut");
    }

    /// Removes a node's disk that has outlived it.
    fn discard(&mut self, _node: &str) -> Result<()> {
        Ok(())
    }

    /// Removes the links.
    fn remove(&mut self);
}

/// A node that has just been started.
pub struct Started {
    pub link: Box<dyn NodeLink>,
    /// As the node finds them.
    pub interfaces: Vec<Interface>,
    pub mtu: u32,
    /// What a person should know about how it was made.
    pub warnings: Vec<String>,
}
