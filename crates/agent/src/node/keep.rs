//! Keeps in memory what tasks use of files that come from elsewhere, so that the next task that uses
//! them has them at hand, as it has natively: the way to the files is not what is weighed.
//!
//! A share is slow in four ways, however much of its contents the kernel caches: the host is asked at each
//! opening of a file, each reading of a link, each look at the capabilities of a program, and each
//! listing of a directory. Files in an overlay's upper directory need no such request. So
//! - a file is copied there, by the overlay itself (a copy-up);
//! - likewise a link that leads to an opened file. The kernel does not report which links were followed, so
//!   all links on the way and in PATH are examined;
//! - a directory is copied up, without what is in it, and held open: the overlay keeps the merged
//!   list of a directory for as long as somebody has it open who has read it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, lchown};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{RawDir, futimens};
use rustix::mount::{MountFlags, mount_remount};

use super::copy;
use crate::process::shortage::mb;

/// Links that are followed one after another, as in the kernel.
const MOST_LINKS: usize = 40;
/// Links that are read at the same time.
const READERS: usize = 8;
const PAGE: u64 = 4096;

/// One overlay of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// Where it is mounted.
    pub shown: PathBuf,
    /// What was written in it.
    pub upper: PathBuf,
}

pub struct Keep {
    /// The file system in memory that holds every upper directory.
    place: PathBuf,
    /// Its size without what is kept, which makes it larger: tasks have the room they were given.
    memory: u64,
    /// Bytes that may be kept, and that are.
    most: u64,
    kept: u64,
    root: PathBuf,
    overlays: Vec<Overlay>,
    /// Directories that are held open.
    held: BTreeMap<PathBuf, File>,
}

impl Keep {
    /// Keeps at most as much as half the memory that is given for files, and beside that.
    pub fn new(place: &Path, memory: u64, root: &Path, overlays: Vec<Overlay>) -> Self {
        Keep {
            place: place.to_owned(),
            memory,
            most: memory / 2,
            kept: 0,
            root: root.to_owned(),
            overlays,
            held: BTreeMap::new(),
        }
    }

    pub fn overlays(&self) -> impl Iterator<Item = &Path> {
        self.overlays.iter().map(|overlay| overlay.shown.as_path())
    }

    /// Keeps what was opened, and the links that lead there from `path`, directories as in PATH.
    /// Returns what was left out.
    pub fn keep(&mut self, opened: &BTreeSet<PathBuf>, path: &OsStr) -> Result<Option<String>> {
        // Who works in the view has it as the root.
        let from_outside = |path: &PathBuf| {
            if path.starts_with(&self.root) { path.clone() } else { below(&self.root, path) }
        };
        let opened: BTreeSet<PathBuf> = opened.iter().map(from_outside).collect();
        let (directories, mut files): (Vec<_>, Vec<_>) = opened
            .iter()
            .filter(|path| self.overlay_of(path).is_some())
            .filter_map(|path| Some((path, fs::symlink_metadata(path).ok()?)))
            .filter(|(_, metadata)| metadata.is_dir() || metadata.is_file())
            .partition(|(_, metadata)| metadata.is_dir());
        files.retain(|(path, _)| !self.is_kept(path));
        if files.is_empty() && directories.iter().all(|(path, _)| self.held.contains_key(*path)) {
            return Ok(None);
        }
        // The small ones first: what is saved is a question at each opening, whatever the size.
        files.sort_by_key(|(_, metadata)| metadata.len());
        let mut left_out = Vec::new();
        for (path, metadata) in files {
            let size = metadata.len().next_multiple_of(PAGE).max(PAGE);
            if self.kept + size > self.most {
                left_out.push((path, metadata.len()));
                continue;
            }
            self.make_room(size)?;
            // Opening it for writing is what makes the overlay copy it.
            let opened = File::options().write(true).open(path);
            opened.with_context(|| format!("cannot keep {}", path.display()))?;
        }
        for link in self.links(&opened, path) {
            self.make_room(PAGE)?;
            // With nothing to change it is a copy-up all the same.
            lchown(&link, None, None).with_context(|| format!("cannot keep {}", link.display()))?;
        }
        for (path, _) in directories {
            self.hold(path).with_context(|| format!("cannot keep {}", path.display()))?;
        }
        Ok(self.reported(&left_out))
    }

