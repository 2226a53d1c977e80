//! The host agent's end of a process that moves packets.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use datapath::counters;
use datapath::serve::{Handed, ServeMode, hand, hand_listener};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::VERB;
use crate::process::namespaces::scratch;
use crate::process::spawn::{Child, Spawn};

/// A VMM that ends closes its connections first.
const VMM_END_LIMIT: Duration = Duration::from_millis(500);
const END_LIMIT: Duration = Duration::from_secs(1);

/// Bytes that are read of the reason why a card ended.
const LONGEST_REASON: u64 = 1000;

/// A process that moves packets, of one guest or of several. Dropped, it ends.
pub struct VhostUserBackend {
    child: Mutex<Child>,
    cards: OwnedFd,
}

/// A guest's card that is being served.
pub struct Served {
    counters: File,
    status: Option<File>,
    backend: Arc<VhostUserBackend>,
}

/// Why a guest's cards are no longer served, once that is so.
#[derive(Clone, Default)]
pub struct Ended(Arc<Mutex<Option<String>>>);

impl VhostUserBackend {
    pub fn start(mode: ServeMode) -> Result<Arc<Self>> {
        let (cards, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut arguments = vec![VERB.to_owned()];
        arguments.extend((mode == ServeMode::Polling).then(|| "--polling".to_owned()));
        let spawn = Spawn { arguments, namespaces: 0, descriptors: vec![&theirs, &2, &2] };
        let child = spawn.start(|_| Ok(())).context("starting what moves its packets")?;
        Ok(Arc::new(VhostUserBackend { child: Mutex::new(child), cards }))
    }

    pub fn pid(&self) -> i32 {
        lock(&self.child).pid()
    }

    /// Has it serve a card with these queues of a TAP. Returns the card and the socket to which QEMU
    /// connects; the socket's name is removed, so that nobody else can connect.
    pub fn serve(self: &Arc<Self>, number: u32, taps: Vec<OwnedFd>) -> Result<(Served, OwnedFd)> {
        let path = scratch("sockets")?.join(format!("card{number}"));
        let listener = UnixListener::bind(&path).context("a socket for what moves packets")?;
        // By the path of this descriptor it is connected to: QEMU is another user, with whom nobody else
        // has the descriptor in common.
        let found = fs::set_permissions(&path, Permissions::from_mode(0o666))
            .and_then(|()| Ok(open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?));
        fs::remove_file(&path)?;
        let socket = found?;
        let page = counters::page()?;
        let (status, reported) = std::io::pipe()?;
        let counters = File::from(page.try_clone()?);
        let card =
            Handed { listener: listener.into(), counters: page, status: reported.into(), taps };
        hand(&self.cards, &card)?;
        let status = Some(File::from(OwnedFd::from(status)));
        Ok((Served { counters, status, backend: self.clone() }, socket))
    }

    /// Has it serve the relays that are requested at this socket.
    pub fn take_relays(&self, listener: UnixListener) -> Result<()> {
        hand_listener(&self.cards, &listener.into())
    }
}

impl Drop for VhostUserBackend {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        child.kill();
        child.wait_until(Instant::now() + END_LIMIT);
    }
}

impl Served {
    /// The file with its counters, which can be read as long as this value lives.
    pub fn counters(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.counters.as_raw_fd()).into()
    }

    pub fn backend(&self) -> &Arc<VhostUserBackend> {
        &self.backend
    }

    /// Waits for its end in a thread. The guest's orders then end as well, because the guest is useless
    /// without its card. An end that follows from the VMM's end is not reported.
    pub fn watch(&mut self, vmm: OwnedFd, orders: UnixStream, ended: Ended) {
        let Some(status) = self.status.take() else { return };
        let backend = Arc::downgrade(&self.backend);
        std::thread::spawn(move || {
            let Some(why) = await_end(status, &vmm, &backend) else { return };
            lock(&ended.0).get_or_insert(why);
            let _ = orders.shutdown(std::net::Shutdown::Both);
        });
    }
}

impl Ended {
    pub fn why(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}

fn await_end(status: File, vmm: &OwnedFd, backend: &Weak<VhostUserBackend>) -> Option<String> {
    let mut why = Vec::new();
    let _ = status.take(LONGEST_REASON).read_to_end(&mut why);
    let mut watched = [PollFd::new(vmm, PollFlags::IN)];
    let limit = Timespec::try_from(VMM_END_LIMIT).unwrap_or_default();
    if !matches!(poll(&mut watched, Some(&limit)), Ok(0)) {
        return None;
    }
    match why.is_empty() {
        true => {
            let ended = lock(&backend.upgrade()?.child).wait_until(Instant::now() + END_LIMIT);
            let how = ended.map(|ended| format!("its process {ended}"));
            Some(how.unwrap_or_else(|| "it serves it no more".into()))
        }
        false => Some(String::from_utf8_lossy(&why).into_owned()),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
