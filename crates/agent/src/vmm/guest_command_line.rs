//! The command line of a guest's QEMU: everything that decides how it runs stands here, and the record of
//! its node shows it.
//!
//! - Huge pages from the machine's pool are claimed when QEMU starts, and come when they are touched.
//! - What moves packets is said aloud, `vhost=off` too: QEMU's default is not ours to know.
//! - A process that moves packets has the guest's memory in common with QEMU, as an object that can be
//!   shared.
//! - A microvm has no PCI: its cards are the same models, `-device` instead of `-pci`. Its kernel finds them
//!   in ACPI's tables.
//! - Without KVM such a card has one interrupt line and no vectors: QEMU 7.2 ends when the guest takes a
//!   vector's interrupt from it (docs/kvm-drivers.md). Then so have all of the bench.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::{
    Accelerator, DiskAio, DiskCache, DiskDevice, DiskFormat, FileSharing, Guest, GuestSettings,
    Interface, MachineType, NicModel, Pages,
};

use super::command_line::{
    self, CommandLine, KERNEL_ARGUMENTS, PCI_DRIVER, Plugged, Q35, TCG, TCG_CPU,
    TCG_KERNEL_ARGUMENTS, escape, is_mac, nic,
};
use super::port::Port;
use super::spec::{Medium, Spec};
use crate::boot_contract::{
    DISK_PARAMETER, FILE_OF_DISK, FILES_DIRECTORY, FILES_PARAMETER, FILES_TAG, SHARE_TAG,
};

/// Numbers of the descriptors that QEMU inherits; those of what is behind its cards follow.
pub const QMP_FD: i32 = 3;
pub const CHANNEL_FD: i32 = 4;
pub const KERNEL_FD: i32 = 5;
pub const INITRAMFS_FD: i32 = 6;
pub const FIRST_PORT_FD: i32 = 7;

/// Memory is the object that is named so: of huge pages from the machine's pool, or shared. Transparent
/// ones, or none, need no object: see [`super::backing`].
const AN_OBJECT: &str = ",memory-backend=ram";

/// A write that finds no room fails in the guest, and its trial with it. By QEMU's default (`enospc`) the guest
/// would stand still until somebody makes room, and its trial end at its limit without a reason. QEMU's NVMe
/// stops no guest, and has no such option.
const ERRORS: &str = ",rerror=report,werror=report";

/// The model of a guest's interface.
pub fn model(interface: &Interface) -> NicModel {
    interface.nic.unwrap_or(NicModel::VirtioNet)
}

/// The command line, the program included. Kernel and archives are under [`KERNEL_FD`] and
/// [`INITRAMFS_FD`].
pub fn words(spec: &Spec, has_sandbox: bool) -> Result<Vec<OsString>> {
    let mut line = CommandLine::new(&spec.node.name, ",debug-threads=on");
    if has_sandbox {
        line.sandbox();
    }
    machine(&mut line, spec.guest)?;
    line.option("-chardev", ["stdio,id=console,signal=off"]);
    line.option("-chardev", [format!("socket,id=qmp,fd={QMP_FD}")]);
    line.option("-mon", ["chardev=qmp,mode=control"]);
    line.option("-chardev", [format!("socket,id=channel,fd={CHANNEL_FD}")]);
    line.console_and_port(bus(spec.guest.settings.machine_type).1, "channel", "");
    let mut number = FIRST_PORT_FD;
    for (index, port) in spec.ports.iter().enumerate() {
        network(&mut line, index, port, number, spec)?;
        number += i32::try_from(port.way.count())?;
    }
    if let (Some(_), Some(bytes)) = (&spec.memory, spec.guest.shared_memory) {
        shared_memory(&mut line, bytes, number);
        number += 1;
    }
    if let Some(medium) = &spec.disk {
        disk(&mut line, &spec.guest.settings, medium, number)?;
        number += 1;
    }
    if let (Some(_), Some(kind)) = (&spec.files, spec.guest.settings.files) {
        files(&mut line, kind, number, spec);
        number += 1;
    }
    if spec.state.is_some() {
        line.option("-incoming", [format!("fd:{number}")]);
    }
    if let Some(root) = spec.share {
        share(&mut line, root, spec.guest.settings.machine_type);
    }
    line.kernel(
        &format!("/proc/self/fd/{KERNEL_FD}"),
        &format!("/proc/self/fd/{INITRAMFS_FD}"),
        &kernel_arguments(spec)?,
    );
    Ok(line.words())
}

