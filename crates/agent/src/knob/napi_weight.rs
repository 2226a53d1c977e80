//! The NAPI weight of an interface. A driver chooses it when it adds an instance, and the kernel offers no
//! way to change it. So this uses the first of these that exists:
//!
//! - `hypertare_napi`, the project's own module (`kernel/`): it changes the weight under any driver, at
//!   once.
//! - virtio_net's own parameter, which the driver reads when it is loaded. The driver is not reloaded here:
//!   the interface would vanish with its addresses and with the settings of other knobs. A guest's init
//!   loads it with the parameter when `virtio_net.napi_weight=N` is among the kernel's arguments; here the
//!   parameter is read, and has to be the requested weight.
//!
//! The netlink settings of single instances (Linux 6.13) have no weight.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hypertare_plan::{Knob, NAPI_MODULE, NAPI_WEIGHT_FILE};

use super::{Around, KnobKind, KnobTarget, OTHER_KIND, Wanted};
use crate::net::Links;
use crate::net::ethtool::Ethtool;
use crate::own_machine::napi_module;

const VIRTIO_PARAMETER: &str = "/sys/module/virtio_net/parameters/napi_weight";
/// The module's bound.
const MOST: u32 = 1024;

/// The knob.
pub struct Kind;

impl KnobKind for Kind {
    fn targets(&self, knob: &Knob, _: &Around) -> Result<Vec<Wanted>> {
        let Knob::NapiWeight { interface, weight } = knob else { bail!(OTHER_KIND) };
        ensure!((1..=MOST).contains(weight), "a weight is from 1 to {MOST}, not {weight}");
        Links::open()?.get(interface)?;
        let target: Box<dyn KnobTarget> = match napi_module::ensure_loaded() {
            Ok(()) => Box::new(Weight { interface: interface.clone() }),
            Err(error) => Box::new(VirtioParameter::open(interface, &error)?),
        };
        let value = with_all(&target.read()?, *weight);
        Ok(vec![Wanted { target, value }])
    }

    fn shown(&self, interface: &str) -> Vec<(String, Knob)> {
        let interface = interface.to_owned();
        vec![("napi_weight".to_owned(), Knob::NapiWeight { interface, weight: 64 })]
    }
}

/// Replaces every weight in a text such as `8 8 by hypertare_napi`.
fn with_all(value: &str, weight: u32) -> String {
    let (weights, way) = value.split_once(" by ").unwrap_or((value, ""));
    let same: Vec<String> = weights.split(' ').map(|_| weight.to_string()).collect();
    format!("{} by {way}", same.join(" "))
}

fn weights(value: &str) -> &str {
    value.split_once(" by ").map_or(value, |(weights, _)| weights)
}

struct Weight {
    interface: String,
}

impl KnobTarget for Weight {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        let text = fs::read_to_string(NAPI_WEIGHT_FILE)
            .with_context(|| format!("reading {NAPI_WEIGHT_FILE}"))?;
        let found = find(&text, &self.interface).with_context(|| {
            format!("{} has no NAPI instance: it is not up, or no hardware", self.interface)
        })?;
        Ok(format!("{found} by {NAPI_MODULE}"))
    }

    fn write(&self, value: &str) -> Result<()> {
        let line = format!("{} {}", self.interface, weights(value));
        fs::write(NAPI_WEIGHT_FILE, &line).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => anyhow!(
                "{NAPI_WEIGHT_FILE} may not be written ({error}): this needs root of the machine itself"
            ),
            _ => anyhow::Error::new(error).context(format!("writing {line:?} to {NAPI_WEIGHT_FILE}")),
        })
    }
}

/// The weights in the line of an interface: `eth0 64 64`.
fn find<'a>(text: &'a str, interface: &str) -> Option<&'a str> {
    text.lines().find_map(|line| match line.split_once(' ') {
        Some((name, weights)) if name == interface => Some(weights),
        _ => None,
    })
}

/// The parameter with which the driver was loaded, which cannot be changed.
struct VirtioParameter;

impl VirtioParameter {
    fn open(interface: &str, without_module: &anyhow::Error) -> Result<Self> {
        let driver = Ethtool::open(interface)?.driver().unwrap_or_else(|| "unknown".to_owned());
        ensure!(
            driver == "virtio_net" && Path::new(VIRTIO_PARAMETER).exists(),
            "{without_module:#}; and the driver of {interface}, {driver}, has no parameter for it"
        );
        Ok(VirtioParameter)
    }
}

impl KnobTarget for VirtioParameter {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn read(&self) -> Result<String> {
        let text = fs::read_to_string(VIRTIO_PARAMETER)
            .with_context(|| format!("reading {VIRTIO_PARAMETER}"))?;
        Ok(format!("{} by virtio_net's parameter", text.trim()))
    }

    fn write(&self, value: &str) -> Result<()> {
        let weight = weights(value);
        bail!(
            "without {NAPI_MODULE} the weight is what virtio_net was loaded with: boot the guest with \
             the kernel argument virtio_net.napi_weight={weight}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_whole_name() {
        let text = "eth10 1\neth1 64 32\n";
        assert_eq!(find(text, "eth1"), Some("64 32"));
        assert_eq!(find(text, "eth"), None);
    }

    #[test]
    fn every_instance_gets_the_weight_and_the_way_stays() {
        assert_eq!(with_all("64 32 by hypertare_napi", 8), "8 8 by hypertare_napi");
        assert_eq!(weights("8 8 by hypertare_napi"), "8 8");
    }

    #[test]
    fn weights_out_of_bounds_are_refused() {
        for weight in [0, MOST + 1] {
            let knob = Knob::NapiWeight { interface: "lo".into(), weight };
            let error = Setting::of(&knob).err().unwrap().to_string();
            assert!(error.contains("from 1 to 1024"), "{error}");
        }
    }
}
