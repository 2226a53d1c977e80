//! The machine's own files as a node sees them: everything readable, every write in memory.
//!
//! One overlay of the whole root would be simplest, but a user namespace may not overlay a
//! directory that has other file systems mounted in it. So the view is a skeleton in memory, with
//! one overlay for each directory that has none. The work directory is no overlay but a copy in
//! memory, laid afresh before each task: the same on every platform, so that it is not the file
//! share or the overlay that is weighed.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use hypertare_plan::{Files, Workload};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MountFlags, mount, mount_bind};

use super::given::{self, Home};
use super::keep::{Keep, Overlay};
use super::mounts::{bind_read_only, mount_points};
use super::opened::Watch;
use super::{copy, devices, kernel_files, own_root};
use crate::process::shortage::{Shortage, mb, room_for_files};
use crate::workload::confine::Confinement;
use crate::workload::system_calls;

/// Where tasks find a fresh directory in memory for their temporary files.
pub const TMPDIR: &str = "/.hypertare-tmp";

/// Beside a mount point, a file up to this size is copied, a larger one is bound read-only.
const COPIED: u64 = 64 << 10;

const NO_FILTER: &str = "the kernel filters no system calls (it has no seccomp): a container of a common \
                         runtime has a filter, so this one is faster and less confined";

/// The inode of the first user namespace, fixed by the kernel (PROC_USER_INIT_INO).
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// A view that stands. It is unmounted with the node's mount namespace.
pub struct View {
    place: PathBuf,
    pristine: PathBuf,
    work: PathBuf,
    temporary: PathBuf,
    /// The mount namespace in which the view is the root; `None` where it is the root already.
    namespace: Option<OwnedFd>,
    as_container: bool,
    users: Mutex<usize>,
    /// Where the files come from elsewhere.
    keep: Option<Mutex<Keep>>,
    /// On a machine that was given.
    home: Option<Home>,
}