fn machine(line: &mut CommandLine, guest: &Guest) -> Result<()> {
    if guest.cpus == 0 {
        bail!("a guest needs at least one CPU");
    }
    let (accelerator, default_cpu) = match guest.accelerator {
        Accelerator::Kvm => ("kvm", "host"),
        Accelerator::Tcg => (TCG, TCG_CPU),
    };
    let mut object = Vec::new();
    if guest.settings.pages == Some(Pages::Huge) {
        object.push("hugetlb=on,hugetlbsize=2M");
    }
    let has_server = guest.settings.files == Some(FileSharing::Virtiofs);
    if guest.settings.datapath.is_ours() || has_server {
        object.push("share=on");
    }
    let more = if object.is_empty() { "" } else { AN_OBJECT };
    line.machine(board(guest.settings.machine_type), more);
    line.processors(
        accelerator,
        guest.settings.cpu_model.as_deref().unwrap_or(default_cpu),
        guest.cpus,
    );
    line.memory(guest.memory);
    if !object.is_empty() {
        let how = object.join(",");
        line.option(
            "-object",
            [format!("memory-backend-memfd,id=ram,size={}B,{how}", guest.memory)],
        );
    }
    Ok(())
}

/// Each without the devices that nobody here has a use for.
fn board(machine_type: MachineType) -> &'static str {
    match machine_type {
        MachineType::Q35 => Q35,
        MachineType::Pc => "pc,usb=off,sata=off,smbus=off,smm=off,vmport=off,hpet=off",
        // The kernel's command line is ours alone: QEMU would add the devices to it, for kernels without ACPI.
        MachineType::Microvm => "microvm,usb=off,auto-kernel-cmdline=off",
    }
}

/// What the kernel drives virtio's cards through, and how QEMU calls such cards.
fn bus(machine_type: MachineType) -> (&'static str, &'static str) {
    match machine_type {
        MachineType::Q35 | MachineType::Pc => (PCI_DRIVER, "pci"),
        MachineType::Microvm => ("virtio_mmio", "device"),
    }
}

fn network(
    line: &mut CommandLine,
    index: usize,
    port: &Port,
    number: i32,
    spec: &Spec,
) -> Result<()> {
    let machine_type = spec.guest.settings.machine_type;
    let (before, netdev) = port.way.words(index, number);
    if let Some(socket) = before {
        line.option("-chardev", [socket]);
    }
    let model = model(port.interface);
    let mut more = String::new();
    if port.way.queues() > 1 {
        more += ",mq=on";
    }
    let device = if machine_type == MachineType::Microvm {
        // It has no PCI, which all others are cards for.
        ensure!(
            model == NicModel::VirtioNet,
            "a microvm has no PCI for {}: give it a virtio-net",
            nic(model).device
        );
        "virtio-net-device"
    } else {
        more.insert_str(0, ",romfile=");
        if spec.no_vectors && model == NicModel::VirtioNet {
            more += ",vectors=0";
        }
        nic(model).device
    };
    let mac = mac(port.interface)?;
    line.nic(index, &Plugged { device, mac, netdev: &netdev, more: &more });
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

/// Memory that is the machine's too, behind a PCI device; QEMU has it as this descriptor.
fn shared_memory(line: &mut CommandLine, bytes: u64, number: i32) {
    let file = format!("size={bytes}B,mem-path=/proc/self/fd/{number},share=on");
    line.option("-object", [format!("memory-backend-file,id=shared,{file}")]);
    line.option("-device", ["ivshmem-plain,memdev=shared"]);
}

/// How a guest's kernel finds its disk: QEMU's words for the device on a bus, the kernel's drivers, and the
/// name that it gives to it.
fn disk_device(
    device: DiskDevice,
    machine_type: MachineType,
) -> Result<(Vec<String>, &'static [&'static str], &'static str)> {
    let bus = bus(machine_type).1;
    if machine_type == MachineType::Microvm && matches!(device, DiskDevice::Nvme | DiskDevice::Ahci)
    {
        bail!("a microvm has no PCI for its disk: give it one of virtio");
    }
    Ok(match device {
        DiskDevice::VirtioBlk => {
            (vec![format!("virtio-blk-{bus},drive=disk")], &["virtio_blk"], "/dev/vda")
        }
        DiskDevice::VirtioScsi => (
            vec![format!("virtio-scsi-{bus},id=scsi"), "scsi-hd,bus=scsi.0,drive=disk".to_owned()],
            &["virtio_scsi", "sd_mod"],
            "/dev/sda",
        ),
        DiskDevice::Nvme => {
            (vec!["nvme,serial=disk,drive=disk".to_owned()], &["nvme"], "/dev/nvme0n1")
        }
        DiskDevice::Ahci => (
            vec!["ich9-ahci,id=ahci".to_owned(), "ide-hd,bus=ahci.0,drive=disk".to_owned()],
            &["ahci", "sd_mod"],
            "/dev/sda",
        ),
    })
}

