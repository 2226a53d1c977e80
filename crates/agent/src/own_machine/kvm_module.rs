//! KVM on an experiment's own machine, whose modules came with us: loaded in the paging mode that a bench
//! asks for, and anew where it has another. The mode is the module's, so all guests have the same.
//!
//! A processor without nested paging lets the module load all the same, with shadow page tables: so
//! the mode is read back.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::{Accelerator, Paging};
use rustix::io::Errno;

use super::modules;
use crate::vmm::paging;

const MODULE: &str = "kvm_amd";
const ROOT: &str = "/sys/module";

/// Sees to it that KVM is there, in this mode if one is given. As long as what is given back is open the
/// module stays: the guest's VMM opens it only some time after its start.
///
/// # Errors
/// The image or the processor lacks what it takes, or the module is in use in another mode.
pub fn ensure(wanted: Option<Paging>) -> Result<File> {
    match paging::of_guest(Accelerator::Kvm) {
        Some(has) if wanted.is_none_or(|wanted| wanted == has) => return hold(),
        Some(has) => unload(has)?,
        None => {}
    }
    load(wanted)?;
    check(paging::of_guest(Accelerator::Kvm), wanted)?;
    hold()
}

fn hold() -> Result<File> {
    File::open("/dev/kvm").context("KVM is loaded, but /dev/kvm cannot be opened")
}

fn check(has: Option<Paging>, wanted: Option<Paging>) -> Result<()> {
    match (wanted, has) {
        (_, None) => bail!("KVM was loaded, but {ROOT}/{MODULE}/parameters/npt is not there"),
        (Some(Paging::Nested), Some(Paging::Shadow)) => bail!(
            "nested page tables were asked for, but KVM gives shadow ones: this machine's processor has \
             no nested paging (NPT). Choose a CPU model that has it (sut.cpu_model), or ask for \
             shadow ones"
        ),
        (Some(Paging::Shadow), Some(Paging::Nested)) => {
            bail!("shadow page tables were asked for, but KVM gives nested ones in spite of npt=0")
        }
        _ => Ok(()),
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
    match modules::load(MODULE, &parameters(wanted)) {
        Err(error) if error.downcast_ref::<Errno>() == Some(&Errno::OPNOTSUPP) => Err(error)
            .context("this machine's processor has no virtualisation (SVM), or it is switched off"),
        loaded => loaded.context("KVM is not loaded"),
    }
}

/// Only the processor's part has the parameter; the rest of KVM stays.
fn unload(has: Paging) -> Result<()> {
    // SAFETY: a name that ends in zero, and flags.
    let status =
        unsafe { libc::syscall(libc::SYS_delete_module, c"kvm_amd".as_ptr(), libc::O_NONBLOCK) };
    if status == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    let has = if has == Paging::Nested { "nested" } else { "shadow" };
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY) => bail!(
            "{MODULE} gives {has} page tables and cannot be loaded anew, for it is in use ({} users): \
             guests of one bench have the same page tables",
            users(Path::new(ROOT))
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

    #[test]
    fn another_mode_than_asked_for_is_an_error() {
        use Paging::{Nested, Shadow};
        let error = check(Some(Shadow), Some(Nested)).unwrap_err().to_string();
        assert!(error.contains("no nested paging"), "{error}");
        let error = check(Some(Nested), Some(Shadow)).unwrap_err().to_string();
        assert!(error.contains("npt=0"), "{error}");
        assert!(check(None, None).unwrap_err().to_string().contains("kvm_amd"));
        assert!(check(Some(Shadow), Some(Shadow)).is_ok());
        assert!(check(Some(Nested), None).is_ok());
    }

    #[test]
    fn parameters_of_the_module() {
        assert_eq!(parameters(None), "kvm_amd.nested=0");
        assert_eq!(parameters(Some(Paging::Shadow)), "kvm_amd.nested=0 kvm_amd.npt=0");
    }

    #[test]
    fn users_are_counted_by_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(users(root.path()), "?");
        fs::create_dir_all(root.path().join(MODULE)).unwrap();
        fs::write(root.path().join(MODULE).join("refcnt"), "3\n").unwrap();
        assert_eq!(users(root.path()), "3");
    }
}
