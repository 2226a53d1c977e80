//! AF_XDP for real: on a veth pair, in a network namespace of its own, by root. Where that is not allowed a test
//! says so and ends well.

use std::time::{Duration, Instant};

use agent::net::Links;
use agent::net::frame_sources;
use agent::net::frames::{ETHER_TYPE, Filter, FrameSource, Opening};
use agent::net::xdp::obstacle;
use hypertare_plan::FrameVia;
use rustix::thread::UnshareFlags;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

const MEMORY: u32 = 4 << 20;
const ENOUGH: Duration = Duration::from_secs(10);

/// Runs a test's body in a network namespace of this thread's own, with the pair `here` and `there`.
fn on_a_pair(mtu: u32, body: impl FnOnce(&Links)) {
    if let Some(why) = obstacle() {
        return eprintln!("skipped: {why}");
    }
    // SAFETY: only this thread's network namespace changes, and it has opened nothing in the old one.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    let links = Links::open().unwrap();
    links.veth("here", "there", None).unwrap();
    for name in ["here", "there"] {
        links.set_mtu(name, mtu).unwrap();
        links.set_up(name).unwrap();
    }
    links.wait_for_carrier("here", ENOUGH).unwrap();
    body(&links);
}

/// A packet socket at an interface.
fn packets(links: &Links, interface: &str) -> Socket {
    let all = Protocol::from(i32::from(ETHER_TYPE.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all)).unwrap();
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage is as large as any address; the kind of this one is written into it.
    let address = unsafe {
        let place = storage.view_as::<libc::sockaddr_ll>();
        place.sll_family = libc::AF_PACKET as u16;
        place.sll_protocol = ETHER_TYPE.to_be();
        place.sll_ifindex = links.get(interface).unwrap().index as i32;
        SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as u32)
    };
    socket.bind(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

fn captured(interface: &str, ring: u32) -> anyhow::Result<Box<dyn FrameSource>> {
    let filter = &Filter::new(&[(14, 7), (18, 0x6874_7331)]);
    frame_sources::open(&Opening {
        interface,
        via: FrameVia::Xdp,
        ring,
        frame: 3614,
        filter,
        at_once: false,
    })
}

fn refused(interface: &str, ring: u32) -> String {
    format!("{:#}", captured(interface, ring).err().unwrap())
}

fn frame(session: u32, number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(session.to_be_bytes());
    frame.extend(b"hts1");
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, number as u8);
    frame
}

fn send(socket: &Socket, session: u32, count: u32, bytes: usize) {
    for number in 0..count {
        assert_eq!(socket.send(&frame(session, number, bytes)).unwrap(), bytes);
    }
}

/// What comes until there are so many, or nothing has come for a while.
fn taken(source: &mut dyn FrameSource, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count && source.next(&mut |frame| frames.push(frame.to_vec())).unwrap() > 0
    {
    }
    frames
}

/// Frames that the kernel's own network has seen meanwhile.
fn seen(socket: &Socket) -> usize {
    let mut buffer = [0; 4096];
    std::iter::from_fn(|| {
        rustix::net::recv(socket, &mut buffer[..], rustix::net::RecvFlags::empty()).ok()
    })
    .count()
}

#[test]
fn chosen_frames_are_taken_and_all_others_go_on() {
    on_a_pair(1500, |links| {
        let (sender, kernel) = (packets(links, "there"), packets(links, "here"));
        let mut source = captured("here", MEMORY).unwrap();
        let reported = source.reported();
        assert_eq!(reported.values, [("xdp_native", 1.0), ("xdp_zero_copy", 0.0)]);
        assert_eq!((reported.warning, source.ring_bytes()), (None, u64::from(MEMORY)));
        for round in 0..3 {
            send(&sender, 7, 1000, 60 + round);
            send(&sender, 8, 50, 60);
            let wanted: Vec<_> = (0..1000).map(|number| frame(7, number, 60 + round)).collect();
            assert_eq!(taken(&mut *source, 1000), wanted);
        }
        send(&sender, 7, 3, 1514);
        assert_eq!(taken(&mut *source, 3)[2], frame(7, 2, 1514));
        assert_eq!((source.drops().unwrap(), seen(&kernel)), (0, 150));

        let error = refused("here", MEMORY);
        assert!(error.contains("has its queue 0: wait for its end"), "{error}");
        drop(source);
        send(&sender, 7, 5, 60);
        assert_eq!(seen(&kernel), 5, "nothing is chosen any more");
        captured("here", MEMORY).unwrap();
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    on_a_pair(1500, |links| {
        let sender = packets(links, "there");
        let mut source = captured("here", 128 << 10).unwrap();
        send(&sender, 7, 500, 60);
        let began = Instant::now();
        while source.drops().unwrap() < 500 - 64 && began.elapsed() < ENOUGH {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((source.drops().unwrap(), taken(&mut *source, 64).len()), (500 - 64, 64));
        send(&sender, 7, 64, 60);
        assert_eq!(taken(&mut *source, 64).len(), 64, "buffers came back");
    });
}

#[test]
fn while_frames_come_none_is_unaccounted_for() {
    const COUNT: u32 = 50_000;
    on_a_pair(1500, |links| {
        let sender = packets(links, "there");
        let mut source = captured("here", 256 << 10).unwrap();
        let sent = std::thread::spawn(move || send(&sender, 7, COUNT, 60));
        let mut count = 0;
        while count + source.drops().unwrap() < u64::from(COUNT) {
            let taken = source.next(&mut |_| ()).unwrap();
            assert!(taken > 0, "{count} taken, {} dropped", source.drops().unwrap());
            count += taken;
        }
        sent.join().unwrap();
        assert_eq!(count + source.drops().unwrap(), u64::from(COUNT));
    });
}

#[test]
fn where_the_driver_refuses_the_kernel_stands_in() {
    // More than veth's driver takes, less than a page.
    on_a_pair(3600, |links| {
        let sender = packets(links, "there");
        let mut source = captured("here", MEMORY).unwrap();
        let reported = source.reported();
        assert_eq!(reported.values[0], ("xdp_native", 0.0));
        let warning = reported.warning.unwrap();
        assert!(warning.starts_with("here: its driver takes no XDP program"), "{warning}");
        send(&sender, 7, 20, 3614);
        assert_eq!(taken(&mut *source, 20)[19], frame(7, 19, 3614));
    });
}

#[test]
fn an_interface_that_goes_away_is_named() {
    on_a_pair(1500, |links| {
        let mut source = captured("here", MEMORY).unwrap();
        links.delete("here").unwrap();
        let error = (0..20).find_map(|_| source.next(&mut |_| ()).err()).unwrap().to_string();
        assert!(error.contains("the interface went down"), "{error}");
    });
}

#[test]
fn what_cannot_be_captured_says_why() {
    on_a_pair(9000, |_| {
        let error = refused("here", MEMORY);
        assert!(error.contains("the MTU is 9000, and may be 3822 at most"), "{error}");
        let error = refused("nowhere", MEMORY);
        assert!(error.contains("there is no interface nowhere"), "{error}");
    });
}
