//! Copies a directory tree into memory: contents, modes, owners, times, symbolic and hard links;
//! holes stay holes. Sockets, pipes and devices are left out; and the directories of runs, which grow with
//! each trial while they are copied for each.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hypertare_plan::{RUN_APPLICATION, RUN_FILE};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

/// What memory is handed out in.
const PAGE: u64 = 4096;
/// Read at once, and looked at for being zero.
const CHUNK: usize = 128 << 10;
/// Named in an error; more are only counted.
const MOST_NAMED: usize = 5;

/// Bytes of memory that the tree will take, a page for each directory, link and hole included.
///
/// # Errors
/// Names what cannot be read.
pub fn size(tree: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut troubles = Troubles::default();
    let mut seen = HashSet::new();
    let mut unseen = vec![tree.to_owned()];
    while let Some(path) = unseen.pop() {
        let Some(metadata) = troubles.take(&path, fs::symlink_metadata(&path)) else { continue };
        if metadata.is_dir() {
            bytes += PAGE;
            let Some(entries) = troubles.take(&path, entries(&path)) else { continue };
            if path == tree || !is_run(&path, &entries) {
                unseen.extend(entries.iter().map(DirEntry::path));
            }
        } else if metadata.nlink() == 1 || seen.insert(identity(&metadata)) {
            // The allocated size, unless it is the larger one: some file systems compress, and
            // others, like 9p, round up.
            let allocated = (metadata.blocks() * 512).min(metadata.len());
            bytes += allocated.next_multiple_of(PAGE).max(PAGE);
        }
    }
    troubles.check()?;
    Ok(bytes)
}

/// Copies a tree to a place where nothing is yet, and returns what was left out.
///
/// # Errors
/// Names what cannot be read.
pub fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let mut copy = Copy { root: from.to_owned(), ..Copy::default() };
    copy.entry(from, to)?;
    copy.troubles.check()?;
    Ok(copy.left_out)
}

/// Removes what is in a directory, but not the directory.
pub fn clear(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let removed = if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        };
        removed.with_context(|| format!("cannot remove {}", entry.path().display()))?;
    }
    Ok(())
}

#[derive(Default)]
struct Copy {
    root: PathBuf,
    /// Where the first name of a file with several was copied to.
    linked: HashMap<(u64, u64), PathBuf>,
    left_out: Vec<PathBuf>,
    troubles: Troubles,
    buffer: Vec<u8>,
}

impl Copy {
    fn entry(&mut self, from: &Path, to: &Path) -> Result<()> {
        let Some(metadata) = self.troubles.take(from, fs::symlink_metadata(from)) else {
            return Ok(());
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            if !self.directory(from, to)? {
                return Ok(());
            }
        } else if kind.is_symlink() {
            symlink(fs::read_link(from)?, to).with_context(|| cannot_write(to))?;
        } else if kind.is_file() {
            if !self.file(from, to, &metadata)? {
                return Ok(());
            }
        } else {
            debug_assert!(kind.is_socket() || kind.is_fifo() || is_device(&metadata));
            self.left_out.push(from.to_owned());
            return Ok(());
        }
        dress(to, &metadata).with_context(|| cannot_write(to))
    }

    /// False when it is left out.
    fn directory(&mut self, from: &Path, to: &Path) -> Result<bool> {
        let entries = self.troubles.take(from, entries(from));
        if entries.as_ref().is_some_and(|entries| from != self.root && is_run(from, entries)) {
            return Ok(false);
        }
        if !to.is_dir() {
            fs::create_dir(to).with_context(|| cannot_write(to))?;
        }
        for entry in entries.unwrap_or_default() {
            let name = entry.file_name();
            self.entry(&from.join(&name), &to.join(&name))?;
        }
        Ok(true)
    }

