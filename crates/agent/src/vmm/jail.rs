//! Keeps a guest that has broken out of its QEMU from this host. QEMU is given all that it works with as
//! descriptors, so it needs next to nothing of a process's usual powers:
//!
//! - **System calls**: QEMU's own filter (`-sandbox`), which libvirt switches on as well.
//! - **Files**: a mount namespace of its own in which everything is read-only. Device nodes are not
//!   (KVM works), nor is what came as a descriptor.
//! - **User**: started by root, QEMU runs under a user number that no user has; started by anyone else, it
//!   runs under their own.
//! - **Capabilities**: zero, and it can gain none (empty bounding set, `no_new_privs`). With a file share it
//!   keeps the one to read and search, because a guest is to read the files that a native command can read.
//!
//! On an experiment's own machine there is none of it: that machine is thrown away and holds nothing
//! of this host's, and each step would cost instructions of virtual time.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use hypertare_plan::Accelerator;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::command_line::{PROGRAM, SANDBOX};
use super::initramfs::concatenate;
use crate::boot_contract::is_own_machine;
use crate::capabilities::narrow_bounding_set;

/// The highest user number that QEMU may get; 65534 is `nobody`, which other programs use too. systemd
/// gives 65520 to 65533 to no user, and distributions assign theirs from below.
const HIGHEST: u32 = 65533;

const KVM: &str = "/dev/kvm";

/// How one QEMU is kept from what is not its own.
#[derive(Clone, Debug, Default)]
pub struct Jail {
    steps: Option<Steps>,
    missing: Vec<String>,
}

/// Made ready before fork, after which nothing may be allocated.
#[derive(Clone, Debug)]
struct Steps {
    /// Ours: what is not here can be neither used nor dropped.
    has: CapabilitySet,
    keeps: CapabilitySet,
    read_only: bool,
    user: Option<User>,
}

#[derive(Clone, Debug, PartialEq)]
struct User {
    /// Of the user and of its group.
    id: u32,
    groups: Vec<Gid>,
}

impl Jail {
    /// A jail as strict as this host allows; [`Jail::missing`] reports the walls that it does not allow.
    ///
    /// # Errors
    /// The kernel does not say which capabilities this process has.
    pub fn new(accelerator: Accelerator, shares_files: bool) -> Result<Jail> {
        if is_own_machine() {
            return Ok(Jail::default());
        }
        let has = rustix::thread::capabilities(None).context("own capabilities")?.permitted;
        let mut missing = Vec::new();
        let read_only = has.contains(CapabilitySet::SYS_ADMIN) && {
            // The kernel looks at the size first, and says so, unless it does not know the call.
            let can = set_mounts(None) == Err(rustix::io::Errno::INVAL);
            missing.extend((!can).then(|| NO_READ_ONLY.to_owned()));
            can
        };
        let user = if has.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            user(accelerator).unwrap_or_else(|why| {
                missing.push(why);
                None
            })
        } else {
            None
        };
        let wanted =
            if shares_files { CapabilitySet::DAC_READ_SEARCH } else { CapabilitySet::empty() };
        let steps = Steps { has, keeps: has & wanted, read_only, user };
        Ok(Jail { steps: Some(steps), missing })
    }

    /// Whether QEMU is to filter its system calls.
    pub fn wants_sandbox(&self) -> bool {
        self.steps.is_some()
    }

    /// Walls that are not there, and how to have them; QEMU's own is reported by [`has_sandbox`].
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// A file that QEMU is to open again by its descriptor: the kernel then looks at the file's own
    /// mode, not at the directories on the way. What QEMU may not read is copied to memory.
    pub fn open(&self, path: &Path) -> Result<File> {
        let file = File::open(path).with_context(|| format!("{path:?} cannot be read"))?;
        let runs_as = match &self.steps {
            None => return Ok(file),
            Some(Steps { user: Some(user), .. }) => user.id,
            Some(_) => rustix::process::geteuid().as_raw(),
        };
        if may_read(&file.metadata()?, runs_as) {
            Ok(file)
        } else {
            concatenate(&[path.to_owned()])
        }
    }

    /// Confines the calling process and what it executes. System calls only: for use between fork and
    /// exec. To be called before a signal at the parent's death is asked for, which a change of user
    /// takes back.
    pub fn enter(&self) -> io::Result<()> {
        let Some(steps) = &self.steps else { return Ok(()) };
        if steps.read_only {
            make_read_only()?;
        }
        // What is to stay must be inheritable before the bounding set is empty.
        let own =
            CapabilitySets { effective: steps.has, permitted: steps.has, inheritable: steps.keeps };
        rustix::thread::set_capabilities(None, own)?;
        if steps.has.contains(CapabilitySet::SETPCAP) {
            narrow_bounding_set(CapabilitySet::empty())?;
        }
        if let Some(user) = &steps.user {
            let (uid, gid) = (Uid::from_raw(user.id), Gid::from_raw(user.id));
            // The permitted capabilities stay, to be chosen from below.
            rustix::thread::set_keep_capabilities(true)?;
            rustix::thread::set_thread_groups(&user.groups)?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        }
        let kept = steps.keeps;
        let own = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
        rustix::thread::set_capabilities(None, own)?;
        // Ambient as well: others than root keep nothing else across exec.
        if kept.contains(CapabilitySet::DAC_READ_SEARCH) {
            let which = CapabilitySet::DAC_READ_SEARCH;
            rustix::thread::configure_capability_in_ambient_set(which, true)?;
        }
        rustix::thread::set_no_new_privs(true)?;
        Ok(())
    }
}

