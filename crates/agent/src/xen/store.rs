//! The store in which domains find each other, as far as it tells that one of them has ended.
//!
//! Source: Xen's docs/misc/xenstore.txt (the watch `@releaseDomain`) and public/io/xs_wire.h.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};

const SOCKET: &str = "/run/xenstored/socket";
const WATCH: u32 = 4;
const ERROR: u32 = 16;
/// XENSTORE_PAYLOAD_MAX
const MOST_PAYLOAD: u32 = 4096;

/// Tells of ends of domains, of whichever.
pub struct Ends<S>(S);

impl Ends<UnixStream> {
    /// # Errors
    /// The store's daemon does not run here, or will not tell.
    pub fn watch() -> Result<Self> {
        let stream = UnixStream::connect(SOCKET);
        Ends::of(stream.with_context(|| format!("connecting to Xen's store at {SOCKET}"))?)
    }
}

impl<S: Read + Write> Ends<S> {
    fn of(mut stream: S) -> Result<Self> {
        let payload = b"@releaseDomain\0end\0";
        let mut request = Vec::new();
        for word in [WATCH, 0, 0, payload.len() as u32] {
            request.extend(word.to_ne_bytes());
        }
        request.extend(payload);
        stream.write_all(&request).context("asking Xen's store")?;
        Ok(Ends(stream))
    }

    /// Waits for the next end; the answer to the request, and the event that follows every new watch,
    /// are taken for one too.
    pub fn await_next(&mut self) -> Result<()> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).context("Xen's store is silent")?;
        let word =
            |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap_or_default());
        let (kind, length) = (word(0), word(12));
        if length > MOST_PAYLOAD {
            bail!("Xen's store sent {length} bytes at once");
        }
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).context("Xen's store is silent")?;
        if kind == ERROR {
            bail!("Xen's store says {}", String::from_utf8_lossy(&payload));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u32, payload: &[u8]) -> Vec<u8> {
        let words = [kind, 0, 0, payload.len() as u32];
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(payload.iter().copied()).collect()
    }

    #[test]
    fn every_message_is_one_end_and_an_error_is_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ends = Ends::of(ours).unwrap();
        let mut request = vec![0; 16 + 19];
        theirs.read_exact(&mut request).unwrap();
        assert_eq!(request, message(WATCH, b"@releaseDomain\0end\0"));
        theirs.write_all(&message(WATCH, b"OK\0")).unwrap();
        theirs.write_all(&message(15, b"@releaseDomain\0end\0")).unwrap();
        theirs.write_all(&message(ERROR, b"EACCES\0")).unwrap();
        assert!(ends.await_next().is_ok() && ends.await_next().is_ok());
        assert!(ends.await_next().unwrap_err().to_string().contains("EACCES"));
        theirs.write_all(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]).unwrap();
        assert!(ends.await_next().unwrap_err().to_string().contains("at once"));
        drop(theirs);
        assert!(ends.await_next().unwrap_err().to_string().contains("silent"));
    }
}
