//! A guest: a VM of this machine.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hypertare_plan::{
    self as plan, Accelerator, Guest, NicModel, NodeReady, NumberedOrder, Pages, VirtualCpus,
};

use super::streams::Orders;
use super::{Inbox, NodeLink};
use crate::boot_contract::is_own_machine;
use crate::datapath::vhost_user::{Ended, Served};
use crate::net;
use crate::own_machine::huge_pages::{self, Reserved};
use crate::own_machine::{kvm_module, vhost};
use crate::probe::{Outside, Processes, VhostUserBackend};
use crate::process::cgroup::{self, Cgroup};
use crate::process::cpus;
use crate::process::weights::Groups;
use crate::vmm::guest_command_line::model;
use crate::vmm::shared_files::SharedFiles;
use crate::vmm::{self, Vmm, paging};

pub use crate::vmm::port::{Port, Way};
pub use crate::vmm::spec::Spec;

/// A guest.
pub struct GuestLink {
    vmm: Option<Box<dyn Vmm>>,
    orders: Orders,
    name: String,
    cpus: Vec<u32>,
    /// What moves the packets of the cards that can choose.
    moved_by: Option<plan::Datapath>,
    held: Held,
    last_words: Vec<String>,
}

/// What is made for a guest's VMM, and given back after its end.
pub struct Held {
    /// Ends before the cgroup that it is in.
    pub datapath: Option<Datapath>,
    pub cgroup: Option<Cgroup>,
    /// Held for their ends alone.
    pub provisions: Provisions,
    pub groups: Option<Groups>,
    /// Gone after its VMM, as its fields are dropped: see [`Drop`] of the link.
    pub files: Option<SharedFiles>,
    /// For what moves its packets, and for the VMM's threads beside its virtual CPUs.
    pub datapath_cpu: Option<u32>,
}

impl Held {
    /// What works for the guest beside its VMM: it moves its packets, or serves its files. A guest has one of
    /// them at most.
    fn backend(&self) -> Option<VhostUserBackend> {
        let server = self.files.as_ref().and_then(SharedFiles::pid);
        let server = server.map(|pid| (pid, true, Vec::new()));
        let mover = self.datapath.as_ref().map(|datapath| {
            let counters = datapath.cards.iter().map(Served::counters).collect();
            (datapath.pid(), datapath.is_its_own, counters)
        });
        let (pid, in_cgroup, counters) = mover.or(server)?;
        Some(VhostUserBackend { pid, guests: 1, in_cgroup, counters })
    }
}

/// What moves a guest's packets beside its VMM.
pub struct Datapath {
    /// At least one.
    pub cards: Vec<Served>,
    /// The process does that for no other guest.
    pub is_its_own: bool,
    pub ended: Ended,
}

/// What an experiment's own machine lacks for a guest; the user's is taken as it is.
#[derive(Default)]
pub struct Provisions {
    kvm: Option<File>,
    memory: Option<Reserved>,
}

impl Provisions {
    pub fn of(guest: &Guest) -> Result<Self> {
        let mut provisions = Provisions::default();
        if !is_own_machine() {
            return Ok(provisions);
        }
        if guest.accelerator == Accelerator::Kvm {
            provisions.kvm = Some(kvm_module::ensure(guest.settings.paging)?);
        }
        if guest.settings.datapath == plan::Datapath::Vhost {
            vhost::ensure()?;
        }
        if guest.settings.pages == Some(Pages::Huge) {
            let pool = Path::new(huge_pages::POOL);
            provisions.memory = Some(huge_pages::reserve(pool, guest.memory)?);
        }
        Ok(provisions)
    }
}

impl Datapath {
    fn pid(&self) -> i32 {
        self.cards.first().map_or(0, |card| card.backend().pid())
    }

    /// Takes notice of its end as long as the guest is there, and counts for it.
    fn follow(&mut self, vmm: &dyn Vmm, cgroup: Option<&Cgroup>) -> Result<()> {
        if let (true, Some(cgroup)) = (self.is_its_own, cgroup) {
            cgroup.add(self.pid())?;
        }
        for card in &mut self.cards {
            card.watch(vmm.handle()?, vmm.channel().try_clone()?, self.ended.clone());
        }
        Ok(())
    }
}

