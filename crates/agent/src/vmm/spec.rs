//! What a guest is made of, as QEMU is to start it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use hypertare_plan::{Guest, Node};

use super::port::Port;

/// What a guest's disk stands on.
#[derive(Debug)]
pub struct Medium {
    pub file: File,
    /// A block device; else a regular file.
    pub is_device: bool,
}

/// What to start.
pub struct Spec<'a> {
    pub node: &'a Node,
    pub guest: &'a Guest,
    /// In the order in which the guest is to find them.
    pub ports: Vec<Port<'a>>,
    /// Root of the files that the guest may read.
    pub share: Option<&'a Path>,
    /// Cards of virtio have one interrupt line each, and no vectors.
    pub no_vectors: bool,
    /// What it shares with the machine, where the guest asks for it.
    pub memory: Option<File>,
    /// The medium of its disk, where it has one.
    pub disk: Option<Medium>,
    /// What serves the directory that its disk is a file in instead: a connection, or the directory.
    pub files: Option<OwnedFd>,
    /// What it goes on from, where another one was saved; else it boots.
    pub state: Option<File>,
    /// The rate of the TSC that it emulates, where that is known.
    pub tsc_khz: Option<u64>,
}

impl<'a> Spec<'a> {
    /// Without a network and files.
    pub fn of(node: &'a Node, guest: &'a Guest) -> Self {
        Spec {
            node,
            guest,
            ports: Vec::new(),
            share: None,
            no_vectors: false,
            memory: None,
            disk: None,
            files: None,
            state: None,
            tsc_khz: None,
        }
    }
}
