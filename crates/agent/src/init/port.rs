//! The virtio-serial port by which a guest's agent is spoken to.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::boot_contract::PORT;

/// The port is announced by QEMU some milliseconds after its driver was loaded.
const PORT_LIMIT: Duration = Duration::from_secs(10);

/// Opens the virtio-serial port once its other end is there: until then it reads as ended.
pub fn open() -> Result<OwnedFd> {
    let deadline = Instant::now() + PORT_LIMIT;
    loop {
        if let Some(device) = find_port(Path::new("/sys/class/virtio-ports"))? {
            let port = File::options().read(true).write(true).open(&device);
            let port = port.with_context(|| format!("opening {device:?}"))?;
            await_peer(&port, deadline)?;
            return Ok(port.into());
        }
        if Instant::now() > deadline {
            bail!("there is no virtio-serial port named {PORT}");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn find_port(ports: &Path) -> Result<Option<PathBuf>> {
    for port in fs::read_dir(ports).with_context(|| format!("reading {ports:?}"))? {
        let port = port?;
        // A port whose name has not arrived yet has no such file.
        let Ok(name) = fs::read_to_string(port.path().join("name")) else { continue };
        let device = Path::new("/dev").join(port.file_name());
        if name.trim_end() == PORT && device.exists() {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn await_peer(port: &File, deadline: Instant) -> Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    while Instant::now() < deadline {
        let mut polled = [PollFd::new(port, PollFlags::OUT)];
        poll(&mut polled, Some(&now))?;
        if !polled[0].revents().contains(PollFlags::HUP) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("nobody is at the other end of the virtio-serial port");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let ports = std::env::temp_dir().join(format!("hypertare-ports-{}", std::process::id()));
        for (port, name) in [("vport0p1", Some("other")), ("vport0p2", None)] {
            fs::create_dir_all(ports.join(port)).unwrap();
            if let Some(name) = name {
                fs::write(ports.join(port).join("name"), name).unwrap();
            }
        }
        assert_eq!(find_port(&ports).unwrap(), None);
        // /dev/null stands for the port's device, which must exist.
        fs::create_dir_all(ports.join("null")).unwrap();
        fs::write(ports.join("null").join("name"), format!("{PORT}\n")).unwrap();
        assert_eq!(find_port(&ports).unwrap(), Some(PathBuf::from("/dev/null")));
        fs::remove_dir_all(&ports).unwrap();
    }
}
