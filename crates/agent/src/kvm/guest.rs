//! A guest of the agent's own VMM, seen from the host agent: started, listened to, and ended.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Guest as Plan, MAX_CONSOLE_LINES, Node, Pages, Paging};

use super::pool::{self, Reserved};
use super::{module, vmm};
use crate::guest::MODULES_PARAMETER;
use crate::guest::argv::{KERNEL_ARGUMENTS, TCG_KERNEL_ARGUMENTS};
use crate::guest::console::Tail;
use crate::guest::init::CONSOLE_PREFIX;
use crate::host::spawn::{Child, Ended, Spawn};

/// From the end of its channel to the end of the VMM.
const EXIT_LIMIT: Duration = Duration::from_millis(300);
const KILL_LIMIT: Duration = Duration::from_secs(1);

/// A running guest. Dropped, it is killed.
pub struct Guest {
    child: Child,
    channel: UnixStream,
    printed: Shared,
    errors: Shared,
    /// As read back once it runs.
    pub paging: Paging,
    pub arguments: Vec<String>,
    _pages: Option<Reserved>,
}

impl Guest {
    /// Starts the VMM; `prepare` gets its process id before it does anything.
    ///
    /// # Errors
    /// What the plan asks for cannot be had here; nothing is left changed.
    pub fn start(
        node: &Node,
        plan: &Plan,
        prepare: impl FnOnce(libc::pid_t) -> Result<()>,
    ) -> Result<Self> {
        check(node, plan)?;
        let paging = module::ensure(plan.paging)?;
        let pages = match plan.pages {
            Some(Pages::Huge) => Some(pool::reserve(Path::new(pool::DIRECTORY), plan.memory)?),
            _ => None,
        };
        let arguments = arguments(plan)?;
        let (channel, theirs) = UnixStream::pair()?;
        let (printed, output) = std::io::pipe()?;
        let (errors, error_output) = std::io::pipe()?;
        let nothing = File::open("/dev/null")?;
        let descriptors: Vec<&dyn AsRawFd> = vec![&nothing, &output, &error_output, &theirs];
        let spawn = Spawn { arguments: arguments.clone(), namespaces: 0, descriptors };
        let child = spawn.start(prepare).context("starting the VMM")?;
        Ok(Guest {
            child,
            channel,
            printed: follow(printed),
            errors: follow(errors),
            paging,
            arguments,
            _pages: pages,
        })
    }

    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Orders in, records out.
    pub fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// The last lines that the guest printed, safe to show.
    pub fn console_tail(&self) -> Vec<String> {
        lock(&self.printed).lines()
    }

    /// Why it does not run any more, or must be taken for dead; to be asked when the channel ends.
    pub fn failure(&mut self) -> Option<String> {
        let ended = self.child.wait_until(Instant::now() + EXIT_LIMIT);
        if let Some(panic) = lock(&self.printed).panic() {
            return Some(format!("the guest panicked: {panic}"));
        }
        Some(match ended? {
            Ended::Exited(0) => format!("the guest ended, unasked{}", self.last_words()),
            Ended::Killed(_) => format!("its VMM {}", ended?),
            Ended::Exited(_) => format!("its VMM failed: {}", lock(&self.errors).lines().join("; ")),
        })
    }

    fn last_words(&self) -> String {
        let lines = self.console_tail();
        let by_agent = lines.iter().rfind(|line| line.starts_with(CONSOLE_PREFIX));
        by_agent.or(lines.last()).map_or(String::new(), |line| format!("; it printed last: {line}"))
    }

    pub fn await_end(&mut self, deadline: Instant) -> bool {
        self.child.wait_until(deadline).is_some()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Before its pages are given back.
        self.child.kill();
        self.child.wait_until(Instant::now() + KILL_LIMIT);
    }
}

fn check(node: &Node, plan: &Plan) -> Result<()> {
    if plan.cpus != 1 {
        bail!("the agent's own VMM gives a guest one CPU, not {}", plan.cpus);
    }
    if !node.interfaces.is_empty() {
        bail!("the agent's own VMM has no NICs; its guests do work that needs no network");
    }
    if node.files.is_some() {
        bail!("the agent's own VMM has no share of this machine's files");
    }
    Ok(())
}