impl GuestLink {
    /// Starts a guest's VMM. With it comes what a person should know of how it was done.
    pub fn start(spec: Spec, mut held: Held, inbox: Inbox) -> Result<(Self, Vec<String>)> {
        let node = spec.node;
        let can_choose = |port: &Port| model(port.interface) == NicModel::VirtioNet;
        let moved_by = spec.ports.iter().any(can_choose).then_some(spec.guest.settings.datapath);
        let vmm = vmm::start(spec)?;
        let warnings = vmm.missing_walls().to_vec();
        if let Some(cgroup) = &held.cgroup {
            cgroup.add(vmm.pid().as_raw_nonzero().get())?;
        }
        // What serves its files works for nobody else.
        if let (Some(pid), Some(cgroup)) =
            (held.files.as_ref().and_then(SharedFiles::pid), &held.cgroup)
        {
            cgroup.add(pid)?;
        }
        if let Some(datapath) = &mut held.datapath {
            datapath.follow(&*vmm, held.cgroup.as_ref())?;
        }
        let records = vmm.channel().as_fd().try_clone_to_owned()?;
        let orders = Orders::new(vmm.channel().try_clone()?, None);
        std::thread::spawn(move || inbox.read(File::from(records)));
        let link = GuestLink {
            vmm: Some(vmm),
            orders,
            name: node.name.clone(),
            cpus: node.cpus.clone(),
            moved_by,
            held,
            last_words: Vec::new(),
        };
        Ok((link, warnings))
    }

    /// Where its virtual CPUs run, if they are bound.
    fn placed(&self, threads: &[i32]) -> Result<Option<VirtualCpus>> {
        if self.cpus.is_empty() {
            return Ok(None);
        }
        let mut on = BTreeSet::new();
        for &thread in threads {
            on.extend(cpus::of(thread)?);
        }
        Ok(Some(VirtualCpus { count: threads.len() as u32, on: on.into_iter().collect() }))
    }

    /// Binds the threads that move its packets, or may: the VMM's own, its process beside it, vhost's.
    /// Returns the CPUs that those may use which do move them.
    fn bind_datapath(&mut self) -> Result<Vec<u32>> {
        let beside = self.held.datapath.as_ref().map(Datapath::pid);
        let (Some(vmm), Some(cpu)) = (&mut self.vmm, self.held.datapath_cpu) else {
            // One that never sleeps was bound when it began.
            let polls = self.moved_by == Some(plan::Datapath::Sidecore);
            return beside.filter(|_| polls).map_or(Ok(Vec::new()), cpus::of);
        };
        vmm.bind_own_threads(cpu)?;
        let process = vmm.pid().as_raw_nonzero().get();
        let movers = match self.moved_by {
            Some(plan::Datapath::Vhost) => net::vhost::workers(process)?,
            // QEMU itself, where nothing is beside it.
            _ => vec![beside.unwrap_or(process)],
        };
        let mut on = BTreeSet::new();
        for thread in movers {
            cpus::bind(thread, &[cpu]).context("what moves its packets")?;
            on.extend(cpus::of(thread)?);
        }
        Ok(on.into_iter().collect())
    }
}

impl NodeLink for GuestLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<NodeReady> {
        let Some(vmm) = &mut self.vmm else { return Ok(NodeReady::default()) };
        vmm.pin(&self.cpus)?;
        let datapath_cpus = self.bind_datapath()?;
        let Some(vmm) = &mut self.vmm else { return Ok(NodeReady::default()) };
        let state = vmm.describe()?;
        if let Some(groups) = &self.held.groups {
            groups.place(&self.name, vmm.pid().as_raw_nonzero().get(), &state.cpu_threads)?;
            if let Some(datapath) = &self.held.datapath {
                groups.take_in(datapath.pid())?;
            }
        }
        Ok(NodeReady {
            accelerator: Some(state.accelerator),
            vmm: Some(state.version),
            vmm_argv: state.argv,
            cgroup: self.held.cgroup.as_ref().map(|_| cgroup::VERSION.to_owned()),
            paging: paging::of_guest(state.accelerator),
            backing: vmm.backing()?,
            datapath: self.moved_by,
            datapath_cpus,
            placed: self.placed(&state.cpu_threads)?,
            ..NodeReady::default()
        })
    }

    fn failure(&mut self) -> Option<String> {
        if let Some(why) = self.held.datapath.as_ref().and_then(|datapath| datapath.ended.why()) {
            return Some(format!("the datapath of {} ended: {why}", self.name));
        }
        self.vmm.as_mut()?.failure()
    }

    fn console(&mut self) -> Vec<String> {
        self.vmm.as_ref().map_or_else(|| self.last_words.clone(), |vmm| vmm.console_tail())
    }

    fn pid(&self) -> Option<i32> {
        self.vmm.as_ref().map(|vmm| vmm.pid().as_raw_nonzero().get())
    }

    fn save(&mut self, limit: Duration) -> Result<Option<File>> {
        self.vmm.as_mut().map(|vmm| vmm.save(limit)).transpose()
    }

    fn outside(&mut self) -> Option<Outside> {
        let vmm = self.vmm.as_mut()?;
        Some(Outside::Processes(Processes {
            pid: vmm.pid().as_raw_nonzero().get(),
            vcpu_tids: vmm.describe().map(|state| state.cpu_threads).unwrap_or_default(),
            cgroup: self.held.cgroup.as_ref().map(|cgroup| cgroup.directory().to_owned()),
            backend: self.held.backend(),
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
