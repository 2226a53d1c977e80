//! Serves cards, in one thread. Who starts this hands it each card's descriptors through a socket, whose end
//! is the end of all of it.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::card::Card;
use crate::counters::Counters;

/// Queues of one card.
pub const MOST_QUEUES: usize = 16;

/// Descriptors beside those of the TAP.
const OTHERS: usize = 3;

/// Frames of a queue that are moved before the next one has its turn.
const TURN: u16 = 32;

/// Turns before those who have something to say are looked at again.
const TURNS: usize = 256;

/// How it is known that there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Guests and TAPs say so, and nobody looks meanwhile.
    Notified,
    /// By looking, for ever: guests need not say anything.
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

/// Hands a card over.
pub fn hand(to: impl AsFd, card: &Handed) -> Result<()> {
    ensure!(card.taps.len() <= MOST_QUEUES, "a card has at most {MOST_QUEUES} pairs of queues");
    let mut all = vec![card.listener.as_fd(), card.counters.as_fd(), card.status.as_fd()];
    all.extend(card.taps.iter().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_QUEUES + OTHERS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&all));
    sendmsg(to, &[IoSlice::new(b"c")], &mut ancillary, SendFlags::NOSIGNAL)
        .context("handing a card over")?;
    Ok(())
}

/// Takes one; none when there will be no more.
fn take(from: impl AsFd) -> Result<Option<Handed>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_QUEUES + OTHERS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(from, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            all.extend(files);
        }
    }
    let mut all = all.into_iter();
    let mut next = || all.next().context("a card came without its descriptors");
    let (listener, counters, status) = (next()?, next()?, next()?);
    Ok(Some(Handed { listener, counters, status, taps: all.collect() }))
}

/// Serves cards until the socket that they come by ends.
pub fn serve(cards: OwnedFd, manner: Manner) -> Result<()> {
    let mut server = Server { cards, manner, places: Vec::new() };
    let mut is_idle = true;
    loop {
        if !server.listen(is_idle)? {
            return Ok(());
        }
        is_idle = match manner {
            Manner::Notified => server.work_until_idle(),
            Manner::Polling => server.look_for_work(),
        };
    }
}

struct Server {
    cards: OwnedFd,
    manner: Manner,
    places: Vec<Place>,
}

/// A card before and after its VMM has connected.
enum Place {
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
                    Some(card) => self.places.push(Place::Awaited(card)),
                    None => return Ok(false),
                },
                Speaker::Vmm(index) => {
                    if let Some(place) = self.places.get_mut(index) {
                        ended.extend(place.hear(self.manner).err().map(|error| (index, error)));
                    }
                }
                Speaker::Work(index) => {
                    if let Some(Place::Served { card, .. }) = self.places.get_mut(index) {
                        card.take_kicks();
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
        for (index, place) in self.places.iter().enumerate() {
            watch(Speaker::Vmm(index), place.vmm());
            if let (Manner::Notified, Place::Served { card, .. }) = (self.manner, place) {
                card.calls_for_work().for_each(|work| watch(Speaker::Work(index), work));
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

    /// Moves frames until there are none, and has guests tell of the next; false where there are more
    /// nevertheless.
    fn work_until_idle(&mut self) -> bool {
        for _ in 0..TURNS {
            if self.turn() == 0 {
                return self.each(|card| Ok(u32::from(card.arm()?))) == 0;
            }
        }
        false
    }

    /// True as long as there is no card.
    fn look_for_work(&mut self) -> bool {
        for _ in 0..TURNS {
            self.turn();
        }
        !self.places.iter().any(|place| matches!(place, Place::Served { .. }))
    }

    fn turn(&mut self) -> u32 {
        self.each(|card| card.turn(TURN))
    }

    /// What comes of something done with each card, added up. A card with which it cannot be done ends.
    fn each(&mut self, act: impl Fn(&mut Card) -> Result<u32>) -> u32 {
        let (mut sum, mut ended) = (0, Vec::new());
        for (index, place) in self.places.iter_mut().enumerate() {
            let Place::Served { card, .. } = place else { continue };
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
            let (Place::Awaited(Handed { status, .. }) | Place::Served { status, .. }) =
                self.places.remove(index);
            // Whom it would be told may have gone.
            let _ = File::from(status).write_all(format!("{error:#}").as_bytes());
        }
    }
}

impl Place {
    fn vmm(&self) -> BorrowedFd<'_> {
        match self {
            Place::Awaited(card) => card.listener.as_fd(),
            Place::Served { card, .. } => card.socket(),
        }
    }

    /// Its VMM has something to say.
    fn hear(&mut self, manner: Manner) -> Result<()> {
        match self {
            Place::Awaited(handed) => {
                let listener = UnixListener::from(handed.listener.try_clone()?);
                let (socket, _) = listener.accept().context("its VMM did not connect")?;
                let counters = Counters::new(&handed.counters)?;
                let status = handed.status.try_clone()?;
                let taps = std::mem::take(&mut handed.taps);
                let spares_kicks = manner == Manner::Polling;
                let card = Card::new(socket, taps, counters, spares_kicks)?;
                *self = Place::Served { card, status };
            }
            Place::Served { card, .. } => {
                ensure!(card.hear()?, "its VMM closed the connection");
            }
        }
        Ok(())
    }
}
