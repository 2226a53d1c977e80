//! Links, taps and knobs for real, each test in a user, network and mount namespace of its own:
//! the host's network is out of reach. Where the host forbids that, the tests fail and say why.

use std::io::Error;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::knob::{Ledger, Setting};
use agent::net::sysfs::InterfaceDirectory;
use agent::net::{Link, Links, Namespace, ethtool, queue, tap};
use hypertare_plan::{Discipline, Knob, KnobAction, MarkedClass, Queue};
use rustix::thread::UnshareFlags;

const INSIDE: &str = "HYPERTARE_TEST_INSIDE";

/// Runs a test's body in a fresh process inside fresh namespaces.
fn inside(test: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let maps = [
        ("/proc/self/uid_map", format!("0 {} 1", uid.as_raw())),
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/gid_map", format!("0 {} 1", gid.as_raw())),
    ];
    let mut command = Command::new("/proc/self/exe");
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
    // SAFETY: between fork and exec there are only system calls; everything was allocated before.
    unsafe { command.pre_exec(move || enter(&maps)) };
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "this host allows no user and network namespaces ({error}): look at \
             user.max_user_namespaces and kernel.unprivileged_userns_clone, or run as root"
        )
    });
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn enter(maps: &[(&str, String)]) -> Result<(), Error> {
    let own = UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    // SAFETY: the process has one thread, and no files are unshared.
    match unsafe { rustix::thread::unshare_unsafe(own | UnshareFlags::NEWUSER) } {
        Ok(()) => maps.iter().try_for_each(|(path, text)| {
            let flags = rustix::fs::OFlags::WRONLY;
            let file = rustix::fs::open(*path, flags, rustix::fs::Mode::empty())?;
            rustix::io::write(&file, text.as_bytes()).map(drop)
        })?,
        // SAFETY: as above.
        Err(_) => unsafe { rustix::thread::unshare_unsafe(own) }?,
    }
    Ok(())
}

/// A thread in a network namespace of its own that does what it is asked.
struct Neighbour {
    orders: Option<Sender<Box<dyn FnOnce() + Send>>>,
    thread: Option<JoinHandle<()>>,
    tid: u32,
    namespace: OwnedFd,
}

impl Neighbour {
    fn new() -> Self {
        let (orders, inbox): (_, Receiver<Box<dyn FnOnce() + Send>>) = channel();
        let (born, birth) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: only this thread's network namespace changes.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            let namespace = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            born.send((tid, OwnedFd::from(namespace))).unwrap();
            inbox.into_iter().for_each(|order| order());
        });
        let (tid, namespace) = birth.recv().unwrap();
        Neighbour { orders: Some(orders), thread: Some(thread), tid, namespace }
    }

    fn does<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let order = Box::new(move || done.send(what()).unwrap());
        self.orders.as_ref().unwrap().send(order).unwrap();
        result.recv_timeout(Duration::from_secs(5)).unwrap()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.orders.take();
        let _ = self.thread.take().unwrap().join();
    }
}

/// What one link's sysfs says, in a mount that is not the one of the code under test. It hides /tmp
/// from this process alone, and goes with it.
fn sysfs(interface: &str, file: &str) -> String {
    let root = Path::new("/tmp");
    if !root.join("class/net").exists() {
        let private = rustix::mount::MountPropagationFlags::PRIVATE
            | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("sysfs", root, "sysfs", flags, None).unwrap();
    }
    let path = root.join("class/net").join(interface).join(file);
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Whether a kernel feature is on, by its name, from ETHTOOL_GSTRINGS and ETHTOOL_GFEATURES: not the
/// commands that the code under test uses.
fn feature(interface: &str, name: &str) -> bool {
    const STRINGS: u32 = 0x1b;
    const FEATURES: u32 = 0x3a;
    const SET_FEATURES: u32 = 4;
    const MOST: usize = 128;
    let mut strings = vec![0_u32; 3 + MOST * 8];
    // A length of nothing asks for all, fewer than 128 on any kernel so far.
    strings[..3].copy_from_slice(&[STRINGS, SET_FEATURES, 0]);
    ioctl(interface, &mut strings);
    let index = strings[3..].chunks(8).position(|words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.split(|&byte| byte == 0).next() == Some(name.as_bytes())
    });
    let index = index.unwrap_or_else(|| panic!("the kernel has no feature {name}"));
    let mut features = vec![0_u32; 2 + MOST / 32 * 4];
    features[..2].copy_from_slice(&[FEATURES, MOST as u32 / 32]);
    ioctl(interface, &mut features);
    // Each block: available, requested, active, never changed.
    features[2 + index / 32 * 4 + 2] >> (index % 32) & 1 == 1
}

