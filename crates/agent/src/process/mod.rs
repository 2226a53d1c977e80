//! Processes of this machine: started in [`namespaces`] of their own ([`spawn`]), accounted for by a
//! [`cgroup`] and with [`weights`], bound to [`cpus`], [`hidden`] from those they start, told to end by [`signals`], and what becomes of them
//! when memory runs out ([`shortage`]).

pub mod cgroup;
pub mod cpus;
pub mod hidden;
pub mod namespaces;
pub mod shortage;
pub mod signals;
pub mod spawn;
pub mod weights;
