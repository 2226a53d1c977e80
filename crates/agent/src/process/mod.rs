//! Processes of this machine: started in [`namespaces`] of their own ([`spawn`]), accounted for by a
//! [`cgroup`] and with [`weights`], bound to [`cpus`] ([`cpu_list`] is how the kernel writes them), [`hidden`] from those they start, given to
//! end by [`signals`], and what becomes of them when memory runs out ([`shortage`]). Facts of the machine that
//! several rooms ask for: whether it is [`under_xen`], its [`interrupts`], and [`machine_proc`].

pub mod cgroup;
pub mod cpu_list;
pub mod cpus;
pub mod hidden;
pub mod interrupts;
pub mod machine_proc;
pub mod namespaces;
pub mod shortage;
pub mod signals;
pub mod spawn;
pub mod under_xen;
pub mod weights;