    /// False when there is nothing to be dressed: it is another name of a file that is there, or
    /// could not be read.
    fn file(&mut self, from: &Path, to: &Path, metadata: &Metadata) -> Result<bool> {
        if metadata.nlink() > 1 {
            if let Some(first) = self.linked.get(&identity(metadata)) {
                fs::hard_link(first, to).with_context(|| cannot_write(to))?;
                return Ok(false);
            }
            self.linked.insert(identity(metadata), to.to_owned());
        }
        let Some(mut source) = self.troubles.take(from, File::open(from)) else { return Ok(false) };
        let mut target = File::create(to).with_context(|| cannot_write(to))?;
        let sparse = metadata.blocks() * 512 < metadata.len();
        self.buffer.resize(CHUNK, 0);
        loop {
            if sparse && !skip_hole(&mut source, &mut target)? {
                target.set_len(metadata.len()).with_context(|| cannot_write(to))?;
                return Ok(true);
            }
            let count = source
                .read(&mut self.buffer)
                .with_context(|| format!("cannot read {}", from.display()))?;
            let chunk = &self.buffer[..count];
            if count == 0 {
                break;
            }
            if sparse && chunk.iter().all(|&byte| byte == 0) {
                target.seek(SeekFrom::Current(count as i64))?;
            } else {
                target.write_all(chunk).with_context(|| cannot_write(to))?;
            }
        }
        // A hole at the end is made by setting the length.
        let length = target.stream_position()?;
        target.set_len(length).with_context(|| cannot_write(to))?;
        Ok(true)
    }
}

/// Goes on, in both files, where the next data are; false where there are no more. A file system that knows
/// nothing of holes, such as 9p, gives zeros in their place.
fn skip_hole(source: &mut File, target: &mut File) -> Result<bool> {
    let here = source.stream_position()?;
    match rustix::fs::seek(&*source, rustix::fs::SeekFrom::Data(here)) {
        Ok(data) => target.seek(SeekFrom::Start(data)).map(|_| true).map_err(Into::into),
        Err(rustix::io::Errno::NXIO) => Ok(false),
        Err(_) => source.seek(SeekFrom::Start(here)).map(|_| true).map_err(Into::into),
    }
}

fn entries(directory: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(directory)?.collect()
}

/// Whether a directory is that of a run: by its file, which SQLite's header says is one of ours.
fn is_run(directory: &Path, entries: &[DirEntry]) -> bool {
    let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.iter().any(|entry| entry.file_name() == RUN_FILE && is_file(entry))
        && is_run_file(&directory.join(RUN_FILE)).unwrap_or(false)
}

/// Source: SQLite's "Database File Format", 1.3: a magic text, and at 68 the application's number.
fn is_run_file(path: &Path) -> io::Result<bool> {
    let mut header = [0; 72];
    File::open(path)?.read_exact(&mut header)?;
    Ok(header.starts_with(b"SQLite format 3\0") && header[68..] == RUN_APPLICATION.to_be_bytes())
}

