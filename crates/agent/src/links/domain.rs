//! A guest of Xen.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::Result;
use hypertare_plan::{
    Bench, Domain as DomainPlan, Node, NodeReady, NumberedOrder, Scheduler, VirtualCpus,
};

use super::streams::{Orders, Tail};
use super::{Inbox, News, NodeLink};
use crate::probe::Outside;
use crate::process::wait_until;
use crate::vmm::spec::Medium;
use crate::xen;
use crate::xen::console::Records;
use crate::xen::domain::{self, Domain};
use crate::xen::placement;
use crate::xen::store::Ends;
use crate::xen::toolstack::XenToolstack;

/// What the kernel prints before the reason for its end.
const PANIC: &str = "Kernel panic - not syncing: ";

/// From a kernel's crash until that has come: the console's daemon brings it, and the crash is seen sooner.
const LAST_WORDS: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// A guest of Xen.
pub struct DomainLink {
    domain: Option<Domain>,
    scheduler: Option<Scheduler>,
    asked: VirtualCpus,
    orders: Orders,
    printed: Tail,
}

impl DomainLink {
    /// Makes the domain. Its interfaces are joined to their links by the hotplug script.
    pub fn start(
        node: &Node,
        plan: &DomainPlan,
        bench: &Bench,
        toolstack: &XenToolstack,
        disk: Option<&Medium>,
        inbox: Inbox,
    ) -> Result<Self> {
        let domain = Domain::create(node, plan, bench, toolstack, disk)?;
        let console = File::from(domain.console()?);
        let orders = Orders::new(console.try_clone()?, None);
        let printed = Tail::default();
        let kept = printed.clone();
        report_end(domain.id, inbox.clone());
        std::thread::spawn(move || inbox.read(Records::new(console, |line| kept.push(line))));
        let asked = VirtualCpus { count: plan.cpus, on: node.cpus.clone() };
        let scheduler = bench.scheduler;
        Ok(DomainLink { domain: Some(domain), scheduler, asked, orders, printed })
    }

    /// The reason that its kernel gave for its end.
    fn await_panic(&self, deadline: Instant) -> Option<String> {
        let panic = || {
            let printed = self.printed.lines();
            let mut last_first = printed.iter().rev();
            last_first.find_map(|line| Some(line.split_once(PANIC)?.1.to_owned()))
        };
        wait_until(deadline, STEP, || panic().is_some());
        panic()
    }
}

/// The console of a guest that has crashed stays open: that it has is seen here.
fn report_end(domain: u32, inbox: Inbox) {
    std::thread::spawn(move || {
        let awaited = Ends::watch().and_then(|mut ends| {
            while domain::failure(domain).is_none() {
                ends.await_next()?;
            }
            Ok("it has ended".to_owned())
        });
        inbox.report(News::Gone(awaited.unwrap_or_else(|error| format!("{error:#}"))));
    });
}

impl NodeLink for DomainLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<NodeReady> {
        let Some(domain) = &self.domain else { return Ok(NodeReady::default()) };
        let placed = placement::of(&domain.name)?;
        placement::require("it", &placed, &self.asked)?;
        Ok(NodeReady {
            vmm: Some(xen::version()?),
            joined: domain.joined()?,
            scheduler: self.scheduler,
            tsc: Some(domain.tsc()?),
            placed: Some(placed),
            driver: Some(placement::of_driver()?),
            ..NodeReady::default()
        })
    }

    fn check(&mut self) -> Result<()> {
        self.domain.as_ref().map_or(Ok(()), |domain| domain.joined().map(drop))
    }

    fn failure(&mut self) -> Option<String> {
        let domain = self.domain.as_ref()?;
        let known = domain.failure()?;
        let limit = if domain.has_crashed() { LAST_WORDS } else { Duration::ZERO };
        Some(match self.await_panic(Instant::now() + limit) {
            Some(why) => format!("{known}: {why}"),
            None => known,
        })
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
