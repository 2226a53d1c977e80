//! Receive packet steering: for each receive queue, the CPUs that take packets over from the interrupted
//! one (rps_cpus; Documentation/networking/scaling.rst).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::Knob;

use super::file::File;
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::net::sysfs::InterfaceDirectory;
use crate::process::cpu_list;

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::ReceiveSteering { interface, cpus } = knob else { bail!(OTHER_KIND) };
        let value = cpu_list::wanted(cpus)?;
        let directory = Arc::new(InterfaceDirectory::find(interface)?);
        let queues = queues(&directory.path().join("queues"))?;
        ensure!(
            !queues.is_empty(),
            "{interface} has no receive queue that can be steered: the kernel is built without \
             CONFIG_RPS, or the link has none"
        );
        let wanted = queues.into_iter().map(|(name, path)| Wanted {
            target: Box::new(File { _directory: Some(directory.clone()), ..file(name, path) }),
            value: value.clone(),
        });
        Ok(wanted.collect())
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        vec![("receive_steering".to_owned(), Knob::ReceiveSteering { interface, cpus: vec![] })]
    }
}

/// `rx-0`, `rx-1` and on, with their files.
fn queues(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("listing the queues in {}", directory.display()))?;
    let mut queues: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("rx-")?.parse().ok()?;
            Some((number, entry.path().join("rps_cpus")))
        })
        .filter(|(_, path)| path.exists())
        .collect();
    queues.sort();
    Ok(queues.into_iter().map(|(number, path)| (format!("rx-{number}"), path)).collect())
}

fn file(name: String, path: PathBuf) -> File {
    File { name, path, parse: cpu_list::from_mask, format: cpu_list::to_mask, _directory: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::KnobTarget;

    #[test]
    fn every_receive_queue_is_steered_in_order() {
        let root = tempfile::tempdir().unwrap();
        for queue in ["rx-10", "rx-2", "tx-0"] {
            std::fs::create_dir(root.path().join(queue)).unwrap();
            std::fs::write(root.path().join(queue).join("rps_cpus"), "0\n").unwrap();
        }
        std::fs::create_dir(root.path().join("rx-3")).unwrap();
        let queues = queues(root.path()).unwrap();
        let names: Vec<&str> = queues.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rx-2", "rx-10"]);
        let target = file("rx-2".into(), queues[0].1.clone());
        target.write("0-2").unwrap();
        assert_eq!(std::fs::read_to_string(&target.path).unwrap(), "00000007");
        assert_eq!(target.read().unwrap(), "0-2");
    }
}
