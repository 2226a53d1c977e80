//! The host agent's ends of nodes: a process of this machine, a VM, or a guest of Xen.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hypertare_plan::{MAX_CONSOLE_LINES, Node, NumberedOrder, Scheduler};

use super::cgroup::Cgroup;
use super::event::{Inbox, News};
use super::machine::{About, NodeLink};
use super::spawn::Child;
use super::weights::Groups;
use crate::guest::huge_pages::Reserved;
use crate::guest::paging;
use crate::guest::vmm::Vmm;
use crate::probe::{Outside, Processes};
use crate::xen;
use crate::xen::console::Records;
use crate::xen::domain::{self, Domain};
use crate::xen::store::Ends;

/// From the end of a node's records to the end of its process.
const EXIT_LIMIT: Duration = Duration::from_millis(300);
/// From killing a process to its end.
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// What the kernel prints before the reason for its end.
const PANIC: &str = "Kernel panic - not syncing: ";
/// A line of a console is cut after this many bytes.
const LONGEST_LINE: u64 = 4096;

/// Orders on their way: written by a thread of their own, so that a node that does not read does not
/// hold up anybody.
struct Orders(Sender<Vec<u8>>);

impl Orders {
    fn new(mut output: impl Write + Send + 'static) -> Self {
        let (sender, lines) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for line in lines {
                // That the node is gone is seen where its records are read.
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        });
        Orders(sender)
    }

    fn send(&self, order: &NumberedOrder) {
        if let Ok(mut line) = serde_json::to_vec(order) {
            line.push(b'\n');
            let _ = self.0.send(line);
        }
    }
}