fn ioctl(interface: &str, words: &mut [u32]) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: ifreq is plain data; the kernel writes at most the room that the words announce.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        libc::ioctl(socket.as_raw_fd(), 0x8946, &mut request)
    };
    assert_eq!(result, 0, "{}", Error::last_os_error());
}

fn veth() -> Links {
    let links = Links::open().unwrap();
    links.veth("va", "vb", None).unwrap();
    links
}

fn get(name: &str) -> Link {
    Links::open().unwrap().get(name).unwrap()
}

/// A datagram there and an answer back.
fn exchange(neighbour: &Neighbour, here: &'static str, there: &'static str) {
    let socket = UdpSocket::bind(here).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let to = socket.local_addr().unwrap();
    neighbour.does(move || {
        let socket = UdpSocket::bind(there).unwrap();
        socket.send_to(b"hello", to).unwrap();
    });
    let mut buffer = [0; 16];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"hello");
    assert_eq!(
        from.ip().to_string(),
        there.parse::<std::net::SocketAddr>().unwrap().ip().to_string()
    );
}

#[test]
fn a_bridge_and_a_neighbour_talk_at_once() {
    inside("a_bridge_and_a_neighbour_talk_at_once", || {
        let (links, neighbour) = (Links::open().unwrap(), Neighbour::new());
        links.bridge("br0", 1500).unwrap();
        let mac = get("br0").mac;
        links.veth("va", "eth0", Some(Namespace::Pid(neighbour.tid))).unwrap();
        links.set_master("va", Some("br0")).unwrap();
        assert_eq!(get("va").master, Some(get("br0").index));
        assert_eq!(get("va").kind.as_deref(), Some("veth"));
        assert_eq!(get("br0").kind.as_deref(), Some("bridge"));
        for address in ["10.77.0.1/24", "fd77::1/64"] {
            links.add_address("br0", address).unwrap();
        }
        links.set_up("br0").unwrap();
        links.set_up("va").unwrap();
        let error = links.wait_for_carrier("va", Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("its other end is not up"), "{error}");

        let found = neighbour.does(|| {
            let links = Links::open().unwrap();
            links.set_mac("eth0", "02:00:00:00:00:77").unwrap();
            links.add_address("eth0", "10.77.0.2/24").unwrap();
            links.add_address("eth0", "fd77::2/64").unwrap();
            links.set_up("eth0").unwrap();
            links.wait_for_carrier("eth0", Duration::from_secs(2)).unwrap();
            (links.get("eth0").unwrap().mac, links.addresses("eth0").unwrap())
        });
        assert_eq!(found.0, "02:00:00:00:00:77");
        for address in ["10.77.0.2/24", "fd77::2/64"] {
            assert!(found.1.contains(&address.to_owned()), "{:?}", found.1);
        }
        for link in ["va", "br0"] {
            links.wait_for_carrier(link, Duration::from_secs(2)).unwrap();
        }
        let started = Instant::now();
        exchange(&neighbour, "10.77.0.1:0", "10.77.0.2:0");
        exchange(&neighbour, "[fd77::1]:0", "[fd77::2]:0");
        // Duplicate address detection would have taken a second or more.
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
        assert_eq!(get("br0").mac, mac, "a port changed the bridge's address");

        links.set_master("va", None).unwrap();
        assert_eq!(get("va").master, None);
        links.delete("va").unwrap();
        let left: Vec<String> = links.list().unwrap().into_iter().map(|link| link.name).collect();
        assert_eq!(left, ["lo", "br0"]);
        let there = neighbour.does(|| Links::open().unwrap().list().unwrap().len());
        assert_eq!(there, 1, "the peer went with it");
    });
}

