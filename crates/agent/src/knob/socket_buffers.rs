//! Default and largest socket buffers: the size of a socket that asks for none, and the most that one may
//! ask for or grow to. Format: tcp(7), socket(7).
//!
//! The settings below net.core belong to the machine's first network namespace and apply in all of them.
//! They cannot be set in another one, such as a container's, so this knob is not available there.

use anyhow::{Context, Result, bail};
use hypertare_plan::Knob;

use super::file::{core_sysctl, sysctl};
use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};

const CORE: [&str; 4] = ["rmem_default", "rmem_max", "wmem_default", "wmem_max"];
const TCP: [&str; 2] = ["tcp_rmem", "tcp_wmem"];

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::SocketBuffers { bytes } = knob else { bail!(OTHER_KIND) };
        let mut wanted = Vec::new();
        for name in CORE {
            wanted.push(core_sysctl(around, name, bytes)?);
        }
        for name in TCP {
            let target = sysctl(around.sysctls.join("ipv4").join(name), name);
            let value = with_default_and_max(&target.read()?, *bytes)
                .with_context(|| format!("{} is not three numbers", target.path.display()))?;
            wanted.push(Wanted { target: Box::new(target), value });
        }
        Ok(wanted)
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("socket_buffers".to_owned(), Knob::SocketBuffers { bytes: 1 << 20 })]
    }
}

/// The smallest size stays as it is, unless it would exceed the new default.
fn with_default_and_max(now: &str, bytes: u64) -> Option<String> {
    let numbers: Vec<u64> = now.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [least, _, _] = numbers[..] else { return None };
    Some(format!("{} {bytes} {bytes}", least.min(bytes)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Setting;
    use super::super::tests::below;
    use super::*;

    fn sysctls() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("core/rmem_default", "212992\n"),
            ("core/rmem_max", "212992\n"),
            ("core/wmem_default", "212992\n"),
            ("core/wmem_max", "212992\n"),
            ("ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
        ] {
            std::fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(root.path().join(name), text).unwrap();
        }
        root
    }

    fn setting(root: &Path, bytes: u64) -> Result<Setting> {
        below(root, &Knob::SocketBuffers { bytes })
    }

    #[test]
    fn all_six_are_set_and_put_back() {
        let root = sysctls();
        let change = setting(root.path(), 1 << 20).unwrap().apply().unwrap();
        let read = |name: &str| std::fs::read_to_string(root.path().join(name)).unwrap();
        assert_eq!(read("core/wmem_max"), "1048576");
        assert_eq!(read("ipv4/tcp_rmem"), "4096 1048576 1048576");
        assert!(change.before.contains("tcp_wmem=4096 16384 4194304"));
        change.put_back().unwrap();
        assert_eq!(read("core/wmem_max"), "212992");
        assert_eq!(read("ipv4/tcp_rmem"), "4096 131072 6291456");
    }

    #[test]
    fn the_least_never_exceeds_the_default() {
        assert_eq!(with_default_and_max("4096 131072 6291456", 2304).unwrap(), "2304 2304 2304");
        assert_eq!(with_default_and_max("4096 131072", 1), None);
    }

    #[test]
    fn a_namespace_without_the_machines_settings_says_so() {
        let root = sysctls();
        std::fs::remove_file(root.path().join("core/rmem_max")).unwrap();
        let error = setting(root.path(), 1 << 20).err().unwrap().to_string();
        assert!(error.contains("first network namespace"), "{error}");
    }
}
