//! Addresses as plans and command lines write them. Names are not looked up: a static program
//! cannot load the host's resolver, and a guest has none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Result, bail};

/// `10.77.0.2:7000` or `[fd00::2]:7000`.
pub fn with_port(text: &str) -> Result<SocketAddr> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => {
            bail!("`{text}` is not an IP address and a port, as 10.77.0.2:7000 or [fd00::2]:7000")
        }
    }
}

/// `10.77.0.2`, `fd00::2`, or `localhost`.
pub fn host(text: &str) -> Result<IpAddr> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => bail!(
            "`{text}` is not an IP address; names are not looked up here: \
             `getent ahosts {text}` tells the address"
        ),
    }
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
    fn says_what_is_wrong() {
        assert!(with_port("10.0.0.1").unwrap_err().to_string().contains("10.0.0.1"));
        assert!(host("example").unwrap_err().to_string().contains("getent ahosts example"));
    }
}
