//! QEMU's plugin interface, version 1, as far as it is used here. QEMU offers these symbols to what
//! it loads; Debian ships no header. Source: include/qemu/qemu-plugin.h of QEMU 7.2.

use std::ffi::{c_char, c_int, c_uint, c_void};

pub type PluginId = u64;
pub type MemoryCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub type VcpuCallback = extern "C" fn(c_uint, *mut c_void);
pub type EndCallback = extern "C" fn(PluginId, *mut c_void);
pub type SyscallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// `QEMU_PLUGIN_CB_NO_REGS`: callbacks read no registers.
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`: loads and stores.
pub const LOADS_AND_STORES: c_int = 3;

/// Version of the interface that the plugin is built for; QEMU refuses another one.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// The start of `qemu_info_t`.
#[repr(C)]
pub struct Info {
    pub target: *const c_char,
    pub least_version: c_int,
    pub version: c_int,
    pub system_emulation: bool,
}

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, c_uint),
    );
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut c_void),
    );
    pub fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        callback: VcpuCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        callback: MemoryCallback,
        flags: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SyscallCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: EndCallback, data: *mut c_void);
}
