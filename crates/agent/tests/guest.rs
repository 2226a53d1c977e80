//! Real guests. They need a kernel and an initramfs with this agent as `/init`, which the image
//! builder makes; the whole test run gives them and asks for ignored tests as well.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use agent::vmm::boot::await_hello;
use agent::vmm::guest_command_line::model;
use agent::vmm::port::{Port, Way};
use agent::vmm::qemu::Qemu;
use agent::vmm::spec::Spec;
use agent::vmm::{Quit, Vmm};
use anyhow::Result;
use hypertare_plan::{
    Accelerator, Guest, GuestSettings, Hello, Interface, MAX_CONSOLE_LINES, NicModel, Node,
    NodeKind, Record,
};
use rustix::process::{Pid, Signal, kill_process};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");

/// For a boot, on a machine that boots others at the same time.
const LIMIT: Duration = Duration::from_secs(60);

fn path(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => panic!("{variable} is not set: see the head of this file"),
    }
}

/// Spares an emulated kernel a check of all its page tables when it boots.
const QUICKER: &str = "rodata=off";

fn guest(kernel_args: &[&str]) -> Guest {
    Guest {
        cpus: 1,
        memory: 256 << 20,
        accelerator: Accelerator::Tcg,
        kernel: path("HYPERTARE_KERNEL"),
        initramfs: vec![path("HYPERTARE_INITRAMFS")],
        boot_limit_s: LIMIT.as_secs_f64(),
        settings: GuestSettings {
            kernel_args: kernel_args
                .iter()
                .chain([&QUICKER])
                .map(|&word| word.to_owned())
                .collect(),
            ..GuestSettings::default()
        },
        shared_memory: None,
    }
}

fn node(name: &str, guest: &Guest, interfaces: Vec<Interface>) -> Node {
    let kind = NodeKind::Guest(guest.clone());
    Node {
        name: name.into(),
        kind,
        cpus: vec![],
        interfaces,
        routes: vec![],
        router: None,
        files: None,
        disk: None,
    }
}

fn start(name: &str, guest: &Guest) -> Result<Qemu> {
    let node = node(name, guest, vec![]);
    Qemu::start(Spec::of(&node, guest))
}

fn boot(name: &str, guest: &Guest) -> (Qemu, Hello) {
    let mut vmm = start(name, guest).unwrap();
    match await_hello(&mut vmm, LIMIT) {
        Ok(hello) => (vmm, hello),
        Err(error) => panic!("{name}: {error:#}\n{}", vmm.console_tail().join("\n")),
    }
}

/// What `failure` says, once it says something.
fn failure(vmm: &mut Qemu) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(failure) = vmm.failure() {
            return failure;
        }
        assert!(Instant::now() < deadline, "no failure was seen");
        thread::sleep(Duration::from_millis(20));
    }
}

fn exists(pid: Pid) -> bool {
    Path::new("/proc").join(pid.as_raw_nonzero().to_string()).exists()
}

