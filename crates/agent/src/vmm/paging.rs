//! The page tables that KVM gives its guests on this machine: its module says it by a parameter that
//! is read at loading only (Intel `ept`, AMD `npt`).

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use hypertare_plan::{Accelerator, Paging};

const MODULES: &str = "/sys/module";

/// By module, its parameter for nested page tables.
const PARAMETERS: [(&str, &str); 2] = [("kvm_intel", "ept"), ("kvm_amd", "npt")];

/// What a guest has here: one under KVM what its module says, where it does.
pub fn of_guest(accelerator: Accelerator) -> Option<Paging> {
    (accelerator == Accelerator::Kvm).then(|| read(Path::new(MODULES))).flatten()
}

/// Whether guests under KVM have what was asked for.
///
/// # Errors
/// They have not, or nobody says so.
pub fn check(asked: Paging) -> Result<()> {
    compare(of_guest(Accelerator::Kvm), asked)
}

fn compare(found: Option<Paging>, asked: Paging) -> Result<()> {
    match found {
        Some(found) if found == asked => Ok(()),
        Some(found) => bail!(
            "its page tables are to be {}, but the machine's KVM gives {} ones: its module is to be \
             loaded anew (hypertare run --allow-module-reload)",
            name(asked),
            name(found)
        ),
        None => bail!(
            "its page tables are to be {}, but no module of KVM says here which there are: \
             /sys/module/kvm_intel/parameters/ept or /sys/module/kvm_amd/parameters/npt",
            name(asked)
        ),
    }
}

fn name(paging: Paging) -> &'static str {
    match paging {
        Paging::Nested => "nested",
        Paging::Shadow => "shadow",
    }
}

fn read(modules: &Path) -> Option<Paging> {
    PARAMETERS.iter().find_map(|(module, parameter)| {
        let path = modules.join(module).join("parameters").join(parameter);
        match fs::read_to_string(path).ok()?.trim() {
            "Y" | "1" => Some(Paging::Nested),
            _ => Some(Paging::Shadow),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(module: &str, parameter: &str, value: &str) -> Option<Paging> {
        let root =
            std::env::temp_dir().join(format!("paging-{}-{module}-{value}", std::process::id()));
        let folder = root.join(module).join("parameters");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(parameter), format!("{value}\n")).unwrap();
        let found = read(&root);
        fs::remove_dir_all(root).unwrap();
        found
    }

    #[test]
    fn the_module_says_which() {
        assert_eq!(machine("kvm_intel", "ept", "Y"), Some(Paging::Nested));
        assert_eq!(machine("kvm_intel", "ept", "N"), Some(Paging::Shadow));
        assert_eq!(machine("kvm_amd", "npt", "1"), Some(Paging::Nested));
        assert_eq!(machine("kvm_amd", "npt", "0"), Some(Paging::Shadow));
        assert_eq!(machine("kvm_pvm", "ept", "Y"), None);
    }

    #[test]
    fn other_page_tables_than_asked_for_are_an_error_that_names_both() {
        assert!(compare(Some(Paging::Shadow), Paging::Shadow).is_ok());
        let error = compare(Some(Paging::Nested), Paging::Shadow).unwrap_err().to_string();
        assert!(error.contains("to be shadow") && error.contains("gives nested"), "{error}");
        let error = compare(None, Paging::Nested).unwrap_err().to_string();
        assert!(error.contains("kvm_amd/parameters/npt"), "{error}");
    }
}