pub const NO_SANDBOX: &str = "its QEMU cannot filter system calls (-sandbox), so a guest that broke out of it \
     could make them all; take a QEMU that is built with seccomp, as those of distributions are";
const NO_READ_ONLY: &str = "this kernel cannot show QEMU the host's files read-only (mount_setattr, \
     Linux 5.12): a guest that broke out of it could write where QEMU's user may";

/// Whether the installed QEMU can filter its system calls. Asked once: it takes some 15 ms.
pub fn has_sandbox() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut command = Command::new(PROGRAM);
        command.args(["-sandbox", SANDBOX, "-version"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map_or(true, |status| status.success())
    })
}

/// The user under which QEMU is to run, if there is a free one; or the reason why it stays root.
fn user(accelerator: Accelerator) -> Result<Option<User>, String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(read);
    let known = ["/etc/passwd", "/etc/group"].map(read);
    let Some(id) = own_id(&maps, &known) else { return Ok(None) };
    if let Some(program) = program()
        && !all_may_execute(&program)
    {
        return Err(format!(
            "{program:?} may be executed by root only, so QEMU runs as root: a guest that broke out of \
             it could read root's files; install QEMU where all users may execute it"
        ));
    }
    let device = if accelerator == Accelerator::Kvm { fs::metadata(KVM).ok() } else { None };
    let groups = match device.map(|device| opener(device.mode(), device.gid())) {
        None | Some(Opener::All) => vec![],
        Some(Opener::Group(group)) => vec![Gid::from_raw(group)],
        Some(Opener::Root) => {
            return Err(format!(
                "only root may open {KVM}, so QEMU runs as root: a guest that broke out of it could \
                 read root's files; as root: chmod 666 {KVM}, or give it to a group (chgrp kvm, \
                 chmod 660)"
            ));
        }
    };
    Ok(Some(User { id, groups }))
}

/// The highest number that is mapped here for users and for groups, and that neither a user nor a group
/// has.
fn own_id(maps: &[String; 2], known: &[String; 2]) -> Option<u32> {
    // The third field of a line of /etc/passwd or /etc/group.
    let id_of = |line: &str| line.split(':').nth(2)?.parse().ok();
    let taken: Vec<u32> = known.iter().flat_map(|file| file.lines()).filter_map(id_of).collect();
    let is_own = |id: &u32| maps.iter().all(|map| is_mapped(map, *id)) && !taken.contains(id);
    (1..=HIGHEST).rev().find(is_own)
}

fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        match (fields.next(), fields.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => id >= first && id - first < count,
            _ => false,
        }
    })
}

#[derive(Debug, PartialEq)]
enum Opener {
    All,
    Group(u32),
    Root,
}

/// Who may read and write a device. Root's group does not count: it may read many of root's files.
fn opener(mode: u32, group: u32) -> Opener {
    match (mode & 0o006 == 0o006, mode & 0o060 == 0o060 && group != 0) {
        (true, _) => Opener::All,
        (_, true) => Opener::Group(group),
        _ => Opener::Root,
    }
}

