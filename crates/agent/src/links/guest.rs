//! A guest: a VM of this machine.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use hypertare_plan::{Accelerator, Guest, NumberedOrder, Pages};

use super::streams::Orders;
use super::{About, Inbox, NodeLink};
use crate::boot_contract::is_own_machine;
use crate::own_machine::huge_pages::{self, Reserved};
use crate::own_machine::kvm_module;
use crate::probe::{Outside, Processes};
use crate::process::cgroup::Cgroup;
use crate::process::weights::Groups;
use crate::vmm::paging;
use crate::vmm::qemu::Vmm;

pub use crate::vmm::qemu::{Spec, Tap};

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
    /// Held for their ends alone.
    pub provisions: Provisions,
    pub groups: Option<Groups>,
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
            provisions.kvm = Some(kvm_module::ensure(guest.paging)?);
        }
        if guest.pages == Some(Pages::Huge) {
            let pool = Path::new(huge_pages::POOL);
            provisions.memory = Some(huge_pages::reserve(pool, guest.memory)?);
        }
        Ok(provisions)
    }
}

impl GuestLink {
    /// Starts a guest's VMM. With it comes what a person should know of how it was done.
    pub fn start(spec: Spec, held: Held, inbox: Inbox) -> Result<(Self, Vec<String>)> {
        let node = spec.node;
        let vmm = Vmm::start(spec)?;
        let warnings = vmm.missing_walls().to_vec();
        if let Some(cgroup) = &held.cgroup {
            cgroup.add(vmm.pid().as_raw_nonzero().get())?;
        }
        let records = vmm.channel().as_fd().try_clone_to_owned()?;
        let orders = Orders::new(vmm.channel().try_clone()?);
        std::thread::spawn(move || inbox.read(File::from(records)));
        let link = GuestLink {
            vmm: Some(vmm),
            orders,
            name: node.name.clone(),
            cpus: node.cpus.clone(),
            held,
            last_words: Vec::new(),
        };
        Ok((link, warnings))
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
