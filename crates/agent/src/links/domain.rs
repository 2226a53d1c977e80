//! A guest of Xen.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::Result;
use hypertare_plan::{Bench, Domain as DomainPlan, Node, NumberedOrder, Scheduler, VirtualCpus};

use super::streams::{Orders, Tail};
use super::{About, Inbox, News, NodeLink};
use crate::probe::Outside;
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
        let orders = Orders::new(console.try_clone()?);
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
        loop {
            let printed = self.printed.lines();
            let panic = printed.iter().rev().find_map(|line| line.split_once(PANIC));
            if panic.is_some() || Instant::now() >= deadline {
                return panic.map(|(_, why)| why.to_owned());
            }
            std::thread::sleep(STEP);
        }
    }
}

/// The console of a guest that has crashed stays open: that it has is seen here.
fn report_end(domain: u32, inbox: Inbox) {
    std::thread::spawn(move || {
        let mut ends = match Ends::watch() {
            Ok(ends) => ends,
            Err(error) => return inbox.report(News::Gone(format!("{error:#}"))),
        };
        loop {
            if domain::failure(domain).is_some() {
                return inbox.report(News::Gone("it has ended".to_owned()));
            }
            if let Err(error) = ends.await_next() {
                return inbox.report(News::Gone(format!("{error:#}")));
            }
        }
    });
}

impl NodeLink for DomainLink {
    fn send(&mut self, order: &NumberedOrder) {
        self.orders.send(order);
    }

    fn about(&mut self) -> Result<About> {
        let Some(domain) = &self.domain else { return Ok(About::default()) };
        let placed = placement::of(&domain.name)?;
        placement::require("it", &placed, &self.asked)?;
        Ok(About {
            vmm: Some(xen::version()?),
            joined: domain.joined()?,
            scheduler: self.scheduler,
            tsc: Some(domain.tsc()?),
            placed: Some(placed),
            driver: Some(placement::of_driver()?),
            ..About::default()
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
