//! Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst): one setting for a whole
//! machine.

use anyhow::{Context, Result, bail};
use hypertare_plan::{Knob, ThpDefrag, ThpEnabled};

use super::file::{File, present, sysctl};
use super::{Around, KnobKind, OTHER_KIND, Wanted};
use crate::values::spelt;

const MISSING: &str = "the kernel is built without CONFIG_TRANSPARENT_HUGEPAGE";

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::Thp { enabled, defrag, scan_sleep_ms } = knob else { bail!(OTHER_KIND) };
        let directory = around.mm.join("transparent_hugepage");
        let choice = |name: &str, value: String| {
            let target = File { parse: chosen, ..sysctl(directory.join(name), name) };
            present(target, &value, MISSING)
        };
        let mut wanted = vec![choice("enabled", spelt(enabled))?];
        if let Some(defrag) = defrag {
            wanted.push(choice("defrag", spelt(defrag))?);
        }
        if let Some(milliseconds) = scan_sleep_ms {
            let path = directory.join("khugepaged/scan_sleep_millisecs");
            wanted.push(present(sysctl(path, "scan_sleep_millisecs"), milliseconds, MISSING)?);
        }
        Ok(wanted)
    }

    fn shown(&self, _: &str) -> Vec<(String, Knob)> {
        let knob = Knob::Thp {
            enabled: ThpEnabled::Always,
            defrag: Some(ThpDefrag::Always),
            scan_sleep_ms: Some(0),
        };
        vec![("thp".to_owned(), knob)]
    }
}

/// `always [madvise] never`
fn chosen(text: &str) -> Result<String> {
    let marked = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    marked.map(str::to_owned).with_context(|| format!("{text:?} marks no choice"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::below;
    use super::*;

    fn mm() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("transparent_hugepage");
        std::fs::create_dir_all(directory.join("khugepaged")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("enabled", "always [madvise] never\n");
        write("defrag", "always defer defer+madvise [madvise] never\n");
        write("khugepaged/scan_sleep_millisecs", "10000\n");
        root
    }

    #[test]
    fn what_is_marked_is_chosen() {
        let root = mm();
        let (enabled, defrag) = (ThpEnabled::Always, Some(ThpDefrag::DeferMadvise));
        let knob = Knob::Thp { enabled, defrag, scan_sleep_ms: Some(5) };
        let wanted = below(root.path(), &knob).unwrap().wanted;
        let values: Vec<_> = wanted.iter().map(|one| one.target.read().unwrap()).collect();
        assert_eq!(values, ["madvise", "madvise", "10000"]);
        wanted.iter().for_each(|one| one.target.write(&one.value).unwrap());
        let file = root.path().join("transparent_hugepage/defrag");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "defer+madvise");
        assert!(chosen("always never").is_err());
    }

    #[test]
    fn what_is_not_asked_for_stays_and_what_is_missing_is_said() {
        let root = mm();
        let enabled = ThpEnabled::Never;
        let setting =
            || below(root.path(), &Knob::Thp { enabled, defrag: None, scan_sleep_ms: None });
        assert_eq!(setting().unwrap().wanted.len(), 1);
        std::fs::remove_dir_all(root.path().join("transparent_hugepage")).unwrap();
        let error = setting().err().unwrap().to_string();
        assert!(error.contains("CONFIG_TRANSPARENT_HUGEPAGE"), "{error}");
    }
}
