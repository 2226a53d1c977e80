//! QEMU's command line: everything that decides how a guest runs stands here, and the record of a
//! node shows it. No protection is switched off and nothing is skipped to look faster.
//!
//! - `q35` with the devices removed that a guest without disks, screen and keyboard has no use for.
//! - `-no-reboot` with `panic=-1`: a guest that panics or restarts ends its QEMU, and is noticed.
//! - `reboot=t` (a triple fault) is the fastest way for a guest to end QEMU in good order.
//! - Mitigations against speculative execution are left to the guest's kernel: switching them off
//!   saves some of the emulated instructions of a boot (within the noise of a boot's 2 s), but
//!   natively they are on, and a user's guest has them too. `Guest::kernel_args` may say otherwise.
//! - Under TCG the CPU is [`TCG_CPU`], the fastest that still runs what the host's programs use.
//! - Under TCG the TSC is the host's own clock, so it is `reliable`; without that the kernel may
//!   distrust it on a busy host and fall back to reading an emulated device. Likewise its test of
//!   the timer interrupt fails on a busy host. KVM guests have paravirtual means for both.
//! - NICs have no option ROM: nobody boots from them.
//! - Huge pages from the machine's pool are claimed when QEMU starts, and come when they are touched.
//! - `vhost=off` is said aloud: the packets of every model are then moved by QEMU itself.
//! - `-sandbox` denies all system calls that QEMU can do without: see [`super::jail`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::{Accelerator, Guest, Interface, MODULES_PARAMETER, NicModel, Pages};

use super::qemu::Spec;
use crate::boot_contract::{PORT, SHARE_TAG};

pub const PROGRAM: &str = "qemu-system-x86_64";

/// All that TCG can emulate, so that programs built for this host's CPU run, less what it is slow
/// at. `erms` and `fsrm` promise that `rep movsb` is fast, but TCG executes it byte by byte: a
/// kernel that believes them takes three times as long to copy from and to programs, and fork and
/// exec take 1.5 times as long. `la57` adds a level to every page walk. AVX2 makes libc's memcpy
/// twice as slow, yet programs may need it, and it stays.
pub const TCG_CPU: &str = "max,-erms,-fsrm,-la57";

/// All that QEMU's filter of system calls can deny.
pub const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Numbers of the descriptors that QEMU inherits; those of the TAPs follow.
pub const QMP_FD: i32 = 3;
pub const CHANNEL_FD: i32 = 4;
pub const KERNEL_FD: i32 = 5;
pub const INITRAMFS_FD: i32 = 6;
pub const FIRST_TAP_FD: i32 = 7;

/// A PC without the devices that nobody here has a use for.
pub const MACHINE: &str = "q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,hpet=off";

/// Memory is the object that is named so: of huge pages from the machine's pool. Transparent ones, or
/// none, need no object: see [`super::backing`].
const FROM_POOL: &str = ",memory-backend=ram";

/// What every kernel here is told; under TCG also [`TCG_KERNEL_ARGUMENTS`].
pub const KERNEL_ARGUMENTS: [&str; 5] =
    ["console=ttyS0", "quiet", "panic=-1", "reboot=t", "cryptomgr.notests"];
pub const TCG_KERNEL_ARGUMENTS: [&str; 2] = ["tsc=reliable", "no_timer_check"];

/// How a model is called, driven and attached.
pub struct Nic {
    pub device: &'static str,
    pub driver: &'static str,
    /// It can take and give frames with checksum and segmentation left to others.
    vnet_header: bool,
}

pub fn nic(model: NicModel) -> Nic {
    let (device, driver, vnet_header) = match model {
        NicModel::VirtioNet => ("virtio-net-pci", "virtio_net", true),
        NicModel::E1000 => ("e1000", "e1000", false),
        NicModel::E1000e => ("e1000e", "e1000e", true),
        NicModel::Vmxnet3 => ("vmxnet3", "vmxnet3", true),
        // QEMU's model is an 8139C+, which 8139too does not drive.
        NicModel::Rtl8139 => ("rtl8139", "8139cp", false),
        NicModel::Pcnet => ("pcnet", "pcnet32", false),
    };
    Nic { device, driver, vnet_header }
}

/// The model of a guest's interface.
pub fn model(interface: &Interface) -> NicModel {
    interface.nic.unwrap_or(NicModel::VirtioNet)
}

