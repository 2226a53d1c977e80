//! A run's notes on a user's host: the driver domain's weight before the change, and errors that nobody
//! else would hear of. They are in Xen's store, which lives as long as the weight itself.

use std::io::{Read, Write};

use anyhow::{Context, Result};

use super::store::Store;
use super::{DRIVER_DOMAIN, scheduler};
use crate::process::cgroup::Scope;

const ROOT: &str = "/tool/hypertare";
const WEIGHT: &str = "driver-weight";
const TROUBLE: &str = "trouble";
/// Of a message of the store, which holds the path too.
const LONGEST_TEXT: usize = 2000;

/// Notes how it was, unless that is noted already.
pub fn note(store: &mut Store<impl Read + Write>, scope: &Scope, weight: &str) -> Result<()> {
    if store.read(&place(scope, WEIGHT))?.is_none() {
        store.write(&place(scope, WEIGHT), weight).context("noting the driver domain's weight")?;
    }
    Ok(())
}

/// The weight is as it was.
pub fn strike_out(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    remove(store, scope, WEIGHT)
}

/// Something went wrong, in words, in the place of what did before.
pub fn note_trouble(store: &mut Store<impl Read + Write>, scope: &Scope, text: &str) -> Result<()> {
    let text: String = text.chars().filter(char::is_ascii).take(LONGEST_TEXT).collect();
    store.write(&place(scope, TROUBLE), &text).context("noting what went wrong")
}

pub fn trouble(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<Option<String>> {
    store.read(&place(scope, TROUBLE))
}

/// It works again.
pub fn strike_trouble_out(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    remove(store, scope, TROUBLE)
}

/// Nothing is left of the run.
pub fn forget(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    for what in [WEIGHT, TROUBLE] {
        remove(store, scope, what)?;
    }
    Ok(())
}

fn remove(store: &mut Store<impl Read + Write>, scope: &Scope, what: &str) -> Result<()> {
    store.remove(&place(scope, what))?;
    if store.list(&directory(scope))?.is_empty() {
        store.remove(&directory(scope))?;
    }
    if store.list(ROOT)?.is_empty() {
        store.remove(ROOT)?;
    }
    Ok(())
}

pub fn noted(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<Option<String>> {
    store.read(&place(scope, WEIGHT))
}

/// Runs that have noted something.
pub fn scopes(store: &mut Store<impl Read + Write>) -> Result<Vec<Scope>> {
    Ok(store.list(ROOT)?.iter().map(|name| Scope::named(name)).collect())
}

/// Puts the weight back if it is noted.
pub fn put_back(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    let Some(weight) = noted(store, scope)? else { return Ok(()) };
    let weight = weight.parse().with_context(|| format!("{weight:?} is no weight"))?;
    scheduler::set_weight(DRIVER_DOMAIN, weight)?;
    strike_out(store, scope)
}

fn directory(scope: &Scope) -> String {
    format!("{ROOT}/{}", scope.name())
}

fn place(scope: &Scope, what: &str) -> String {
    format!("{}/{what}", directory(scope))
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::in_memory;
    use super::*;

    #[test]
    fn a_note_is_kept_until_its_matter_is_settled_and_then_nothing_is_left() {
        let (one, other) = (Scope::named("hypertare-7-99"), Scope::named("hypertare-8-11"));
        let mut store = in_memory(&[("/tool/hypertare/hypertare-8-11/driver-weight", "512")]);
        note(&mut store, &one, "256").unwrap();
        note(&mut store, &one, "777").unwrap();
        note_trouble(&mut store, &one, &format!("\u{2019}{}", "x".repeat(5000))).unwrap();
        assert_eq!(noted(&mut store, &one).unwrap().unwrap(), "256");
        assert_eq!(trouble(&mut store, &one).unwrap().unwrap(), "x".repeat(LONGEST_TEXT));
        assert_eq!(scopes(&mut store).unwrap().len(), 2);
        strike_out(&mut store, &one).unwrap();
        assert!(trouble(&mut store, &one).unwrap().is_some());
        strike_trouble_out(&mut store, &one).unwrap();
        assert_eq!(scopes(&mut store).unwrap(), vec![other.clone()]);
        forget(&mut store, &other).unwrap();
        assert!(scopes(&mut store).unwrap().is_empty());
        assert!(store.list("/tool").unwrap().is_empty());
    }
}
