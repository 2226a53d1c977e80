//! The guest's end. Nobody tells it that a frame has come: it looks again and again, at first without a break.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::ring::Reader;
use crate::net::frames::memory::Shared;
use crate::net::frames::socket::PATIENCE;
use crate::net::frames::{Filter, FrameSource, Opening};

const DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat's ivshmem.
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

/// For so long it looks without a break, and then so often.
const SPIN: Duration = Duration::from_micros(50);
const NAP: Duration = Duration::from_micros(50);

/// Frames after which who asks may look at the clock.
const TURN: u64 = 64;

/// For who writes to begin: both are started at once.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

/// A source of frames.
pub struct Taken {
    reader: Reader<Shared>,
    frame: Vec<u8>,
    filter: Filter,
    bytes: u64,
    calls: u64,
}

impl Taken {
    /// # Errors
    /// There is no such memory, or nobody writes there.
    pub fn open(opening: &Opening) -> Result<Self> {
        let directory = find(Path::new(DEVICES))?;
        let deadline = Instant::now() + BEGIN_LIMIT;
        loop {
            let memory = map(&directory).context("the memory shared with the machine")?;
            let bytes = memory.length() as u64;
            match Reader::new(memory) {
                Ok(reader) => {
                    let (frame, filter) = (Vec::new(), opening.filter.clone());
                    return Ok(Taken { reader, frame, filter, bytes, calls: 0 });
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn take(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut count = 0;
        while count < TURN && self.reader.take(&mut self.frame)? {
            if self.filter.lets_pass(&self.frame) {
                take(&self.frame);
                count += 1;
            }
        }
        Ok(count)
    }
}

impl FrameSource for Taken {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let began = Instant::now();
        loop {
            let count = self.take(take).map_err(Error::other)?;
            let waited = began.elapsed();
            if count > 0 || waited > PATIENCE {
                return Ok(count);
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                self.calls += 1;
                std::thread::sleep(NAP);
            }
        }
    }

    fn drops(&mut self) -> io::Result<u64> {
        Ok(self.reader.dropped())
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn ring_bytes(&self) -> u64 {
        self.bytes
    }
}

/// The directory of the first such device.
fn find(devices: &Path) -> Result<PathBuf> {
    let is = |directory: &Path, file: &str, wanted: &str| {
        fs::read_to_string(directory.join(file)).is_ok_and(|text| text.trim() == wanted)
    };
    let mut found: Vec<PathBuf> = fs::read_dir(devices)
        .with_context(|| format!("looking for devices in {}", devices.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|one| is(one, "vendor", VENDOR) && is(one, "device", DEVICE))
        .collect();
    found.sort();
    match found.into_iter().next() {
        Some(first) => Ok(first),
        None => bail!(
            "this machine shares no memory with another one: there is no ivshmem device ({VENDOR}:{DEVICE})"
        ),
    }
}

fn map(directory: &Path) -> io::Result<Shared> {
    // No driver has done so.
    fs::write(directory.join("enable"), "1")?;
    let bar = directory.join("resource2");
    let length = usize::try_from(fs::metadata(&bar)?.len()).map_err(Error::other)?;
    let file: File = OpenOptions::new().read(true).write(true).open(bar)?;
    Shared::map(&file, length)
}

#[cfg(test)]
mod tests {
    use super::super::ring::Writer;
    use super::*;
    use crate::net::frames::layout::blank;

    #[test]
    fn the_device_is_told_by_its_numbers() {
        let root = tempfile::tempdir().unwrap();
        let made = |name: &str, vendor: &str, device: &str| {
            let directory = root.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(directory.join("device"), format!("{device}\n")).unwrap();
        };
        made("0000:00:02.0", VENDOR, "0x1041");
        let error = find(root.path()).unwrap_err().to_string();
        assert!(error.contains("there is no ivshmem device"), "{error}");
        made("0000:00:04.0", VENDOR, DEVICE);
        made("0000:00:03.0", VENDOR, DEVICE);
        assert!(find(root.path()).unwrap().ends_with("0000:00:03.0"));
    }

    #[test]
    fn it_hands_on_what_passes_and_waits_for_more() {
        let root = tempfile::tempdir().unwrap();
        let bar = root.path().join("resource2");
        let file = File::create(&bar).unwrap();
        file.set_len(1 << 20).unwrap();
        let mut writer = Writer::new(map(root.path()).unwrap()).unwrap();
        let reader = Reader::new(map(root.path()).unwrap()).unwrap();
        let filter = Filter::new(&[(14, 7)]);
        let mut taken = Taken { reader, frame: Vec::new(), filter, bytes: 1 << 20, calls: 0 };
        let mut mine = blank(60, [2; 6], [4; 6]);
        writer.put(&mine).unwrap();
        mine[17] = 7;
        writer.put(&mine).unwrap();
        let mut frames = Vec::new();
        assert_eq!(taken.next(&mut |frame| frames.push(frame.to_vec())).unwrap(), 1);
        assert_eq!((frames, taken.calls()), (vec![mine], 0));
        assert_eq!(taken.next(&mut |_| ()).unwrap(), 0);
        assert!(taken.calls() > 0);
    }
}
