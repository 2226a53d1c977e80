//! An empty disk in QEMU's own format: a header and tables that say that no block was written yet.
//!
//! Source: QEMU's docs/interop/qcow2.txt, version 3 of the format.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};

/// QEMU's default: 64 KiB.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// A cluster of pointers to clusters, of 8 bytes each.
const BEHIND_A_TABLE: u64 = CLUSTER / 8 * CLUSTER;
/// A cluster of counters of clusters, of 2 bytes each.
const BEHIND_A_COUNT: u64 = CLUSTER / 2 * CLUSTER;
/// One cluster of the first table finds so much.
const MOST: u64 = CLUSTER / 8 * BEHIND_A_TABLE;

const MAGIC: u32 = 0x5146_49fb;
const HEADER: u32 = 104;
/// In order: the header, the table of counts, the first counts, the first table.
const COUNTS: u64 = CLUSTER;
const FIRST_COUNTS: u64 = 2 * CLUSTER;
const TABLE: u64 = 3 * CLUSTER;
const CLUSTERS_TAKEN: usize = 4;

/// What a medium needs for a disk of so many bytes, all of which may be written.
pub fn room(bytes: u64) -> u64 {
    let tables = bytes.div_ceil(BEHIND_A_TABLE) + 1;
    let data = bytes.div_ceil(CLUSTER) + tables + CLUSTERS_TAKEN as u64;
    let counts = (data * CLUSTER).div_ceil(BEHIND_A_COUNT) + 1;
    (data + counts) * CLUSTER
}

/// # Errors
/// The medium cannot be written, or the disk is larger than 4 TiB.
pub fn write_empty(medium: &File, bytes: u64) -> Result<()> {
    ensure!(bytes <= MOST, "a qcow2 disk of {bytes} bytes: at most {MOST}");
    let mut header = Vec::new();
    let tables = u32::try_from(bytes.div_ceil(BEHIND_A_TABLE))?;
    for word in [MAGIC, 3] {
        header.extend(word.to_be_bytes());
    }
    header.extend([0; 12]); // no file behind it
    header.extend(CLUSTER_BITS.to_be_bytes());
    header.extend(bytes.to_be_bytes());
    header.extend([0; 4]); // no encryption
    header.extend(tables.to_be_bytes());
    header.extend(TABLE.to_be_bytes());
    header.extend(COUNTS.to_be_bytes());
    header.extend(1_u32.to_be_bytes()); // clusters of the table of counts
    header.extend([0; 12]); // no snapshots
    header.extend([0; 24]); // no features
    header.extend(4_u32.to_be_bytes()); // a count has 2^4 bits
    header.extend(HEADER.to_be_bytes());
    debug_assert_eq!(header.len(), HEADER as usize);
    header.extend([0; 8]); // no extensions
    let counts: Vec<u8> = [1_u16.to_be_bytes(); CLUSTERS_TAKEN].concat();
    let write = |content: &[u8], at| medium.write_all_at(content, at);
    write(&vec![0; CLUSTERS_TAKEN << CLUSTER_BITS], 0)
        .and_then(|()| write(&header, 0))
        .and_then(|()| write(&FIRST_COUNTS.to_be_bytes(), COUNTS))
        .and_then(|()| write(&counts, FIRST_COUNTS))
        .context("writing the tables of a qcow2 disk")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn there_is_room_for_every_block_and_its_tables() {
        const MIB: u64 = 1 << 20;
        // Four clusters, one table of 512 MiB and one to spare, one of counts and one to spare.
        assert_eq!(room(MIB), MIB + 8 * CLUSTER);
        let large = 1 << 40;
        assert!(room(large) > large && room(large) < large + large / 1000);
    }

    #[test]
    fn a_disk_has_its_size_and_no_blocks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write_empty(file.as_file(), 3 << 20).unwrap();
        let header = std::fs::read(file.path()).unwrap();
        assert_eq!(header.len(), 4 << 16);
        assert_eq!(&header[..8], b"QFI\xfb\0\0\0\x03");
        assert_eq!(header[24..32], (3_u64 << 20).to_be_bytes());
        assert_eq!(header[100..104], HEADER.to_be_bytes());
        assert!(header[TABLE as usize..].iter().all(|&byte| byte == 0));
        assert!(write_empty(file.as_file(), MOST + 1).is_err());
        // Where its own tool is there, it is asked.
        if let Ok(checked) = Command::new("qemu-img").arg("check").arg(file.path()).output() {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}
