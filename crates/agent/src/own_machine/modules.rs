//! Kernel modules in the initramfs. `/modules/index` has one line for each module: its name and
//! the files to load for it, dependencies first; a module that is built in has no files.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};
use hypertare_plan::{MODULES_DIRECTORY, MODULES_PARAMETER};
use rustix::io::Errno;
use rustix::system::finit_module;

/// Files by module, names with `_` as the kernel has them.
#[derive(Debug, PartialEq)]
pub struct Index(BTreeMap<String, Vec<String>>);

impl Index {
    /// Reads the index below a directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join("index");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path:?}"))?;
        Self::parse(&text).with_context(|| format!("in {path:?}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut index = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let files: Vec<String> = words.map(str::to_owned).collect();
            let is_below = |file: &String| {
                Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
            };
            if let Some(file) = files.iter().find(|file| !is_below(file)) {
                bail!("line {}: {file:?} is not a file below the directory", number + 1);
            }
            if index.insert(canonical(name), files).is_some() {
                bail!("line {}: {name} is there twice", number + 1);
            }
        }
        Ok(Index(index))
    }

    fn files(&self, name: &str) -> Result<&[String]> {
        self.0.get(&canonical(name)).map(Vec::as_slice).with_context(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            format!("the image has no module {name}; it has {}", known.join(", "))
        })
    }

    /// Loads a module and what it depends on. One that is loaded already is left alone.
    /// Parameters are looked for in the kernel's command line (`virtio_net.napi_weight=8`), as
    /// modprobe(8) does.
    pub fn load(&self, directory: &Path, name: &str, command_line: &str) -> Result<()> {
        for file in self.files(name)? {
            let parameters = parameters(file, command_line);
            load_file(&directory.join(file), &parameters)
                .with_context(|| format!("loading module {name}"))?;
        }
        Ok(())
    }
}

/// Loads a module of this machine's image, as [`Index::load`] does.
///
/// # Errors
/// The image does not hold it, of the project's own with the reason; or the kernel refuses it.
pub fn load(name: &str, command_line: &str) -> Result<()> {
    let directory = Path::new(MODULES_DIRECTORY);
    if let Ok(reason) = fs::read_to_string(directory.join(format!("{name}.missing"))) {
        bail!("the image has no module {name}: {}", reason.trim());
    }
    Index::read(directory)?.load(directory, name, command_line)
}

/// The modules that a kernel command line asks for.
pub fn wanted(command_line: &str) -> Vec<&str> {
    command_line
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix(MODULES_PARAMETER))
        .flat_map(|list| list.split(','))
        .filter(|name| !name.is_empty())
        .collect()
}

/// What a command line has for the module in this file, without its name.
fn parameters(file: &str, command_line: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let own = command_line.split_ascii_whitespace().filter_map(|word| {
        let (module, parameter) = word.split_once('=')?.0.split_once('.')?;
        (canonical(module) == canonical(stem) && !parameter.is_empty())
            .then(|| &word[module.len() + 1..])
    });
    own.collect::<Vec<_>>().join(" ")
}

fn load_file(path: &Path, parameters: &str) -> Result<()> {
    let parameters = CString::new(parameters)?;
    let file = File::open(path).with_context(|| format!("opening {path:?}"))?;
    match finit_module(&file, &parameters, 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("the kernel refused {path:?}")),
    }
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_gives_files_in_order() {
        let index = Index::parse("overlay\n\nvirtio-net a.ko sub/b.ko virtio_net.ko\n").unwrap();
        assert_eq!(index.files("virtio_net").unwrap(), ["a.ko", "sub/b.ko", "virtio_net.ko"]);
        assert_eq!(index.files("virtio-net").unwrap().len(), 3);
        assert!(index.files("overlay").unwrap().is_empty());
    }

    #[test]
    fn an_unknown_module_is_refused_with_the_known_ones() {
        let error = Index::parse("a a.ko\nb").unwrap().files("c").unwrap_err();
        assert_eq!(error.to_string(), "the image has no module c; it has a, b");
    }

    #[test]
    fn files_outside_the_directory_are_refused() {
        for file in ["/etc/x.ko", "../x.ko", "a/../../x.ko"] {
            let error = Index::parse(&format!("a a.ko\nb {file}")).unwrap_err().to_string();
            assert!(error.starts_with("line 2: "), "{error}");
        }
    }

    #[test]
    fn a_module_is_there_once() {
        assert!(Index::parse("a-b x.ko\na_b x.ko").unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn parameters_are_those_of_the_module() {
        let line = "quiet virtio-net.napi_weight=8 e1000.x=1 virtio_net.csum=0 virtio_net.=2";
        assert_eq!(parameters("sub/virtio_net.ko", line), "napi_weight=8 csum=0");
        assert_eq!(parameters("virtio.ko", line), "");
    }

    #[test]
    fn the_command_line_names_modules() {
        let line = "quiet hypertare.modules=virtio_console,9p,, x hypertare.modules=overlay\n";
        assert_eq!(wanted(line), ["virtio_console", "9p", "overlay"]);
        assert!(wanted("quiet").is_empty());
    }

    #[test]
    fn a_file_that_is_no_module_is_an_error() {
        let directory = std::env::temp_dir();
        let index = Index(BTreeMap::from([("x".into(), vec!["there-is-no-such.ko".into()])]));
        let error = format!("{:#}", index.load(&directory, "x", "").unwrap_err());
        assert!(error.contains("loading module x: opening"), "{error}");
    }
}
