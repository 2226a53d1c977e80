//! A command line of QEMU, with what all our machines have in common: a guest's
//! ([`super::guest_command_line`]) and a whole emulated PC's ([`crate::emulated`]). No protection is
//! switched off and nothing is skipped to look faster.
//!
//! - `q35` with the devices removed that a machine without disks, screen and keyboard has no use for.
//! - `-no-reboot` with `panic=-1`: a machine that panics or restarts ends its QEMU, and is noticed.
//! - `reboot=t` (a triple fault) is the fastest way for a machine to end QEMU in good order.
//! - Mitigations against speculative execution are left to the kernel: switching them off saves some of
//!   the emulated instructions of a boot (within the noise of a boot's 2 s), but natively they are on,
//!   and a user's guest has them too.
//! - Under TCG the CPU is [`TCG_CPU`], the fastest that still runs what the host's programs use.
//! - Under TCG the TSC is the host's own clock, so it is `reliable`; without that the kernel may
//!   distrust it on a busy host and fall back to reading an emulated device. Likewise its test of
//!   the timer interrupt fails on a busy host. KVM guests have paravirtual means for both.
//! - NICs have no option ROM: nobody boots from them.
//! - `-sandbox` denies all system calls that QEMU can do without: see [`super::jail`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Result, bail};
use hypertare_plan::{MODULES_PARAMETER, NicModel};

use crate::arch::ARCH;
use crate::boot_contract::PORT;

pub const PROGRAM: &str = ARCH.qemu;

/// Emulated by the wall clock: a thread a CPU.
pub const TCG: &str = "tcg,thread=multi";

/// Where a guest can have no more than one CPU, QEMU leaves memory barriers out: up to 8.0 all of them, and
/// since then those of locked instructions, which are Linux's. But devices are served by other threads. Now
/// and then one then does not see that there is something to send, and is not notified again: the guest's
/// network stands still for good. So there is room for a second CPU, which is never there.
///
/// Source: QEMU's commit c914d46d0a, "tcg: Do not elide memory barriers for !CF_PARALLEL in system mode".
const ROOM_FOR_A_SECOND: &str = "cpus=1,maxcpus=2,sockets=2,cores=1,threads=1";

/// All that TCG can emulate, so that programs built for this host's CPU run, less what it is slow
/// at. `erms` and `fsrm` promise that `rep movsb` is fast, but TCG executes it byte by byte: a
/// kernel that believes them takes three times as long to copy from and to programs, and fork and
/// exec take 1.5 times as long. `la57` adds a level to every page walk. AVX2 makes libc's memcpy
/// twice as slow, yet programs may need it, and it stays.
pub const TCG_CPU: &str = "max,-erms,-fsrm,-la57";

/// All that QEMU's filter of system calls can deny.
pub const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// A PC without the devices that nobody here has a use for.
pub const Q35: &str = "q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,hpet=off";

/// What every kernel here gets; under TCG also [`TCG_KERNEL_ARGUMENTS`].
pub const KERNEL_ARGUMENTS: [&str; 5] =
    ["console=ttyS0", "quiet", "panic=-1", "reboot=t", "cryptomgr.notests"];
pub const TCG_KERNEL_ARGUMENTS: [&str; 2] = ["tsc=reliable", "no_timer_check"];

/// What drives virtio's cards on PCI.
pub const PCI_DRIVER: &str = "virtio_pci";

/// What every machine's kernel loads beside what drives its bus: the way that orders come in and records go
/// out.
const PORT_DRIVER: &str = "virtio_console";

/// How a model is called and driven.
pub struct Nic {
    pub device: &'static str,
    pub driver: &'static str,
}

pub fn nic(model: NicModel) -> Nic {
    let (device, driver) = match model {
        NicModel::VirtioNet => ("virtio-net-pci", "virtio_net"),
        NicModel::E1000 => ("e1000", "e1000"),
        NicModel::E1000e => ("e1000e", "e1000e"),
        NicModel::Vmxnet3 => ("vmxnet3", "vmxnet3"),
        // QEMU's model is an 8139C+, which 8139too does not drive.
        NicModel::Rtl8139 => ("rtl8139", "8139cp"),
        NicModel::Pcnet => ("pcnet", "pcnet32"),
    };
    Nic { device, driver }
}