    fn make_room(&mut self, size: u64) -> Result<()> {
        self.kept += size;
        let options = CString::new(format!("size={},mode=0755", self.memory + self.kept))?;
        mount_remount(&self.place, MountFlags::empty(), options.as_c_str())
            .context("cannot enlarge the memory for the view of the files")
    }

    fn overlay_of(&self, path: &Path) -> Option<&Overlay> {
        self.overlays.iter().find(|overlay| path.starts_with(&overlay.shown))
    }

    /// Whether it is in memory already.
    fn is_kept(&self, path: &Path) -> bool {
        self.overlay_of(path).is_none_or(|overlay| {
            let within = path.strip_prefix(&overlay.shown).unwrap_or(Path::new(""));
            fs::symlink_metadata(overlay.upper.join(within)).is_ok()
        })
    }

    /// Links that lead to what was opened and are not in memory yet.
    fn links(&self, opened: &BTreeSet<PathBuf>, path: &OsStr) -> BTreeSet<PathBuf> {
        let ways = opened.iter().flat_map(|path| path.ancestors().skip(1).map(Path::to_owned));
        let programs = std::env::split_paths(path).map(|path| below(&self.root, &path));
        // /lib64 leads to the directory with the link by which every program finds its loader.
        let tops = links_in(&self.root).into_iter().filter_map(|link| target_of(&self.root, &link));
        let places: BTreeSet<PathBuf> = ways
            .chain(programs)
            .chain(tops)
            .filter(|path| self.overlay_of(path).is_some() && path.is_dir())
            .collect();
        let names: HashSet<&OsStr> = opened.iter().flat_map(|path| path.iter()).collect();
        let targets = self.targets(&places, &names);
        let mut links: BTreeSet<PathBuf> = targets
            .keys()
            .flat_map(|link| leading(link, &names, |link| targets.get(link).cloned().flatten()))
            .collect();
        links.retain(|link| !self.is_kept(link));
        links
    }

    /// Where the links of these places lead, and those behind them; none for what is no link.
    fn targets(
        &self,
        places: &BTreeSet<PathBuf>,
        names: &HashSet<&OsStr>,
    ) -> HashMap<PathBuf, Option<PathBuf>> {
        let mut targets = HashMap::new();
        let mut unread: BTreeSet<PathBuf> =
            places.iter().flat_map(|place| links_in(place)).collect();
        for _ in 0..MOST_LINKS {
            let read = read_links(&self.root, &Vec::from_iter(std::mem::take(&mut unread)));
            unread.extend(read.iter().filter_map(|(_, target)| target.clone()));
            targets.extend(read);
            unread.retain(|path| {
                let is_wanted = path.file_name().is_some_and(|name| names.contains(name));
                // Every link of a place has been read: what else is there is none.
                let is_known = path.parent().is_some_and(|place| places.contains(place));
                !is_wanted && !is_known && !targets.contains_key(path)
            });
            if unread.is_empty() {
                break;
            }
        }
        targets
    }

    fn hold(&mut self, directory: &Path) -> Result<()> {
        if self.held.contains_key(directory) {
            return Ok(());
        }
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOATIME)
            .open(directory)?;
        if !self.is_kept(directory) {
            let metadata = opened.metadata()?;
            self.make_room(PAGE)?;
            // The times that it has: a copy-up, and no change.
            futimens(&opened, &copy::times(&metadata))?;
        }
        // Opened again, for it was opened as the share's, and read, for that makes the list.
        let opened = File::open(directory)?;
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        if let Some(entry) = RawDir::new(&opened, &mut buffer).next() {
            entry?;
        }
        self.held.insert(directory.to_owned(), opened);
        Ok(())
    }

    fn reported(&self, left_out: &[(&PathBuf, u64)]) -> Option<String> {
        let (largest, _) = left_out.last()?;
        let shown = Path::new("/").join(largest.strip_prefix(&self.root).unwrap_or(largest));
        let missing: u64 = left_out.iter().map(|(_, size)| size).sum();
        Some(format!(
            "{} of the files that were used ({} MB, the largest {}) are read over the file share in \
             each trial, because no more than {} MB are kept in the guest's memory: give the guest \
             {} MB more to leave the share out of what is weighed",
            left_out.len(),
            mb(missing),
            shown.display(),
            mb(self.most),
            // A quarter of a guest's memory is kept at most: half of what it has for files.
            mb((self.kept + missing).saturating_sub(self.most) * 4),
        ))
    }
}

