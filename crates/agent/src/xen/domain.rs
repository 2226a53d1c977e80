//! One PV guest: made by `xl create` from a configuration written for it, heard through its console,
//! and destroyed when this is dropped.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hypertare_plan::{
    AGENT_PREFIX, Bench, Domain as Plan, Interface, LEAST_DOMAIN_MEMORY, Link, LinkKind, Node,
    TscMode,
};

use super::account::State;
use super::store::Store;
use super::toolstack::XenToolstack;
use super::vif::Joint;
use super::{account, block, cleanup, console, scheduler, tools, vif};
use crate::process::wait_until;
use crate::vmm::initramfs::concatenate;
use crate::vmm::spec::Medium;

/// Some seconds each for building it and for its interfaces' scripts, on a slow machine.
const CREATE_LIMIT: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// A running guest. Dropped, it is destroyed.
pub struct Domain {
    pub id: u32,
    pub name: String,
    joints: Vec<Joint>,
    tsc: TscMode,
    configuration: PathBuf,
}

impl Domain {
    /// Makes a guest and returns when it runs; whether it boots is seen on its console.
    ///
    /// # Errors
    /// What the plan asks for cannot be had, or `xl` says no.
    pub fn create(
        node: &Node,
        plan: &Plan,
        bench: &Bench,
        toolstack: &XenToolstack,
        disk: Option<&Medium>,
    ) -> Result<Self> {
        check(plan, &toolstack.script)?;
        let directory = &toolstack.directory;
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        let name = toolstack.name(&node.name);
        let configuration = directory.join(format!("{name}.cfg"));
        let (ramdisk, _joined) = archive(&plan.initramfs)?;
        let disk = disk.map(block::device).transpose()?;
        fs::write(&configuration, text(node, plan, &ramdisk, bench, toolstack, disk.as_deref())?)
            .with_context(|| format!("writing {}", configuration.display()))?;
        // From here on it is destroyed, however far its making came.
        let mut domain = Domain { id: 0, name, joints: Vec::new(), tsc: plan.tsc, configuration };
        let file = domain.configuration.to_string_lossy();
        // -e: no process is left behind that waits for the domain's end; that is done here.
        tools::run("xl", &["create", "-e", "-q", &file], CREATE_LIMIT).map_err(
            |error| match reason(&format!("{error:#}"), plan, &toolstack.script) {
                Some(reason) => error.context(reason),
                None => error,
            },
        )?;
        let id = scheduler::number_of(&domain.name)?;
        domain.id = id;
        for (place, interface) in node.interfaces.iter().enumerate() {
            let link = link_of(bench, interface)?;
            domain.joints.push(Joint::of(id, place, interface, link)?);
        }
        if let Some(weight) = plan.weight {
            scheduler::set_weight(id, weight)?;
        }
        Ok(domain)
    }

    /// This side of its console.
    pub fn console(&self) -> Result<OwnedFd> {
        let path = format!("/local/domain/{}/console/tty", self.id);
        let deadline = Instant::now() + LIMIT;
        let mut store = Store::open()?;
        loop {
            // xenconsoled writes it some time after the domain is there.
            let tty = store.read(&path)?.unwrap_or_default();
            if !tty.is_empty() {
                return console::open(Path::new(&tty));
            }
            if Instant::now() > deadline {
                bail!("the guest has no console: is xenconsoled running?");
            }
            std::thread::sleep(STEP);
        }
    }

    /// How its interfaces are joined; none without any.
    ///
    /// # Errors
    /// One of them is joined in another way than was asked for, or not at all.
    pub fn joined(&self) -> Result<Option<LinkKind>> {
        let ways = self.joints.iter().map(Joint::check).collect::<Result<Vec<_>>>();
        let ways = ways.context("the driver domain does not join it to its link as it should")?;
        Ok(ways.first().copied())
    }