/// Whether the TAP of a model is to be opened with IFF_VNET_HDR.
pub fn wants_vnet_header(model: NicModel) -> bool {
    nic(model).vnet_header
}

/// The command line, the program included. Kernel and archives are under [`KERNEL_FD`] and
/// [`INITRAMFS_FD`].
pub fn argv(spec: &Spec, has_sandbox: bool) -> Result<Vec<OsString>> {
    let mut line = Line(vec![PROGRAM.into()]);
    line.option("-name", [escape(&spec.node.name), ",debug-threads=on".into()]);
    if has_sandbox {
        line.option("-sandbox", [SANDBOX]);
    }
    machine(&mut line, spec.guest)?;
    console_and_control(&mut line);
    for (index, tap) in spec.taps.iter().enumerate() {
        network(&mut line, index, tap.interface)?;
    }
    if let Some(root) = spec.share {
        share(&mut line, root);
    }
    line.option("-kernel", [format!("/proc/self/fd/{KERNEL_FD}")]);
    line.option("-initrd", [format!("/proc/self/fd/{INITRAMFS_FD}")]);
    line.option("-append", [kernel_arguments(spec)?]);
    Ok(line.0)
}

struct Line(Vec<OsString>);

impl Line {
    fn option<S: AsRef<OsStr>>(&mut self, name: &str, parts: impl IntoIterator<Item = S>) {
        let mut value = OsString::new();
        parts.into_iter().for_each(|part| value.push(part));
        self.0.push(name.into());
        self.0.push(value);
    }
}

fn machine(line: &mut Line, guest: &Guest) -> Result<()> {
    if guest.cpus == 0 {
        bail!("a guest needs at least one CPU");
    }
    let (accelerator, default_cpu) = match guest.accelerator {
        Accelerator::Kvm => ("kvm", "host"),
        Accelerator::Tcg => ("tcg,thread=multi", TCG_CPU),
    };
    let cpu = guest.cpu_model.as_deref().unwrap_or(default_cpu);
    line.0.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    line.option("-display", ["none"]);
    line.option(
        "-machine",
        [MACHINE, if guest.pages == Some(Pages::Huge) { FROM_POOL } else { "" }],
    );
    line.option("-accel", [accelerator]);
    line.option("-cpu", [cpu]);
    line.option("-smp", [format!("cpus={0},sockets=1,cores={0},threads=1", guest.cpus)]);
    line.option("-m", [format!("{}B", guest.memory)]);
    if guest.pages == Some(Pages::Huge) {
        let pool = "hugetlb=on,hugetlbsize=2M";
        line.option(
            "-object",
            [format!("memory-backend-memfd,id=ram,size={}B,{pool}", guest.memory)],
        );
    }
    Ok(())
}

fn console_and_control(line: &mut Line) {
    line.option("-chardev", ["stdio,id=console,signal=off"]);
    line.option("-serial", ["chardev:console"]);
    line.option("-chardev", [format!("socket,id=qmp,fd={QMP_FD}")]);
    line.option("-mon", ["chardev=qmp,mode=control"]);
    line.option("-device", ["virtio-serial-pci,max_ports=2"]);
    line.option("-chardev", [format!("socket,id=channel,fd={CHANNEL_FD}")]);
    line.option("-device", [format!("virtserialport,chardev=channel,name={PORT}")]);
}

fn network(line: &mut Line, index: usize, interface: &Interface) -> Result<()> {
    let fd = FIRST_TAP_FD + i32::try_from(index)?;
    let device = nic(model(interface)).device;
    let mac = mac(interface)?;
    line.option("-netdev", [format!("tap,id=net{index},fd={fd},vhost=off")]);
    line.option("-device", [format!("{device},netdev=net{index},mac={mac},romfile=")]);
    Ok(())
}

/// QEMU would give every guest the same addresses, in order, so there is no default.
fn mac(interface: &Interface) -> Result<&str> {
    let name = &interface.name;
    let mac = interface
        .mac
        .as_deref()
        .with_context(|| format!("interface {name} of a guest needs a MAC address"))?;
    if !is_mac(mac) {
        bail!("interface {name}: {mac:?} is no MAC address, write it like 52:54:00:77:00:01");
    }
    Ok(mac)
}