/// Gives it the owner, the mode and the times of the original. An owner whom this user namespace
/// does not know cannot be given; the copy then belongs to whoever made it.
pub fn dress(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let _ = lchown(path, Some(metadata.uid()), Some(metadata.gid()));
    if !metadata.is_symlink() {
        fs::set_permissions(path, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    Ok(utimensat(CWD, path, &times(metadata), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// When it was read and changed last.
pub fn times(metadata: &Metadata) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_block_device() || metadata.file_type().is_char_device()
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// What could not be read, collected so that all of it is named at once.
#[derive(Default)]
struct Troubles {
    count: usize,
    named: Vec<String>,
}

impl Troubles {
    fn take<T>(&mut self, path: &Path, outcome: io::Result<T>) -> Option<T> {
        outcome
            .inspect_err(|error| {
                self.count += 1;
                if self.named.len() < MOST_NAMED {
                    let name = String::from_utf8_lossy(OsStr::as_bytes(path.as_os_str()));
                    self.named.push(format!("{name} ({error})"));
                }
            })
            .ok()
    }

    fn check(&self) -> Result<()> {
        match self.count {
            0 => Ok(()),
            count if count > self.named.len() => {
                bail!("cannot read {} and {} more", self.named.join(", "), count - self.named.len())
            }
            _ => bail!("cannot read {}", self.named.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, SystemTime};

    fn fresh(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("hypertare-copy-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_copy_is_like_the_original() {
        let home = fresh("like");
        let from = home.join("from");
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("script"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("script"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::hard_link(from.join("script"), from.join("deep/other")).unwrap();
        symlink("nowhere/at all", from.join("deep/link")).unwrap();
        let past = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        File::open(from.join("script")).unwrap().set_modified(past).unwrap();
        File::open(from.join("deep")).unwrap().set_modified(past).unwrap();
        let _socket = UnixListener::bind(from.join("socket")).unwrap();

        let to = home.join("to");
        assert_eq!(copy(&from, &to).unwrap(), [from.join("socket")]);
        let script = fs::metadata(to.join("script")).unwrap();
        assert_eq!(script.mode() & 0o7777, 0o4751);
        assert_eq!(script.modified().unwrap(), past);
        assert_eq!(script.ino(), fs::metadata(to.join("deep/other")).unwrap().ino());
        assert_eq!(fs::metadata(to.join("deep")).unwrap().modified().unwrap(), past);
        assert_eq!(fs::read_link(to.join("deep/link")).unwrap(), Path::new("nowhere/at all"));
        assert_eq!(fs::read(to.join("script")).unwrap(), b"#!/bin/sh\n");

        clear(&to).unwrap();
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn holes_stay_holes_and_are_not_counted() {
        let home = fresh("holes");
        let from = home.join("from");
        fs::create_dir(&from).unwrap();
        let mut file = File::create(from.join("sparse")).unwrap();
        file.write_all(b"begin").unwrap();
        file.seek(SeekFrom::Start(8 << 20)).unwrap();
        file.write_all(b"middle").unwrap();
        file.set_len(32 << 20).unwrap();
        drop(file);
        assert!(size(&from).unwrap() < 1 << 20);

        let to = home.join("to");
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("sparse")).unwrap(), fs::read(from.join("sparse")).unwrap());
        assert!(fs::metadata(to.join("sparse")).unwrap().blocks() * 512 < 1 << 20);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn runs_are_left_out_but_not_what_has_only_their_name() {
        let home = fresh("runs");
        let from = home.join("from");
        let mut header = [0; 4096];
        header[..16].copy_from_slice(b"SQLite format 3\0");
        for (name, application) in [("runs/ours", RUN_APPLICATION), ("other", 7)] {
            fs::create_dir_all(from.join(name)).unwrap();
            header[68..72].copy_from_slice(&application.to_be_bytes());
            fs::write(from.join(name).join(RUN_FILE), header).unwrap();
        }
        fs::write(from.join("runs/ours/report.html"), vec![b'x'; 1 << 20]).unwrap();
        fs::create_dir(from.join("empty")).unwrap();
        fs::write(from.join("empty").join(RUN_FILE), "").unwrap();
        assert!(size(&from).unwrap() < 1 << 20);
        let to = home.join("to");
        copy(&from, &to).unwrap();
        let is_there = |name: &str| to.join(name).exists();
        assert!(is_there("other/run.sqlite") && is_there("empty/run.sqlite") && is_there("runs"));
        assert!(!is_there("runs/ours"));
        // Whoever works in the directory of a run has it.
        copy(&from.join("runs/ours"), &home.join("run")).unwrap();
        assert!(home.join("run/report.html").exists());
        assert!(size(&from.join("runs/ours")).unwrap() > 1 << 20);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let home = fresh("absent");
        let error = copy(&home.join("absent"), &home.join("to")).unwrap_err().to_string();
        assert!(error.contains("absent") && error.contains("No such file"), "{error}");
        assert!(size(&home.join("absent")).is_err());
        fs::remove_dir_all(home).unwrap();
    }
}