    /// How it reads the time-stamp counter, as Xen says.
    ///
    /// # Errors
    /// In another way than was asked for, or Xen does not say.
    pub fn tsc(&self) -> Result<TscMode> {
        let found = account::tsc_mode(self.id)?;
        if found != self.tsc {
            bail!("Xen gives the guest the TSC mode {found:?}, not {:?}", self.tsc);
        }
        Ok(found)
    }

    /// What is known of its end, if it has ended.
    pub fn failure(&self) -> Option<String> {
        failure(self.id)
    }

    pub fn has_crashed(&self) -> bool {
        matches!(account::state(self.id), Ok(State::Crashed))
    }

    pub fn await_end(&self, limit: Duration) -> bool {
        wait_until(Instant::now() + limit, STEP, || self.failure().is_some())
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let destroyed = Store::open()
            .and_then(|mut store| cleanup::destroy(&mut store, |name| name == self.name));
        if let Err(error) = destroyed {
            // Nobody waits for a drop. On a user's host the keeper tries again when the run has ended.
            eprintln!("{AGENT_PREFIX}the guest {} is left: {error:#}", self.name);
        }
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

/// An initramfs as the one file that `xl` takes. Several are put together in memory, for as long as the file that is
/// given back is open.
fn archive(parts: &[PathBuf]) -> Result<(PathBuf, Option<File>)> {
    if let [path] = parts {
        return Ok((path.clone(), None));
    }
    let joined = concatenate(parts)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), joined.as_raw_fd());
    Ok((path.into(), Some(joined)))
}

/// Explains an error of `xl create`, if it is a known one.
fn reason(said: &str, plan: &Plan, script: &Path) -> Option<String> {
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if says(&["no loader found", "Invalid kernel", "decompress"]) {
        let kernel = plan.kernel.display();
        return Some(format!(
            "Xen can make no PV guest of its kernel {kernel}: it is damaged, or of another kind"
        ));
    }
    if says(&["can't allocate low memory", "failed to free memory", "not enough free memory"]) {
        return Some(format!(
            "Xen has less than the {} MB of memory left that it is to have: ask for fewer guests, or \
             for less memory each (in a study: sut.guests, sut.memory)",
            plan.memory >> 20
        ));
    }
    says(&[&script.to_string_lossy(), "hotplug"]).then(|| {
        let script = script.display();
        format!("the script {script}, which joins its interface to its link, failed")
    })
}

fn check(plan: &Plan, script: &Path) -> Result<()> {
    for file in plan.initramfs.iter().chain([&plan.kernel]) {
        File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
    }
    // Without it `xl` waits a while for an interface that nobody joins to its bridge.
    if rustix::fs::access(script, rustix::fs::Access::EXEC_OK).is_err() {
        bail!("the script {}, which joins a guest's interface, cannot be run", script.display());
    }
    if plan.memory < LEAST_DOMAIN_MEMORY {
        let least = LEAST_DOMAIN_MEMORY >> 20;
        bail!("a Xen guest needs at least {least} MB of memory to boot");
    }
    Ok(())
}

/// The configuration, in the form of xl.cfg(5).
fn text(
    node: &Node,
    plan: &Plan,
    ramdisk: &Path,
    bench: &Bench,
    toolstack: &XenToolstack,
    disk: Option<&Path>,
) -> Result<String> {
    let vifs =
        node.interfaces.iter().map(|interface| vif_text(bench, interface, &toolstack.script));
    let vifs = vifs.collect::<Result<Vec<String>>>()?;
    let mut text = String::new();
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}");
    line("name", quoted(&toolstack.name(&node.name))?)?;
    line("type", quoted("pv")?)?;
    line("kernel", quoted(&plan.kernel.to_string_lossy())?)?;
    line("ramdisk", quoted(&ramdisk.to_string_lossy())?)?;
    line("memory", (plan.memory >> 20).to_string())?;
    line("vcpus", plan.cpus.to_string())?;
    let tsc = match plan.tsc {
        TscMode::Native => "native",
        TscMode::Emulate => "always_emulate",
        TscMode::Default => "default",
    };
    line("tsc_mode", quoted(tsc)?)?;
    if !node.cpus.is_empty() {
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        line("cpus", quoted(&cpus.join(","))?)?;
    }
    let mut arguments = plan.kernel_args.clone();
    if let Some(device) = disk {
        line("disk", format!("[ {} ]", quoted(&block::text(device))?))?;
        arguments.extend(block::kernel_arguments());
    }
    line("extra", quoted(&arguments.join(" "))?)?;
    line("vif", format!("[ {} ]", vifs.join(", ")))?;
    for event in ["on_poweroff", "on_reboot", "on_crash"] {
        line(event, quoted("preserve")?)?;
    }
    Ok(text)
}

