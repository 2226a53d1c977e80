//! `hypertare_napi`, the project's own kernel module (`kernel/`): it sets NAPI weights and counts polls.

use std::path::Path;

use anyhow::{Result, ensure};
use hypertare_plan::{NAPI_MODULE, NAPI_WEIGHT_FILE};

use super::modules;
use crate::boot_contract::is_own_machine;

/// Loads it where the machine is an experiment's own, and leaves it there: it does nothing unasked. On
/// others a person has to load it.
///
/// # Errors
/// It is not there, and why.
pub fn ensure_loaded() -> Result<()> {
    if Path::new(NAPI_WEIGHT_FILE).exists() {
        return Ok(());
    }
    ensure!(
        is_own_machine(),
        "the module {NAPI_MODULE} is not loaded: build it in kernel/ and load it as root"
    );
    modules::load(NAPI_MODULE, "")
}