#[test]
fn a_link_goes_to_a_namespace_by_its_file() {
    inside("a_link_goes_to_a_namespace_by_its_file", || {
        use std::os::fd::AsFd;
        let (links, neighbour) = (veth(), Neighbour::new());
        links.move_to("vb", Namespace::Fd(neighbour.namespace.as_fd())).unwrap();
        assert!(links.get("vb").is_err());
        assert_eq!(neighbour.does(|| Links::open().unwrap().get("vb").unwrap().mtu), 1500);
    });
}

#[test]
fn what_cannot_be_is_reported() {
    inside("what_cannot_be_is_reported", || {
        let links = veth();
        let error = |result: anyhow::Result<()>| format!("{:#}", result.unwrap_err());
        let text = error(links.set_up("eth9"));
        assert!(text.contains("no interface eth9") && text.contains("va"), "{text}");
        let text = error(links.veth("va", "vc", None));
        assert!(text.contains("making the veth pair va, vc") && text.contains("exists"), "{text}");
        let text = error(links.set_mtu("va", 20));
        assert!(text.contains("MTU of va to 20 bytes"), "{text}");
        assert!(error(links.add_address("va", "10.0.0.1")).contains("10.77.0.2/24"));
        assert!(error(links.set_master("va", Some("vb"))).contains("port of vb"));
    });
}

#[test]
fn a_tap_lives_as_long_as_its_file() {
    inside("a_tap_lives_as_long_as_its_file", || {
        let links = Links::open().unwrap();
        if let Err(refused) = std::fs::OpenOptions::new().write(true).open("/dev/net/tun") {
            let error = tap::create("tap0", 1).unwrap_err().to_string();
            let reports = error.contains("modprobe tun") || error.contains("chmod 0666");
            return assert!(reports, "{refused}, but: {error}");
        }
        links.bridge("br0", 1500).unwrap();
        let file = tap::create("tap0", 1).unwrap();
        assert_eq!(get("tap0").kind.as_deref(), Some("tun"));
        assert_eq!(ethtool::state("tap0").unwrap().driver.as_deref(), Some("tun"));
        let flags = u32::from_str_radix(&sysfs("tap0", "tun_flags")[2..], 16).unwrap();
        let expected = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as u32;
        assert_eq!(flags & expected, expected);
        links.set_mtu("tap0", 1400).unwrap();
        links.set_master("tap0", Some("br0")).unwrap();
        links.set_up("tap0").unwrap();
        links.wait_for_carrier("tap0", Duration::from_secs(2)).unwrap();
        assert!(tap::create("tap0", 1).unwrap_err().to_string().contains("in use"));
        drop(file);
        assert!(links.get("tap0").is_err());
    });
}

#[test]
fn packets_wait_as_they_are_asked_to() {
    inside("packets_wait_as_they_are_asked_to", || {
        let links = veth();
        let set = |discipline, length| queue::set(&links, "va", &Queue { discipline, length });
        set(Some(Discipline::Pfifo), Some(300)).unwrap();
        assert_eq!((get("va").discipline.as_str(), get("va").queue_length), ("pfifo", 300));
        assert_eq!(sysfs("va", "tx_queue_len"), "300");
        set(None, Some(50)).unwrap();
        assert_eq!((get("va").discipline.as_str(), get("va").queue_length), ("pfifo", 50));
        set(Some(Discipline::Noqueue), None).unwrap();
        assert_eq!((get("va").discipline.as_str(), get("va").queue_length), ("noqueue", 50));
        // Not every kernel has it.
        if let Err(error) = set(Some(Discipline::FqCodel), Some(400)) {
            let error = format!("{error:#}");
            assert!(error.contains("modprobe sch_fq_codel"), "{error}");
        } else {
            assert_eq!((get("va").discipline.as_str(), get("va").queue_length), ("fq_codel", 400));
        }
    });
}

