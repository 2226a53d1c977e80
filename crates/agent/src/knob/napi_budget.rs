//! How many packets one softirq may take from all NAPI instances, and for how long
//! (Documentation/admin-guide/sysctl/net.rst, netdev_budget and netdev_budget_usecs).

use anyhow::{Result, bail};
use hypertare_plan::Knob;

use super::file::core_sysctl;
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::NapiBudget { packets, microseconds } = knob else { bail!(OTHER_KIND) };
        let mut wanted = vec![core_sysctl(around, "netdev_budget", packets)?];
        if let Some(microseconds) = microseconds {
            wanted.push(core_sysctl(around, "netdev_budget_usecs", microseconds)?);
        }
        Ok(wanted)
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![(
            "napi_budget".to_owned(),
            Knob::NapiBudget { packets: 300, microseconds: Some(8000) },
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::below;
    use super::*;

    #[test]
    fn the_time_is_left_alone_unless_asked_for() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("core")).unwrap();
        let file = |name: &str| root.path().join("core").join(name);
        std::fs::write(file("netdev_budget"), "300\n").unwrap();
        std::fs::write(file("netdev_budget_usecs"), "8000\n").unwrap();
        let setting =
            |microseconds| below(root.path(), &Knob::NapiBudget { packets: 50, microseconds });
        assert_eq!(setting(None).unwrap().wanted.len(), 1);
        let change = setting(Some(2000)).unwrap().apply().unwrap();
        assert_eq!(change.after, "netdev_budget=50 netdev_budget_usecs=2000");
        assert_eq!(change.put_back().unwrap(), "netdev_budget=300 netdev_budget_usecs=8000");
        std::fs::remove_file(file("netdev_budget")).unwrap();
        let error = setting(None).err().unwrap().to_string();
        assert!(error.contains("first network namespace"), "{error}");
    }
}
