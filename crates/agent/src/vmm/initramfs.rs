//! The archive that a guest boots from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};

/// Archives as one, in memory: the kernel takes them one after the other, each at a multiple of
/// four bytes.
pub fn concatenate(parts: &[PathBuf]) -> Result<File> {
    let mut whole = File::from(memfd_create("initramfs", MemfdFlags::CLOEXEC)?);
    for part in parts {
        append(part, &mut whole).with_context(|| format!("reading initramfs {part:?}"))?;
    }
    Ok(whole)
}

fn append(part: &Path, whole: &mut File) -> io::Result<()> {
    let size = io::copy(&mut File::open(part)?, whole)?;
    io::copy(&mut io::repeat(0).take(size.next_multiple_of(4) - size), whole)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    #[test]
    fn archives_begin_at_multiples_of_four() {
        let dir = tempfile::tempdir().unwrap();
        let parts = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&parts[0], b"12345").unwrap();
        std::fs::write(&parts[1], b"67890").unwrap();
        let mut whole = concatenate(&parts).unwrap();
        let mut bytes = Vec::new();
        whole.rewind().unwrap();
        whole.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"12345\x00\x00\x0067890\x00\x00\x00");
    }
}