fn wait_for_end(pid: Pid) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while exists(pid) {
        assert!(Instant::now() < deadline, "process {pid:?} is left");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_boots_says_hello_and_powers_off() {
    let (mut vmm, hello) = boot("one", &guest(&[]));
    assert_eq!((hello.cpus, hello.architecture.as_str()), (1, "x86_64"));
    assert!(hello.memory > 128 << 20 && hello.memory < 256 << 20, "{hello:?}");
    assert_eq!(vmm.failure(), None);
    let state = vmm.describe().unwrap();
    assert_eq!(state.accelerator, Accelerator::Tcg);
    assert!(state.version.as_bytes()[0].is_ascii_digit(), "{}", state.version);
    assert_eq!(state.cpu_threads.len(), 1);
    assert!(state.argv.iter().any(|word| word == "tcg,thread=multi"));
    let pid = vmm.pid();
    assert!(exists(pid));
    assert_eq!(vmm.quit().unwrap(), Quit::PoweredOff);
    assert!(!exists(pid), "QEMU was not reaped");
}

#[test]
#[ignore = "boots guests: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn four_guests_boot_at_once() {
    let guests: Vec<_> = (0..4)
        .map(|number| thread::spawn(move || boot(&format!("guest-{number}"), &guest(&[]))))
        .collect();
    for guest in guests {
        let (mut vmm, _) = guest.join().unwrap();
        // The thread that started it has ended, which must not end QEMU.
        assert_eq!(vmm.failure(), None);
        vmm.quit().unwrap();
    }
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn virtual_cpus_are_bound_one_to_one() {
    let cpus = allowed_cpus("/proc/self/status");
    let chosen = [cpus[0], cpus[cpus.len() - 1]];
    let (mut vmm, hello) = boot("pinned", &Guest { cpus: 2, ..guest(&[]) });
    assert_eq!(hello.cpus, 2);
    assert!(vmm.pin(&[0]).is_err());
    assert!(vmm.pin(&[0, u32::MAX]).is_err());
    vmm.pin(&chosen).unwrap();
    let threads = vmm.describe().unwrap().cpu_threads;
    let pid = vmm.pid().as_raw_nonzero();
    let bound: Vec<Vec<u32>> = threads
        .iter()
        .map(|thread| allowed_cpus(&format!("/proc/{pid}/task/{thread}/status")))
        .collect();
    assert_eq!(bound, chosen.map(|cpu| vec![cpu]));
    assert_eq!(allowed_cpus(&format!("/proc/{pid}/status")), cpus);
    vmm.quit().unwrap();
}

fn allowed_cpus(status: &str) -> Vec<u32> {
    let text = fs::read_to_string(status).unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ranges =
        list.trim().split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(a, b)| a.parse().unwrap()..=b.parse::<u32>().unwrap()).collect()
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_panic_is_reported_with_its_reason() {
    let mut vmm = start("panics", &guest(&["rdinit=/there-is-none"])).unwrap();
    let error = await_hello(&mut vmm, LIMIT).unwrap_err().to_string();
    let expected = "the guest panicked: Kernel panic - not syncing: VFS: Unable to mount root fs";
    assert!(error.starts_with(expected), "{error}");
    let tail = vmm.console_tail();
    assert!(tail.len() <= MAX_CONSOLE_LINES);
    assert!(tail.iter().any(|line| line.contains("Unable to mount root fs")), "{tail:?}");
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_that_stays_after_its_panic_is_taken_for_dead() {
    let mut vmm = start("stays", &guest(&["rdinit=/there-is-none", "panic=0"])).unwrap();
    let error = failure(&mut vmm);
    assert!(error.starts_with("the guest panicked: "), "{error}");
    let pid = vmm.pid();
    assert!(exists(pid));
    assert_eq!(vmm.quit().unwrap(), Quit::Asked);
    assert!(!exists(pid));
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_that_hangs_is_given_up() {
    let hang = ["rdinit=/there-is-none", "root=/dev/there-is-none", "rootwait"];
    let mut vmm = start("hangs", &guest(&hang)).unwrap();
    let error = await_hello(&mut vmm, Duration::from_secs(8)).unwrap_err().to_string();
    assert_eq!(error, "the guest did not answer within 8.0 s");
    assert_eq!(vmm.failure(), None);
    let begin = Instant::now();
    vmm.quit().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn an_init_that_cannot_go_on_says_why() {
    let mut vmm = start("no-module", &guest(&["hypertare.modules=no_such_thing"])).unwrap();
    let error = await_hello(&mut vmm, LIMIT).unwrap_err().to_string();
    assert!(error.starts_with("the guest restarted, unasked; it printed last: "), "{error}");
    assert!(error.contains("the image has no module no_such_thing"), "{error}");
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_killed_vmm_is_noticed() {
    let (mut vmm, _) = boot("killed", &guest(&[]));
    kill_process(vmm.pid(), Signal::KILL).unwrap();
    assert_eq!(failure(&mut vmm), "QEMU was killed by signal 9");
    assert_eq!(vmm.quit().unwrap(), Quit::PoweredOff);
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_stopped_vmm_is_killed() {
    let (mut vmm, _) = boot("stopped", &guest(&[]));
    let pid = vmm.pid();
    kill_process(pid, Signal::STOP).unwrap();
    assert_eq!(vmm.quit().unwrap(), Quit::Killed);
    assert!(!exists(pid));
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_dropped_vmm_is_killed() {
    let vmm = start("dropped", &guest(&[])).unwrap();
    let pid = vmm.pid();
    assert!(exists(pid));
    drop(vmm);
    assert!(!exists(pid));
}

#[test]
#[ignore = "starts QEMU: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn what_qemu_refuses_is_reported_in_its_words() {
    let mut wrong = guest(&[]);
    wrong.settings.cpu_model = Some("no-such-cpu".into());
    let mut vmm = start("refused", &wrong).unwrap();
    let error = await_hello(&mut vmm, LIMIT).unwrap_err().to_string();
    assert!(error.starts_with("QEMU ended with exit status: 1: "), "{error}");
    assert!(error.contains("unable to find CPU model 'no-such-cpu'"), "{error}");
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn missing_files_are_named_before_anything_starts() {
    let wrong = Guest { kernel: "/there/is/no/vmlinux".into(), ..guest(&[]) };
    let error = start("no-kernel", &wrong).err().unwrap().to_string();
    assert_eq!(error, "the guest's kernel \"/there/is/no/vmlinux\" cannot be read");
    let wrong = Guest { initramfs: vec![], ..guest(&[]) };
    assert_eq!(start("bare", &wrong).err().unwrap().to_string(), "guest bare has no initramfs");
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_talkative_guest_boots_and_only_its_last_words_are_kept() {
    let (mut vmm, _) = boot("talks", &guest(&["loglevel=8", "initcall_debug"]));
    assert_eq!(vmm.console_tail().len(), MAX_CONSOLE_LINES);
    vmm.quit().unwrap();
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn several_archives_become_one() {
    let archive = path("HYPERTARE_INITRAMFS");
    let (mut vmm, _) =
        boot("several", &Guest { initramfs: vec![archive.clone(), archive], ..guest(&[]) });
    vmm.quit().unwrap();
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_that_is_only_tried_ends_with_whoever_tries_it() {
    let script = format!(
        "'{AGENT}' guest --kernel \"$HYPERTARE_KERNEL\" --initramfs \"$HYPERTARE_INITRAMFS\" \
         --limit 60 --parent $$ >/dev/null & wait"
    );
    let mut shell = Command::new("/bin/sh").args(["-c", &script]).spawn().unwrap();
    let agent = await_child(Pid::from_child(&shell));
    let qemu = await_vmm(agent.as_raw_nonzero().get().unsigned_abs());
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_for_end(agent);
    wait_for_end(qemu);
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_is_tried_for_nobody_who_has_ended() {
    let mut command = Command::new(AGENT);
    command.arg("guest").arg("--kernel").arg(path("HYPERTARE_KERNEL"));
    command.arg("--initramfs").arg(path("HYPERTARE_INITRAMFS")).args(["--parent", "1"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("--parent 1: that process did not start this one"), "{said}");
}

fn await_child(parent: Pid) -> Pid {
    let line = format!("PPid:\t{}\n", parent.as_raw_nonzero());
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&line))
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        if let Some(child) = numbers.find(is_child).and_then(Pid::from_raw) {
            return child;
        }
        assert!(Instant::now() < deadline, "{parent:?} never had a child");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All models in one guest, in a network namespace of its own: the test runs itself there.
#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn every_nic_model_has_its_tap_and_driver() {
    const INSIDE: &str = "HYPERTARE_TEST_INSIDE_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return boot_with_every_nic();
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["every_nic_model_has_its_tap_and_driver", "--exact", "--ignored", "--nocapture"]);
    again.env(INSIDE, "1");
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    let enter = move || {
        // SAFETY: a plain system call.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        maps.iter().try_for_each(|(path, text)| fs::write(path, text))
    };
    // SAFETY: the closure makes system calls; paths as short as these are not put on the heap.
    unsafe { again.pre_exec(enter) };
    assert!(again.status().unwrap().success());
}

fn boot_with_every_nic() {
    use NicModel::*;
    let models = [VirtioNet, E1000, E1000e, Vmxnet3, Rtl8139, Pcnet];
    let interfaces = models.iter().enumerate().map(|(number, &nic)| Interface {
        name: format!("eth{number}"),
        link: "lan".into(),
        address: format!("10.77.{number}.2/24"),
        more_addresses: vec![],
        mac: Some(format!("52:54:00:77:00:0{number}")),
        nic: Some(nic),
        offloads: std::collections::BTreeMap::new(),
    });
    let guest = guest(&["loglevel=7"]);
    let node = node("nics", &guest, interfaces.collect());
    let way = |interface| Way::Qemu { taps: vec![open_tap(interface)] };
    let ports = node.interfaces.iter().map(|interface| Port { interface, way: way(interface) });
    let spec = Spec { ports: ports.collect(), ..Spec::of(&node, &guest) };
    let mut vmm = Qemu::start(spec).unwrap();
    let hello = await_hello(&mut vmm, LIMIT);
    // Each driver names itself or the address of what it drives; virtio_net says nothing.
    let printed = vmm.console_tail().join("\n");
    hello.unwrap_or_else(|error| panic!("{error:#}\n{printed}"));
    for trace in ["77:00:01", "77:00:02", "vmxnet3", "77:00:04", "77:00:05"] {
        assert!(printed.contains(trace), "{trace} is missing:\n{printed}");
    }
    vmm.quit().unwrap();
}

fn open_tap(interface: &Interface) -> OwnedFd {
    let tap = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: an all-zero `ifreq` is valid; the name is shorter than its field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.name.bytes()) {
        *to = from as libc::c_char;
    }
    // These models take and give frames with checksum and segmentation left to others.
    let leaves_work =
        matches!(model(interface), NicModel::VirtioNet | NicModel::E1000e | NicModel::Vmxnet3);
    let header = if leaves_work { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as libc::c_short;
    // SAFETY: TUNSETIFF takes an `ifreq`, which this is.
    let made = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &request) };
    assert_eq!(made, 0, "{}", io::Error::last_os_error());
    tap.into()
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn the_command_boots_a_guest_and_reports() {
    let output = command(&[]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [Record::Hello(hello), Record::Node(ready)] = records.as_slice() else {
        panic!("unexpected records: {text}");
    };
    assert_eq!((hello.node.as_str(), ready.node.as_str()), ("guest", "guest"));
    assert_eq!(ready.accelerator, Some(Accelerator::Tcg));
    assert!(ready.start_s > 0.1 && ready.start_s < LIMIT.as_secs_f64());
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn the_command_says_why_a_guest_did_not_answer() {
    let output = command(&["rdinit=/there-is-none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("hypertare-agent: the guest panicked: "), "{text}");
    assert!(text.contains("\nThe guest printed last:\n  "), "{text}");
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_vmm_does_not_outlive_a_killed_agent() {
    let hang = ["rdinit=/there-is-none", "root=/dev/there-is-none", "rootwait"];
    let mut agent = command(&hang).spawn().unwrap();
    let qemu = await_vmm(agent.id());
    agent.kill().unwrap();
    agent.wait().unwrap();
    wait_for_end(qemu);
}

#[test]
#[ignore = "boots guests: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_s_qemu_may_do_nothing_beyond_its_descriptors() {
    let (mut vmm, _) = boot("confined", &guest(&[]));
    assert_confined(vmm.pid(), 0);
    assert!(vmm.missing_walls().is_empty(), "{:?}", vmm.missing_walls());
    // From outside it is still seen and bound.
    let pid = vmm.pid().as_raw_nonzero();
    assert!(vmm.backing().unwrap().is_some_and(|backing| backing.resident > 0));
    assert!(fs::read_to_string(format!("/proc/{pid}/io")).unwrap().contains("rchar"));
    assert_eq!(vmm.quit().unwrap(), Quit::PoweredOff);
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn with_a_share_qemu_may_read_and_search_and_nothing_else() {
    let guest = guest(&[]);
    let node = node("shares", &guest, vec![]);
    let share = Some(Path::new("/"));
    let mut vmm = Qemu::start(Spec { share, ..Spec::of(&node, &guest) }).unwrap();
    await_hello(&mut vmm, LIMIT).unwrap();
    // CAP_DAC_READ_SEARCH
    assert_confined(vmm.pid(), if is_root() { 1 << 2 } else { 0 });
    vmm.quit().unwrap();
}

#[test]
#[ignore = "boots a guest: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn kernel_and_archive_may_be_files_that_only_their_owner_reads() {
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let [kernel, archive] = ["HYPERTARE_KERNEL", "HYPERTARE_INITRAMFS"].map(|variable| {
        let place = closed.path().join(variable);
        fs::copy(path(variable), &place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        place
    });
    let (mut vmm, _) = boot("closed", &Guest { kernel, initramfs: vec![archive], ..guest(&[]) });
    vmm.quit().unwrap();
}

#[test]
#[ignore = "starts QEMU: needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn an_emulated_machine_s_qemu_may_do_nothing_beyond_its_descriptors() {
    let mut command = Command::new(AGENT);
    command.arg("emulate").arg("--kernel").arg(path("HYPERTARE_KERNEL"));
    command.arg("--initramfs").arg(path("HYPERTARE_INITRAMFS"));
    for word in ["rdinit=/there-is-none", "root=/dev/there-is-none", "rootwait"] {
        command.args(["--kernel-arg", word]);
    }
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let qemu = await_vmm(agent.id());
    assert_confined(qemu, 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
    wait_for_end(qemu);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Has none of a process's usual powers but these capabilities.
fn assert_confined(qemu: Pid, capabilities: u64) {
    let pid = qemu.as_raw_nonzero();
    // The filter is there some time after the program.
    let deadline = Instant::now() + LIMIT;
    let field = |name: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().trim().to_owned()
    };
    while field("Seccomp") != "2" {
        assert!(Instant::now() < deadline, "QEMU does not filter its system calls");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(field("NoNewPrivs"), "1");
    for (set, held) in [
        ("CapInh", capabilities),
        ("CapPrm", capabilities),
        ("CapEff", capabilities),
        ("CapAmb", capabilities),
    ] {
        assert_eq!(field(set), format!("{held:016x}"), "{set}");
    }
    if !is_root() {
        return;
    }
    assert_eq!(field("CapBnd"), format!("{:016x}", 0));
    assert_eq!(field("Groups"), "");
    for ids in ["Uid", "Gid"] {
        let all = field(ids);
        assert!(all.split_ascii_whitespace().all(|id| id != "0"), "{ids}: {all}");
    }
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let options = mounts.lines().map(|line| line.split(' ').nth(5).unwrap());
    assert!(options.clone().count() > 0);
    assert!(options.clone().all(|one| one.starts_with("ro,nosuid")), "{mounts}");
}

fn command(kernel_args: &[&str]) -> Command {
    let mut command = Command::new(AGENT);
    command.arg("guest").arg("--kernel").arg(path("HYPERTARE_KERNEL"));
    command.arg("--initramfs").arg(path("HYPERTARE_INITRAMFS")).args(["--limit", "60"]);
    for word in kernel_args.iter().chain([&QUICKER]) {
        command.args(["--kernel-arg", word]);
    }
    command.stdin(Stdio::null());
    command
}

fn await_vmm(parent: u32) -> Pid {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(qemu) = vmm_of(parent) {
            return qemu;
        }
        assert!(Instant::now() < deadline, "no QEMU was started");
        thread::sleep(Duration::from_millis(10));
    }
}

/// By its name and what it boots, so that neither a child which has not yet become QEMU is meant nor one
/// that is only asked what it can do.
fn vmm_of(parent: u32) -> Option<Pid> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let is_child = rest.split_ascii_whitespace().nth(1)? == parent.to_string();
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let boots = line.split(|&byte| byte == 0).any(|word| word == b"-append");
        (is_child && name.contains("qemu") && boots).then(|| Pid::from_raw(pid))?
    })
}
