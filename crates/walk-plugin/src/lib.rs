//! A plugin for QEMU that feeds every memory access of a program to the model of `walk`. A thin shell:
//! it gathers pages by thread, follows fork and exec, and writes what the model counted.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod exec;
mod job;
mod qemu;
mod session;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use job::Job;
use qemu::{Info, LOADS_AND_STORES, NO_REGISTERS, PluginId};
use session::{Session, thread};
use walk::{Mark, Marks};

const EXECVE: i64 = 59;
const PRCTL: i64 = 157;
const EXECVEAT: i64 = 322;
const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: u64 = 0x1000;
/// Exit status of a process that cannot go on as asked.
const GAVE_UP: i32 = 125;

/// QEMU's entry.
///
/// # Safety
/// As QEMU calls it: `info` and `arguments` are valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's promise.
    let (info, mut arguments) = unsafe {
        let texts = std::slice::from_raw_parts(arguments, count.max(0) as usize);
        (&*info, texts.iter().map(|&text| CStr::from_ptr(text).to_string_lossy().into_owned()))
    };
    let job = arguments.find_map(|argument| argument.strip_prefix("job=").map(PathBuf::from));
    match begin(info, job.as_deref()) {
        Ok(()) => {
            register(id);
            0
        }
        // A program in the background was started when nobody waits for figures any more.
        Err(_) if job.as_deref().is_some_and(is_over) => 0,
        Err(reason) => {
            eprintln!("hypertare-walk: {reason}");
            1
        }
    }
}

/// Whoever asks keeps the job in a directory that goes with them.
fn is_over(job: &Path) -> bool {
    job.parent().is_some_and(|directory| !directory.is_dir())
}

fn begin(info: &Info, job: Option<&Path>) -> Result<(), String> {
    if info.system_emulation {
        return Err("it follows programs, not whole machines: use qemu-x86_64".into());
    }
    let job = Job::read(job.ok_or("it needs the argument job=FILE")?)?;
    let progress = map_progress(&job.progress)?;
    Session::begin(job, program_of_this_process(), Marks::default(), progress)?;
    Session::get().announce()?;
    // SAFETY: a handler that may be called in any child.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
    Ok(())
}

extern "C" fn child() {
    Session::begin_child();
}

fn register(id: PluginId) {
    // SAFETY: QEMU's functions, with callbacks that live as long as the process.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, thread_begins);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, system_call);
        qemu::qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
}

extern "C" fn thread_begins(_: PluginId, number: c_uint) {
    session::thread_begins(number);
}

/// QEMU has translated a block of instructions: each of them is to call us with its accesses.
extern "C" fn translated(_: PluginId, block: *mut c_void) {
    // SAFETY: the block is QEMU's and valid for the call.
    unsafe {
        let instructions = qemu::qemu_plugin_tb_n_insns(block);
        let count = std::ptr::without_provenance_mut(instructions);
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, count);
        for index in 0..instructions {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let none = std::ptr::null_mut();
            qemu::qemu_plugin_register_vcpu_mem_cb(
                instruction,
                accessed,
                NO_REGISTERS,
                LOADS_AND_STORES,
                none,
            );
        }
    }
}

extern "C" fn executed(number: c_uint, instructions: *mut c_void) {
    // SAFETY: called by the thread of that number, which has begun.
    unsafe { thread(number) }.instructions += instructions.addr() as u64;
}

extern "C" fn accessed(number: c_uint, _: u32, address: u64, _: *mut c_void) {
    // SAFETY: called by the thread of that number, which has begun.
    unsafe { thread(number) }.access(address);
}

extern "C" fn system_call(
    _: PluginId,
    thread: c_uint,
    call: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    fifth: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    match call {
        PRCTL => {
            if let Some(mark) = Mark::of(first, second) {
                Session::get().mark(thread, mark);
            }
        }
        EXECVE => exec::follow(thread, first, second, third),
        EXECVEAT if first as i32 == AT_FDCWD && fifth == 0 => {
            exec::follow(thread, second, third, fourth);
        }
        EXECVEAT if fifth == AT_EMPTY_PATH => {
            exec::follow_open_file(thread, first as i32, (second, third, fourth));
        }
        _ => {}
    }
}

extern "C" fn ended(_: PluginId, _: *mut c_void) {
    if let Err(reason) = Session::get().end(None) {
        eprintln!("hypertare-walk: {reason}");
    }
}

/// Nothing can be returned from where this is called: the process ends, and its answer says that it
/// has not ended.
pub fn give_up(reason: &str) -> ! {
    eprintln!("hypertare-walk: {reason}");
    // SAFETY: ends the process.
    unsafe { libc::_exit(GAVE_UP) }
}

/// The counter that all processes add to.
fn map_progress(path: &Path) -> Result<&'static AtomicU64, String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).map_err(said)?;
    let bytes = size_of::<AtomicU64>();
    if file.metadata().map_err(said)?.len() < bytes as u64 {
        return Err(format!("{}: it is too short", path.display()));
    }
    // SAFETY: a new mapping of our own, as long as the counter, never unmapped.
    unsafe {
        let place = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if place == libc::MAP_FAILED {
            return Err(said(std::io::Error::last_os_error()));
        }
        Ok(AtomicU64::from_ptr(place.cast()))
    }
}

/// The program that QEMU was started for: the first argument after QEMU's options, all of which, as
/// this product starts QEMU, have a value. (The library knows QEMU's arguments by itself: a root of a
/// command's own need have no /proc.)
fn program_of_this_process() -> String {
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        if !word.as_encoded_bytes().starts_with(b"-") {
            return word.to_string_lossy().into_owned();
        }
        words.next();
    }
    String::new()
}