impl View {
    /// Builds the view below `place`, an empty directory, from the files below `lower`. Returns warnings of
    /// what could not be shown as it should be.
    pub fn build(
        files: &Files,
        place: &Path,
        lower: &Path,
        as_container: bool,
    ) -> Result<(Self, Vec<String>)> {
        let workdir = resolve(lower, &files.workdir)?;
        check_workdir(&workdir)?;
        let source = lower.join(relative(&workdir));
        let from_elsewhere = lower != Path::new("/");
        let memory = if from_elsewhere { room_for_files(files.memory)? } else { files.memory };
        check_size(&source, &workdir, memory)?;
        let options = CString::new(format!("size={memory},mode=0755"))?;
        mount("tmpfs", place, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))
            .context("cannot mount memory for the view of the files")?;
        let (root, work) = (place.join("root"), place.join("work"));
        let pristine = place.join("pristine");
        let temporary = root.join(relative(Path::new(TMPDIR)));
        for directory in [&work, &temporary] {
            fs::create_dir_all(directory)?;
        }
        fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o1777))?;
        let left_out = copy::copy(&source, &pristine).with_context(|| {
            format!("the work directory {} cannot be copied", workdir.display())
        })?;
        let shown = files.root.as_deref().unwrap_or(lower);
        let mut builder = Builder::new(place, shown, &files.devices, as_container)?;
        builder.absent.extend(
            left_out.iter().map(|path| format!("{} (a socket, pipe or device)", path.display())),
        );
        builder.show_root(&root)?;
        let target = root.join(relative(&workdir));
        fs::create_dir_all(&target)
            .and_then(|()| Ok(mount_bind(&work, &target)?))
            .with_context(|| format!("cannot lay the work directory at {}", workdir.display()))?;
        let overlays = std::mem::take(&mut builder.overlays);
        let keep = from_elsewhere.then(|| Mutex::new(Keep::new(place, memory, &root, overlays)));
        kernel_files::forbid_cgroup_namespaces()?;
        let namespace = Some(own_root::rooted_at(&root)?);
        let users = Mutex::new(0);
        let place = place.to_owned();
        let home = None;
        let view =
            View { place, pristine, work, temporary, namespace, as_container, users, keep, home };
        Ok((view, builder.warnings()))
    }

    /// The view in a container of an engine, which has laid out all of it: the work directory and the one
    /// for temporary files are empty and in memory; `pristine` holds the files of the work directory.
    pub fn in_engine(files: &Files, place: &Path, pristine: &Path) -> Self {
        Self::without_namespace(place, pristine, files.workdir.clone())
    }

    /// The view on a machine that was given: its files are its own, and the work directory is a copy.
    pub fn given(files: &Files, place: &Path) -> Result<Self> {
        let home = Home::new(place, &files.workdir);
        let (work, temporary) = (place.join(given::WORK), home.temporary());
        for directory in [&work, &temporary] {
            fs::create_dir_all(directory)
                .with_context(|| format!("making {}", directory.display()))?;
        }
        let pristine = place.join(given::PRISTINE);
        Ok(View { temporary, home: Some(home), ..Self::without_namespace(place, &pristine, work) })
    }

    fn without_namespace(place: &Path, pristine: &Path, work: PathBuf) -> Self {
        View {
            place: place.to_owned(),
            pristine: pristine.to_owned(),
            work,
            temporary: TMPDIR.into(),
            namespace: None,
            as_container: false,
            users: Mutex::new(0),
            keep: None,
            home: None,
        }
    }

    /// Changes a task's paths and environment to those of this view.
    pub fn take_in(&self, workload: &mut Workload) -> Result<()> {
        if let Some(home) = &self.home {
            return home.take_in(workload);
        }
        if let Some(env) = workload.env_mut() {
            env.insert("TMPDIR".to_owned(), TMPDIR.to_owned());
        }
        Ok(())
    }

    /// The confinement of commands; `None` where the maker of the node confines them.
    pub fn confinement(&self) -> Option<Confinement<'_>> {
        let namespace = self.namespace.as_ref()?.as_fd();
        Some(Confinement { namespace, as_container: self.as_container })
    }

    /// Lays the work directory and the temporary directory afresh, unless a task works in them. The
    /// guard says when the task has ended.
    pub fn enter(&self) -> Result<Visit<'_>> {
        let mut users = lock(&self.users);
        if *users == 0 {
            copy::clear(&self.temporary)?;
            copy::clear(&self.work)?;
            copy::copy(&self.pristine, &self.work)
                .context("cannot lay the work directory afresh")?;
        }
        *users += 1;
        Ok(Visit(self))
    }

    /// Watches which files a task opens; `None` where the files are the machine's own, which the kernel
    /// caches once they were used.
    pub fn watch(&self) -> Result<Option<Watch>> {
        self.keep.as_ref().map(|keep| Watch::begin(lock(keep).overlays())).transpose()
    }

    /// Watches whether a task runs out of memory.
    pub fn shortage(&self) -> Shortage {
        Shortage::watch(&self.place, self.keep.is_some())
    }

    /// Keeps opened files in memory from now on, with the links that lead to them from the directories of
    /// `path`. Returns a sentence about what was left out.
    pub fn keep(&self, opened: &BTreeSet<PathBuf>, path: &OsStr) -> Result<Option<String>> {
        self.keep.as_ref().map_or(Ok(None), |keep| lock(keep).keep(opened, path))
    }
}

