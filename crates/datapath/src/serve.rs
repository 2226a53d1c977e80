//! Serves cards, and relays past them, in one thread. The host agent hands it each card's descriptors, and
//! the sockets at which relays are asked for, through a socket. When that ends, this process ends.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::card::Card;
use crate::counters::Counters;
use crate::protocol::{MOST_FILES, receive_with_files};
use crate::relay::{Parts, Relay};

/// Queues of one card.
pub const MOST_QUEUES: usize = 16;

/// Descriptors beside those of the TAP.
const OTHERS: usize = 3;
const _: () = assert!(MOST_QUEUES + OTHERS == MOST_FILES);

/// Frames of a queue that are moved before the next one has its turn.
const TURN: u16 = 32;

/// Turns before those who have something to say are looked at again.
const TURNS: usize = 256;

/// How it is known that there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeMode {
    /// Guests and TAPs say so, and nobody looks meanwhile.
    Notified,
    /// By looking, as long as a guest drives its card: guests need not say anything.
    Polling,
}

/// A card to be served.
pub struct Handed {
    /// Where its VMM will connect.
    pub listener: OwnedFd,
    /// Page for [`crate::counters`].
    pub counters: OwnedFd,
    /// Why it ended is written there; it is closed then, or when this process ends.
    pub status: OwnedFd,
    /// One for each pair of queues.
    pub taps: Vec<OwnedFd>,
}

/// What is said beside descriptors: of which kind they are, or what is to be known of a relay.
const CARD: u8 = b'c';
const RELAYS: u8 = b'r';
/// The address, and the longest frame and the memory's length as words, their least byte first.
const RELAY_BYTES: usize = 6 + 8 + 8;
/// Said of a relay once it works.
const BEGUN: u8 = b'b';

/// Why a relay ended, in bytes at most.
pub const LONGEST_REASON: u64 = 1000;

/// Hands a card over.
pub fn hand(to: impl AsFd, card: &Handed) -> Result<()> {
    ensure!(card.taps.len() <= MOST_QUEUES, "a card has at most {MOST_QUEUES} pairs of queues");
    let mut all = vec![card.listener.as_fd(), card.counters.as_fd(), card.status.as_fd()];
    all.extend(card.taps.iter().map(AsFd::as_fd));
    send_with_files(to, &[CARD], &all).context("handing a card over")
}

/// Hands over a socket at which relays are asked for.
pub fn hand_listener(to: impl AsFd, listener: &OwnedFd) -> Result<()> {
    send_with_files(to, &[RELAYS], &[listener.as_fd()]).context("handing a socket over")
}

/// Asks for a relay, which ends with the connection; returns once it works. Why it ends before is said there.
///
/// # Errors
/// There can be none, and why.
pub fn ask_for_relay(mut to: &UnixStream, parts: &Parts) -> Result<()> {
    let mut said = parts.address.to_vec();
    said.extend((parts.longest as u64).to_le_bytes());
    said.extend((parts.bytes as u64).to_le_bytes());
    let files = [&parts.memory, &parts.socket, &parts.counters].map(AsFd::as_fd);
    send_with_files(to, &said, &files).context("asking for a relay")?;
    let mut first = [0];
    to.read_exact(&mut first).context("what polls does not begin with it")?;
    if first == [BEGUN] {
        return Ok(());
    }
    let mut why = String::from_utf8_lossy(&first).into_owned();
    to.take(LONGEST_REASON).read_to_string(&mut why)?;
    bail!(why)
}

fn send_with_files(to: impl AsFd, said: &[u8], files: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(files));
    sendmsg(to, &[IoSlice::new(said)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What who starts this has to be served.
enum Served {
    Card(Handed),
    Relays(UnixListener),
}

/// Takes one; none when there will be no more.
fn take(from: impl AsFd) -> Result<Option<Served>> {
    let mut kind = [0];
    let (bytes, files) = receive_with_files(from, &mut kind)?;
    if bytes == 0 {
        return Ok(None);
    }
    let mut all = files.into_iter();
    let mut next = || all.next().context("a card came without its descriptors");
    if kind == [RELAYS] {
        return Ok(Some(Served::Relays(next()?.into())));
    }
    let (listener, counters, status) = (next()?, next()?, next()?);
    Ok(Some(Served::Card(Handed { listener, counters, status, taps: all.collect() })))
}

/// Takes what a relay is asked for with.
fn take_parts(from: &UnixStream) -> Result<Parts> {
    let mut said = [0; RELAY_BYTES];
    let (bytes, files) = receive_with_files(from, &mut said)?;
    let [memory, socket, counters]: [OwnedFd; 3] = files
        .try_into()
        .ok()
        .filter(|_| bytes == RELAY_BYTES)
        .context("a relay was asked for without all that it needs")?;
    let word = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| said[from + at]));
    let (longest, bytes) = (usize::try_from(word(6))?, usize::try_from(word(14))?);
    let address = std::array::from_fn(|at| said[at]);
    Ok(Parts { memory, bytes, socket, counters, address, longest })
}

