//! Whether this kernel runs under Xen, and as what.

use std::fs;
use std::path::Path;

/// What this kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Domain-0.
    Driver,
    Guest,
}

/// Our role under Xen; nothing without Xen. Asked before anything but /proc and /sys is mounted.
pub fn role() -> Option<Role> {
    role_of(Path::new("/sys/hypervisor"))
}

/// The kernel shows the features that the hypervisor gives it as one number in hexadecimal.
fn role_of(hypervisor: &Path) -> Option<Role> {
    let read = |name: &str| fs::read_to_string(hypervisor.join(name)).ok();
    if read("type")?.trim() != "xen" {
        return None;
    }
    let features = read("properties/features")?;
    let bits = u64::from_str_radix(features.trim().trim_start_matches("0x"), 16).ok()?;
    Some(if bits & 1 << DOM0_FEATURE != 0 { Role::Driver } else { Role::Guest })
}

/// XENFEAT_dom0 (public/features.h).
const DOM0_FEATURE: u32 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_stands_in_sysfs() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(role_of(root.path()), None);
        fs::create_dir(root.path().join("properties")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        write("type", "kvm\n");
        write("properties/features", "00000705");
        assert_eq!(role_of(root.path()), None);
        write("type", "xen\n");
        assert_eq!(role_of(root.path()), Some(Role::Guest));
        write("properties/features", "00000f05\n");
        assert_eq!(role_of(root.path()), Some(Role::Driver));
    }
}
