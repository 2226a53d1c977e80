//! A virtual machine under QEMU, and the settings that a study may vary of it.

use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::path::Path;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Guest {
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    pub accelerator: Accelerator,
    /// Uncompressed kernel (an ELF file with a PVH note boots fastest) or a bzImage.
    #[cfg_attr(feature = "schema", schemars(with = "Path"))]
    pub kernel: PathBuf,
    /// Initramfs archives, loaded one after the other; the agent is their `/init`.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Path>"))]
    pub initramfs: Vec<PathBuf>,
    /// Time from starting the VMM to the agent's first record, in seconds; longer fails the node.
    pub boot_limit_s: f64,
    #[serde(default)]
    pub settings: GuestSettings,
    /// Bytes of memory that it shares with the machine, for frames past its card; a power of two.
    #[serde(default)]
    pub shared_memory: Option<u64>,
}

/// What a study may set of a guest. Python's `platforms/guest_settings.py` takes these fields over by
/// name, with the rules of each and its words for libvirt and QEMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GuestSettings {
    /// QEMU's CPU model; `None` means `host` with KVM, and without it `max` less what is slow to
    /// emulate.
    pub cpu_model: Option<String>,
    /// Appended to the kernel's command line.
    pub kernel_args: Vec<String>,
    /// The board that its devices are on.
    pub machine_type: MachineType,
    /// How KVM is to translate the guest's addresses; none takes it as it is.
    pub paging: Option<Paging>,
    /// By which pages the machine is to map the guest's memory; none leaves that to the machine.
    pub pages: Option<Pages>,
    /// What moves the packets of its virtio-net; those of other models QEMU moves.
    pub datapath: Datapath,
    /// Pairs of queues of its virtio-net.
    pub queues: u32,
    /// How long vhost looks for more work before it sleeps, in µs; none leaves it at QEMU's default: not
    /// at all.
    pub poll_us: Option<u32>,
    /// What its disk is for it.
    pub disk_device: DiskDevice,
    /// By which calls QEMU reads and writes the medium of its disk.
    pub disk_aio: DiskAio,
    /// What of its disk the machine's page cache holds, and what QEMU says is written.
    pub disk_cache: DiskCache,
    /// A thread of QEMU's own serves its disk; else QEMU's main one, which serves all else too.
    pub disk_iothread: bool,
    /// Queues of its disk; none leaves them at QEMU's default, one by each of its CPUs where a device can.
    pub disk_queues: Option<u32>,
    /// How its blocks lie on the medium.
    pub disk_format: DiskFormat,
    /// Its disk is no device, but a file in a directory of the machine that it shares by this.
    pub files: Option<FileSharing>,
}

impl Default for GuestSettings {
    fn default() -> Self {
        GuestSettings {
            cpu_model: None,
            kernel_args: Vec::new(),
            machine_type: MachineType::default(),
            paging: None,
            pages: None,
            datapath: Datapath::default(),
            queues: 1,
            poll_us: None,
            disk_device: DiskDevice::default(),
            disk_aio: DiskAio::default(),
            disk_cache: DiskCache::default(),
            disk_iothread: false,
            disk_queues: None,
            disk_format: DiskFormat::default(),
            files: None,
        }
    }
}

/// A guest's disk, as its kernel sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskDevice {
    /// A block device of virtio.
    #[default]
    VirtioBlk,
    /// A SCSI disk behind a controller of virtio.
    VirtioScsi,
    /// A controller of NVM Express, all of which QEMU emulates.
    Nvme,
    /// A SATA disk behind a controller as PCs have them, all of which QEMU emulates.
    Ahci,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskAio {
    /// pread(2) and pwrite(2), by a pool of threads.
    #[default]
    Threads,
    /// io_submit(2), which needs a medium past the page cache.
    Native,
    /// Rings that the kernel and QEMU share.
    IoUring,
}

/// How a guest reaches a directory of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum FileSharing {
    /// The protocol 9P2000.L, served by QEMU.
    #[serde(rename = "9p")]
    NineP,
    /// FUSE's protocol, served by virtiofsd in the guest's memory.
    #[serde(rename = "virtiofs")]
    Virtiofs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskFormat {
    /// Each where it is on the disk.
    #[default]
    Raw,
    /// QEMU's own: clusters as they are first written, found by tables.
    Qcow2,
}

/// The cache modes of QEMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskCache {
    /// The machine's page cache holds it, and is written out when the guest asks for that.
    #[default]
    Writeback,
    /// The same, written out after every write.
    Writethrough,
    /// Past the machine's page cache.
    None,
    /// Past it, and written out after every write.
    Directsync,
    /// The machine's page cache holds it, and is not written out when the guest asks for that.
    Unsafe,
}

/// QEMU's boards for x86.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MachineType {
    /// PCI Express on Intel's chipset of 2007.
    #[default]
    Q35,
    /// PCI on Intel's chipset of 1996, which QEMU calls i440fx.
    Pc,
    /// No PCI: virtio by registers in memory (virtio-mmio).
    Microvm,
}

/// What takes a guest's packets from the rings of its card to the machine's kernel, and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Datapath {
    /// The VMM's own process.
    #[default]
    Qemu,
    /// The machine's kernel (vhost-net).
    Vhost,
    /// A process of the guest's own beside its VMM, which sleeps until it is notified.
    VhostUser,
    /// One process for all guests of the bench that have this, which never sleeps.
    Sidecore,
}

impl Datapath {
    /// Whether a process of ours does it, which maps the guest's memory.
    pub fn is_ours(self) -> bool {
        matches!(self, Datapath::VhostUser | Datapath::Sidecore)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Paging {
    /// The hardware walks the guest's page tables and KVM's (AMD: NPT, Intel: EPT).
    Nested,
    /// KVM keeps tables of its own in step with the guest's.
    Shadow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum Pages {
    /// Never huge ones.
    #[serde(rename = "4K")]
    Small,
    /// From the machine's pool of huge pages.
    #[serde(rename = "2M")]
    Huge,
    /// Transparent huge pages, where the machine finds room for them.
    #[serde(rename = "thp")]
    Transparent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    Kvm,
    Tcg,
}