/// Where the kernel is to find QEMU.
fn program() -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&directories).map(|place| place.join(PROGRAM));
    places.find(|place| place.is_file())
}

fn all_may_execute(program: &Path) -> bool {
    let Ok(program) = program.canonicalize() else { return false };
    let has = |path: &Path, bits| fs::metadata(path).is_ok_and(|it| it.mode() & bits == bits);
    has(&program, 0o005) && program.ancestors().skip(1).all(|directory| has(directory, 0o001))
}

fn may_read(file: &Metadata, user: u32) -> bool {
    let bit = if file.uid() == user { 0o400 } else { 0o004 };
    file.mode() & bit != 0
}

fn make_read_only() -> io::Result<()> {
    // SAFETY: no memory is passed.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut wanted: libc::mount_attr = unsafe { std::mem::zeroed() };
    wanted.attr_set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID;
    // What is mounted outside from now on would be writable.
    wanted.propagation = libc::MS_PRIVATE;
    Ok(set_mounts(Some(&wanted))?)
}

/// Of all mounts.
fn set_mounts(wanted: Option<&libc::mount_attr>) -> rustix::io::Result<()> {
    let size = wanted.map_or(0, size_of_val);
    let wanted = wanted.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the structure is as long as is said, and is read only.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            wanted,
            size,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ALL: &str = "         0          0 4294967295\n";

    fn own(map: &str, known: &str) -> Option<u32> {
        own_id(&[map.to_owned(), ALL.to_owned()], &[known.to_owned(), String::new()])
    }

    #[test]
    fn its_number_is_mapped_and_nobody_s() {
        assert_eq!(own(ALL, "root:x:0:0:root:/root:/bin/sh\n"), Some(65533));
        assert_eq!(own(ALL, "nogroup:x:65533:\nx:x:65532:1::/:\n"), Some(65531));
        assert_eq!(own("0 100000 1000\n", ""), Some(999));
        assert_eq!(own("0 1000 1\n1 100000 65536\n", ""), Some(65533));
        assert_eq!(own("0 1000 1\n", ""), None, "who has one user only keeps it");
        assert_eq!(own("", ""), None);
    }

    #[test]
    fn root_s_own_group_is_not_handed_out_for_a_device() {
        assert_eq!(opener(0o20666, 0), Opener::All);
        assert_eq!(opener(0o20660, 104), Opener::Group(104));
        assert_eq!(opener(0o20660, 0), Opener::Root);
        assert_eq!(opener(0o20600, 104), Opener::Root);
        assert_eq!(opener(0o20640, 104), Opener::Root);
    }

    #[test]
    fn a_program_in_a_closed_directory_is_not_for_all() {
        assert!(all_may_execute(Path::new("/bin/sh")));
        let closed = tempfile::tempdir().unwrap();
        fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let program = closed.path().join(PROGRAM);
        fs::copy("/bin/sh", &program).unwrap();
        assert!(!all_may_execute(&program));
        assert!(!all_may_execute(&closed.path().join("there-is-none")));
    }

    #[test]
    fn a_file_is_read_by_its_owner_or_by_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        assert!(may_read(&found, found.uid()));
        assert!(!may_read(&found, found.uid() + 1));
        assert!(may_read(&fs::metadata("/etc/passwd").unwrap(), HIGHEST));
    }

    #[test]
    fn what_its_user_may_not_read_is_copied() {
        let with = |user| Jail {
            steps: Some(Steps {
                has: CapabilitySet::empty(),
                keeps: CapabilitySet::empty(),
                read_only: false,
                user,
            }),
            ..Jail::default()
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, b"1234").unwrap();
        let inode = file.as_file().metadata().unwrap().ino();
        let opened = |jail: Jail| jail.open(file.path()).unwrap().metadata().unwrap();
        assert_eq!(opened(with(None)).ino(), inode);
        let copy = opened(with(Some(User { id: HIGHEST, groups: vec![] })));
        assert_ne!(copy.ino(), inode);
        assert!(copy.len() == 4 && may_read(&copy, HIGHEST));
    }
}
