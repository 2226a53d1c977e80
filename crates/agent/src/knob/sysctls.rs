//! Settings of the network by their names below /proc/sys/net, of this node's network namespace.

use std::path::Path;

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::file::{sysctl, words, writable};
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob. It shows no settings, for there are a thousand.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::Sysctls { values } = knob else { bail!(OTHER_KIND) };
        values.iter().map(|(name, value)| wanted(&around.sysctls, name, value)).collect()
    }
}

/// `sysctls` is `/proc/sys/net`, but for tests. No name leads elsewhere: names have no dots, and no folder
/// below has links.
fn wanted(sysctls: &Path, name: &str, value: &str) -> Result<Wanted> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    let Some(below) = name.strip_prefix("net/").filter(|below| below.split('/').all(is_word))
    else {
        bail!("{name} is no setting of the network: write for example net/ipv4/tcp_notsent_lowat");
    };
    if value.bytes().any(|byte| byte.is_ascii_control()) {
        bail!("{name}: its value is one line");
    }
    let target = sysctl(sysctls.join(below), name);
    writable(target, words(value)?)
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::*;

    fn setting(root: &Path, name: &str, value: &str) -> Result<Setting> {
        let values = [(name.to_owned(), value.to_owned())].into();
        Ok(Setting { knob: Knob::Sysctls { values }, wanted: vec![wanted(root, name, value)?] })
    }

    #[test]
    fn it_is_set_read_back_and_put_back() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("ipv4/tcp_rmem");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "4096\t131072\t6291456\n").unwrap();
        let change = setting(root.path(), "net/ipv4/tcp_rmem", "1 2  3").unwrap().apply().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1 2 3");
        change.put_back().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "4096 131072 6291456");
    }

    #[test]
    fn no_name_leads_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        for name in
            ["kernel/panic", "net/../kernel/panic", "/net/core/x", "net//x", "net/", "net/./x", ""]
        {
            let error = setting(root.path(), name, "1").err().unwrap().to_string();
            assert!(error.contains("is no setting of the network"), "{name}: {error}");
        }
        assert!(setting(root.path(), "net/ipv4/x", "1\n2").is_err());
        let error = setting(root.path(), "net/ipv4/nowhere", "1").err().unwrap().to_string();
        assert!(error.contains("is not there"), "{error}");
    }
}
