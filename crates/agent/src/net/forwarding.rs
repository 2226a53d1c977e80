//! Whether a network namespace forwards between its interfaces. There is no netlink message for all
//! of it, so these are files of /proc/sys/net, which shows the namespace of who opens it.

use std::path::Path;

use anyhow::{Context, Result};

const SYSCTLS: &str = "/proc/sys/net";

/// Switches forwarding on or off. A new namespace takes IPv4's from the machine, so that it is set
/// in any case.
pub fn set(ipv4: bool, ipv6: bool) -> Result<()> {
    set_in(Path::new(SYSCTLS), ipv4, ipv6)
}

/// Whether packets are dropped whose source is not reached through the interface that they came from
/// (strict, RFC 3704). IPv6 has no such switch.
pub fn check_sources(interface: &str) -> Result<()> {
    let conf = Path::new(SYSCTLS).join("ipv4/conf");
    // The greater one of all interfaces' and this one's is what counts.
    write(&conf.join("all/rp_filter"), "0")?;
    write(&conf.join(interface).join("rp_filter"), "1")
}

/// ARP on this interface is answered for its own addresses alone. Linux answers on each interface for
/// those of all others: who asked would send past what lies between the two.
pub fn answer_for_itself(interface: &str) -> Result<()> {
    write(&Path::new(SYSCTLS).join("ipv4/conf").join(interface).join("arp_ignore"), "1")
}

/// ARP on this interface is answered in the name of whoever is reached by another one (proxy ARP), and
/// at once: Linux would wait for up to 0.8 s, to let the owner be first.
pub fn answer_for_others(interface: &str) -> Result<()> {
    let ipv4 = Path::new(SYSCTLS).join("ipv4");
    write(&ipv4.join("neigh").join(interface).join("proxy_delay"), "0")?;
    write(&ipv4.join("conf").join(interface).join("proxy_arp"), "1")
}

/// Whether an interface takes IPv4 packets in that are for others, and answers ARP in their name.
pub fn forwards_for_others(interface: &str) -> Result<bool> {
    let conf = Path::new(SYSCTLS).join("ipv4/conf").join(interface);
    Ok(read(&conf.join("forwarding"))? == "1" && read(&conf.join("proxy_arp"))? == "1")
}

/// The kernel's own IPv6 address of an interface is of use at once: it does not ask first whether
/// somebody else has it. A router that has none yet asks for nobody's address, and drops.
pub fn trust_own_address(interface: &str) -> Result<()> {
    let file = Path::new(SYSCTLS).join("ipv6/conf").join(interface).join("accept_dad");
    if file.exists() { write(&file, "0") } else { Ok(()) }
}

fn set_in(sysctls: &Path, ipv4: bool, ipv6: bool) -> Result<()> {
    let number = |on: bool| if on { "1" } else { "0" };
    write(&sysctls.join("ipv4/ip_forward"), number(ipv4))?;
    let all = sysctls.join("ipv6/conf/all/forwarding");
    // A kernel without IPv6 forwards none.
    if ipv6 || all.exists() { write(&all, number(ipv6)) } else { Ok(()) }
}

/// Only what is not so already: each write of the first two goes over every interface.
fn write(file: &Path, value: &str) -> Result<()> {
    if read(file)? == value {
        return Ok(());
    }
    std::fs::write(file, value)
        .with_context(|| format!("{} cannot be set to {value}", file.display()))
}

fn read(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text
        .with_context(|| format!("{} cannot be read: does the kernel have it?", file.display()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_set_and_a_kernel_without_ipv6_forwards_none() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| root.path().join(name);
        let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        std::fs::create_dir_all(file("ipv4")).unwrap();
        std::fs::write(file("ipv4/ip_forward"), "1\n").unwrap();
        set_in(root.path(), false, false).unwrap();
        assert_eq!(read("ipv4/ip_forward"), "0");
        let error = set_in(root.path(), true, true).unwrap_err();
        assert!(format!("{error:#}").contains("does the kernel have it"), "{error:#}");
        std::fs::create_dir_all(file("ipv6/conf/all")).unwrap();
        std::fs::write(file("ipv6/conf/all/forwarding"), "0\n").unwrap();
        set_in(root.path(), true, true).unwrap();
        assert_eq!(
            (read("ipv4/ip_forward"), read("ipv6/conf/all/forwarding")),
            ("1".into(), "1".into())
        );
    }
}
