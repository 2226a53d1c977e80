//! The pool of huge pages (2 MB) of an experiment's own machine: it gets what it lacks for a guest, and
//! loses it again with the guest. That of the user's machine is taken as it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hypertare_plan::HUGE_PAGE;

pub const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Pages that were added to the pool. Dropped, they are given back.
#[derive(Debug)]
pub struct Reserved {
    directory: PathBuf,
    added: u64,
}

/// Adds to the pool what it lacks for a guest of so many bytes.
///
/// # Errors
/// The machine has no such pool, or has not so much memory in one piece; the pool is as it was.
pub fn reserve(directory: &Path, memory: u64) -> Result<Reserved> {
    if !directory.is_dir() {
        bail!(
            "this machine's kernel has no pool of huge pages of 2 MB ({} is not there): ask for \
             pages \"thp\" or \"4K\"",
            directory.display()
        );
    }
    let needed = memory.div_ceil(HUGE_PAGE);
    let (total, left) = (number(directory, "nr_hugepages")?, free(directory)?);
    let mut reserved = Reserved { directory: directory.to_owned(), added: 0 };
    if left >= needed {
        return Ok(reserved);
    }
    set_total(directory, total + needed - left)?;
    // The kernel adds as many as it finds, and calls it a success.
    reserved.added = number(directory, "nr_hugepages")?.saturating_sub(total);
    let now = free(directory)?;
    if now < needed {
        bail!(
            "{needed} huge pages of 2 MB are needed for this guest, but only {now} are free and no \
             more could be had ({total} were reserved before): give the machine more memory, the \
             guest less, or reserve them when the machine has just started"
        );
    }
    Ok(reserved)
}

/// Pages that nobody has, and that nobody has a claim on.
fn free(directory: &Path) -> Result<u64> {
    Ok(number(directory, "free_hugepages")?.saturating_sub(number(directory, "resv_hugepages")?))
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.added > 0
            && let Ok(total) = number(&self.directory, "nr_hugepages")
        {
            let _ = set_total(&self.directory, total.saturating_sub(self.added));
        }
    }
}

fn set_total(directory: &Path, total: u64) -> Result<()> {
    let file = directory.join("nr_hugepages");
    fs::write(&file, total.to_string())
        .with_context(|| format!("writing {total} to {}: are you root?", file.display()))
}

fn number(directory: &Path, name: &str) -> Result<u64> {
    let file = directory.join(name);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    text.trim().parse().with_context(|| format!("{} holds {text:?}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool in files; what is written to it is not obeyed, as on a machine without room.
    fn pool(total: u64, free: u64, claimed: u64) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, value) in
            [("nr_hugepages", total), ("free_hugepages", free), ("resv_hugepages", claimed)]
        {
            fs::write(directory.path().join(name), format!("{value}\n")).unwrap();
        }
        directory
    }

    #[test]
    fn what_is_free_is_not_reserved_again() {
        let pool = pool(200, 150, 10);
        let reserved = reserve(pool.path(), 280 << 20).unwrap();
        assert_eq!(reserved.added, 0);
        drop(reserved);
        assert_eq!(number(pool.path(), "nr_hugepages").unwrap(), 200);
    }

    #[test]
    fn a_machine_without_room_says_how_much_is_missing_and_is_left_as_it_was() {
        let pool = pool(3, 2, 1);
        let error = reserve(pool.path(), 256 << 20).unwrap_err().to_string();
        assert!(error.contains("128 huge pages of 2 MB are needed"), "{error}");
        assert!(error.contains("only 1 are free"), "{error}");
        assert_eq!(number(pool.path(), "nr_hugepages").unwrap(), 3);
    }

    #[test]
    fn a_kernel_without_a_pool_is_named() {
        let error = reserve(Path::new("/no/such/pool"), HUGE_PAGE).unwrap_err().to_string();
        assert!(error.contains("has no pool"), "{error}");
    }
}