#[test]
fn traffic_waits_in_classes_and_then_as_before() {
    inside("traffic_waits_in_classes_and_then_as_before", || {
        veth();
        let uplink = get("va").mac;
        let before = get("va").discipline;
        let classes =
            |marked| Knob::TrafficClasses { uplink: uplink.clone(), rate_bps: 7_600_000, marked };
        let first = MarkedClass { dscp: 46, rate_bps: 7_524_000, first: true };
        let marked = "DSCP 46, marked 940500 of 950000 B/s priority 0, \
                      others 9500 of 950000 B/s priority 1";
        let mut ledger = Ledger::default();
        for (asked, text) in
            [(None, "others 950000 of 950000 B/s priority 0"), (Some(first.clone()), marked)]
        {
            let applied = ledger.apply("host", 7, &classes(asked));
            // Not every kernel has them.
            if applied.error.as_ref().is_some_and(|error| error.contains("modprobe sch_htb")) {
                return eprintln!("skipped: {:?}", applied.error);
            }
            assert_eq!(applied.error, None);
            assert_eq!(
                (applied.before.as_deref(), applied.after.as_deref()),
                (Some("none"), Some(text))
            );
            assert_eq!(get("va").discipline, "htb");
            let back = ledger.put_back("host", 7);
            assert_eq!((back[0].error.as_ref(), back[0].after.as_deref()), (None, Some("none")));
            assert_eq!(get("va").discipline, before);
        }
        for wrong in
            [MarkedClass { dscp: 64, ..first.clone() }, MarkedClass { rate_bps: 0, ..first }]
        {
            assert!(ledger.apply("host", 7, &classes(Some(wrong))).error.is_some());
        }
    });
}

#[test]
fn an_mtu_is_set_and_put_back() {
    inside("an_mtu_is_set_and_put_back", || {
        veth();
        let knob = Knob::Mtu { interface: "va".into(), bytes: 9000 };
        let mut ledger = Ledger::default();
        let applied = ledger.apply("sut", 7, &knob);
        assert_eq!(applied.error, None);
        assert_eq!(
            (applied.before.as_deref(), applied.after.as_deref()),
            (Some("1500"), Some("9000"))
        );
        assert_eq!((applied.action, applied.trial, applied.knob), (KnobAction::Applied, 7, knob));
        assert_eq!(sysfs("va", "mtu"), "9000");
        let back = ledger.put_back("sut", 7);
        assert_eq!(back[0].after.as_deref(), Some("1500"));
        assert_eq!(sysfs("va", "mtu"), "1500");

        let refused = ledger.apply("sut", 7, &Knob::Mtu { interface: "va".into(), bytes: 10 });
        assert!(refused.error.unwrap().contains("setting mtu of va to 10"));
        assert!(ledger.put_back("sut", 1).is_empty());
        assert_eq!(sysfs("va", "mtu"), "1500");
    });
}

#[test]
fn an_mtu_that_would_cost_the_addresses_is_refused() {
    inside("an_mtu_that_would_cost_the_addresses_is_refused", || {
        let links = veth();
        let small = Knob::Mtu { interface: "va".into(), bytes: 1000 };
        let mut ledger = Ledger::default();
        assert_eq!(ledger.apply("sut", 1, &small).error, None);
        ledger.put_back("sut", 1);
        links.add_address("va", "fd77::1/64").unwrap();
        let error = ledger.apply("sut", 1, &small).error.unwrap();
        assert!(error.contains("below 1280 bytes"), "{error}");
        assert_eq!(links.addresses("va").unwrap(), ["fd77::1/64"]);
        assert_eq!(sysfs("va", "mtu"), "1500");
    });
}

#[test]
fn offloads_are_switched_and_put_back_also_by_dropping_the_ledger() {
    inside("offloads_are_switched_and_put_back_also_by_dropping_the_ledger", || {
        veth();
        let before = ethtool::state("va").unwrap();
        assert_eq!(before.driver.as_deref(), Some("veth"));
        assert!(before.offloads["tso"] && before.rx_queues > 0);
        assert!(feature("va", "tx-tcp-segmentation"));
        let offload = |offload: &str, on| Knob::Offload {
            interface: "va".into(),
            offload: offload.into(),
            on,
            ports: false,
        };
        let mut ledger = Ledger::default();
        for name in ["tso", "gso", "gro", "tx", "sg", "lro"] {
            let outcome = ledger.apply("sut", 1, &offload(name, false));
            assert_eq!((outcome.error, outcome.after.as_deref()), (None, Some("off")), "{name}");
        }
        for name in
            ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro", "tx-checksum-ip-generic"]
        {
            assert!(!feature("va", name), "{name}");
        }
        drop(ledger);
        assert!(feature("va", "tx-tcp-segmentation") && feature("va", "tx-checksum-ip-generic"));
        assert_eq!(ethtool::state("va").unwrap(), before);

        let lacking = Ledger::default().apply("sut", 1, &offload("lro", true));
        let error = lacking.error.unwrap();
        assert!(error.contains("its driver, veth, cannot do that"), "{error}");
        let unknown = Ledger::default().apply("sut", 1, &offload("warp", true)).error.unwrap();
        assert!(unknown.contains("not available here") && unknown.contains("tso"), "{unknown}");
    });
}

