//! The guest's end. Nothing notifies it of a frame, so it polls the memory, at first without a break.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use datapath::frame_ring::{Reader, Writer};
use datapath::memory::Mapped;

use crate::net::frames::socket::PATIENCE;
use crate::net::frames::{Filter, FrameSource, Opening};

const DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat's ivshmem.
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

/// For so long it polls without a break, and then after naps. With an earlier nap, a program that awaits an
/// answer would measure its own naps.
const SPIN: Duration = Duration::from_micros(50);
const SPIN_FOR_ANSWER: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(50);

/// Frames after which the caller may look at the clock.
const TURN: u64 = 64;

/// Time for the writer to begin: both are started at once.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

/// A source of frames.
pub struct Taken {
    reader: Reader<Mapped>,
    frame: Vec<u8>,
    filter: Filter,
    spin: Duration,
    bytes: u64,
    calls: u64,
}

/// Frames from the machine by the first half of the memory, and a way to it by the second.
///
/// # Errors
/// There is no such memory, or the machine does not write there.
pub fn both_ways(filter: &Filter) -> Result<(Taken, Writer<Mapped>)> {
    let memory = Memory::find()?;
    let half = memory.bytes / 2;
    let taken = Taken::await_writer(&memory, half, filter, SPIN_FOR_ANSWER)?;
    // The machine has begun, so that it takes all that is written from now on.
    let writer = Writer::new(memory.map(half as u64, half)?)?;
    Ok((taken, writer))
}

impl Taken {
    /// # Errors
    /// There is no such memory, or nobody writes there.
    pub fn open(opening: &Opening) -> Result<Self> {
        let memory = Memory::find()?;
        Self::await_writer(&memory, memory.bytes, opening.filter, SPIN)
    }

    fn await_writer(
        memory: &Memory,
        bytes: usize,
        filter: &Filter,
        spin: Duration,
    ) -> Result<Self> {
        let deadline = Instant::now() + BEGIN_LIMIT;
        loop {
            match Reader::new(memory.map(0, bytes)?) {
                Ok(reader) => {
                    let (frame, filter) = (Vec::new(), filter.clone());
                    return Ok(Taken {
                        reader,
                        frame,
                        filter,
                        spin,
                        bytes: bytes as u64,
                        calls: 0,
                    });
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
            if waited < self.spin {
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

/// What the device has.
struct Memory {
    file: File,
    bytes: usize,
}

impl Memory {
    fn find() -> Result<Self> {
        Self::of(&find(Path::new(DEVICES))?)
    }

    fn of(directory: &Path) -> Result<Self> {
        // No driver has enabled the device.
        fs::write(directory.join("enable"), "1")?;
        let bar = directory.join("resource2");
        let file = OpenOptions::new().read(true).write(true).open(bar)?;
        let bytes = usize::try_from(file.metadata()?.len())?;
        Ok(Memory { file, bytes })
    }

    fn map(&self, from: u64, bytes: usize) -> Result<Mapped> {
        Mapped::new(&self.file, from, bytes).context("the memory shared with the machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frames::layout::blank;

    #[test]
    fn the_device_is_reported_by_its_numbers() {
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
        let memory = Memory::of(root.path()).unwrap();
        let mut writer = Writer::new(memory.map(0, 1 << 20).unwrap()).unwrap();
        let filter = Filter::new(&[(14, 7)]);
        let mut taken = Taken::await_writer(&memory, memory.bytes, &filter, SPIN).unwrap();
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