/// A disk that stands on a file of the machine, which QEMU has as this descriptor. Its lock is for files that
/// several VMMs find by a name, which this has not.
fn disk(
    line: &mut CommandLine,
    settings: &GuestSettings,
    medium: &Medium,
    number: i32,
) -> Result<()> {
    let (direct, no_flush, write_cache) = match settings.disk_cache {
        DiskCache::Writeback => ("off", "off", "on"),
        DiskCache::Writethrough => ("off", "off", "off"),
        DiskCache::None => ("on", "off", "on"),
        DiskCache::Directsync => ("on", "off", "off"),
        DiskCache::Unsafe => ("off", "on", "on"),
    };
    let aio = match settings.disk_aio {
        DiskAio::Threads => "threads",
        DiskAio::Native => "native",
        DiskAio::IoUring => "io_uring",
    };
    let cache = format!("cache.direct={direct},cache.no-flush={no_flush}");
    let driver = if medium.is_device { "host_device" } else { "file" };
    let file =
        format!("driver={driver},node-name=medium,filename=/proc/self/fd/{number},locking=off");
    line.option("-blockdev", [format!("{file},aio={aio},{cache}")]);
    let format = match settings.disk_format {
        DiskFormat::Raw => "raw",
        DiskFormat::Qcow2 => "qcow2",
    };
    line.option("-blockdev", [format!("driver={format},node-name=disk,file=medium,{cache}")]);
    let (mut devices, _, _) = disk_device(settings.disk_device, settings.machine_type)?;
    if let Some(device) = devices.last_mut() {
        *device += &format!(",write-cache={write_cache}");
        if settings.disk_device != DiskDevice::Nvme {
            *device += ERRORS;
        }
    }
    if settings.disk_iothread {
        ensure!(
            matches!(settings.disk_device, DiskDevice::VirtioBlk | DiskDevice::VirtioScsi),
            "a thread of its own is for disks of virtio"
        );
        line.option("-object", ["iothread,id=disk-thread"]);
        devices[0] += ",iothread=disk-thread";
    }
    if let Some(queues) = settings.disk_queues {
        let option = match settings.disk_device {
            DiskDevice::VirtioBlk => "num-queues",
            DiskDevice::VirtioScsi => "num_queues",
            DiskDevice::Nvme => "max_ioqpairs",
            DiskDevice::Ahci => bail!("a SATA disk has one queue"),
        };
        devices[0] += &format!(",{option}={queues}");
    }
    for device in devices {
        line.option("-device", [device]);
    }
    Ok(())
}

