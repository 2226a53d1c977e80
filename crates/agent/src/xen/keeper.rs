//! What a run's guests need outside of its sandbox, on a user's own host.
//!
//! The sandbox is root in a user namespace of its own. That is enough for Xen's tools, which ask for
//! nothing but files of root's (/dev/xen, the store's socket); but a guest's interface appears in the
//! host's network namespace, and guests do not end with those who made them. So the outside of
//! `hypertare-agent host` starts a keeper, which
//! - hands interfaces of the run's guests over to the run's network namespace, where the [`script`]
//!   waits for them: it hears of new interfaces by netlink, and nobody can ask it for one;
//! - outlives the inside, however that ends, destroys what guests it has left, and puts the driver
//!   domain's weight back;
//! - before all that does the same for runs that were killed together with their keepers.
//!
//! A guest's name says whose it is ([`toolstack`](super::toolstack)). No other one is touched.
//!
//! [`script`]: super::vif

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::store::Store;
use super::{Role, account, cleanup, journal, role, toolstack};
use crate::net::{Changes, Links, Namespace};
use crate::process::cgroup::{self, Scope};
use crate::process::spawn::{Child, Ended, Spawn, readable};
use crate::process::{namespaces, signals};

/// The subcommand that starts a keeper. Not for people.
pub const VERB: &str = "xen-keeper";

/// Its descriptors: the inside, the inside's network namespace, and where it says that it is ready.
const INSIDE: RawFd = 3;
const NETWORK: RawFd = 4;
const READY: RawFd = 5;
const IS_READY: &str = "ready";

/// For what dead runs have left, too.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// From an error of the store or of the network to the next try.
const RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A keeper at work. Dropped, it goes on.
pub struct Keeper(Child);

#[derive(clap::Args)]
pub struct Arguments {
    /// What the run is called
    #[arg(long)]
    scope: String,
}

/// Why a run here can have no guests of Xen, if it cannot.
pub fn obstacle() -> Option<String> {
    let text = match role() {
        Some(Role::Driver) if !rustix::process::geteuid().is_root() => {
            "guests of Xen are made by root only: start hypertare as root".to_owned()
        }
        Some(Role::Driver) => match (Store::open(), account::state(super::DRIVER_DOMAIN)) {
            (Err(error), _) => format!("{error:#}: is xenstored running?"),
            (_, Err(error)) => format!("{error:#}"),
            _ => return None,
        },
        Some(Role::Guest) => {
            "this host is a guest of Xen itself: its guests are made in its driver domain"
                .to_owned()
        }
        None => {
            "this host does not run under Xen: boot it with Xen, or take machine = \"emulated\""
                .to_owned()
        }
    };
    Some(text)
}

impl Keeper {
    /// Starts the keeper of a run whose inside is about to begin.
    pub fn start(scope: &Scope, inside: libc::pid_t) -> Result<Self> {
        let process = Pid::from_raw(inside).context("the inside has no process number")?;
        let handle = pidfd_open(process, PidfdFlags::empty()).context("watching the inside")?;
        let network =
            File::open(format!("/proc/{inside}/ns/net")).context("the inside's network")?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        let (mut heard, ready) = std::io::pipe()?;
        let spawn = Spawn {
            arguments: vec![VERB.to_owned(), "--scope".to_owned(), scope.name().to_owned()],
            // Its scratch memory is its own, too.
            namespaces: libc::CLONE_NEWNS,
            descriptors: vec![&nothing, &nothing, &nothing, &handle, &network, &ready],
        };
        let keeper = Keeper(spawn.start(|_| Ok(()))?);
        drop(ready);
        if !readable(&heard, Instant::now() + READY_LIMIT) {
            bail!("it was not ready within {} s", READY_LIMIT.as_secs());
        }
        let mut said = String::new();
        heard.read_to_string(&mut said)?;
        ensure!(said == IS_READY, "{said}");
        Ok(keeper)
    }

    /// Once the inside has ended.
    ///
    /// # Errors
    /// Something of the run's is left: what, why, and what to do.
    pub fn await_end(&mut self, scope: &Scope, limit: Duration) -> Result<()> {
        let again = "the next run tries to remove it again";
        let Some(ended) = self.0.wait_until(Instant::now() + limit) else {
            bail!(
                "what is left of guests of Xen was not removed within {} s; {again}",
                limit.as_secs()
            )
        };
        if matches!(ended, Ended::Exited(0)) {
            return Ok(());
        }
        let left = Store::open().and_then(|mut store| journal::trouble(&mut store, scope))?;
        let left = left.unwrap_or_else(|| format!("the keeper {ended}"));
        bail!("something may be left of guests of Xen: {left}; {again}")
    }
}

