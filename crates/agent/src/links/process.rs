//! A host or container node: a process of this machine.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use hypertare_plan::{NodeReady, NumberedOrder};

use super::streams::{Orders, Tail};
use super::{Inbox, NodeLink};
use crate::probe::{Outside, Processes};
use crate::process::cgroup::{self, Cgroup};
use crate::process::spawn::Child;
use crate::xen;

/// From the end of a node's records to the end of its process.
const EXIT_LIMIT: Duration = Duration::from_millis(300);
/// From killing a process to its end.
const KILL_LIMIT: Duration = Duration::from_secs(1);

/// A host or container node. Its agent is the first process of a PID namespace: with it ends
/// everything that it started.
pub struct ProcessLink {
    child: Child,
    orders: Orders,
    messages: Tail,
    cgroup: Option<Cgroup>,
    is_container: bool,
    place: PathBuf,
}

/// This side of a process's standard input, output and error.
pub struct Pipes {
    pub orders: File,
    pub records: File,
    pub messages: File,
}

impl ProcessLink {
    pub fn new(
        child: Child,
        pipes: Pipes,
        inbox: Inbox,
        (cgroup, is_container): (Option<Cgroup>, bool),
        place: PathBuf,
    ) -> Self {
        let records = pipes.records;
        std::thread::spawn(move || inbox.read(records));
        ProcessLink {
            child,
            orders: Orders::new(pipes.orders, None),
            messages: Tail::follow(pipes.messages),
            cgroup,
            is_container,
            place,
        }
    }

    /// A host node under Xen is one of the hypervisor's guests itself.
    fn is_driver_domain(&self) -> bool {
        !self.is_container && xen::role() == Some(xen::Role::Driver)
    }
}

impl NodeLink for ProcessLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<NodeReady> {
        let cgroup = self.cgroup.as_ref().map(|_| cgroup::VERSION.to_owned());
        let vmm = self.is_driver_domain().then(xen::version).transpose()?;
        Ok(NodeReady { cgroup, vmm, ..NodeReady::default() })
    }

    fn failure(&mut self) -> Option<String> {
        let ended = self.child.wait_until(Instant::now() + EXIT_LIMIT)?;
        Some(format!("its process {ended}"))
    }

    fn console(&mut self) -> Vec<String> {
        self.messages.lines()
    }

    fn pid(&self) -> Option<i32> {
        Some(self.child.pid())
    }

    fn outside(&mut self) -> Option<Outside> {
        if self.is_driver_domain() {
            return Some(Outside::Domain(xen::DRIVER_DOMAIN));
        }
        self.is_container.then(|| {
            Outside::Processes(Processes {
                pid: self.child.pid(),
                cgroup: self.cgroup.as_ref().map(|cgroup| cgroup.directory().to_owned()),
                ..Processes::default()
            })
        })
    }

    fn ended(&mut self, deadline: Instant) -> bool {
        self.child.wait_until(deadline).is_some()
    }

    fn kill(&mut self) {
        self.child.kill();
        self.child.wait_until(Instant::now() + KILL_LIMIT);
    }
}

impl Drop for ProcessLink {
    fn drop(&mut self) {
        self.kill();
        // Its view of the files was mounted in its own mount namespace: here it is empty.
        let _ = std::fs::remove_dir(&self.place);
    }
}
