//! What a machine of an experiment's own is given so that its guests can have what they are to have:
//! kernel [`modules`] of its image, KVM in the mode that is asked for ([`kvm_module`]), [`vhost`],
//! [`huge_pages`], disks ([`null_blk`]), and what serves them to guests of Xen ([`blkback`]).

pub mod blkback;
pub mod huge_pages;
pub mod kvm_module;
pub mod modules;
pub mod napi_module;
pub mod null_blk;
pub mod vhost;