pub fn is_mac(text: &str) -> bool {
    let octets: Vec<&str> = text.split(':').collect();
    let is_octet = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    octets.len() == 6 && octets.iter().all(is_octet)
}

/// `remap` keeps files of different file systems apart, should they share an inode number.
fn share(line: &mut Line, root: &Path) {
    let path = escape(root);
    let options = ",security_model=none,readonly=on,multidevs=remap";
    line.option("-fsdev", [OsStr::new("local,id=share,path="), &path, OsStr::new(options)]);
    line.option("-device", [format!("virtio-9p-pci,fsdev=share,mount_tag={SHARE_TAG}")]);
}

fn kernel_arguments(spec: &Spec) -> Result<String> {
    let mut words: Vec<String> = KERNEL_ARGUMENTS.map(str::to_owned).into();
    if spec.guest.accelerator == Accelerator::Tcg {
        words.extend(TCG_KERNEL_ARGUMENTS.map(str::to_owned));
    }
    words.push(format!("{MODULES_PARAMETER}{}", modules(spec).join(",")));
    words.extend(spec.guest.kernel_args.iter().cloned());
    if let Some(word) = words.iter().find(|word| word.contains(['\n', '\0'])) {
        bail!("kernel argument {word:?} holds a character that the kernel does not take");
    }
    Ok(words.join(" "))
}

/// What this guest needs, and no more: each module costs it milliseconds and memory.
fn modules(spec: &Spec) -> Vec<&'static str> {
    let mut modules = vec!["virtio_pci", "virtio_console"];
    for tap in &spec.taps {
        let driver = nic(model(tap.interface)).driver;
        if !modules.contains(&driver) {
            modules.push(driver);
        }
    }
    if spec.share.is_some() {
        modules.extend(["9pnet_virtio", "9p", "overlay"]);
    }
    modules
}