/// A directory that the guest works in. What QEMU serves it has as a descriptor, which is writable where all that
/// it could find by a name is not.
fn files(line: &mut CommandLine, kind: FileSharing, number: i32, spec: &Spec) {
    let bus = bus(spec.guest.settings.machine_type).1;
    match kind {
        FileSharing::NineP => {
            let place = format!("local,id=files,path=/proc/self/fd/{number}");
            line.option("-fsdev", [format!("{place},security_model=none")]);
            let tag = format!("mount_tag={FILES_TAG}");
            line.option("-device", [format!("virtio-9p-{bus},fsdev=files,{tag}")]);
        }
        FileSharing::Virtiofs => {
            let vectors = if spec.no_vectors && bus == "pci" { ",vectors=0" } else { "" };
            line.option("-chardev", [format!("socket,id=files,fd={number}")]);
            let device = format!("vhost-user-fs-{bus},chardev=files,tag={FILES_TAG}{vectors}");
            line.option("-device", [device]);
        }
    }
}

/// `remap` keeps files of different file systems apart, should they share an inode number.
fn share(line: &mut CommandLine, root: &Path, machine_type: MachineType) {
    let path = escape(root);
    let options = ",security_model=none,readonly=on,multidevs=remap";
    line.option("-fsdev", [OsStr::new("local,id=share,path="), &path, OsStr::new(options)]);
    let bus = bus(machine_type).1;
    line.option("-device", [format!("virtio-9p-{bus},fsdev=share,mount_tag={SHARE_TAG}")]);
}