/// Serves cards until the socket that they come by ends.
pub fn serve(cards: OwnedFd, mode: ServeMode) -> Result<()> {
    let (states, relays) = (Vec::new(), Vec::new());
    let mut server = Server { cards, mode, states, relays };
    let mut is_idle = true;
    loop {
        if !server.listen(is_idle)? {
            return Ok(());
        }
        is_idle = match mode {
            ServeMode::Notified => server.work_until_idle(),
            ServeMode::Polling => server.look_for_work(),
        };
    }
}

struct Server {
    cards: OwnedFd,
    mode: ServeMode,
    states: Vec<CardState>,
    relays: Vec<RelayPlace>,
}

/// Where relays of one guest are asked for: one at a time, the newest.
struct RelayPlace {
    listener: UnixListener,
    asked: Option<Asked>,
}

struct Asked {
    by: UnixStream,
    relay: Option<Relay>,
}

/// A card before and after its VMM has connected.
enum CardState {
    Awaited(Handed),
    Served { card: Card, status: OwnedFd },
}

/// Who has something to say.
#[derive(Clone, Copy)]
enum Speaker {
    Starter,
    Vmm(usize),
    /// A kick or a TAP.
    Work(usize),
    /// Somebody new who wants a relay, or the one who has it.
    RelayListener(usize),
    Relayed(usize),
}

impl Server {
    /// Hears whoever has something to say, and waits for one if there is nothing to do; false when all is
    /// to end.
    fn listen(&mut self, is_idle: bool) -> Result<bool> {
        let heard = self.heard(is_idle)?;
        let mut ended = Vec::new();
        for speaker in heard {
            match speaker {
                Speaker::Starter => match take(&self.cards)? {
                    Some(Served::Card(card)) => self.states.push(CardState::Awaited(card)),
                    Some(Served::Relays(listener)) => {
                        self.relays.push(RelayPlace { listener, asked: None });
                    }
                    None => return Ok(false),
                },
                Speaker::Vmm(index) => {
                    if let Some(place) = self.states.get_mut(index) {
                        ended.extend(place.hear(self.mode).err().map(|error| (index, error)));
                    }
                }
                Speaker::Work(index) => {
                    if let Some(CardState::Served { card, .. }) = self.states.get_mut(index) {
                        card.take_kicks();
                    }
                }
                Speaker::RelayListener(index) => {
                    if let Some(place) = self.relays.get_mut(index) {
                        place.accept();
                    }
                }
                Speaker::Relayed(index) => {
                    if let Some(place) = self.relays.get_mut(index) {
                        place.hear();
                    }
                }
            }
        }
        self.end(ended);
        Ok(true)
    }

