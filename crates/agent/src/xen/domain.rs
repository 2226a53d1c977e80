//! One PV guest: made by `xl create` from a configuration written for it, heard through its console,
//! and destroyed when this is dropped.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Bench, Domain as Plan, Interface, Node};

use super::account::State;
use super::{account, console, scheduler, tools, vif};

const DIRECTORY: &str = "/run/hypertare-domains";
/// Some seconds each for building it and for its interfaces' scripts, on a slow machine.
const CREATE_LIMIT: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// Least memory, in MB, with which a kernel and an initramfs of this size boot.
const LEAST_MEMORY_MB: u64 = 112;

/// A running guest. Dropped, it is destroyed.
pub struct Domain {
    pub id: u32,
    pub name: String,
    configuration: PathBuf,
}

impl Domain {
    /// Makes a guest and returns when it runs; whether it boots is seen on its console.
    ///
    /// # Errors
    /// What the plan asks for cannot be had, or `xl` says no.
    pub fn create(node: &Node, plan: &Plan, bench: &Bench) -> Result<Self> {
        check(plan, Path::new(vif::SCRIPT))?;
        fs::create_dir_all(DIRECTORY).with_context(|| format!("making {DIRECTORY}"))?;
        let name = node.name.clone();
        let configuration = Path::new(DIRECTORY).join(format!("{name}.cfg"));
        fs::write(&configuration, text(node, plan, bench)?)
            .with_context(|| format!("writing {}", configuration.display()))?;
        let file = configuration.to_string_lossy();
        // -e: no process is left behind that waits for the domain's end; that is done here.
        tools::run("xl", &["create", "-e", "-q", &file], CREATE_LIMIT)?;
        let id = tools::run("xl", &["domid", &name], LIMIT)?;
        let id = id.trim().parse().with_context(|| format!("xl says {id:?} is its number"))?;
        let domain = Domain { id, name, configuration };
        if let Some(weight) = plan.weight {
            scheduler::set_weight(&domain.name, weight)?;
        }
        Ok(domain)
    }

    /// This side of its console.
    pub fn console(&self) -> Result<OwnedFd> {
        let path = format!("/local/domain/{}/console/tty", self.id);
        let deadline = Instant::now() + LIMIT;
        loop {
            // xenconsoled writes it some time after the domain is there.
            let said = tools::run("xenstore-read", &[&path], LIMIT);
            if let Ok(tty) = &said
                && !tty.trim().is_empty()
            {
                return console::open(Path::new(tty.trim()));
            }
            if Instant::now() > deadline {
                return Err(said.err().unwrap_or_else(|| anyhow::anyhow!("xenconsoled is silent")))
                    .context("the guest has no console");
            }
            std::thread::sleep(STEP);
        }
    }

    /// What is known of its end, if it has ended.
    pub fn failure(&self) -> Option<String> {
        failure(self.id)
    }

    pub fn await_end(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if self.failure().is_some() {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(STEP);
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _ = tools::run("xl", &["destroy", &self.name], LIMIT);
        let _ = fs::remove_file(&self.configuration);
    }
}

/// What is known of a domain's end, if it has ended.
pub fn failure(domain: u32) -> Option<String> {
    match account::state(domain) {
        Ok(State::Runs) => None,
        Ok(State::Shutdown) => Some("it has shut down".to_owned()),
        Ok(State::Crashed) => Some("its kernel has crashed".to_owned()),
        Ok(State::Gone) => Some("it is gone".to_owned()),
        Err(error) => Some(format!("nobody knows how it is: {error:#}")),
    }
}

fn check(plan: &Plan, script: &Path) -> Result<()> {
    for file in [&plan.kernel, &plan.initramfs] {
        File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
    }
    // Without it `xl` waits a while for an interface that nobody joins to its bridge.
    if rustix::fs::access(script, rustix::fs::Access::EXEC_OK).is_err() {
        bail!("the script {}, which joins a guest's interface, cannot be run", script.display());
    }
    if plan.memory >> 20 < LEAST_MEMORY_MB {
        bail!("a Xen guest needs at least {LEAST_MEMORY_MB} MB of memory to boot");
    }
    Ok(())
}

/// The configuration, in the form of xl.cfg(5).
fn text(node: &Node, plan: &Plan, bench: &Bench) -> Result<String> {
    let vifs = node.interfaces.iter().map(|interface| vif_text(bench, interface));
    let vifs = vifs.collect::<Result<Vec<String>>>()?;
    let mut text = String::new();
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}");
    line("name", quoted(&node.name)?)?;
    line("type", quoted("pv")?)?;
    line("kernel", quoted(&plan.kernel.to_string_lossy())?)?;
    line("ramdisk", quoted(&plan.initramfs.to_string_lossy())?)?;
    line("memory", (plan.memory >> 20).to_string())?;
    line("vcpus", plan.cpus.to_string())?;
    if !node.cpus.is_empty() {
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        line("cpus", quoted(&cpus.join(","))?)?;
    }
    line("extra", quoted(&plan.kernel_args.join(" "))?)?;
    line("vif", format!("[ {} ]", vifs.join(", ")))?;
    for event in ["on_poweroff", "on_reboot", "on_crash"] {
        line(event, quoted("preserve")?)?;
    }
    Ok(text)
}