fn links_in(directory: &Path) -> Vec<PathBuf> {
    // Some directory of PATH need not be there.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .map(|entry| entry.path())
        .collect()
}

/// Reads several links at once, because most of the time is that of the round trips.
fn read_links(root: &Path, links: &[PathBuf]) -> Vec<(PathBuf, Option<PathBuf>)> {
    let share = links.len().div_ceil(READERS).max(1);
    let read = |links: &[PathBuf]| -> Vec<_> {
        links.iter().map(|link| (link.clone(), target_of(root, link))).collect()
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            links.chunks(share).map(|links| scope.spawn(move || read(links))).collect();
        readers.into_iter().filter_map(|reader| reader.join().ok()).flatten().collect()
    })
}

/// Where a link leads, seen from the directory that is the root to it.
fn target_of(root: &Path, link: &Path) -> Option<PathBuf> {
    let target = fs::read_link(link).ok()?;
    Some(match link.strip_prefix(root).ok()?.parent() {
        Some(parent) if target.is_relative() => below(root, &parent.join(&target)),
        _ => below(root, &target),
    })
}

/// This link and those that it leads to, if they end at a file of one of these names. The file may be
/// another one of the same name: then one link too many is kept, which does no harm.
fn leading(
    link: &Path,
    names: &HashSet<&OsStr>,
    target: impl Fn(&Path) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut at = link.to_owned();
    while links.len() < MOST_LINKS {
        let Some(next) = target(&at) else { return Vec::new() };
        links.push(at);
        if next.file_name().is_some_and(|name| names.contains(name)) {
            return links;
        }
        at = next;
    }
    Vec::new()
}