    fn heard(&self, is_idle: bool) -> Result<Vec<Speaker>> {
        let (mut speakers, mut polled) = (Vec::new(), Vec::new());
        let mut watch = |speaker, descriptor| {
            speakers.push(speaker);
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        };
        watch(Speaker::Starter, self.cards.as_fd());
        for (index, place) in self.states.iter().enumerate() {
            watch(Speaker::Vmm(index), place.vmm());
            if let (ServeMode::Notified, CardState::Served { card, .. }) = (self.mode, place) {
                card.calls_for_work().for_each(|work| watch(Speaker::Work(index), work));
            }
        }
        for (index, place) in self.relays.iter().enumerate() {
            watch(Speaker::RelayListener(index), place.listener.as_fd());
            if let Some(asked) = &place.asked {
                watch(Speaker::Relayed(index), asked.by.as_fd());
            }
        }
        let at_once = Timespec::default();
        match poll(&mut polled, if is_idle { None } else { Some(&at_once) }) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for work"),
        }
        let has_spoken = |polled: &PollFd| !polled.revents().is_empty();
        let spoken = speakers.into_iter().zip(&polled).filter(|(_, polled)| has_spoken(polled));
        Ok(spoken.map(|(speaker, _)| speaker).collect())
    }

    /// Moves frames until there are none, and has guests notify of the next; false where there are more
    /// nevertheless.
    fn work_until_idle(&mut self) -> bool {
        for _ in 0..TURNS {
            if self.turn() == 0 {
                return self.each(|card| Ok(u32::from(card.arm()?))) == 0;
            }
        }
        false
    }

    /// Looks for work for some time. True, and nothing is looked at, as long as no guest drives its card and
    /// no relay is asked for: a guest that boots has no frames.
    fn look_for_work(&mut self) -> bool {
        let is_driven = |state: &CardState| match state {
            CardState::Awaited(_) => false,
            CardState::Served { card, .. } => card.is_driven(),
        };
        let is_asked = |place: &RelayPlace| place.asked.is_some();
        if !self.states.iter().any(is_driven) && !self.relays.iter().any(is_asked) {
            return true;
        }
        for _ in 0..TURNS {
            self.turn();
            self.relays.iter_mut().for_each(RelayPlace::turn);
        }
        false
    }

    fn turn(&mut self) -> u32 {
        self.each(|card| card.turn(TURN))
    }

    /// Does something with each card, and adds up the results. A card for which it fails ends.
    fn each(&mut self, act: impl Fn(&mut Card) -> Result<u32>) -> u32 {
        let (mut sum, mut ended) = (0, Vec::new());
        for (index, place) in self.states.iter_mut().enumerate() {
            let CardState::Served { card, .. } = place else { continue };
            match act(card) {
                Ok(count) => sum += count,
                Err(error) => ended.push((index, error)),
            }
        }
        self.end(ended);
        sum
    }

    /// Says why cards have ended, and takes them away: the last one first, so that numbers hold.
    fn end(&mut self, mut ended: Vec<(usize, anyhow::Error)>) {
        ended.sort_by_key(|(index, _)| *index);
        for (index, error) in ended.into_iter().rev() {
            let (CardState::Awaited(Handed { status, .. }) | CardState::Served { status, .. }) =
                self.states.remove(index);
            // Who would be notified may have gone.
            let _ = File::from(status).write_all(format!("{error:#}").as_bytes());
        }
    }
}

impl RelayPlace {
    fn accept(&mut self) {
        // Who has gone before needs none.
        if let Ok((by, _)) = self.listener.accept() {
            self.asked = Some(Asked { by, relay: None });
        }
    }

    /// Begins, or ends with whom it is for: who has a relay says nothing more.
    fn hear(&mut self) {
        let Some(asked) = self.asked.take_if(|asked| asked.relay.is_none()) else {
            self.asked = None;
            return;
        };
        match take_parts(&asked.by).and_then(Relay::new) {
            Ok(relay) => {
                self.asked = Some(Asked { relay: Some(relay), ..asked });
                self.say(&[BEGUN]);
            }
            Err(error) => {
                self.asked = Some(asked);
                self.end(&error);
            }
        }
    }

    fn turn(&mut self) {
        let Some(Asked { relay: Some(relay), .. }) = &mut self.asked else { return };
        if let Err(error) = relay.turn(TURN) {
            self.end(&error);
        }
    }

    /// The relay alone: who polls goes on with all others.
    fn end(&mut self, why: &anyhow::Error) {
        self.say(format!("{why:#}").as_bytes());
        self.asked = None;
    }

    fn say(&mut self, what: &[u8]) {
        // Who would be notified may have gone.
        let _ = self.asked.as_mut().map(|asked| asked.by.write_all(what));
    }
}

