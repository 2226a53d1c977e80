//! Which interrupts serve an interface.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::sysfs::InterfaceDirectory;
use crate::process::interrupts::lines;

/// The numbers of an interface's interrupts, in order: those of its device (MSI, or the line of a PCI
/// device without MSI) that are in use, and those with its name.
///
/// # Errors
/// There is none: software links have none, and drivers take theirs when the interface is set up.
pub fn of_interface(interface: &str) -> Result<Vec<u32>> {
    let directory = InterfaceDirectory::find(interface)?;
    let text = std::fs::read_to_string("/proc/interrupts").context("reading /proc/interrupts")?;
    let numbers = find(interface, directory.path(), &text);
    ensure!(
        !numbers.is_empty(),
        "{interface} has no interrupts: it is not up, or there is no device behind it"
    );
    Ok(numbers)
}

fn find(interface: &str, directory: &Path, interrupts: &str) -> Vec<u32> {
    // virtio's interface hangs on `virtioN`, whose PCI device has the interrupts.
    let device = directory.join("device").canonicalize().ok();
    let of_bus =
        device.as_deref().and_then(|device| virtio_name(device).or_else(|| vif_name(device)));
    let of_device: BTreeSet<u32> = device.iter().flat_map(|device| device_irqs(device)).collect();
    lines(interrupts)
        .filter_map(|line| Some((line.number()?, line.label?)))
        .filter(|(number, label)| {
            of_device.contains(number)
                || label.split(", ").any(|name| belongs(name, interface, of_bus.as_deref()))
        })
        // A change of the link's state is not a packet.
        .filter(|(_, label)| !label.ends_with("-config"))
        .map(|(number, _)| number)
        .collect()
}

fn virtio_name(device: &Path) -> Option<String> {
    let name = device.file_name()?.to_str()?;
    name.strip_prefix("virtio")?.parse::<u32>().ok()?;
    Some(name.to_owned())
}

/// xen_netfront names the interrupts of `vif-0` after `vif0` (`xennet_init_queue` in
/// drivers/net/xen-netfront.c).
fn vif_name(device: &Path) -> Option<String> {
    let number: u32 = device.file_name()?.to_str()?.strip_prefix("vif-")?.parse().ok()?;
    Some(format!("vif{number}"))
}

/// `eth0`, `eth0-rx-0`, `virtio2-input.0`, `vif0-q0-rx`.
fn belongs(label: &str, interface: &str, of_bus: Option<&str>) -> bool {
    [Some(interface), of_bus].into_iter().flatten().any(|owner| {
        label.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

fn device_irqs(device: &Path) -> Vec<u32> {
    let parent = if virtio_name(device).is_some() { device.parent() } else { Some(device) };
    let Some(device) = parent else { return Vec::new() };
    let entries = std::fs::read_dir(device.join("msi_irqs")).into_iter().flatten().flatten();
    let msi: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if !msi.is_empty() {
        return msi;
    }
    let line = std::fs::read_to_string(device.join("irq")).unwrap_or_default();
    line.trim().parse().ok().filter(|&number| number > 0).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "\
           CPU0       CPU1       
 10:          3          0  IO-APIC  10-fasteoi   eth7
 36:          0      67923  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          0          0  PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0       5064  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:       3575          0  PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 40:          1          0  PCI-MSIX-0000:00:04.0   0-edge      eth1-rx-0
 41:          1          0  PCI-MSIX-0000:00:04.0   1-edge      eth10-rx-0
 42:          1          0  PCI-MSIX-0000:00:04.0   2-edge      hidden
 50:          1          0  PCI-MSIX-0000:00:04.0   2-edge      virtio20-input.0
LOC:      65501      42105   Local timer interrupts
";

    #[test]
    fn virtio_is_found_through_its_device() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("pci/virtio2");
        std::fs::create_dir_all(&device).unwrap();
        let directory = root.path().join("eth0");
        std::fs::create_dir(&directory).unwrap();
        std::os::unix::fs::symlink(&device, directory.join("device")).unwrap();
        assert_eq!(find("eth0", &directory, INTERRUPTS), [38, 39]);
    }

    #[test]
    fn netfront_is_found_through_its_device() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("xen/vif-0");
        std::fs::create_dir_all(&device).unwrap();
        std::os::unix::fs::symlink(&device, root.path().join("device")).unwrap();
        let interrupts = "\
           CPU0       CPU1
 26:         79          0  xen-dyn    -event     vif0-q0-tx
 27:       6061          0  xen-dyn    -event     vif0-q0-rx
 28:          2          0  xen-dyn    -event     vif01-q0-rx
";
        assert_eq!(find("eth0", root.path(), interrupts), [26, 27]);
    }

    #[test]
    fn a_device_reports_its_message_interrupts_or_its_line() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("device");
        std::fs::create_dir_all(device.join("msi_irqs")).unwrap();
        std::fs::write(device.join("msi_irqs/42"), "").unwrap();
        // Reserved, but nobody asked for it yet.
        std::fs::write(device.join("msi_irqs/99"), "").unwrap();
        assert_eq!(find("eth1", root.path(), INTERRUPTS), [40, 42]);
        std::fs::remove_dir_all(device.join("msi_irqs")).unwrap();
        std::fs::write(device.join("irq"), "10\n").unwrap();
        assert_eq!(find("other", root.path(), INTERRUPTS), [10]);
    }

    #[test]
    fn a_link_of_software_has_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(find("veth0", root.path(), INTERRUPTS).is_empty());
    }
}