fn kernel_arguments(spec: &Spec) -> Result<String> {
    let mut words: Vec<String> = KERNEL_ARGUMENTS.map(str::to_owned).into();
    if spec.guest.accelerator == Accelerator::Tcg {
        words.extend(TCG_KERNEL_ARGUMENTS.map(str::to_owned));
        words.extend(spec.tsc_khz.map(|khz| format!("tsc_early_khz={khz}")));
    }
    let drivers = spec.ports.iter().map(|port| nic(model(port.interface)).driver);
    let files: &[&str] =
        if spec.share.is_some() { &["9pnet_virtio", "9p", "overlay"] } else { &[] };
    let settings = &spec.guest.settings;
    let (bus, _) = bus(settings.machine_type);
    let mut of_disk: &[&str] = &[];
    if spec.disk.is_some() {
        let (_, drivers, name) = disk_device(settings.disk_device, settings.machine_type)?;
        of_disk = drivers;
        words.push(format!("{DISK_PARAMETER}{name}"));
    }
    let mut of_files: &[&str] = &[];
    if let (Some(_), Some(kind)) = (&spec.files, settings.files) {
        let (file_system, drivers): (_, &[&str]) = match kind {
            FileSharing::NineP => ("9p", &["9pnet_virtio", "9p"]),
            FileSharing::Virtiofs => ("virtiofs", &["virtiofs"]),
        };
        of_files = drivers;
        words.push(format!("{FILES_PARAMETER}{file_system}"));
        words.push(format!("{DISK_PARAMETER}{FILES_DIRECTORY}/{FILE_OF_DISK}"));
    }
    let drivers = drivers.chain(files.iter().chain(of_disk).chain(of_files).copied());
    words.push(command_line::modules(bus, drivers));
    words.extend(spec.guest.settings.kernel_args.iter().cloned());
    command_line::kernel_arguments(&words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::path::PathBuf;

    use hypertare_plan::{Datapath, Disk, Node, NodeKind};

    use super::super::port::Way;
    use super::*;

    fn guest() -> Guest {
        Guest {
            cpus: 2,
            memory: 256 << 20,
            accelerator: Accelerator::Tcg,
            kernel: PathBuf::from("/cache/vmlinux"),
            initramfs: vec![PathBuf::from("/cache/base.cpio")],
            boot_limit_s: 10.0,
            settings: GuestSettings {
                kernel_args: vec!["loglevel=7".into()],
                ..GuestSettings::default()
            },
            shared_memory: None,
        }
    }

    fn set(change: impl FnOnce(&mut GuestSettings)) -> Guest {
        let mut guest = guest();
        change(&mut guest.settings);
        guest
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
            disk: None,
        }
    }

    fn line(node: &Node, guest: &Guest, share: Option<&Path>) -> Result<Vec<String>> {
        let some = || vec![File::open("/dev/null").unwrap().into()];
        let way = || match guest.settings.datapath {
            Datapath::Qemu => Way::Qemu { taps: some() },
            Datapath::Vhost => Way::Vhost { taps: some(), handles: some(), poll_us: None },
            _ => Way::Process { socket: some().remove(0), queues: 2 },
        };
        let ports =
            node.interfaces.iter().map(|interface| Port { interface, way: way() }).collect();
        let no_vectors = guest.settings.datapath.is_ours();
        let memory = guest.shared_memory.map(|_| File::open("/dev/null").unwrap());
        let disk = node
            .disk
            .as_ref()
            .map(|_| Medium { file: File::open("/dev/null").unwrap(), is_device: false });
        let files = guest.settings.files.map(|_| File::open("/dev/null").unwrap().into());
        let (state, tsc_khz) = (None, Some(2_100_123));
        let words = words(
            &Spec { node, guest, ports, share, no_vectors, memory, disk, files, state, tsc_khz },
            true,
        )?;
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
            -chardev socket,id=qmp,fd=3\n\
            -mon chardev=qmp,mode=control\n\
            -chardev socket,id=channel,fd=4\n\
            -serial chardev:console\n\
            -device virtio-serial-pci,max_ports=2\n\
            -device virtserialport,chardev=channel,name=hypertare\n\
            -netdev tap,fd=7,vhost=off,id=net0\n\
            -device virtio-net-pci,netdev=net0,mac=52:54:00:77:00:01,romfile=\n\
            -netdev tap,fd=8,vhost=off,id=net1\n\
            -device rtl8139,netdev=net1,mac=52:54:00:77:00:02,romfile=\n\
            -fsdev local,id=share,path=/a,,b,security_model=none,readonly=on,multidevs=remap\n\
            -device virtio-9p-pci,fsdev=share,mount_tag=root\n\
            -kernel /proc/self/fd/5\n\
            -initrd /proc/self/fd/6\n\
            -append console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests tsc=reliable \
            no_timer_check tsc_early_khz=2100123 hypertare.modules=virtio_pci,virtio_console,virtio_net,8139cp,\
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
    fn a_disk_is_what_the_settings_say() {
        let node = Node {
            disk: Some(Disk {
                bytes: 1 << 20,
                directory: None,
                is_file: false,
                write_cache: false,
                latency_ns: 0,
            }),
            ..node(vec![interface(None, "52:54:00:77:00:01")])
        };
        let with = |change: fn(&mut GuestSettings)| {
            line(&node, &set(change), None).map(|words| words.join(" "))
        };
        let words = with(|_| ()).unwrap();
        assert!(
            words.contains(
                "-blockdev driver=file,node-name=medium,filename=/proc/self/fd/8,locking=off,aio=threads,\
                 cache.direct=off,cache.no-flush=off -blockdev driver=raw,node-name=disk,file=medium,\
                 cache.direct=off,cache.no-flush=off -device virtio-blk-pci,drive=disk,write-cache=on,\
                 rerror=report,werror=report"
            ),
            "{words}"
        );
        assert!(words.contains("hypertare.disk=/dev/vda "), "{words}");
        assert!(words.contains("virtio_net,virtio_blk "), "{words}");
        let words = with(|one| {
            one.disk_device = DiskDevice::VirtioScsi;
            one.disk_aio = DiskAio::IoUring;
            one.disk_cache = DiskCache::Directsync;
            one.disk_iothread = true;
        })
        .unwrap();
        assert!(words.contains("aio=io_uring,cache.direct=on,"), "{words}");
        assert!(
            words.contains(
                "-object iothread,id=disk-thread -device virtio-scsi-pci,id=scsi,iothread=disk-thread \
                 -device scsi-hd,bus=scsi.0,drive=disk,write-cache=off,rerror=report,werror=report"
            ),
            "{words}"
        );
        assert!(words.contains("hypertare.disk=/dev/sda "), "{words}");
        let words = with(|one| {
            one.disk_format = DiskFormat::Qcow2;
            one.disk_queues = Some(4);
        })
        .unwrap();
        assert!(words.contains("-blockdev driver=qcow2,node-name=disk,file=medium,"), "{words}");
        assert!(words.contains(",werror=report,num-queues=4 "), "{words}");
        let of = |device| {
            let guest = set(|one| {
                one.disk_queues = Some(2);
                one.disk_device = device;
            });
            line(&node, &guest, None).map(|words| words.join(" "))
        };
        let scsi = of(DiskDevice::VirtioScsi).unwrap();
        assert!(scsi.contains("virtio-scsi-pci,id=scsi,num_queues=2 "), "{scsi}");
        assert!(of(DiskDevice::Nvme).unwrap().contains(",write-cache=on,max_ioqpairs=2"));
        assert!(of(DiskDevice::Ahci).unwrap_err().to_string().contains("one queue"));
        let words = with(|one| one.disk_cache = DiskCache::Unsafe).unwrap();
        assert!(words.contains("cache.direct=off,cache.no-flush=on"), "{words}");
        let refused = with(|one| {
            one.disk_device = DiskDevice::Nvme;
            one.machine_type = MachineType::Microvm;
        });
        assert!(refused.unwrap_err().to_string().contains("no PCI"));
    }

    #[test]
    fn a_directory_of_the_machine_is_in_the_place_of_a_disk() {
        let of = |kind, machine_type, datapath| {
            let guest = set(|one| {
                one.files = Some(kind);
                one.machine_type = machine_type;
                one.datapath = datapath;
            });
            line(&node(vec![]), &guest, None).unwrap().join(" ")
        };
        let words = of(FileSharing::NineP, MachineType::Q35, Datapath::Qemu);
        let device = "-fsdev local,id=files,path=/proc/self/fd/7,security_model=none \
                      -device virtio-9p-pci,fsdev=files,mount_tag=files ";
        assert!(words.contains(device), "{words}");
        assert!(words.contains("9pnet_virtio,9p") && words.contains("hypertare.files=9p "));
        assert!(words.contains("hypertare.disk=/files/disk ") && !words.contains("share=on"));
        let words = of(FileSharing::Virtiofs, MachineType::Q35, Datapath::VhostUser);
        let device = "-chardev socket,id=files,fd=7 \
                      -device vhost-user-fs-pci,chardev=files,tag=files,vectors=0 ";
        assert!(words.contains(device) && words.contains("share=on"), "{words}");
        let words = of(FileSharing::Virtiofs, MachineType::Microvm, Datapath::Qemu);
        assert!(words.contains("vhost-user-fs-device,chardev=files,tag=files "), "{words}");
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
        assert!(!after("-append").unwrap().contains("tsc"));
    }

    #[test]
    fn emulated_with_one_cpu_it_has_room_for_another() {
        let node = node(vec![]);
        let shape = |accelerator, cpus| {
            let words = line(&node, &Guest { accelerator, cpus, ..guest() }, None).unwrap();
            words[words.iter().position(|word| word == "-smp").unwrap() + 1].clone()
        };
        assert!(shape(Accelerator::Tcg, 1).starts_with("cpus=1,maxcpus=2,"));
        assert!(shape(Accelerator::Tcg, 2).starts_with("cpus=2,sockets=1,"));
        assert!(shape(Accelerator::Kvm, 1).starts_with("cpus=1,sockets=1,"));
    }

    #[test]
    fn a_microvm_has_no_pci_and_a_pc_the_old_one() {
        let cards = || node(vec![interface(None, "52:54:00:77:00:01")]);
        let with = |machine_type, node: &Node| {
            let guest = set(|one| one.machine_type = machine_type);
            line(node, &guest, Some(Path::new("/")))
        };
        let words = with(MachineType::Microvm, &cards()).unwrap().join(" ");
        assert!(words.contains("-machine microvm,"), "{words}");
        assert!(words.contains("-device virtio-net-device,netdev=net0,mac="), "{words}");
        assert!(words.contains("modules=virtio_mmio,virtio_console,virtio_net,"), "{words}");
        assert!(!words.contains("pci") && !words.contains("romfile"), "{words}");
        let words = with(MachineType::Pc, &cards()).unwrap().join(" ");
        assert!(words.contains("-machine pc,") && words.contains("virtio-net-pci,"), "{words}");
        let e1000 = node(vec![interface(Some(NicModel::E1000), "52:54:00:77:00:01")]);
        let error = with(MachineType::Microvm, &e1000).unwrap_err().to_string();
        assert_eq!(error, "a microvm has no PCI for e1000: give it a virtio-net");
    }

    #[test]
    fn only_pages_of_the_pool_need_an_object() {
        let with = |pages| line(&node(vec![]), &set(|one| one.pages = pages), None).unwrap();
        let huge = with(Some(Pages::Huge));
        let object = "memory-backend-memfd,id=ram,size=268435456B,hugetlb=on,hugetlbsize=2M";
        assert!(huge.windows(2).any(|pair| pair == ["-object", object]));
        assert!(huge.iter().any(|word| word.ends_with(",memory-backend=ram")));
        assert_eq!(with(Some(Pages::Small)), with(None));
        assert_eq!(with(Some(Pages::Transparent)), with(None));
    }

    #[test]
    fn what_moves_packets_is_reported_with_what_it_needs() {
        let cards = || {
            node(vec![
                interface(None, "52:54:00:77:00:01"),
                interface(Some(NicModel::E1000), "52:54:00:77:00:02"),
            ])
        };
        let with = |datapath| line(&cards(), &set(|one| one.datapath = datapath), None).unwrap();
        let has = |words: &[String], option: &str, value: &str| {
            words.windows(2).any(|pair| pair == [option, value])
        };
        let vhost = with(Datapath::Vhost);
        assert!(has(&vhost, "-netdev", "tap,fd=7,vhost=on,vhostfd=8,id=net0"));
        assert!(has(&vhost, "-netdev", "tap,fd=9,vhost=on,vhostfd=10,id=net1"));
        assert!(
            !vhost.iter().any(|word| word.contains("memory-backend") || word.contains("vectors"))
        );
        let ours = with(Datapath::VhostUser);
        let object = "memory-backend-memfd,id=ram,size=268435456B,share=on";
        assert!(has(&ours, "-object", object));
        assert!(has(&ours, "-chardev", "socket,id=way0,path=/proc/self/fd/7"));
        assert!(has(&ours, "-netdev", "vhost-user,chardev=way0,queues=2,id=net0"));
        let card = "virtio-net-pci,netdev=net0,mac=52:54:00:77:00:01,romfile=,mq=on,vectors=0";
        assert!(has(&ours, "-device", card));
        assert!(ours.iter().any(|word| word.starts_with("e1000,") && !word.contains("vectors")));
        let both = set(|one| {
            (one.pages, one.datapath) = (Some(Pages::Huge), Datapath::Sidecore);
        });
        let both = line(&cards(), &both, None).unwrap();
        assert!(both.iter().any(|word| word.ends_with("hugetlb=on,hugetlbsize=2M,share=on")));
    }

    #[test]
    fn memory_that_is_shared_comes_behind_the_cards() {
        let guest = Guest { shared_memory: Some(8 << 20), ..guest() };
        let words = line(&node(vec![interface(None, "52:54:00:77:00:01")]), &guest, None).unwrap();
        let object =
            "memory-backend-file,id=shared,size=8388608B,mem-path=/proc/self/fd/8,share=on";
        assert!(words.windows(2).any(|pair| pair == ["-object", object]));
        assert!(words.windows(2).any(|pair| pair == ["-device", "ivshmem-plain,memdev=shared"]));
    }

    #[test]
    fn several_archives_come_as_one_descriptor() {
        let guest = Guest { initramfs: vec!["/a".into(), "/b".into()], ..guest() };
        let words = line(&node(vec![]), &guest, None).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["-initrd", "/proc/self/fd/6"]));
    }

    #[test]
    fn the_cpu_model_may_be_chosen() {
        let guest = set(|one| one.cpu_model = Some("EPYC,+svm".into()));
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
        let guest = set(|one| one.kernel_args = vec!["a\nb".into()]);
        assert!(line(&node(vec![]), &guest, None).is_err());
    }
}