/// The last lines of what a node prints apart from its records.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn follow(input: File) -> Self {
        let tail = Tail::default();
        let kept = tail.clone();
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            while let Ok(1..) =
                std::io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut line)
            {
                kept.push(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
                line.clear();
            }
        });
        tail
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_CONSOLE_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

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
            orders: Orders::new(pipes.orders),
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

    fn about(&mut self) -> Result<About> {
        let cgroup = self.cgroup.as_ref().and_then(Cgroup::version);
        let vmm = self.is_driver_domain().then(xen::version).transpose()?;
        Ok(About { cgroup, vmm, ..About::default() })
    }

    fn failure(&mut self) -> Option<String> {
        let ended = self.child.wait_until(Instant::now() + EXIT_LIMIT)?;
        Some(format!("its process {ended}"))
    }

    fn console(&mut self) -> Vec<String> {
        self.messages.lines()
    }

    fn outside(&mut self) -> Option<Outside> {
        if self.is_driver_domain() {
            return Some(Outside::Domain(xen::DRIVER_DOMAIN));
        }
        self.is_container.then(|| {
            Outside::Processes(Processes {
                pid: self.child.pid(),
                vcpu_tids: Vec::new(),
                cgroup: self.cgroup.as_ref().and_then(Cgroup::accounting).map(Into::into),
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

/// A guest.
pub struct GuestLink {
    vmm: Option<Vmm>,
    orders: Orders,
    name: String,
    cpus: Vec<u32>,
    held: Held,
    last_words: Vec<String>,
}

/// What is made for a guest's VMM, and given back after its end.
pub struct Held {
    pub cgroup: Option<Cgroup>,
    #[expect(dead_code, reason = "held for its end alone")]
    pub kvm: Option<File>,
    #[expect(dead_code, reason = "held for its end alone")]
    pub memory: Option<Reserved>,
    pub groups: Option<Groups>,
}

impl GuestLink {
    pub fn new(vmm: Vmm, inbox: Inbox, node: &Node, held: Held) -> Result<Self> {
        let records = vmm.channel().as_fd().try_clone_to_owned()?;
        let orders = vmm.channel().try_clone()?;
        std::thread::spawn(move || inbox.read(File::from(records)));
        let orders = Orders::new(orders);
        Ok(GuestLink {
            vmm: Some(vmm),
            orders,
            name: node.name.clone(),
            cpus: node.cpus.clone(),
            held,
            last_words: Vec::new(),
        })
    }
}

impl NodeLink for GuestLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<About> {
        let Some(vmm) = &mut self.vmm else { return Ok(About::default()) };
        vmm.pin(&self.cpus)?;
        let state = vmm.describe()?;
        if let Some(groups) = &self.held.groups {
            groups.place(&self.name, vmm.pid().as_raw_nonzero().get(), &state.cpu_threads)?;
        }
        Ok(About {
            accelerator: Some(state.accelerator),
            vmm: Some(state.version),
            vmm_argv: state.argv,
            cgroup: self.held.cgroup.as_ref().and_then(Cgroup::version),
            paging: paging::of_guest(state.accelerator),
            backing: vmm.backing()?,
            ..About::default()
        })
    }

    fn failure(&mut self) -> Option<String> {
        self.vmm.as_mut()?.failure()
    }

    fn console(&mut self) -> Vec<String> {
        self.vmm.as_ref().map_or_else(|| self.last_words.clone(), Vmm::console_tail)
    }

    fn outside(&mut self) -> Option<Outside> {
        let vmm = self.vmm.as_mut()?;
        Some(Outside::Processes(Processes {
            pid: vmm.pid().as_raw_nonzero().get(),
            vcpu_tids: vmm.describe().map(|state| state.cpu_threads).unwrap_or_default(),
            cgroup: self.held.cgroup.as_ref().and_then(Cgroup::accounting).map(Into::into),
        }))
    }

    fn ended(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.vmm.as_mut().is_none_or(|vmm| vmm.await_end(left))
    }

    /// Dropping a VMM kills it.
    fn kill(&mut self) {
        if let Some(vmm) = self.vmm.take() {
            self.last_words = vmm.console_tail();
        }
    }
}

impl Drop for GuestLink {
    fn drop(&mut self) {
        // Before its cgroup, which cannot be removed while it lives, and before its memory.
        self.kill();
    }
}

/// A guest of Xen.
pub struct DomainLink {
    domain: Option<Domain>,
    scheduler: Option<Scheduler>,
    orders: Orders,
    printed: Tail,
}

impl DomainLink {
    pub fn new(domain: Domain, scheduler: Option<Scheduler>, inbox: Inbox) -> Result<Self> {
        let console = File::from(domain.console()?);
        let orders = Orders::new(console.try_clone()?);
        let printed = Tail::default();
        let kept = printed.clone();
        tell_end(domain.id, inbox.clone());
        std::thread::spawn(move || inbox.read(Records::new(console, |line| kept.push(line))));
        Ok(DomainLink { domain: Some(domain), scheduler, orders, printed })
    }
}

/// The console of a guest that has crashed stays open: that it has is seen here.
fn tell_end(domain: u32, inbox: Inbox) {
    std::thread::spawn(move || {
        let mut ends = match Ends::watch() {
            Ok(ends) => ends,
            Err(error) => return inbox.tell(News::Gone(format!("{error:#}"))),
        };
        loop {
            if domain::failure(domain).is_some() {
                return inbox.tell(News::Gone("it has ended".to_owned()));
            }
            if let Err(error) = ends.await_next() {
                return inbox.tell(News::Gone(format!("{error:#}")));
            }
        }
    });
}

impl NodeLink for DomainLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<About> {
        let joined = self.domain.as_ref().map(Domain::joined).transpose()?.flatten();
        let vmm = Some(xen::version()?);
        Ok(About { vmm, joined, scheduler: self.scheduler, ..About::default() })
    }

    fn check(&mut self) -> Result<()> {
        self.domain.as_ref().map_or(Ok(()), |domain| domain.joined().map(drop))
    }

    fn failure(&mut self) -> Option<String> {
        let known = self.domain.as_ref()?.failure()?;
        let printed = self.printed.lines();
        let panic = printed.iter().rev().find_map(|line| line.split_once(PANIC));
        Some(panic.map_or(known.clone(), |(_, why)| format!("{known}: {why}")))
    }

    fn console(&mut self) -> Vec<String> {
        self.printed.lines()
    }

    fn outside(&mut self) -> Option<Outside> {
        self.domain.as_ref().map(|domain| Outside::Domain(domain.id))
    }

    fn ended(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.domain.as_ref().is_none_or(|domain| domain.await_end(left))
    }

    /// Dropping a domain destroys it.
    fn kill(&mut self) {
        self.domain = None;
    }
}