impl CardState {
    fn vmm(&self) -> BorrowedFd<'_> {
        match self {
            CardState::Awaited(card) => card.listener.as_fd(),
            CardState::Served { card, .. } => card.socket(),
        }
    }

    /// Its VMM has something to say.
    fn hear(&mut self, mode: ServeMode) -> Result<()> {
        match self {
            CardState::Awaited(handed) => {
                let listener = UnixListener::from(handed.listener.try_clone()?);
                let (socket, _) = listener.accept().context("its VMM did not connect")?;
                let counters = Counters::new(&handed.counters)?;
                let status = handed.status.try_clone()?;
                let taps = std::mem::take(&mut handed.taps);
                let spares_kicks = mode == ServeMode::Polling;
                let card = Card::new(socket, taps, counters, spares_kicks)?;
                *self = CardState::Served { card, status };
            }
            CardState::Served { card, .. } => {
                ensure!(card.hear()?, "its VMM closed the connection");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::counters::{self, Count};
    use crate::frame_ring::{Reader, Words, Writer};
    use crate::memory::Mapped;
    use crate::memory::tests::file;

    const BYTES: usize = 1 << 20;

    fn parts(memory: &OwnedFd, socket: UnixDatagram, longest: usize) -> Parts {
        let (memory, counters) = (memory.try_clone().unwrap(), counters::page().unwrap());
        let address = [2, 0, 0, 0, 0, 7];
        Parts { memory, bytes: BYTES, socket: socket.into(), counters, address, longest }
    }

    fn half(memory: &OwnedFd, which: u64) -> Mapped {
        Mapped::new(memory, which * BYTES as u64 / 2, BYTES / 2).unwrap()
    }

    /// A process that polls, as a thread, and the socket by which it gets what it serves.
    fn polling() -> (OwnedFd, JoinHandle<Result<()>>) {
        let (cards, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        (cards, std::thread::spawn(move || serve(theirs, ServeMode::Polling)))
    }

    #[test]
    fn nothing_is_looked_at_before_a_guest_drives_its_card() {
        let (cards, serving) = polling();
        let directory = std::env::temp_dir().join(format!("cards{}", std::process::id()));
        let listener = UnixListener::bind(&directory).unwrap();
        let (page, status) = (counters::page().unwrap(), file(1));
        let (counters, listener) = (page.try_clone().unwrap(), listener.into());
        hand(&cards, &Handed { listener, counters, status, taps: Vec::new() }).unwrap();
        let mut vmm = UnixStream::connect(&directory).unwrap();
        vmm.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // GET_FEATURES of version 1, without a payload (vhost-user.rst): its answer shows that the card is served.
        vmm.write_all(&[1_u32, 1, 0].map(u32::to_ne_bytes).concat()).unwrap();
        vmm.read_exact(&mut [0; 20]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(counters::read(&File::from(page)).unwrap()[Count::Polls as usize], 0);
        drop(cards);
        serving.join().unwrap().unwrap();
        std::fs::remove_file(directory).unwrap();
    }

    #[test]
    fn a_relay_is_served_until_who_asked_goes_and_a_lying_guest_ends_its_own_alone() {
        let (cards, serving) = polling();
        let directory = std::env::temp_dir().join(format!("relays{}", std::process::id()));
        let listener = UnixListener::bind(&directory).unwrap();
        hand_listener(&cards, &listener.into()).unwrap();
        let connect = || {
            let stream = UnixStream::connect(&directory).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream
        };
        let memory = file(BYTES as u64);

        let (socket, wire) = UnixDatagram::pair().unwrap();
        let refused = connect();
        let error = ask_for_relay(&refused, &parts(&memory, socket, 5)).unwrap_err().to_string();
        assert!(error.contains("the longest frame has 5 bytes"), "{error}");

        let (socket, _other) = UnixDatagram::pair().unwrap();
        let asked = connect();
        ask_for_relay(&asked, &parts(&memory, socket, 100)).unwrap();
        half(&memory, 1).words()[8].store(u64::MAX / 2, std::sync::atomic::Ordering::Relaxed);
        let mut why = String::new();
        (&asked).take(LONGEST_REASON).read_to_string(&mut why).unwrap();
        assert!(why.contains("words apart"), "{why}");

        let (socket, wire_of_next) = UnixDatagram::pair().unwrap();
        drop(wire);
        let next = connect();
        ask_for_relay(&next, &parts(&memory, socket, 100)).unwrap();
        let mut reader = Reader::new(half(&memory, 0)).unwrap();
        let _writer = Writer::new(half(&memory, 1)).unwrap();
        wire_of_next.send(&[1; 60]).unwrap();
        let (mut frame, begin) = (Vec::new(), std::time::Instant::now());
        while !reader.take(&mut frame).unwrap() {
            assert!(begin.elapsed() < Duration::from_secs(5), "the frame did not come");
        }
        assert_eq!(frame, [1; 60]);
        drop(cards);
        serving.join().unwrap().unwrap();
        std::fs::remove_file(directory).unwrap();
    }
}
