//! The driver domain's weight, noted before a run changes it on a user's host: in Xen's store, which
//! lives as long as the weight itself.

use std::io::{Read, Write};

use anyhow::{Context, Result};

use super::scheduler;
use super::store::Store;
use crate::host::cgroup::Scope;

const ROOT: &str = "/tool/hypertare";
const WEIGHT: &str = "driver-weight";

/// Notes how it was, unless that is noted already.
pub fn note(store: &mut Store<impl Read + Write>, scope: &Scope, weight: &str) -> Result<()> {
    if store.read(&place(scope))?.is_none() {
        store.write(&place(scope), weight).context("noting the driver domain's weight")?;
    }
    Ok(())
}

/// The weight is as it was.
pub fn strike_out(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    store.remove(&directory(scope))?;
    if store.list(ROOT)?.is_empty() {
        store.remove(ROOT)?;
    }
    Ok(())
}

pub fn noted(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<Option<String>> {
    store.read(&place(scope))
}

/// Runs that have noted something.
pub fn scopes(store: &mut Store<impl Read + Write>) -> Result<Vec<Scope>> {
    Ok(store.list(ROOT)?.iter().map(|name| Scope::named(name)).collect())
}

/// Puts the weight back if it is noted.
pub fn put_back(store: &mut Store<impl Read + Write>, scope: &Scope) -> Result<()> {
    let Some(weight) = noted(store, scope)? else { return Ok(()) };
    let weight = weight.parse().with_context(|| format!("{weight:?} is no weight"))?;
    scheduler::set_weight(scheduler::DRIVER_DOMAIN, weight)?;
    strike_out(store, scope)
}

fn directory(scope: &Scope) -> String {
    format!("{ROOT}/{}", scope.name())
}

fn place(scope: &Scope) -> String {
    format!("{}/{WEIGHT}", directory(scope))
}
