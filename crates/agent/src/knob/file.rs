//! A place that is a file of the kernel's.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use super::Place;

/// `parse` turns the file's text into the value's one form, `format` turns that into what is
/// written.
pub struct File {
    pub name: String,
    pub path: PathBuf,
    pub parse: fn(&str) -> Result<String>,
    pub format: fn(&str) -> Result<String>,
}

impl Place for File {
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

/// For values whose text is already the one form but for white space.
pub fn words(text: &str) -> Result<String> {
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