/// A path whose root this is, without `.` and `..`.
fn below(root: &Path, path: &Path) -> PathBuf {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(name) => parts.push(name),
            _ => {}
        }
    }
    root.join(parts.into_iter().collect::<PathBuf>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root whose `/usr` counts as an overlay, with a compiler that links lead to.
    struct Tree {
        home: PathBuf,
        keep: Keep,
    }

    impl Tree {
        fn new(name: &str, memory: u64) -> Tree {
            let home =
                std::env::temp_dir().join(format!("hypertare-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&home);
            let root = home.join("root");
            let upper = home.join("upper");
            for directory in [root.join("usr/bin"), root.join("usr/lib64"), upper.join("bin")] {
                fs::create_dir_all(directory).unwrap();
            }
            fs::write(root.join("usr/bin/gcc-12"), "program").unwrap();
            for (target, link) in [
                ("/etc/alternatives/cc", "usr/bin/cc"),
                ("gcc-12", "usr/bin/gcc"),
                ("../bin/gcc", "usr/lib64/compiler"),
                ("nowhere", "usr/bin/dangling"),
                ("endless", "usr/bin/endless"),
                ("usr/lib64", "lib64"),
            ] {
                symlink(target, root.join(link)).unwrap();
            }
            let overlay = Overlay { shown: root.join("usr"), upper };
            let keep = Keep::new(&home, memory, &root, vec![overlay]);
            Tree { home, keep }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.keep.root.join(path)
        }

        fn opened(&self, paths: &[&str]) -> BTreeSet<PathBuf> {
            paths.iter().map(|path| self.at(path)).collect()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.home);
        }
    }

    #[test]
    fn paths_stay_below_their_root() {
        let root = Path::new("/view");
        for (path, meant) in [
            ("/usr/bin", "/view/usr/bin"),
            ("usr/./lib/../bin", "/view/usr/bin"),
            ("/../../etc", "/view/etc"),
            ("/", "/view/"),
        ] {
            assert_eq!(below(root, Path::new(path)), Path::new(meant), "{path}");
        }
    }

    #[test]
    fn a_link_leads_where_it_does_with_that_root() {
        let tree = Tree::new("target", 0);
        let target = |link: &str| target_of(&tree.keep.root, &tree.at(link));
        assert_eq!(target("usr/bin/cc"), Some(tree.at("etc/alternatives/cc")));
        assert_eq!(target("usr/bin/gcc"), Some(tree.at("usr/bin/gcc-12")));
        assert_eq!(target("usr/lib64/compiler"), Some(tree.at("usr/bin/gcc")));
        assert_eq!(target("lib64"), Some(tree.at("usr/lib64")));
        assert_eq!(target("usr/bin/gcc-12"), None);
        assert_eq!(target_of(Path::new("/elsewhere"), &tree.at("usr/bin/gcc")), None);
    }

    #[test]
    fn links_on_the_way_in_path_and_behind_links_of_the_root_are_found() {
        let tree = Tree::new("links", 0);
        let opened = tree.opened(&["usr/bin/gcc-12"]);
        let all = tree.opened(&["usr/bin/gcc", "usr/lib64/compiler"]);
        assert_eq!(tree.keep.links(&opened, OsStr::new("/usr/bin:/absent")), all);
        let others = tree.opened(&["usr/bin/other"]);
        assert!(tree.keep.links(&others, OsStr::new("/usr/bin")).is_empty());
    }

    #[test]
    fn a_link_that_is_kept_is_not_kept_again() {
        let tree = Tree::new("again", 0);
        symlink("gcc-12", tree.home.join("upper/bin/gcc")).unwrap();
        let opened = tree.opened(&["usr/bin/gcc-12"]);
        let left = tree.opened(&["usr/lib64/compiler"]);
        assert_eq!(tree.keep.links(&opened, OsStr::new("/usr/bin")), left);
        assert!(tree.keep.is_kept(&tree.at("usr/bin/gcc")));
        assert!(!tree.keep.is_kept(&tree.at("usr/bin/cc")));
        assert!(tree.keep.is_kept(&tree.at("etc/passwd")), "what is in no overlay is in memory");
    }

    #[test]
    fn links_in_a_circle_come_to_an_end() {
        let names = HashSet::from([OsStr::new("wanted")]);
        let circle = |link: &Path| Some(link.with_file_name("again"));
        assert!(leading(Path::new("/a/again"), &names, circle).is_empty());
        let chain = |link: &Path| {
            let next = if link.ends_with("one") { "two" } else { "wanted" };
            Some(link.with_file_name(next))
        };
        let both = [PathBuf::from("/a/one"), PathBuf::from("/a/two")];
        assert_eq!(leading(Path::new("/a/one"), &names, chain), both);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_reported() {
        let mut tree = Tree::new("full", 2 * PAGE);
        fs::write(tree.at("usr/bin/large"), vec![b'x'; 3 << 20]).unwrap();
        // As if the only page were taken: then nothing is copied, which would need a mount.
        tree.keep.kept = PAGE;
        let opened = tree.opened(&["usr/bin/gcc-12", "usr/bin/large", "etc/passwd"]);
        for link in ["usr/bin/gcc", "usr/lib64/compiler"] {
            fs::remove_file(tree.at(link)).unwrap();
        }
        let reported = tree.keep.keep(&opened, OsStr::new("")).unwrap().unwrap();
        assert!(reported.starts_with("2 of the files"), "{reported}");
        assert!(reported.contains("4 MB, the largest /usr/bin/large"), "{reported}");
        assert!(reported.contains("give the guest 13 MB more"), "{reported}");
    }

    #[test]
    fn with_nothing_new_there_is_nothing_to_do() {
        let mut tree = Tree::new("nothing", 0);
        let opened = tree.opened(&["etc/passwd", "usr/bin/absent"]);
        assert_eq!(tree.keep.keep(&opened, OsStr::new("/usr/bin")).unwrap(), None);
    }
}