pub fn is_mac(text: &str) -> bool {
    let octets: Vec<&str> = text.split(':').collect();
    let is_octet = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    octets.len() == 6 && octets.iter().all(is_octet)
}

/// Where a NIC is plugged in, and what is said of it beside that.
pub struct Plugged<'a> {
    pub device: &'a str,
    pub mac: &'a str,
    pub netdev: &'a str,
    pub more: &'a str,
}

pub struct CommandLine(Vec<OsString>);

impl CommandLine {
    /// The program and the machine's name, with options of that (`,debug-threads=on`).
    pub fn new(name: &str, more: &str) -> Self {
        Self::of(PROGRAM, name, more)
    }

    /// The same of a QEMU that lies elsewhere.
    pub fn of(program: &str, name: &str, more: &str) -> Self {
        let mut line = Self(vec![program.into()]);
        line.option("-name", [escape(name), more.into()]);
        line
    }

    pub fn option<S: AsRef<OsStr>>(&mut self, name: &str, parts: impl IntoIterator<Item = S>) {
        let mut value = OsString::new();
        parts.into_iter().for_each(|part| value.push(part));
        self.0.push(name.into());
        self.0.push(value);
    }

    pub fn sandbox(&mut self) {
        self.option("-sandbox", [SANDBOX]);
    }

    /// A machine with nothing on it but what is named; `more` are further options of its board.
    pub fn machine(&mut self, board: &str, more: &str) {
        self.0.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        self.option("-display", ["none"]);
        self.option("-machine", [board, more]);
    }

    pub fn processors(&mut self, accelerator: &str, model: &str, count: u32) {
        self.option("-accel", [accelerator]);
        self.option("-cpu", [model]);
        let shape = if accelerator == TCG && count == 1 {
            ROOM_FOR_A_SECOND.to_owned()
        } else {
            format!("cpus={count},sockets=1,cores={count},threads=1")
        };
        self.option("-smp", [shape]);
    }

    pub fn memory(&mut self, bytes: u64) {
        self.option("-m", [format!("{bytes}B")]);
    }

    /// What the kernel prints goes to the character device `console`, and our own [`PORT`] is on the
    /// character device that is named; `bus` ends the card's name, and `more` are options of it.
    pub fn console_and_port(&mut self, bus: &str, chardev: &str, more: &str) {
        self.option("-serial", ["chardev:console"]);
        self.option("-device", [format!("virtio-serial-{bus},max_ports=2{more}")]);
        self.option("-device", [format!("virtserialport,chardev={chardev},name={PORT}")]);
    }

    pub fn nic(&mut self, index: usize, plugged: &Plugged) {
        let Plugged { device, mac, netdev, more } = plugged;
        self.option("-netdev", [format!("{netdev},id=net{index}")]);
        self.option("-device", [format!("{device},netdev=net{index},mac={mac}{more}")]);
    }

    pub fn kernel(&mut self, kernel: &str, archives: &str, arguments: &str) {
        self.option("-kernel", [kernel]);
        self.option("-initrd", [archives]);
        self.option("-append", [arguments]);
    }

    pub fn words(self) -> Vec<OsString> {
        self.0
    }
}

/// The parameter that names the modules to load: what drives the bus, and what else this machine needs, each
/// once. Each costs milliseconds of its boot, and memory.
pub fn modules<'a>(bus: &'a str, needed: impl IntoIterator<Item = &'a str>) -> String {
    let mut modules = vec![bus, PORT_DRIVER];
    for module in needed {
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    format!("{MODULES_PARAMETER}{}", modules.join(","))
}

/// A kernel's command line.
pub fn kernel_arguments(words: &[String]) -> Result<String> {
    if let Some(word) = words.iter().find(|word| word.contains(['\n', '\0'])) {
        bail!("kernel argument {word:?} holds a character that the kernel does not take");
    }
    Ok(words.join(" "))
}

/// QEMU separates options by commas; a doubled one stands for itself.
pub fn escape(value: impl AsRef<OsStr>) -> OsString {
    let mut escaped = Vec::new();
    for &byte in value.as_ref().as_bytes() {
        escaped.push(byte);
        if byte == b',' {
            escaped.push(byte);
        }
    }
    OsString::from_vec(escaped)
}
