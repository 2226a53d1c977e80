//! How long KVM polls at most for a guest's wake-up before other threads get the CPU of a halted virtual
//! CPU (Documentation/virt/kvm/halt-polling.rst): one setting for a whole machine.

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::file::{present, sysctl};
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::HaltPollNs { nanoseconds } = knob else { bail!(OTHER_KIND) };
        let path = around.modules.join("kvm/parameters/halt_poll_ns");
        let target = sysctl(path, "halt_poll_ns");
        Ok(vec![present(target, nanoseconds, "the module kvm is not loaded")?])
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("halt_poll_ns".to_owned(), Knob::HaltPollNs { nanoseconds: 0 })]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::below;
    use super::*;

    #[test]
    fn it_is_set_and_put_back() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("kvm/parameters");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("halt_poll_ns"), "200000\n").unwrap();
        let knob = Knob::HaltPollNs { nanoseconds: 0 };
        let change = below(root.path(), &knob).unwrap().apply().unwrap();
        assert_eq!((change.before.as_str(), change.after.as_str()), ("200000", "0"));
        assert_eq!(change.put_back().unwrap(), "200000");
    }

    #[test]
    fn without_kvm_it_says_so() {
        let root = tempfile::tempdir().unwrap();
        let error =
            below(root.path(), &Knob::HaltPollNs { nanoseconds: 0 }).err().unwrap().to_string();
        assert!(error.contains("halt_poll_ns is not there: the module kvm"), "{error}");
    }
}
