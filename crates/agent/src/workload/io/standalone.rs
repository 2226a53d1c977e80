//! `hypertare-agent io`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use hypertare_plan::{Io, IoEngine, IoPattern};
use rustix::fs::OFlags;

use super::{check, fill, filling, run};
use crate::units;
use crate::workload::standalone::{self, choice};
use crate::workload::{Alone, Outcome};

/// Read and write blocks of a file or a device, each of them checked
#[derive(clap::Args)]
pub struct Arguments {
    /// A file that does not exist: it is made, and removed at the end. Or a block device
    #[arg(value_name = "FILE|DEVICE")]
    on: PathBuf,
    /// The device again: ALL THAT IS ON IT IS LOST
    #[arg(long, value_name = "DEVICE")]
    write_to: Option<PathBuf>,
    #[arg(long, default_value = "random", value_parser = choice::<IoPattern>(&["random", "sequential"]))]
    pattern: IoPattern,
    #[arg(long, default_value = "io-uring", value_parser = choice::<IoEngine>(&["io-uring", "pread"]))]
    engine: IoEngine,
    /// What one operation reads or writes
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = units::parse_small_size)]
    block: u32,
    /// What is worked on, from the beginning
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = units::parse_size)]
    span: u64,
    /// Operations under way at once, of each job
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: u32,
    /// Threads, each with a part of the span for itself
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u32,
    /// Of the operations those that read
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    read: f64,
    /// Through the page cache, and not past it (O_DIRECT)
    #[arg(long)]
    buffered: bool,
    /// Make what was written durable (fdatasync) after so many writes of a job
    #[arg(long, value_name = "WRITES")]
    sync_every: Option<u32>,
    /// Operations a second, over all jobs [default: as fast as it goes]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// End after so many operations
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Seconds after which to end
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time: f64,
    /// Of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the result record
    #[arg(long)]
    json: bool,
}

impl Alone for Arguments {
    fn run(self) -> Result<()> {
        let spec = spec(&self);
        check(&spec)?;
        let (file, _removed) = open(&self.on, self.write_to.as_deref(), &spec)?;
        let context = standalone::context("io", standalone::stop_by_signal()?, || ());
        fill(&filling(&spec), &file, &context)?;
        let outcome = run(&spec, &file, &context)?;
        standalone::print(&context, outcome, self.json, table)
    }
}

fn table(outcome: &Outcome) -> String {
    let values = &outcome.values;
    let elapsed_s = values["elapsed_s"];
    let each = |name: &str| values[name] / values["operations"] * 1e9;
    let mut text = format!(
        "{} reads, {} writes in {elapsed_s:.2} s: {:.0} a second, {}/s; CPU time of each {}\n",
        values["reads"],
        values["writes"],
        values["operations"] / elapsed_s,
        units::size(values["bytes"] / elapsed_s),
        units::three_digits(each("user_s") + each("system_s")),
    );
    for kind in ["read", "write", "sync"] {
        let Some(_) = values.get(&format!("{kind}_p50_ns")) else { continue };
        text += &format!("  {kind:<6}");
        for name in ["min", "mean", "p50", "p90", "p99", "p999", "max"] {
            text +=
                &format!("  {name} {}", units::three_digits(values[&format!("{kind}_{name}_ns")]));
        }
        text.push('\n');
    }
    text
}

fn spec(arguments: &Arguments) -> Io {
    Io {
        pattern: arguments.pattern,
        engine: arguments.engine,
        block: arguments.block,
        span: arguments.span,
        start: 0,
        depth: arguments.depth,
        jobs: arguments.jobs,
        read_share: arguments.read / 100.0,
        direct: !arguments.buffered,
        sync_every: arguments.sync_every,
        rate: arguments.rate,
        count: arguments.count,
        duration_s: arguments.time,
        seed: arguments.seed,
        acknowledges: false,
    }
}

/// A file that is removed when this is dropped.
struct Made<'a>(&'a Path);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// It never writes to what existed before, except to a device that was named twice and is not in use.
fn open<'a>(on: &'a Path, write_to: Option<&Path>, spec: &Io) -> Result<(File, Option<Made<'a>>)> {
    let name = on.display();
    match fs::metadata(on) {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            ensure!(
                write_to == Some(on),
                "{name} is a device, and all that is on it would be lost: if you want that, add --write-to {name}"
            );
            // Refused by the kernel where it is mounted, or part of something that is.
            let flags = OFlags::EXCL | if spec.direct { OFlags::DIRECT } else { OFlags::empty() };
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).custom_flags(flags.bits() as i32);
            let file = options.open(on).with_context(|| {
                format!("{name} cannot be had for this alone (is it mounted, or in use?)")
            })?;
            Ok((file, None))
        }
        Ok(_) => bail!("{name} exists, and would be written over: name a file that does not"),
        Err(_) => {
            ensure!(write_to.is_none(), "--write-to is for a device, and there is none at {name}");
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(on);
            let file = file.with_context(|| format!("{name} cannot be made"))?;
            let made = Made(on);
            file.set_len(spec.span)
                .with_context(|| format!("{name} cannot have {} bytes", spec.span))?;
            Ok((super::open(on, spec.direct)?, Some(made)))
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    fn plain() -> Io {
        Io {
            pattern: IoPattern::Random,
            engine: IoEngine::Pread,
            block: 512,
            span: 1 << 16,
            start: 0,
            depth: 1,
            jobs: 1,
            read_share: 1.0,
            direct: false,
            sync_every: None,
            rate: None,
            count: Some(1),
            duration_s: 1.0,
            seed: 1,
            acknowledges: false,
        }
    }

    #[test]
    fn a_file_is_made_and_removed_and_none_that_was_there_is_touched() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("disk");
        let (_, made) = open(&path, None, &plain()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 16);
        drop(made);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        let why = open(&path, None, &plain()).err().unwrap().to_string();
        assert!(why.contains("exists, and would be written over"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn a_device_wants_to_be_named_twice() {
        let Ok(device) = fs::canonicalize("/dev/loop0") else { return };
        for again in [None, Some(Path::new("/dev/loop1"))] {
            let why = open(&device, again, &plain()).err().unwrap().to_string();
            assert!(why.contains("add --write-to /dev/loop0"), "{why}");
        }
    }
}
