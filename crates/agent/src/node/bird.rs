//! The routing daemon of a router: BIRD 2, with a configuration that is written for it which
//! interfaces have other routers behind them.
//!
//! Source: BIRD 2.0 User's Guide (bird.network.cz), protocols device, kernel and OSPF; OSPF itself:
//! RFC 2328 (IPv4) and RFC 5340 (IPv6).

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use hypertare_plan::{Daemon, Interface, Router};
use rustix::mount::{MountFlags, mount};
use rustix::process::Pid;

/// A running daemon. Dropped, it is ended, and the routes that it has learned go with it or with the
/// namespace.
pub struct Bird(Child);

impl Bird {
    /// `place`: a directory that is this node's own.
    ///
    /// # Errors
    /// There is no such program, or it does not like its configuration, and what it says.
    pub fn start(
        place: &Path,
        interfaces: &[Interface],
        router: &Router,
        daemon: &Daemon,
    ) -> Result<Self> {
        let (program, words) = daemon.argv.split_first().context("the daemon has no program")?;
        // Nothing is left in what is below.
        mount("tmpfs", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
            .with_context(|| format!("cannot mount memory on {}", place.display()))?;
        let file = place.join("bird.conf");
        fs::write(&file, configuration(interfaces, router, daemon)?)
            .with_context(|| format!("writing {}", file.display()))?;
        let mut command = Command::new(program);
        command.args(words).arg("-c").arg(&file).stdin(Stdio::null());
        let said = command.arg("-p").output().with_context(|| format!("starting {program}"))?;
        if !said.status.success() {
            let text = String::from_utf8_lossy(&said.stderr);
            bail!("{program} does not take its configuration: {}", text.trim());
        }
        let mut command = Command::new(program);
        command.args(words).arg("-f").arg("-c").arg(&file).arg("-s").arg(place.join("bird.ctl"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Bird(command.spawn().with_context(|| format!("starting {program}"))?))
    }

    pub fn pid(&self) -> Option<Pid> {
        Some(Pid::from_child(&self.0))
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds are the least that OSPF has: a bench shall be ready soon.
fn configuration(interfaces: &[Interface], router: &Router, daemon: &Daemon) -> Result<String> {
    let id = interfaces
        .iter()
        .find(|interface| daemon.neighbours.contains(&interface.name))
        .with_context(|| format!("it has none of the interfaces {:?}", daemon.neighbours))?;
    let id = id.address.split('/').next().unwrap_or_default();
    let mut text = format!("router id {id};\nprotocol device {{ scan time 1; }}\n");
    for (wanted, family, version) in [(router.ipv4, "ipv4", "v2"), (router.ipv6, "ipv6", "v3")] {
        if !wanted {
            continue;
        }
        write!(
            text,
            "protocol kernel {{ {family} {{ import none; export where source ~ [ RTS_OSPF, \
             RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]; }}; }}\n\
             protocol ospf {version} {{\n  {family} {{ import all; export none; }};\n  area 0 {{\n"
        )?;
        for interface in interfaces {
            let heard = daemon.neighbours.contains(&interface.name);
            let how = if heard { "hello 1; dead 4; wait 2; retransmit 2" } else { "stub" };
            writeln!(text, "    interface \"{}\" {{ {how}; }};", interface.name)?;
        }
        text.push_str("  };\n}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        let text = format!(r#"{{"name": "{name}", "link": "l", "address": "{address}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn neighbours_are_heard_and_other_networks_reported() {
        let interfaces = [interface("eth0", "10.78.0.1/24"), interface("eth2", "10.78.255.1/24")];
        let mut router: Router = serde_json::from_str("{}").unwrap();
        let daemon = Daemon { argv: vec![], neighbours: vec!["eth2".into()] };
        let text = configuration(&interfaces, &router, &daemon).unwrap();
        assert!(text.starts_with("router id 10.78.255.1;"));
        assert!(text.contains("protocol ospf v2") && text.contains("protocol ospf v3"));
        assert!(text.contains("interface \"eth0\" { stub; };"));
        assert!(text.contains("interface \"eth2\" { hello 1;"));
        router.ipv6 = false;
        assert!(!configuration(&interfaces, &router, &daemon).unwrap().contains("v3"));
        let nowhere = Daemon { neighbours: vec!["eth9".into()], ..daemon };
        let error = configuration(&interfaces, &router, &nowhere).unwrap_err().to_string();
        assert!(error.contains("eth9"), "{error}");
    }
}
