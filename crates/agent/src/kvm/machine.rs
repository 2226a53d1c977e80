//! The guest's machine: memory, one CPU, KVM's own interrupt controllers and timer, a serial line for
//! what the guest prints, and a virtio console.
//!
//! Without ACPI and tables of processors a kernel takes the first interrupt controller of the PC, and
//! needs neither firmware nor the time to read what it says.

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, kvm_pit_config, kvm_regs, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

use super::boot::Entry;
use super::pci::{self, Bus};
use super::virtio::{self, Console};

const SERIAL: std::ops::Range<u16> = 0x3f8..0x400;
const SERIAL_INTERRUPT: u32 = 4;
const CONSOLE: std::ops::Range<u16> = pci::IO_BASE..pci::IO_BASE + pci::IO_SIZE;
/// What the PC's clock holds. Nobody keeps it: a kernel that reads ones believes that the clock is being
/// set and waits, for tens of thousands of exits.
const CLOCK_DATA: u16 = 0x71;

/// One of the wires to the interrupt controllers.
struct Wire {
    vm: Arc<VmFd>,
    number: u32,
}

impl virtio::Line for Wire {
    fn set(&self, high: bool) {
        // It can only fail for a wire that is not there.
        let _ = self.vm.set_irq_line(self.number, high);
    }
}

impl Trigger for Wire {
    type E = kvm_ioctls::Error;

    /// The serial line's: up and down again.
    fn trigger(&self) -> Result<(), Self::E> {
        self.vm.set_irq_line(self.number, true)?;
        self.vm.set_irq_line(self.number, false)
    }
}

type Port = Console<Wire, UnixStream>;

pub struct Machine {
    cpu: VcpuFd,
    console: Arc<Mutex<Port>>,
    bus: Bus,
    serial: Serial<Wire, NoEvents, File>,
    /// Mapped as long as the CPU may run.
    _memory: GuestMemoryMmap,
    _vm: Arc<VmFd>,
}

impl Machine {
    /// # Errors
    /// KVM is not here, or lacks what this needs.
    pub fn new(
        memory: GuestMemoryMmap,
        entry: Entry,
        printed: File,
        channel: &UnixStream,
    ) -> Result<Self> {
        let kvm = Kvm::new().context("KVM is not usable here: opening /dev/kvm")?;
        let vm = Arc::new(kvm.create_vm().context("making a VM")?);
        give_memory(&vm, &memory)?;
        vm.create_irq_chip().context("making the interrupt controllers")?;
        let timer = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..Default::default() };
        vm.create_pit2(timer).context("making the timer")?;
        let cpu = vm.create_vcpu(0).context("making a virtual CPU")?;
        let features = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?;
        cpu.set_cpuid2(&shown(features)).context("telling the CPU what it can")?;
        set_registers(&cpu, entry).context("setting the CPU up")?;
        let wire = |number| Wire { vm: vm.clone(), number };
        let records = channel.try_clone()?;
        let console = Console::new(memory.clone(), wire(pci::INTERRUPT), records)?;
        Ok(Machine {
            cpu,
            console: Arc::new(Mutex::new(console)),
            bus: Bus::new(virtio::IDENTITY),
            serial: Serial::new(wire(SERIAL_INTERRUPT), printed),
            _memory: memory,
            _vm: vm,
        })
    }

    /// Runs the guest until it ends itself.
    ///
    /// # Errors
    /// KVM or this VMM cannot go on with it.
    pub fn run(mut self, channel: UnixStream) -> Result<()> {
        let console = self.console.clone();
        thread::spawn(move || pass_orders(channel, &console));
        loop {
            let exit = match self.cpu.run() {
                Ok(exit) => exit,
                Err(error) if [libc::EINTR, libc::EAGAIN].contains(&error.errno()) => continue,
                Err(error) => return Err(error).context("KVM cannot run the guest"),
            };
            match exit {
                VcpuExit::IoOut(port, data) => {
                    if CONSOLE.contains(&port) {
                        lock(&self.console).write(port - CONSOLE.start, data);
                    } else if SERIAL.contains(&port) {
                        // Lost, if nobody reads what it prints.
                        let register = (port - SERIAL.start) as u8;
                        data.iter().for_each(|&byte| drop(self.serial.write(register, byte)));
                    } else if pci::PORTS.contains(&port) {
                        self.bus.write(port, data);
                    }
                }
                VcpuExit::IoIn(port, data) => {
                    if CONSOLE.contains(&port) {
                        lock(&self.console).read(port - CONSOLE.start, data);
                    } else if SERIAL.contains(&port) {
                        let register = (port - SERIAL.start) as u8;
                        data.iter_mut().for_each(|byte| *byte = self.serial.read(register));
                    } else if pci::PORTS.contains(&port) {
                        self.bus.read(port, data);
                    } else {
                        data.fill(if port == CLOCK_DATA { 0 } else { 0xff });
                    }
                }
                VcpuExit::MmioRead(_, data) => data.fill(0xff),
                VcpuExit::MmioWrite(..) => {}
                VcpuExit::Shutdown => return Ok(()),
                VcpuExit::FailEntry(reason, _) => {
                    bail!("the processor does not enter the guest (reason {reason:#x})")
                }
                VcpuExit::InternalError => bail!("KVM cannot emulate what the guest does"),
                other => bail!("the guest does what this VMM does not know: {other:?}"),
            }
        }
    }
}

