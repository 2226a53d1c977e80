//! Programs that the command starts. QEMU would execute them on the host's processor, where no plugin
//! sees them; they are executed under QEMU and this plugin again instead.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::session::Session;

/// The most bytes of one argument, and arguments of one program, that are taken over.
const LONGEST: usize = 128 << 10;
const MOST: usize = 1 << 16;
/// Scripts whose interpreter is a script, and so on: as the kernel has it.
const MOST_SCRIPTS: usize = 4;

/// Executes what the program asked for under QEMU, and does not return; or returns, if QEMU should
/// handle it: what is no program for this processor, has rights of its own (setuid), or outlives who
/// asked.
pub fn follow(thread: u32, path: u64, arguments: u64, environment: u64) {
    let Some((path, arguments, environment)) = take_over(path, arguments, environment) else {
        return;
    };
    let session = Session::get();
    if !session.asked() {
        return;
    }
    let path = if matches!(path.as_bytes(), b"/proc/self/exe" | b"/proc/thread-self/exe") {
        let Ok(path) = CString::new(session.program.as_bytes()) else { return };
        path
    } else {
        path
    };
    let Some(program) = resolve(path, arguments) else { return };
    execute(session, thread, program, &environment);
}

/// The same of a file that is open and need have no name (`fexecve`): QEMU opens it by a descriptor
/// that outlives the call, which the program then has too.
pub fn follow_open_file(thread: u32, file: i32, (path, arguments, environment): (u64, u64, u64)) {
    let Some((path, arguments, environment)) = take_over(path, arguments, environment) else {
        return;
    };
    let session = Session::get();
    if !path.is_empty() || !session.asked() {
        return;
    }
    // SAFETY: of a number that need be no descriptor.
    let kept = unsafe { libc::dup(file) };
    let name = format!("/proc/self/fd/{kept}");
    if let Ok(path) = CString::new(name)
        && matches!(
            kind_of(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))),
            Some(Kind::Program)
        )
    {
        execute(session, thread, Program { path, arguments }, &environment);
    }
    // SAFETY: ours, or -1.
    unsafe { libc::close(kept) };
}

/// Returns if the program cannot be executed.
fn execute(session: &Session, thread: u32, program: Program, environment: &[CString]) {
    let Some(all) = under_qemu(session, program) else { return };
    if session.end(Some(thread)).is_err() {
        return;
    }
    let pointers = |texts: &[CString]| {
        let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    // SAFETY: arrays of C strings that end in null and live until the call returns, if it does.
    unsafe {
        libc::execve(all[0].as_ptr(), pointers(&all).as_ptr(), pointers(environment).as_ptr())
    };
}

struct Program {
    path: CString,
    arguments: Vec<CString>,
}

fn take_over(
    path: u64,
    arguments: u64,
    environment: u64,
) -> Option<(CString, Vec<CString>, Vec<CString>)> {
    Some((text_at(path)?, texts_at(arguments)?, texts_at(environment)?))
}

/// The program that a path leads to: itself, or the interpreter that a script names.
fn resolve(mut path: CString, mut arguments: Vec<CString>) -> Option<Program> {
    for _ in 0..MOST_SCRIPTS {
        match kind_of(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())))? {
            Kind::Program => return Some(Program { path, arguments }),
            Kind::Script(interpreter) => {
                let rest = arguments.into_iter().skip(1);
                arguments = interpreter.iter().cloned().chain([path]).chain(rest).collect();
                path = interpreter.into_iter().next()?;
            }
        }
    }
    None
}

enum Kind {
    Program,
    /// The interpreter and, where there is one, its argument.
    Script(Vec<CString>),
}

fn kind_of(path: &Path) -> Option<Kind> {
    const ELF64: [u8; 5] = [0x7f, b'E', b'L', b'F', 2];
    const X86_64: [u8; 2] = [62, 0];
    let about = fs::metadata(path).ok()?;
    let mode = about.permissions().mode();
    if !about.is_file() || mode & 0o111 == 0 || mode & 0o6000 != 0 {
        return None;
    }
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    if start.starts_with(&ELF64) {
        return (start.get(18..20) == Some(&X86_64)).then_some(Kind::Program);
    }
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let mut words = line.splitn(2, u8::is_ascii_whitespace);
    let words: Option<Vec<CString>> =
        words.by_ref().map(|word| CString::new(word.trim_ascii()).ok()).collect();
    words.filter(|words| !words[0].is_empty()).map(Kind::Script)
}

fn under_qemu(session: &Session, program: Program) -> Option<Vec<CString>> {
    let mut arguments = program.arguments.into_iter();
    let name = arguments.next().unwrap_or_else(|| program.path.clone());
    // QEMU takes what begins with a dash for an option.
    let path = match program.path.as_bytes().first()? {
        b'-' => CString::new([b"./", program.path.as_bytes()].concat()).ok()?,
        _ => program.path,
    };
    let mut all = vec![CString::new(session.job.qemu.as_os_str().as_bytes()).ok()?];
    all.extend([c"-plugin".to_owned(), CString::new(session.job.plugin.as_bytes()).ok()?]);
    all.extend([c"-0".to_owned(), name, path]);
    all.extend(arguments);
    Some(all)
}

fn texts_at(address: u64) -> Option<Vec<CString>> {
    if address == 0 {
        return Some(Vec::new());
    }
    let mut texts = Vec::new();
    for number in 0..MOST as u64 {
        let mut pointer = [0; 8];
        read(address + number * 8, &mut pointer)?;
        match u64::from_ne_bytes(pointer) {
            0 => return Some(texts),
            pointer => texts.push(text_at(pointer)?),
        }
    }
    None
}

/// Text of the program. Its addresses are QEMU's: one processor emulates itself with base 0.
fn text_at(address: u64) -> Option<CString> {
    const PIECE: u64 = 256;
    let mut text = Vec::new();
    while text.len() < LONGEST {
        let at = address + text.len() as u64;
        // To the end of a piece at most, so that no read goes beyond the page that the text ends in.
        let mut piece = vec![0; (PIECE - at % PIECE) as usize];
        read(at, &mut piece)?;
        text.extend_from_slice(&piece);
        if let Ok(found) = CStr::from_bytes_until_nul(&text) {
            return Some(found.to_owned());
        }
    }
    None
}

/// Reads this process's memory; an address that is none is a failure, not a crash.
fn read(address: u64, into: &mut [u8]) -> Option<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel checks the remote address; the local one is ours.
    let count = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    (count == into.len() as isize).then_some(())
}
