//! A target that is one of the kernel's files.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{Around, KnobTarget, Wanted};
use crate::net::sysfs::InterfaceDirectory;

/// `parse` turns the file's text into the value's one form, and `format` turns that form into the text
/// that is written.
pub struct File {
    pub name: String,
    pub path: PathBuf,
    pub parse: fn(&str) -> Result<String>,
    pub format: fn(&str) -> Result<String>,
    /// Of an interface, with the mount through which the file is reached.
    pub _directory: Option<Arc<InterfaceDirectory>>,
}

impl KnobTarget for File {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Result<String> {
        let text = std::fs::read_to_string(&self.path)
            .with_context(|| format!("reading {}", self.path.display()))?;
        (self.parse)(text.trim()).with_context(|| format!("reading {}", self.path.display()))
    }

    fn write(&self, value: &str) -> Result<()> {
        let text = (self.format)(value)?;
        let path = self.path.display();
        std::fs::write(&self.path, text).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                anyhow!(
                    "{path} may not be written ({error}): this needs root of the machine itself"
                )
            }
            Some(libc::EIO) => anyhow!("{path} is managed by the kernel or the driver ({error})"),
            _ => anyhow::Error::new(error).context(format!("writing {path}")),
        })
    }
}

/// For values whose text is already their one form, apart from white space.
pub fn words(text: &str) -> Result<String> {
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A setting of the kernel whose text is written as it is.
pub fn sysctl(path: PathBuf, name: &str) -> File {
    File {
        name: name.to_owned(),
        path,
        parse: words,
        format: |value| Ok(value.to_owned()),
        _directory: None,
    }
}

/// A number below net.core.
pub fn core_sysctl(around: &Around, name: &str, value: &impl ToString) -> Result<Wanted> {
    writable(sysctl(around.sysctls.join("core").join(name), name), value.to_string())
}

/// `missing` says why a kernel may lack the file.
pub fn present(target: File, value: &impl ToString, missing: &str) -> Result<Wanted> {
    ensure!(target.path.exists(), "{} is not there: {missing}", target.path.display());
    Ok(Wanted { target: Box::new(target), value: value.to_string() })
}

/// The kernel shows a setting that may not be changed here as read-only, or (before Linux 6.13) not at
/// all.
pub fn writable(target: File, value: String) -> Result<Wanted> {
    use std::os::unix::fs::PermissionsExt;
    let path = target.path.display();
    match std::fs::metadata(&target.path) {
        Ok(metadata) if metadata.permissions().mode() & 0o222 != 0 => {
            Ok(Wanted { target: Box::new(target), value })
        }
        Ok(_) => bail!("{path} is read-only: it belongs to the machine's first network namespace"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{path} is not there: it belongs to the machine's first network namespace")
        }
        Err(error) => Err(error).with_context(|| format!("looking at {path}")),
    }
}
