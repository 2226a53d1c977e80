//! Whether a network namespace forwards between its interfaces. Netlink has no messages for some of these
//! settings, so all are files of /proc/sys/net, which shows the namespace of the process that opens it.

use std::path::Path;

use anyhow::{Context, Result};

const SYSCTLS: &str = "/proc/sys/net";

/// Switches forwarding on or off. A new namespace takes over IPv4's setting from the machine, so both are
/// always set.
pub fn set(ipv4: bool, ipv6: bool) -> Result<()> {
    set_in(Path::new(SYSCTLS), ipv4, ipv6)
}

/// Whether packets are dropped whose source is not reached through the interface that they came from
/// (strict, RFC 3704). IPv6 has no such switch.
pub fn check_sources(interface: &str) -> Result<()> {
    let conf = Path::new(SYSCTLS).join("ipv4/conf");
    // The kernel uses the greater value of all interfaces' and this one's.
    write(&conf.join("all/rp_filter"), "0")?;
    write(&conf.join(interface).join("rp_filter"), "1")
}

/// Has the kernel answer ARP on this interface for its own addresses alone. By default Linux answers on
/// each interface for the addresses of all others: the sender would then bypass the path between the two.
pub fn answer_for_itself(interface: &str) -> Result<()> {
    write(&Path::new(SYSCTLS).join("ipv4/conf").join(interface).join("arp_ignore"), "1")
}

/// Has the kernel answer ARP on this interface for hosts that are reached through another one (proxy ARP),
/// and at once: Linux would wait for up to 0.8 s, to let the owner answer first.
pub fn answer_for_others(interface: &str) -> Result<()> {
    let ipv4 = Path::new(SYSCTLS).join("ipv4");
    write(&ipv4.join("neigh").join(interface).join("proxy_delay"), "0")?;
    write(&ipv4.join("conf").join(interface).join("proxy_arp"), "1")
}

/// Whether an interface forwards IPv4 packets to others, and answers ARP for them.
pub fn forwards_for_others(interface: &str) -> Result<bool> {
    let conf = Path::new(SYSCTLS).join("ipv4/conf").join(interface);
    Ok(read(&conf.join("forwarding"))? == "1" && read(&conf.join("proxy_arp"))? == "1")
}

/// Makes the kernel's own IPv6 address of an interface usable at once: the kernel does not ask first
/// whether another host has it. Without an address a router resolves no neighbour, and drops packets.
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

/// Writes only a value that differs: each write of the forwarding settings visits every interface.
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
