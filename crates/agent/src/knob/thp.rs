//! Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst): one setting for a whole
//! machine.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::{Knob, ThpDefrag, ThpEnabled};

use super::file::{File, check_present, sysctl};
use super::{Around, KnobKind, OTHER_KIND, Wanted};

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>> {
        let Knob::Thp { enabled, defrag, scan_sleep_ms } = knob else { bail!(OTHER_KIND) };
        targets(&around.mm, *enabled, *defrag, *scan_sleep_ms)
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

/// `mm` is `/sys/kernel/mm`, but for tests.
fn targets(
    mm: &Path,
    enabled: ThpEnabled,
    defrag: Option<ThpDefrag>,
    scan_sleep_ms: Option<u32>,
) -> Result<Vec<Wanted>> {
    let directory = mm.join("transparent_hugepage");
    let mut wanted = vec![choice(&directory, "enabled", enabled_text(enabled))?];
    if let Some(defrag) = defrag {
        wanted.push(choice(&directory, "defrag", defrag_text(defrag))?);
    }
    if let Some(milliseconds) = scan_sleep_ms {
        let path = directory.join("khugepaged/scan_sleep_millisecs");
        let target = sysctl(path, "scan_sleep_millisecs");
        check_present(&target, MISSING)?;
        wanted.push(Wanted { target: Box::new(target), value: milliseconds.to_string() });
    }
    Ok(wanted)
}

const MISSING: &str = "the kernel is built without CONFIG_TRANSPARENT_HUGEPAGE";

fn choice(directory: &Path, name: &str, value: &str) -> Result<Wanted> {
    let target = File { parse: chosen, ..sysctl(directory.join(name), name) };
    check_present(&target, MISSING)?;
    Ok(Wanted { target: Box::new(target), value: value.to_owned() })
}

/// `always [madvise] never`
fn chosen(text: &str) -> Result<String> {
    let marked = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    marked.map(str::to_owned).with_context(|| format!("{text:?} marks no choice"))
}

fn enabled_text(enabled: ThpEnabled) -> &'static str {
    match enabled {
        ThpEnabled::Always => "always",
        ThpEnabled::Madvise => "madvise",
        ThpEnabled::Never => "never",
    }
}

fn defrag_text(defrag: ThpDefrag) -> &'static str {
    match defrag {
        ThpDefrag::Always => "always",
        ThpDefrag::Defer => "defer",
        ThpDefrag::DeferMadvise => "defer+madvise",
        ThpDefrag::Madvise => "madvise",
        ThpDefrag::Never => "never",
    }
}

#[cfg(test)]
mod tests {
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
        let wanted =
            targets(root.path(), ThpEnabled::Always, Some(ThpDefrag::DeferMadvise), Some(5))
                .unwrap();
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
        assert_eq!(targets(root.path(), ThpEnabled::Never, None, None).unwrap().len(), 1);
        std::fs::remove_dir_all(root.path().join("transparent_hugepage")).unwrap();
        let error = targets(root.path(), ThpEnabled::Never, None, None).err().unwrap().to_string();
        assert!(error.contains("CONFIG_TRANSPARENT_HUGEPAGE"), "{error}");
    }
}