fn arguments(plan: &Plan) -> Result<Vec<String>> {
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => bail!("{path:?} is not text"),
    };
    let pages = match plan.pages {
        None => "any",
        Some(Pages::Small) => "4K",
        Some(Pages::Huge) => "2M",
        Some(Pages::Transparent) => "thp",
    };
    let mut words = vec![vmm::NAME.to_owned()];
    words.push(format!("--kernel={}", text(&plan.kernel)?));
    for path in &plan.initramfs {
        words.push(format!("--initramfs={}", text(path)?));
    }
    words.push(format!("--memory={}", plan.memory));
    words.push(format!("--pages={pages}"));
    words.push(format!("--append={}", command_line(plan)));
    Ok(words)
}

/// Where there is no ACPI, nothing is searched for it.
fn command_line(plan: &Plan) -> String {
    let fixed = KERNEL_ARGUMENTS.iter().chain(&TCG_KERNEL_ARGUMENTS);
    let mut words: Vec<String> = fixed.map(|&word| word.to_owned()).collect();
    // Nor is each of 65,536 places of a PCI bus looked at for an AGP bridge, twice.
    words.extend(["acpi=off", "pci=noearly"].map(String::from));
    words.push("random.trust_cpu=off".into());
    words.push(format!("{MODULES_PARAMETER}virtio_pci,virtio_console"));
    words.extend(plan.kernel_args.iter().cloned());
    words.join(" ")
}

type Shared = Arc<Mutex<Tail>>;

/// Read while it runs, so that it never waits for a reader.
fn follow(mut from: impl Read + Send + 'static) -> Shared {
    let tail = Arc::new(Mutex::new(Tail::new(MAX_CONSOLE_LINES)));
    let kept = tail.clone();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            lock(&kept).push(&chunk[..count]);
        }
    });
    tail
}

fn lock(tail: &Shared) -> MutexGuard<'_, Tail> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use hypertare_plan::{Accelerator, Interface, NodeKind};

    use super::*;

    fn plan() -> Plan {
        Plan {
            cpus: 1,
            memory: 256 << 20,
            accelerator: Accelerator::Kvm,
            kernel: "/kvm/kernel".into(),
            initramfs: vec!["/kvm/initramfs".into()],
            cpu_model: None,
            kernel_args: vec!["hypertare.seed=7".into()],
            boot_limit_s: 60.0,
            vmm: hypertare_plan::Vmm::Agent,
            paging: Some(Paging::Nested),
            pages: Some(Pages::Huge),
        }
    }

    fn node(interfaces: Vec<Interface>) -> Node {
        let kind = NodeKind::Guest(plan());
        Node { name: "guest1".into(), kind, cpus: vec![], interfaces, files: None }
    }

    #[test]
    fn the_vmm_is_told_what_the_plan_says() {
        let words = arguments(&plan()).unwrap();
        assert_eq!(words[0], "kvm-vmm");
        for word in ["--kernel=/kvm/kernel", "--memory=268435456", "--pages=2M"] {
            assert!(words.iter().any(|have| have == word), "{word} is not in {words:?}");
        }
        let last = words.last().unwrap();
        assert!(last.starts_with("--append=") && last.ends_with("hypertare.seed=7"), "{last}");
        assert!(last.contains("acpi=off"));
    }

    #[test]
    fn what_the_vmm_has_not_is_refused_before_anything_is_done() {
        assert!(check(&node(vec![]), &plan()).is_ok());
        let two = Plan { cpus: 2, ..plan() };
        assert!(check(&node(vec![]), &two).unwrap_err().to_string().contains("one CPU"));
        let interface = Interface {
            name: "eth0".into(),
            link: "lan".into(),
            address: "10.77.0.2/24".into(),
            mac: None,
            nic: None,
            offloads: Default::default(),
        };
        let error = check(&node(vec![interface]), &plan()).unwrap_err().to_string();
        assert!(error.contains("no NICs"), "{error}");
    }
}
