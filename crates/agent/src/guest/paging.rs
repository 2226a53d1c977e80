//! How KVM translates the addresses of its guests: the mode of the processor's module, which is chosen
//! when that is loaded and is the same for every guest.
//!
//! On the user's machine the mode is read, and never changed from here. A machine of an experiment's
//! own, whose modules are in its initramfs, has it loaded as a bench asks. A processor without nested
//! paging lets the module load all the same, with shadow paging: so the mode is always read back.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::Paging;
use rustix::io::Errno;

use super::modules::{DIRECTORY, Index};

const ROOT: &str = "/sys/module";

/// Modules with the parameter that says whether nested paging is on.
const MODULES: [(&str, &str); 2] = [("kvm_amd", "npt"), ("kvm_intel", "ept")];

/// The one that an emulated machine's processor takes.
const OWN: &str = "kvm_amd";

/// Sees to it that KVM is there in this mode, if one is given, and tells the one that it has.
///
/// # Errors
/// KVM works in another mode and that is not ours to change, or the processor lacks what it takes.
pub fn ensure(wanted: Option<Paging>) -> Result<Paging> {
    let root = Path::new(ROOT);
    if !is_own_machine() {
        return check(mode(root)?, wanted);
    }
    match mode(root) {
        Ok(has) if wanted.is_none_or(|wanted| wanted == has) => return Ok(has),
        Ok(has) => unload(root, has)?,
        Err(_) => {}
    }
    load(wanted)?;
    check(mode(root)?, wanted)
}

/// Whether this machine is an experiment's own: its modules came with us.
pub fn is_own_machine() -> bool {
    Path::new(DIRECTORY).join("index").exists()
}

/// The mode of the module that is loaded.
///
/// # Errors
/// None is, or it says something else than yes or no.
pub fn mode(root: &Path) -> Result<Paging> {
    for (module, parameter) in MODULES {
        let file = root.join(module).join("parameters").join(parameter);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        return match text.trim() {
            "1" | "Y" => Ok(Paging::Nested),
            "0" | "N" => Ok(Paging::Shadow),
            other => bail!("{} holds {other:?}, neither yes nor no", file.display()),
        };
    }
    bail!(
        "it is not known how KVM translates addresses: neither kvm_amd nor kvm_intel is loaded (in {})",
        root.display()
    )
}

fn check(has: Paging, wanted: Option<Paging>) -> Result<Paging> {
    match (wanted, has) {
        (Some(Paging::Nested), Paging::Shadow) => bail!(
            "nested paging was asked for, but KVM works with shadow page tables: either its module \
             was loaded so (npt=0 or ept=0), or this processor has no nested paging"
        ),
        (Some(Paging::Shadow), Paging::Nested) => bail!(
            "shadow paging was asked for, but KVM works with nested page tables: its module must be \
             loaded with npt=0 (kvm_amd) or ept=0 (kvm_intel)"
        ),
        _ => Ok(has),
    }
}

/// Guests of guests are nobody's wish here, and cost each exit a look.
fn parameters(wanted: Option<Paging>) -> String {
    let npt = match wanted {
        Some(Paging::Nested) => " kvm_amd.npt=1",
        Some(Paging::Shadow) => " kvm_amd.npt=0",
        None => "",
    };
    format!("kvm_amd.nested=0{npt}")
}

fn load(wanted: Option<Paging>) -> Result<()> {
    let directory = Path::new(DIRECTORY);
    let index = Index::read(directory).context("KVM is not loaded, and there are no modules")?;
    match index.load(directory, OWN, &parameters(wanted)) {
        Err(error) if error.downcast_ref::<Errno>() == Some(&Errno::OPNOTSUPP) => Err(error)
            .context("this machine's processor has no virtualisation (SVM), or it is switched off"),
        loaded => loaded,
    }
}

/// Only the processor's part has the parameter; the rest of KVM stays.
fn unload(root: &Path, has: Paging) -> Result<()> {
    // SAFETY: a name that ends in zero, and flags.
    let status =
        unsafe { libc::syscall(libc::SYS_delete_module, c"kvm_amd".as_ptr(), libc::O_NONBLOCK) };
    if status == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY) => bail!(
            "{OWN} works with {has:?} paging and cannot be loaded anew: it is in use ({} users); end \
             the guests that run",
            users(root)
        ),
        _ => Err(error).with_context(|| format!("unloading {OWN}")),
    }
}

fn users(root: &Path) -> String {
    let count = fs::read_to_string(root.join(OWN).join("refcnt"));
    count.map_or("?".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(module: &str, parameter: &str, value: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let parameters = root.path().join(module).join("parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join(parameter), value).unwrap();
        root
    }

    #[test]
    fn the_mode_is_read_back() {
        let cases = [
            ("kvm_amd", "npt", "1\n", Paging::Nested),
            ("kvm_amd", "npt", "N\n", Paging::Shadow),
            ("kvm_intel", "ept", "Y\n", Paging::Nested),
            ("kvm_intel", "ept", "0", Paging::Shadow),
        ];
        for (module, parameter, text, expected) in cases {
            assert_eq!(mode(loaded(module, parameter, text).path()).unwrap(), expected);
        }
        let odd = loaded("kvm_amd", "npt", "x");
        assert!(mode(odd.path()).unwrap_err().to_string().contains("neither yes nor no"));
        assert!(mode(Path::new("/no")).unwrap_err().to_string().contains("neither kvm_amd nor"));
    }

    #[test]
    fn another_mode_than_asked_for_is_an_error() {
        use Paging::{Nested, Shadow};
        let error = check(Shadow, Some(Nested)).unwrap_err().to_string();
        assert!(error.contains("no nested paging"), "{error}");
        let error = check(Nested, Some(Shadow)).unwrap_err().to_string();
        assert!(error.contains("npt=0"), "{error}");
        assert_eq!(check(Shadow, Some(Shadow)).unwrap(), Shadow);
        assert_eq!(check(Nested, None).unwrap(), Nested);
    }

    #[test]
    fn parameters_of_the_module() {
        assert_eq!(parameters(None), "kvm_amd.nested=0");
        assert_eq!(parameters(Some(Paging::Shadow)), "kvm_amd.nested=0 kvm_amd.npt=0");
    }
}
