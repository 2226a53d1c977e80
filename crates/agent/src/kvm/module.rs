//! The kernel's module for AMD's virtualisation, kvm_amd: loaded in the paging mode asked for, and read
//! back. A processor without nested paging lets it load all the same, with shadow paging.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::Paging;
use rustix::io::Errno;

use crate::guest::modules::{DIRECTORY, Index};

const MODULE: &str = "kvm_amd";
const ROOT: &str = "/sys/module";

/// Sees to it that KVM is there, in this mode if one is given, and gives the mode that it has.
///
/// # Errors
/// The image or the processor lacks what it takes, or the module is in use in another mode.
pub fn ensure(wanted: Option<Paging>) -> Result<Paging> {
    let root = Path::new(ROOT);
    match mode(root) {
        Ok(has) if wanted.is_none_or(|wanted| wanted == has) => return Ok(has),
        Ok(has) => unload(root, has)?,
        Err(_) => {}
    }
    load(wanted)?;
    check(mode(root)?, wanted)
}

/// The mode of the module that is loaded.
pub fn mode(root: &Path) -> Result<Paging> {
    let file = root.join(MODULE).join("parameters/npt");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("{MODULE} is not loaded ({} is not there)", file.display()))?;
    match text.trim() {
        "1" | "Y" => Ok(Paging::Nested),
        "0" | "N" => Ok(Paging::Shadow),
        other => bail!("{} holds {other:?}, neither 1 nor 0", file.display()),
    }
}

fn check(has: Paging, wanted: Option<Paging>) -> Result<Paging> {
    match (wanted, has) {
        (Some(Paging::Nested), Paging::Shadow) => bail!(
            "nested paging was asked for, but KVM works with shadow page tables: this machine's \
             processor has no nested paging (NPT); choose a CPU model that has it, or paging = \
             \"shadow\""
        ),
        (Some(wanted), has) if wanted != has => {
            bail!("KVM works with {has:?} paging, not with {wanted:?} paging as it was told")
        }
        (_, has) => Ok(has),
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
    match index.load(directory, MODULE, &parameters(wanted)) {
        Err(error) if error.downcast_ref::<Errno>() == Some(&Errno::OPNOTSUPP) => Err(error)
            .context("this machine's processor has no virtualisation (SVM), or it is switched off"),
        loaded => loaded,
    }
}

/// Only the processor's part has the parameter; the rest of KVM stays.
fn unload(root: &Path, has: Paging) -> Result<()> {
    const NONBLOCK: libc::c_int = libc::O_NONBLOCK;
    // SAFETY: a name that ends in zero, and flags.
    let status = unsafe { libc::syscall(libc::SYS_delete_module, c"kvm_amd".as_ptr(), NONBLOCK) };
    if status == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY) => bail!(
            "{MODULE} works with {has:?} paging and cannot be loaded anew: it is in use ({} \
             users); end the guests that run",
            users(root)
        ),
        _ => Err(error).with_context(|| format!("unloading {MODULE}")),
    }
}

fn users(root: &Path) -> String {
    let count = fs::read_to_string(root.join(MODULE).join("refcnt"));
    count.map_or("?".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(npt: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let parameters = root.path().join("kvm_amd/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("npt"), npt).unwrap();
        root
    }

    #[test]
    fn the_mode_is_read_back() {
        for (text, mode_) in [("1\n", Paging::Nested), ("Y\n", Paging::Nested), ("N", Paging::Shadow)]
        {
            assert_eq!(mode(loaded(text).path()).unwrap(), mode_);
        }
        assert!(mode(loaded("x").path()).unwrap_err().to_string().contains("neither"));
        assert!(mode(Path::new("/no")).unwrap_err().to_string().contains("not loaded"));
    }

    #[test]
    fn another_mode_than_asked_for_is_an_error() {
        use Paging::{Nested, Shadow};
        let error = check(Shadow, Some(Nested)).unwrap_err().to_string();
        assert!(error.contains("no nested paging"), "{error}");
        assert!(check(Nested, Some(Shadow)).is_err());
        assert_eq!(check(Shadow, Some(Shadow)).unwrap(), Shadow);
        assert_eq!(check(Nested, None).unwrap(), Nested);
    }

    #[test]
    fn parameters_of_the_module() {
        assert_eq!(parameters(None), "kvm_amd.nested=0");
        assert_eq!(parameters(Some(Paging::Shadow)), "kvm_amd.nested=0 kvm_amd.npt=0");
    }
}