/// The keeper itself.
pub fn main(arguments: &Arguments) -> ExitCode {
    // SAFETY: whoever starts a keeper has put them there; nobody else owns these numbers.
    let [inside, network, ready] =
        [INSIDE, NETWORK, READY].map(|number| unsafe { OwnedFd::from_raw_fd(number) });
    for descriptor in [&inside, &network, &ready] {
        let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
    }
    let mut ready = File::from(ready);
    let scope = Scope::named(&arguments.scope);
    let outcome = match Watch::begin() {
        Ok(watch) => {
            let _ = ready.write_all(IS_READY.as_bytes());
            drop(ready);
            watch.until_end(&scope, &inside, &network)
        }
        Err(error) => ready.write_all(format!("{error:#}").as_bytes()).map_err(Into::into),
    };
    // Whatever became of the watch, what the run has left is removed once it has ended.
    await_end(&inside);
    let cleared = Store::open().and_then(|mut store| cleanup::clear(&mut store, &scope));
    match outcome.and(cleared) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Watch {
    store: Store<UnixStream>,
    links: Links,
    changes: Changes,
}

impl Watch {
    fn begin() -> Result<Self> {
        // It ends with the inside, and not by what a terminal or a session's end sends to all.
        let _ = rustix::process::setsid();
        std::mem::forget(signals::signal_descriptor()?);
        namespaces::make_private()?;
        namespaces::mount_scratch()?;
        toolstack::write_script(&namespaces::scratch("xen")?)?;
        let mut store = Store::open()?;
        cleanup::sweep(&mut store, cgroup::is_alive).context(
            "what an earlier run has left cannot be removed, and would be part of what is weighed",
        )?;
        Ok(Watch { store, links: Links::open()?, changes: Changes::watch()? })
    }

    /// An error ends nothing: it is noted for whoever waits for an interface, and tried again.
    fn until_end(mut self, scope: &Scope, inside: &OwnedFd, network: &OwnedFd) -> Result<()> {
        let mut in_trouble = false;
        loop {
            let outcome = self.hand_over(scope, network);
            if outcome.is_err() || in_trouble {
                in_trouble = self.recover(scope, outcome).is_err();
            }
            let mut watched = [
                PollFd::new(inside, PollFlags::IN),
                PollFd::from_borrowed_fd(self.changes.descriptor(), PollFlags::IN),
            ];
            match poll(&mut watched, in_trouble.then_some(&RETRY)) {
                Ok(_) if !watched[0].revents().is_empty() => return Ok(()),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => self.changes.forget(),
                Err(error) => return Err(error).context("waiting for interfaces"),
            }
        }
    }

    /// Opens new connections after an error: half an answer may still be on its way on the old ones.
    fn recover(&mut self, scope: &Scope, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return journal::strike_trouble_out(&mut self.store, scope);
        };
        if let Ok(links) = Links::open() {
            self.links = links;
        }
        self.store = Store::open()?;
        let text = format!("the keeper cannot hand interfaces over: {error:#}");
        journal::note_trouble(&mut self.store, scope, &text)?;
        Err(error)
    }

    /// Moves interfaces of the run's guests into its network. One that disappears before that is not
    /// missed.
    fn hand_over(&mut self, scope: &Scope, network: &OwnedFd) -> Result<()> {
        for link in self.links.list()? {
            let Some(domain) = domain_of(&link.name) else { continue };
            if self.store.name_of(domain)?.is_some_and(|name| scope.owns(&name)) {
                let _ = self.links.move_to(&link.name, Namespace::Fd(network.as_fd()));
            }
        }
        Ok(())
    }
}

/// Of netback's interfaces: `vif7.0` is the first of domain 7.
pub fn domain_of(interface: &str) -> Option<u32> {
    let (domain, handle) = interface.strip_prefix("vif")?.split_once('.')?;
    handle.parse::<u32>().ok()?;
    domain.parse().ok().filter(|&domain| domain != super::DRIVER_DOMAIN)
}

fn await_end(process: &OwnedFd) {
    while poll(&mut [PollFd::new(process, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_tell_whose_they_are() {
        assert_eq!(domain_of("vif7.0"), Some(7));
        assert_eq!(domain_of("vif12.3"), Some(12));
        for other in ["vif0.0", "vif7", "vif7.0-emu", "vifx.0", "eth0", "xenbr0", "vif.0"] {
            assert_eq!(domain_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_host_without_xen_says_so() {
        if role().is_none() {
            assert!(obstacle().unwrap().contains("does not run under Xen"));
        }
    }
}