fn vif_text(bench: &Bench, interface: &Interface) -> Result<String> {
    let mac = interface.mac.as_deref().context("a Xen guest's interface needs a MAC address")?;
    let link = bench.links.iter().find(|link| link.name == interface.link);
    let link = link.with_context(|| format!("there is no link {}", interface.link))?;
    let words = format!("mac={mac},bridge={},mtu={},script={}", link.name, link.mtu, vif::SCRIPT);
    quoted(&words)
}

/// As a string of xl.cfg(5), which has no way to write some characters.
fn quoted(text: &str) -> Result<String> {
    if text.contains(['"', '\\', '\n']) || text.chars().any(char::is_control) {
        bail!("{text:?} holds a character that xl's configuration cannot");
    }
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use hypertare_plan::{Link, LinkKind, NodeKind};

    use super::*;

    fn plan() -> Plan {
        Plan {
            cpus: 1,
            memory: 128 << 20,
            weight: None,
            kernel: "/xen/kernel".into(),
            initramfs: "/xen/initramfs".into(),
            kernel_args: vec!["quiet".into(), "rodata=off".into()],
            boot_limit_s: 60.0,
        }
    }

    fn node() -> Node {
        let interface = Interface {
            name: "eth0".into(),
            link: "br0".into(),
            address: "10.77.0.3/24".into(),
            more_addresses: vec![],
            mac: Some("52:54:00:01:02:03".into()),
            nic: None,
            offloads: Default::default(),
        };
        Node {
            name: "guest1".into(),
            kind: NodeKind::Domain(plan()),
            cpus: vec![0],
            interfaces: vec![interface],
            routes: vec![],
            router: None,
            files: None,
        }
    }

    fn bench() -> Bench {
        let link = Link {
            name: "br0".into(),
            kind: LinkKind::Bridge,
            mtu: 1400,
            uplink: None,
            trunk: None,
        };
        Bench { name: "b".into(), nodes: vec![node()], links: vec![link], weights: false }
    }

    #[test]
    fn the_configuration_says_what_the_plan_does() {
        let text = text(&node(), &plan(), &bench()).unwrap();
        for line in [
            "name = \"guest1\"",
            "type = \"pv\"",
            "kernel = \"/xen/kernel\"",
            "memory = 128",
            "vcpus = 1",
            "cpus = \"0\"",
            "extra = \"quiet rodata=off\"",
            "on_crash = \"preserve\"",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in {text}");
        }
        let vif = "vif = [ \"mac=52:54:00:01:02:03,bridge=br0,mtu=1400,script=/xen/vif\" ]";
        assert!(text.contains(vif), "{text}");
    }

    #[test]
    fn what_would_end_a_string_is_refused() {
        let mut plan = plan();
        plan.kernel_args = vec!["a\"\nkernel = \"/etc/passwd".into()];
        assert!(text(&node(), &plan, &bench()).unwrap_err().to_string().contains("cannot"));
        let mut node = node();
        node.interfaces[0].mac = None;
        assert!(text(&node, &self::plan(), &bench()).is_err());
    }

    #[test]
    fn what_is_missing_is_said_before_anything_is_made() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let script = Path::new("/bin/sh");
        let plan = Plan { kernel: path.clone(), initramfs: path, memory: 64 << 20, ..plan() };
        assert!(check(&plan, script).unwrap_err().to_string().contains("at least 112 MB"));
        let error = check(&plan, Path::new("/no/script")).unwrap_err().to_string();
        assert!(error.contains("/no/script") && error.contains("cannot be run"), "{error}");
        let plan = Plan { kernel: "/no/kernel".into(), ..plan };
        assert!(check(&plan, script).unwrap_err().to_string().contains("/no/kernel"));
    }
}