fn vif_text(bench: &Bench, interface: &Interface, script: &Path) -> Result<String> {
    let mac = interface.mac.as_deref().context("a Xen guest's interface needs a MAC address")?;
    let link = link_of(bench, interface)?;
    let way = match link.kind {
        LinkKind::Route => {
            format!("ip={},gatewaydev={}", vif::guest_address(interface)?, link.name)
        }
        LinkKind::Bridge | LinkKind::Hub => format!("bridge={}", link.name),
    };
    quoted(&format!("mac={mac},{way},mtu={},script={}", link.mtu, script.display()))
}

pub fn link_of<'a>(bench: &'a Bench, interface: &Interface) -> Result<&'a Link> {
    let link = bench.links.iter().find(|link| link.name == interface.link);
    link.with_context(|| format!("there is no link {}", interface.link))
}

/// A string of xl.cfg(5), which cannot hold some characters.
fn quoted(text: &str) -> Result<String> {
    if text.contains(['"', '\\', '\n']) || text.chars().any(char::is_control) {
        bail!("{text:?} holds a character that xl's configuration cannot");
    }
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use hypertare_plan::NodeKind;

    use super::*;

    fn plan() -> Plan {
        Plan {
            cpus: 1,
            memory: 128 << 20,
            weight: None,
            tsc: TscMode::Native,
            kernel: "/xen/kernel".into(),
            initramfs: vec!["/xen/initramfs".into()],
            kernel_args: vec!["quiet".into(), "rodata=off".into()],
            boot_limit_s: 60.0,
        }
    }

    fn ramdisk() -> &'static Path {
        Path::new("/xen/initramfs")
    }

    fn node() -> Node {
        let interface = Interface {
            name: "eth0".into(),
            link: "br0".into(),
            address: "10.77.0.3/24".into(),
            more_addresses: vec![],
            mac: Some("52:54:00:01:02:03".into()),
            nic: None,
            offloads: std::collections::BTreeMap::new(),
        };
        Node {
            name: "guest1".into(),
            kind: NodeKind::Domain(plan()),
            cpus: vec![0],
            interfaces: vec![interface],
            routes: vec![],
            router: None,
            files: None,
            disk: None,
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
        Bench {
            name: "b".into(),
            nodes: vec![node()],
            links: vec![link],
            weights: false,
            scheduler: None,
            driver: None,
            datapath_cpu: None,
        }
    }

    #[test]
    fn the_configuration_says_what_the_plan_does() {
        let text =
            text(&node(), &plan(), ramdisk(), &bench(), &XenToolstack::of_own_machine(), None)
                .unwrap();
        for line in [
            "name = \"guest1\"",
            "type = \"pv\"",
            "kernel = \"/xen/kernel\"",
            "memory = 128",
            "vcpus = 1",
            "tsc_mode = \"native\"",
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
    fn the_counter_is_read_as_the_plan_says() {
        let toolstack = XenToolstack::of_own_machine();
        for (tsc, word) in [(TscMode::Emulate, "always_emulate"), (TscMode::Default, "default")] {
            let text =
                text(&node(), &Plan { tsc, ..plan() }, ramdisk(), &bench(), &toolstack, None)
                    .unwrap();
            assert!(text.contains(&format!("tsc_mode = \"{word}\"")), "{text}");
        }
    }

    #[test]
    fn a_disk_is_a_device_by_its_name_and_the_guest_finds_it() {
        let device = Path::new("/dev/nullb0");
        let toolstack = XenToolstack::of_own_machine();
        let text = text(&node(), &plan(), ramdisk(), &bench(), &toolstack, Some(device)).unwrap();
        for line in [
            "disk = [ \"format=raw,vdev=xvda,access=w,script=/xen/block,target=/dev/nullb0\" ]",
            "extra = \"quiet rodata=off hypertare.modules=xen_blkfront hypertare.disk=/dev/xvda\"",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn several_archives_are_one_file() {
        let part = tempfile::NamedTempFile::new().unwrap();
        fs::write(part.path(), "12345").unwrap();
        let (one, _) = archive(&[part.path().to_owned()]).unwrap();
        assert_eq!(one, part.path());
        let (both, _joined) = archive(&[part.path().to_owned(), part.path().to_owned()]).unwrap();
        assert_eq!(fs::read(&both).unwrap(), b"12345\0\0\x0012345\0\0\0");
    }

    #[test]
    fn an_interface_that_is_routed_has_no_bridge() {
        let mut bench = bench();
        bench.links[0].kind = LinkKind::Route;
        let toolstack = XenToolstack::of_own_machine();
        let text = text(&node(), &plan(), ramdisk(), &bench, &toolstack, None).unwrap();
        let words = "mac=52:54:00:01:02:03,ip=10.77.0.3,gatewaydev=br0,mtu=1400,script=/xen/vif";
        assert!(text.contains(words) && !text.contains("bridge="), "{text}");
        let mut node = node();
        node.interfaces[0].address = "fd00::3/64".into();
        let error = self::text(&node, &plan(), ramdisk(), &bench, &toolstack, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no IPv4 address"), "{error}");
    }

    #[test]
    fn what_would_end_a_string_is_refused() {
        let mut plan = plan();
        plan.kernel_args = vec!["a\"\nkernel = \"/etc/passwd".into()];
        let toolstack = XenToolstack::of_own_machine();
        let error =
            text(&node(), &plan, ramdisk(), &bench(), &toolstack, None).unwrap_err().to_string();
        assert!(error.contains("cannot"), "{error}");
        let mut node = node();
        node.interfaces[0].mac = None;
        assert!(text(&node, &self::plan(), ramdisk(), &bench(), &toolstack, None).is_err());
    }

    #[test]
    fn what_xl_says_is_reported_in_words() {
        let script = Path::new("/xen/vif");
        let reason = |said: &str| reason(said, &plan(), script).unwrap_or_default();
        assert!(reason("xc_dom_find_loader: no loader found").contains("kernel /xen/kernel"));
        assert!(reason("failed to free memory for the domain").contains("the 128 MB of memory"));
        let status = "libxl: error: /xen/vif online [119] exited with error status 2";
        assert!(reason(status).contains("the script /xen/vif, which joins"));
        assert_eq!(reason("libxl: error: something else"), "");
    }

    #[test]
    fn what_is_missing_is_said_before_anything_is_made() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let script = Path::new("/bin/sh");
        let plan = Plan { kernel: path.clone(), initramfs: vec![path], memory: 64 << 20, ..plan() };
        assert!(check(&plan, script).unwrap_err().to_string().contains("at least 112 MB"));
        let error = check(&plan, Path::new("/no/script")).unwrap_err().to_string();
        assert!(error.contains("/no/script") && error.contains("cannot be run"), "{error}");
        let plan = Plan { kernel: "/no/kernel".into(), ..plan };
        assert!(check(&plan, script).unwrap_err().to_string().contains("/no/kernel"));
    }
}
