//! Kernel same-page merging (Documentation/admin-guide/mm/ksm.rst): one setting for a whole machine.
//! It scans only memory that was offered with MADV_MERGEABLE, as a VMM offers its guest's.

use anyhow::{Result, bail, ensure};
use hypertare_plan::Knob;

use super::file::{present, sysctl};
use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};

const MISSING: &str = "the kernel is built without CONFIG_KSM";

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::Ksm { run, pages_to_scan, sleep_ms } = knob else { bail!(OTHER_KIND) };
        let directory = around.mm.join("ksm");
        let mut wanted = Vec::new();
        for (name, number) in [("pages_to_scan", pages_to_scan), ("sleep_millisecs", sleep_ms)] {
            if let Some(number) = number {
                wanted.push(present(sysctl(directory.join(name), name), number, MISSING)?);
            }
        }
        // Last, so that ksmd begins at its final speed, and stops first when the knob is put back.
        let run = present(sysctl(directory.join("run"), "run"), &u8::from(*run), MISSING)?;
        wanted.push(Wanted { target: Box::new(Run(run.target)), value: run.value });
        Ok(wanted)
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        vec![("ksm".to_owned(), Knob::Ksm { run: true, pages_to_scan: Some(1), sleep_ms: Some(0) })]
    }
}

/// Whether ksmd runs: 1 or 0. Merged pages stay merged when it merely stops; 2 takes them apart, so that
/// no trial begins with pages that another one has merged.
struct Run(Box<dyn KnobTarget>);

impl KnobTarget for Run {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn read(&self) -> Result<String> {
        self.0.read()
    }

    fn write(&self, value: &str) -> Result<()> {
        if value == "0" {
            self.0.write("2")?;
            ensure!(self.0.read()? == "2", "merged pages could not be taken apart");
        }
        self.0.write(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::below;
    use super::*;

    fn mm() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("ksm")).unwrap();
        for (name, text) in
            [("run", "0\n"), ("pages_to_scan", "100\n"), ("sleep_millisecs", "20\n")]
        {
            std::fs::write(root.path().join("ksm").join(name), text).unwrap();
        }
        root
    }

    #[test]
    fn it_is_set_and_put_back() {
        let root = mm();
        let knob = Knob::Ksm { run: true, pages_to_scan: Some(4000), sleep_ms: Some(0) };
        let change = below(root.path(), &knob).unwrap().apply().unwrap();
        assert_eq!(change.after, "pages_to_scan=4000 sleep_millisecs=0 run=1");
        assert_eq!(change.put_back().unwrap(), "pages_to_scan=100 sleep_millisecs=20 run=0");
    }

    #[test]
    fn speed_is_left_alone_unless_asked_for() {
        let root = mm();
        let setting =
            || below(root.path(), &Knob::Ksm { run: true, pages_to_scan: None, sleep_ms: None });
        assert_eq!(setting().unwrap().wanted.len(), 1);
        std::fs::remove_dir_all(root.path().join("ksm")).unwrap();
        let error = setting().err().unwrap().to_string();
        assert!(error.contains("CONFIG_KSM"), "{error}");
    }
}
