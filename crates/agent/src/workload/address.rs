//! Addresses as plans and command lines write them, and names in /etc/hosts. No name server is asked: a
//! static program cannot load the host's resolver, and a guest has none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail};

/// `10.77.0.2:7000` or `[fd00::2]:7000`.
pub fn with_port(text: &str) -> Result<SocketAddr> {
    text.parse().ok().with_context(|| {
        format!("`{text}` is not an IP address and a port, as 10.77.0.2:7000 or [fd00::2]:7000")
    })
}

/// The same where the port may not be 0.
pub fn of_port(text: &str) -> Result<SocketAddr> {
    let address = with_port(text)?;
    if address.port() == 0 {
        bail!("`{text}`: port 0 cannot be used, give one from 1 to 65535");
    }
    Ok(address)
}

/// `10.77.0.2`, `fd00::2`, `localhost`, or a name of /etc/hosts.
pub fn host(text: &str) -> Result<IpAddr> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    find_in(&hosts, text).with_context(|| {
        format!(
            "`{text}` is neither an IP address nor a name in /etc/hosts. The agent asks no name \
             server: give the address (`getent ahosts {text}` may report it)"
        )
    })
}

fn find_in(hosts: &str, host: &str) -> Option<IpAddr> {
    hosts.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_families() {
        assert_eq!(with_port("10.0.0.1:7").unwrap().port(), 7);
        assert!(with_port("[::1]:7").unwrap().is_ipv6());
        assert!(host("fe80::1").unwrap().is_ipv6());
        assert!(host("localhost").unwrap().is_loopback());
    }

    #[test]
    fn names_are_looked_up_in_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.9 gone\n10.0.0.2\tpeer.lan Peer # mine\nbad x\n";
        assert_eq!(find_in(hosts, "peer"), Some("10.0.0.2".parse().unwrap()));
        assert_eq!(find_in(hosts, "gone"), None);
        assert_eq!(find_in(hosts, "x"), None);
        assert_eq!(host("fd00::2").unwrap(), "fd00::2".parse::<IpAddr>().unwrap());
        assert!(host("no-such-host.invalid").unwrap_err().to_string().contains("/etc/hosts"));
    }

    #[test]
    fn bad_addresses_are_reported() {
        for text in ["", "10.0.0.2", "host:5201", "10.0.0.2:0", "10.0.0.2:70000", "fd00::2:5201x"] {
            assert!(of_port(text).is_err(), "{text}");
        }
        assert!(of_port("[fd00::2]:5201").is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(with_port("10.0.0.1").unwrap_err().to_string().contains("10.0.0.1"));
        assert!(host("example").unwrap_err().to_string().contains("getent ahosts example"));
    }
}