/// A task works in the view.
pub struct Visit<'a>(&'a View);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.users) -= 1;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the path leads when `lower` is the root, symbolic links followed.
fn resolve(lower: &Path, path: &Path) -> Result<PathBuf> {
    let root = rustix::fs::open(lower, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        .with_context(|| format!("cannot open {}", lower.display()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = openat2(root.as_fd(), path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
        .with_context(|| format!("the work directory {} cannot be opened", path.display()))?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&found);
    let whole = rustix::fs::readlinkat(CWD, format!("/proc/self/fd/{number}"), Vec::new())?;
    let whole = PathBuf::from(OsString::from_vec(whole.into_bytes()));
    let inside = whole
        .strip_prefix(lower)
        .map_err(|_| anyhow!("the work directory {} is not below the root", path.display()))?;
    Ok(Path::new("/").join(inside))
}

fn check_workdir(workdir: &Path) -> Result<()> {
    match workdir.components().nth(1) {
        None => bail!("the work directory is the root; choose the directory that is worked in"),
        Some(Component::Normal(top)) if is_virtual(top) => {
            bail!("the work directory {} is no place for files", workdir.display())
        }
        _ => Ok(()),
    }
}

fn is_virtual(top: &OsStr) -> bool {
    ["proc", "sys", "dev"].iter().any(|name| top == *name)
}

fn check_size(source: &Path, workdir: &Path, memory: u64) -> Result<()> {
    let size = copy::size(source)
        .with_context(|| format!("the work directory {} cannot be copied", workdir.display()))?;
    if size * 2 > memory {
        bail!(
            "the work directory {} takes {} MB and is held in memory twice (as it was, and as it is \
             worked in), which is more than the {} MB given for files; choose a smaller directory \
             or give more memory",
            workdir.display(),
            mb(size),
            mb(memory)
        );
    }
    Ok(())
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

struct Builder {
    place: PathBuf,
    lower: PathBuf,
    /// That are shown beside those of every program.
    devices: Vec<PathBuf>,
    as_container: bool,
    mount_points: Vec<PathBuf>,
    overlays: Vec<Overlay>,
    not_overlaid: Vec<String>,
    absent: Vec<String>,
}

impl Builder {
    fn new(place: &Path, lower: &Path, devices: &[PathBuf], as_container: bool) -> Result<Self> {
        Ok(Builder {
            place: place.to_owned(),
            lower: lower.to_owned(),
            devices: devices.to_owned(),
            as_container,
            mount_points: mount_points()?,
            overlays: Vec::new(),
            not_overlaid: Vec::new(),
            absent: Vec::new(),
        })
    }

    fn show_root(&mut self, root: &Path) -> Result<()> {
        // Before the others: where it has to be bound, all that is mounted below it by then is bound, too.
        kernel_files::show_sys(&root.join("sys"), self.as_container)?;
        let entries = fs::read_dir(&self.lower)
            .with_context(|| format!("cannot read {}", self.lower.display()))?;
        for entry in entries {
            let name = entry?.file_name();
            if !is_virtual(&name) {
                self.show(&self.lower.join(&name), &root.join(&name));
            }
        }
        // An image need not have the directories that its engine mounts these on.
        kernel_files::show_proc(&root.join("proc"), self.as_container)?;
        devices::show(&root.join("dev"), &self.devices)
    }

    /// Shows one entry; a failure becomes a warning.
    fn show(&mut self, from: &Path, to: &Path) {
        if let Err(error) = self.try_show(from, to) {
            self.absent.push(format!("{} ({error:#})", from.display()));
        }
    }

    fn try_show(&mut self, from: &Path, to: &Path) -> Result<()> {
        let metadata = fs::symlink_metadata(from)?;
        if metadata.is_symlink() {
            symlink(fs::read_link(from)?, to)?;
        } else if metadata.is_dir() {
            fs::create_dir(to)?;
            self.show_directory(from, to, &metadata)?;
        } else if metadata.is_file() && metadata.len() <= COPIED {
            fs::copy(from, to)?;
            copy::dress(to, &metadata)?;
        } else if metadata.is_file() {
            fs::File::create(to)?;
            bind_read_only(from, to)?;
        }
        Ok(())
    }

    fn show_directory(&mut self, from: &Path, to: &Path, metadata: &Metadata) -> Result<()> {
        let is_below = |point: &PathBuf| point != from && point.starts_with(from);
        if !self.mount_points.iter().any(is_below) {
            if let Err(error) = self.overlay(from, to, metadata) {
                // A directory that cannot be written to in memory must not be written to at all.
                bind_read_only(from, to)?;
                self.not_overlaid.push(format!("{} ({error:#})", from.display()));
            }
            return Ok(());
        }
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            self.show(&from.join(&name), &to.join(&name));
        }
        Ok(copy::dress(to, metadata)?)
    }

    fn overlay(&mut self, lower: &Path, to: &Path, metadata: &Metadata) -> Result<()> {
        let number = self.overlays.len() + 1;
        let upper = self.place.join(format!("upper{number}"));
        let scratch = self.place.join(format!("scratch{number}"));
        // Both may be there from one that could not be mounted.
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&scratch)?;
        // The overlay's own root has the owner, mode and times of the upper directory.
        copy::dress(&upper, metadata)?;
        let mut options = b"lowerdir=".to_vec();
        options.extend(escaped(lower));
        options.extend(b",upperdir=");
        options.extend(escaped(&upper));
        options.extend(b",workdir=");
        options.extend(escaped(&scratch));
        // Where the namespace may not write `trusted` attributes, `user` ones keep what is deleted;
        // where it may, they are better: before Linux 6.6, tmpfs has no `user` attributes.
        let own = fs::metadata("/proc/self/ns/user");
        if !own.is_ok_and(|found| found.ino() == FIRST_USER_NAMESPACE) {
            options.extend(b",userxattr");
        }
        let options = CString::new(options)?;
        // Devices among the machine's files are not to be opened by way of them.
        mount("overlay", to, "overlay", MountFlags::NODEV, Some(options.as_c_str()))?;
        self.overlays.push(Overlay { shown: to.to_owned(), upper });
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (what, paths) in [
            ("shown read-only, because they cannot be overlaid", &self.not_overlaid),
            ("not shown", &self.absent),
        ] {
            if paths.is_empty() {
                continue;
            }
            let named = paths.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = paths.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            warnings.push(format!("in the view of the files, {what}: {named}{more}"));
        }
        // What commands do to devices is not forgotten.
        if !self.devices.is_empty() {
            let names: Vec<_> = self.devices.iter().map(|one| one.display().to_string()).collect();
            let names = names.join(", ");
            warnings.push(format!("commands see {names}, as asked: what they do to it stays"));
        }
        if self.as_container && !system_calls::can_be_filtered() {
            warnings.push(NO_FILTER.to_owned());
        }
        warnings
    }
}

/// Escapes a path for the overlay's options: `\`, `:` and `,` get a `\` before them.
fn escaped(path: &Path) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        if b"\\:,".contains(&byte) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_options_is_escaped() {
        assert_eq!(escaped(Path::new("/a:b,c\\d")), b"/a\\:b\\,c\\\\d");
    }

    #[test]
    fn a_work_directory_is_found_below_another_root() {
        let home = std::env::temp_dir().join(format!("hypertare-files-{}", std::process::id()));
        fs::create_dir_all(home.join("real/work")).unwrap();
        let _ = symlink("/real", home.join("alias"));
        assert_eq!(resolve(&home, Path::new("/alias/work")).unwrap(), Path::new("/real/work"));
        assert_eq!(resolve(&home, Path::new("/../../real")).unwrap(), Path::new("/real"));
        assert!(resolve(&home, Path::new("/absent")).unwrap_err().to_string().contains("/absent"));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn the_root_and_virtual_directories_are_no_work_directories() {
        assert!(check_workdir(Path::new("/")).is_err());
        assert!(check_workdir(Path::new("/proc/sys")).is_err());
        assert!(check_workdir(Path::new("/home")).is_ok());
    }

    #[test]
    fn a_work_directory_that_does_not_fit_is_refused_with_both_sizes() {
        let home = std::env::temp_dir().join(format!("hypertare-size-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("file"), vec![1u8; 3 << 20]).unwrap();
        let error = check_size(&home, Path::new("/w"), 4 << 20).unwrap_err().to_string();
        assert!(error.contains("/w takes 4 MB") && error.contains("4 MB given"), "{error}");
        assert!(check_size(&home, Path::new("/w"), 7 << 20).is_ok());
        fs::remove_dir_all(home).unwrap();
    }
}