fn pass_orders(mut channel: UnixStream, console: &Mutex<Port>) {
    let mut chunk = [0; 16 << 10];
    loop {
        match channel.read(&mut chunk) {
            Ok(0) => return lock(console).hang_up(),
            Ok(count) => lock(console).send(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return lock(console).hang_up(),
        }
    }
}

fn lock(console: &Mutex<Port>) -> MutexGuard<'_, Port> {
    console.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give_memory(vm: &VmFd, memory: &GuestMemoryMmap) -> Result<()> {
    let place = memory.get_host_address(GuestAddress(0))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: memory.last_addr().0 + 1,
        userspace_addr: place as u64,
    };
    // SAFETY: the memory is mapped, and stays so as long as the machine.
    unsafe { vm.set_user_memory_region(region) }.context("giving the VM its memory")
}

/// Leaf 1, ECX: the timer of KVM's interrupt controller that is set to a time, and what tells a kernel
/// that it is a guest. Both are for the VMM to add.
const DEADLINE_TIMER: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;
/// What KVM supports, as this one CPU shows it to its guest.
fn shown(mut features: CpuId) -> CpuId {
    for leaf in features.as_mut_slice() {
        match leaf.function {
            1 => {
                leaf.ecx |= HYPERVISOR | DEADLINE_TIMER;
                // The APIC's number is 0, and one processor is in the package.
                leaf.ebx = leaf.ebx & 0xffff | 1 << 16;
            }
            0xb | 0x1f => leaf.edx = 0,
            _ => {}
        }
    }
    features
}

/// As PVH has it: 32-bit protected mode, flat segments, no paging.
fn set_registers(cpu: &VcpuFd, entry: Entry) -> Result<()> {
    const PROTECTED: u64 = 1;
    const CODE: u8 = 0xb;
    const DATA: u8 = 0x3;
    const TASK: u8 = 0xb;
    let segment = |number: u16, type_: u8| kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: number * 8,
        type_,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    };
    let mut special = cpu.get_sregs()?;
    special.cr0 |= PROTECTED;
    special.cs = segment(1, CODE);
    let data = segment(2, DATA);
    (special.ds, special.es, special.ss) = (data, data, data);
    special.tr = kvm_segment { limit: 0x67, s: 0, db: 0, g: 0, ..segment(3, TASK) };
    cpu.set_sregs(&special)?;
    let general =
        kvm_regs { rip: entry.address, rbx: entry.start_info, rflags: 2, ..Default::default() };
    Ok(cpu.set_regs(&general)?)
}

#[cfg(test)]
mod tests {
    use kvm_bindings::kvm_cpuid_entry2;

    use super::*;

    #[test]
    fn a_guest_sees_that_it_is_one() {
        let leaf = |function, value| kvm_cpuid_entry2 {
            function,
            eax: value,
            ebx: value,
            ecx: value,
            edx: value,
            ..Default::default()
        };
        let leaves = [leaf(0, 7), leaf(1, 0x0700_0000), leaf(0xb, 7)];
        let shown = shown(CpuId::from_entries(&leaves).unwrap());
        let [same, one, topology] = shown.as_slice() else { panic!("{shown:?}") };
        assert_eq!((same.eax, same.edx), (7, 7));
        assert_eq!((one.ecx >> 31, one.ecx >> 24 & 1, one.ebx), (1, 1, 1 << 16));
        assert_eq!((topology.eax, topology.edx), (7, 0));
    }
}