#[test]
fn socket_buffers_of_the_machine_are_not_a_namespaces_to_set() {
    inside("socket_buffers_of_the_machine_are_not_a_namespaces_to_set", || {
        let tcp = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
        let before = tcp();
        let outcome = Ledger::default().apply("sut", 1, &Knob::SocketBuffers { bytes: 1 << 20 });
        let error = outcome.error.unwrap();
        assert!(error.contains("first network namespace"), "{error}");
        assert_eq!(tcp(), before);
    });
}

#[test]
fn steering_finds_the_right_interface_and_is_set_or_refused_whole() {
    inside("steering_finds_the_right_interface_and_is_set_or_refused_whole", || {
        veth();
        let directory = InterfaceDirectory::find("va").unwrap();
        let index = std::fs::read_to_string(directory.path().join("ifindex")).unwrap();
        assert_eq!(index.trim(), get("va").index.to_string());
        let knob = Knob::ReceiveSteering { interface: "va".into(), cpus: vec![0] };
        let mut ledger = Ledger::default();
        let outcome = ledger.apply("sut", 1, &knob);
        let steered = || sysfs("va", "queues/rx-0/rps_cpus").contains('1');
        match outcome.error {
            // In a user namespace the kernel refuses it to all but the machine's root.
            Some(error) => assert!(error.contains("root of the machine") && !steered(), "{error}"),
            None => assert!(steered()),
        }
        ledger.put_back("sut", 1);
        assert!(!steered());
        assert_eq!(Setting::of(&knob).unwrap().probe().unwrap(), "");
        let interrupts = Knob::InterruptCpus { interface: "va".into(), cpus: vec![0] };
        let error = Setting::of(&interrupts).err().unwrap().to_string();
        assert!(error.contains("va has no interrupts"), "{error}");
    });
}

/// A pair of veths stands for netback's interface and a guest's.
#[test]
fn a_guest_s_interface_is_joined_as_its_link_says() {
    inside("a_guest_s_interface_is_joined_as_its_link_says", || {
        use agent::net::forwarding;
        use agent::xen::vif::Joint;
        use hypertare_plan::{Interface, LinkKind};

        let links = Links::open().unwrap();
        links.bridge("lan", 1500).unwrap();
        links.veth("vif3.0", "eth0", None).unwrap();
        forwarding::set(false, false).unwrap();
        let interface: Interface = serde_json::from_value(serde_json::json!({
            "name": "eth0", "link": "lan", "address": "10.77.0.3/24"}))
        .unwrap();
        let joint = |kind: LinkKind| {
            let link = hypertare_plan::Link {
                name: "lan".into(),
                kind,
                mtu: 1500,
                uplink: None,
                trunk: None,
            };
            Joint::of(3, 0, &interface, &link)
        };
        let (bridged, routed) = (joint(LinkKind::Bridge).unwrap(), joint(LinkKind::Route).unwrap());
        let refused = |joint: &Joint| joint.check().unwrap_err().to_string();
        assert!(joint(LinkKind::Hub).is_err());
        assert_eq!(refused(&bridged), "vif3.0 is down");

        bridged.make().unwrap();
        assert_eq!(bridged.check().unwrap(), LinkKind::Bridge);
        assert_eq!(refused(&routed), "vif3.0 is a port of a bridge, and is to be routed");

        links.set_master("vif3.0", None).unwrap();
        assert_eq!(refused(&bridged), "vif3.0 is no port of the bridge lan");
        assert_eq!(refused(&routed), "no route leads to 10.77.0.3 by vif3.0");

        routed.make().unwrap();
        assert_eq!(refused(&routed), "vif3.0 takes nothing in that is for others");
        forwarding::set(true, false).unwrap();
        assert_eq!(routed.check().unwrap(), LinkKind::Route);

        links.delete("vif3.0").unwrap();
        assert!(refused(&routed).contains("there is no interface vif3.0"));
    });
}
