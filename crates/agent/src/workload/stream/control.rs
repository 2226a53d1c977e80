//! The protocol between the two ends of a stream without a plan, over a TCP connection of their own: a
//! [`Request`] and then [`Order`]s one way, records the other way, one JSON object a line. The other end is
//! not trusted: lines are bounded, requests are checked, and addresses are taken from the connection, never
//! from a request.

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use anyhow::{Context as _, Result, bail};
use hypertare_plan::{MAX_LINE, StreamReceive, StreamSend};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::check;
use super::socket::{PATIENCE, in_vain};
use crate::lines::Lines;
use crate::workload::{address, clock};

/// Raised when the two ends could misunderstand each other.
pub const VERSION: u32 = 1;

/// Longest stream that a server agrees to, in seconds.
const MAX_SECONDS: f64 = 3600.0;

/// The client's first line: the server's tasks. Only the ports of `on` and `to` are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub hypertare_stream: u32,
    pub receive: Option<StreamReceive>,
    pub send: Option<StreamSend>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Both ends listen: send.
    Begin,
    /// Everything has been sent: stop, report the results.
    End,
}

impl Request {
    /// The request with the addresses of its connection; an impossible or excessive request is refused.
    pub fn between(mut self, here: IpAddr, there: IpAddr) -> Result<Self> {
        if self.hypertare_stream != VERSION {
            bail!(
                "the client speaks version {}, this server {VERSION}: use the same agent on both",
                self.hypertare_stream
            );
        }
        if let Some(receive) = &mut self.receive {
            receive.on = with_address(&receive.on, here)?;
            check::receive(receive)?;
        }
        if let Some(send) = &mut self.send {
            send.to = with_address(&send.to, there)?;
            check::send(send)?;
            if send.duration_s + send.omit_s > MAX_SECONDS {
                bail!("this server sends for {MAX_SECONDS} seconds at most");
            }
        }
        if self.receive.is_none() && self.send.is_none() {
            bail!("the client asked for nothing");
        }
        Ok(self)
    }
}

fn with_address(text: &str, address: IpAddr) -> Result<String> {
    let port = address::of_port(text)?.port();
    Ok(SocketAddr::new(address, port).to_string())
}

pub fn write(mut connection: &TcpStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    connection.write_all(&line).context("the other end of the control connection is gone")
}

/// Lines that come over a connection, each with a bound on its time.
pub struct Conversation(Lines<TcpStream>);

impl Conversation {
    pub fn new(connection: TcpStream) -> Result<Self> {
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(Conversation(Lines::new(connection)))
    }

    /// The next line; `None` when the other end has closed the connection, or `going` returns false.
    pub fn next(&mut self, limit: u64, going: impl Fn() -> bool) -> Result<Option<String>> {
        while going() {
            if clock::now_ns() > limit {
                bail!("the other end said nothing in time");
            }
            match self.0.read() {
                Ok(Some(line)) if line.whole => {
                    return Ok(Some(
                        String::from_utf8(line.bytes).context("a line that is no text")?,
                    ));
                }
                Ok(_) => return Ok(None),
                Err(error) if in_vain(&error) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    bail!("a line of more than {MAX_LINE} bytes came: is that a hypertare agent?")
                }
                Err(error) => return Err(error).context("the control connection broke"),
            }
        }
        Ok(None)
    }

    /// The next line as a message.
    pub fn next_as<T: DeserializeOwned>(
        &mut self,
        limit: u64,
        going: impl Fn() -> bool,
    ) -> Result<Option<T>> {
        let Some(line) = self.next(limit, going)? else { return Ok(None) };
        let message = serde_json::from_str(&line).context("the other end sent something else")?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use hypertare_plan::StreamProtocol;

    use super::*;

    fn request() -> Request {
        let receive = StreamReceive {
            protocol: StreamProtocol::Udp,
            on: "0.0.0.0:5202".to_owned(),
            flows: 1,
            message: 64,
            socket_buffer: None,
            batch: None,
            interval_s: 1.0,
            omit_s: 0.0,
            every_ns: None,
        };
        Request { hypertare_stream: VERSION, receive: Some(receive), send: None }
    }

    #[test]
    fn addresses_are_those_of_the_connection() {
        let (here, there) = ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let checked = request().between(here, there).unwrap();
        assert_eq!(checked.receive.unwrap().on, "10.0.0.2:5202");
    }

    #[test]
    fn requests_out_of_bounds_are_refused() {
        let (here, there) = ("::1".parse().unwrap(), "::1".parse().unwrap());
        let refused = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            request.between(here, there).unwrap_err().to_string()
        };
        assert!(refused(|request| request.hypertare_stream = 9).contains("version 9"));
        assert!(refused(|request| request.receive = None).contains("nothing"));
        let receive = |request: &mut Request, change: fn(&mut StreamReceive)| {
            change(request.receive.as_mut().unwrap());
        };
        let mut many = request();
        receive(&mut many, |receive| receive.flows = u32::MAX);
        assert!(many.between(here, there).unwrap_err().to_string().contains("flows"));
        let mut large = request();
        receive(&mut large, |receive| receive.message = 70_000);
        assert!(large.between(here, there).unwrap_err().to_string().contains("message"));
    }

    #[test]
    fn endless_and_broken_lines_are_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut lines = Conversation::new(listener.accept().unwrap().0).unwrap();
        let limit = clock::now_ns() + 10 * clock::SECOND;
        sender.write_all(b"{\"half\n\xff\xfe\n").unwrap();
        assert!(lines.next_as::<Request>(limit, || true).is_err());
        assert!(lines.next(limit, || true).is_err());
        let writer = std::thread::spawn(move || {
            let _ = sender.write_all(&vec![b'x'; MAX_LINE + 8192]);
        });
        assert!(lines.next(limit, || true).unwrap_err().to_string().contains("a line of more"));
        drop(lines);
        writer.join().unwrap();
    }
}