/// QEMU separates options by commas; a doubled one stands for itself.
fn escape(value: impl AsRef<OsStr>) -> OsString {
    let mut escaped = Vec::new();
    for &byte in value.as_ref().as_bytes() {
        escaped.push(byte);
        if byte == b',' {
            escaped.push(byte);
        }
    }
    OsString::from_vec(escaped)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::path::PathBuf;

    use hypertare_plan::{Node, NodeKind};

    use super::super::qemu::Tap;
    use super::*;

    fn guest() -> Guest {
        Guest {
            cpus: 2,
            memory: 256 << 20,
            accelerator: Accelerator::Tcg,
            kernel: PathBuf::from("/cache/vmlinux"),
            initramfs: vec![PathBuf::from("/cache/base.cpio")],
            cpu_model: None,
            kernel_args: vec!["loglevel=7".into()],
            boot_limit_s: 10.0,
            paging: None,
            pages: None,
        }
    }

    fn interface(model: Option<NicModel>, mac: &str) -> Interface {
        Interface {
            name: "eth0".into(),
            link: "lan".into(),
            address: "10.77.0.2/24".into(),
            more_addresses: vec![],
            mac: Some(mac.into()),
            nic: model,
            offloads: BTreeMap::new(),
        }
    }

    fn node(interfaces: Vec<Interface>) -> Node {
        Node {
            name: "sut,1".into(),
            kind: NodeKind::Guest(guest()),
            cpus: vec![],
            interfaces,
            routes: vec![],
            router: None,
            files: None,
        }
    }

    fn line(node: &Node, guest: &Guest, share: Option<&Path>) -> Result<Vec<String>> {
        let taps = node
            .interfaces
            .iter()
            .map(|interface| Tap { interface, fd: File::open("/dev/null").unwrap().into() })
            .collect();
        let words = argv(&Spec { node, guest, taps, share }, true)?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn golden() {
        let node = node(vec![
            interface(None, "52:54:00:77:00:01"),
            interface(Some(NicModel::Rtl8139), "52:54:00:77:00:02"),
        ]);
        let words = line(&node, &guest(), Some(Path::new("/a,b"))).unwrap();
        let expected = "qemu-system-x86_64\n\
            -name sut,,1,debug-threads=on\n\
            -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny\n\
            -nodefaults\n-no-user-config\n-no-reboot\n\
            -display none\n\
            -machine q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,hpet=off\n\
            -accel tcg,thread=multi\n\
            -cpu max,-erms,-fsrm,-la57\n\
            -smp cpus=2,sockets=1,cores=2,threads=1\n\
            -m 268435456B\n\
            -chardev stdio,id=console,signal=off\n\
            -serial chardev:console\n\
            -chardev socket,id=qmp,fd=3\n\
            -mon chardev=qmp,mode=control\n\
            -device virtio-serial-pci,max_ports=2\n\
            -chardev socket,id=channel,fd=4\n\
            -device virtserialport,chardev=channel,name=hypertare\n\
            -netdev tap,id=net0,fd=7,vhost=off\n\
            -device virtio-net-pci,netdev=net0,mac=52:54:00:77:00:01,romfile=\n\
            -netdev tap,id=net1,fd=8,vhost=off\n\
            -device rtl8139,netdev=net1,mac=52:54:00:77:00:02,romfile=\n\
            -fsdev local,id=share,path=/a,,b,security_model=none,readonly=on,multidevs=remap\n\
            -device virtio-9p-pci,fsdev=share,mount_tag=root\n\
            -kernel /proc/self/fd/5\n\
            -initrd /proc/self/fd/6\n\
            -append console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests tsc=reliable \
            no_timer_check hypertare.modules=virtio_pci,virtio_console,virtio_net,8139cp,\
            9pnet_virtio,9p,overlay loglevel=7";
        let lines: Vec<String> = expected.split('\n').map(str::to_owned).collect();
        let mut got = Vec::new();
        for word in words {
            match got.last_mut() {
                Some(last) if !word.starts_with('-') => *last = format!("{last} {word}"),
                _ => got.push(word),
            }
        }
        assert_eq!(got, lines);
    }

    #[test]
    fn kvm_keeps_the_kernel_s_own_timing() {
        let guest = Guest { accelerator: Accelerator::Kvm, ..guest() };
        let words = line(&node(vec![]), &guest, None).unwrap();
        let after = |option: &str| {
            words.iter().skip_while(|word| *word != option).nth(1).map(String::as_str)
        };
        assert_eq!(after("-accel"), Some("kvm"));
        assert_eq!(after("-cpu"), Some("host"));
        assert!(!after("-append").unwrap().contains("tsc="));
    }

    #[test]
    fn only_pages_of_the_pool_need_an_object() {
        let with = |pages| line(&node(vec![]), &Guest { pages, ..guest() }, None).unwrap();
        let huge = with(Some(Pages::Huge));
        let object = "memory-backend-memfd,id=ram,size=268435456B,hugetlb=on,hugetlbsize=2M";
        assert!(huge.windows(2).any(|pair| pair == ["-object", object]));
        assert!(huge.iter().any(|word| word.ends_with(",memory-backend=ram")));
        assert_eq!(with(Some(Pages::Small)), with(None));
        assert_eq!(with(Some(Pages::Transparent)), with(None));
    }

    #[test]
    fn several_archives_come_as_one_descriptor() {
        let guest = Guest { initramfs: vec!["/a".into(), "/b".into()], ..guest() };
        let words = line(&node(vec![]), &guest, None).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["-initrd", "/proc/self/fd/6"]));
    }

    #[test]
    fn the_cpu_model_may_be_chosen() {
        let guest = Guest { cpu_model: Some("EPYC,+svm".into()), ..guest() };
        let words = line(&node(vec![]), &guest, None).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["-cpu", "EPYC,+svm"]));
    }

    #[test]
    fn a_wrong_address_says_what_is_right() {
        for wrong in ["52:54:00:77:00", "52:54:00:77:00:+1", "52:54:00:77:00:01,x=y", ""] {
            let node = node(vec![interface(None, wrong)]);
            let error = line(&node, &guest(), None).unwrap_err().to_string();
            assert!(error.contains("write it like"), "{error}");
        }
        let mut nameless = interface(None, "");
        nameless.mac = None;
        let error = line(&node(vec![nameless]), &guest(), None).unwrap_err().to_string();
        assert_eq!(error, "interface eth0 of a guest needs a MAC address");
    }

    #[test]
    fn no_cpu_and_a_broken_argument_are_refused() {
        assert!(line(&node(vec![]), &Guest { cpus: 0, ..guest() }, None).is_err());
        let guest = Guest { kernel_args: vec!["a\nb".into()], ..guest() };
        assert!(line(&node(vec![]), &guest, None).is_err());
    }
}
