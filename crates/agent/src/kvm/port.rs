//! The one port of the virtio console by which a guest's agent is told orders and tells records: how
//! the two sides agree that it is there, what it is called, and that both have it open.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 5.3 "Console Device".

use std::collections::VecDeque;

use crate::guest::PORT;

/// Of a message on the control queues: port, event and value; little-endian, as all guests here are.
const MESSAGE: usize = 8;

const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;
const PORT_NAME: u16 = 7;

#[derive(Default)]
pub struct Port {
    /// The guest has opened it.
    pub open: bool,
    /// For the guest, and not taken by it yet.
    pub messages: VecDeque<Vec<u8>>,
    pub orders: VecDeque<u8>,
}

impl Port {
    /// Takes what the guest says on the control queue; what makes no sense is ignored.
    pub fn hear(&mut self, message: &[u8]) {
        let Some(&[_, _, _, _, e0, e1, v0, v1]) = message.first_chunk::<MESSAGE>() else { return };
        let (event, value) = (u16::from_le_bytes([e0, e1]), u16::from_le_bytes([v0, v1]));
        match event {
            DEVICE_READY if value == 1 => self.say(PORT_ADD, 0, b""),
            PORT_READY if value == 1 => {
                self.say(PORT_NAME, 1, format!("{PORT}\0").as_bytes());
                self.say(PORT_OPEN, 1, b"");
            }
            PORT_OPEN => self.open = value == 1,
            _ => {}
        }
    }

    /// The other end is closed: the guest reads the end of its orders.
    pub fn hang_up(&mut self) {
        self.say(PORT_OPEN, 0, b"");
    }

    /// A guest that asks again and again without ever listening gets no more than this.
    fn say(&mut self, event: u16, value: u16, more: &[u8]) {
        const MOST: usize = 64;
        if self.messages.len() == MOST {
            return;
        }
        let mut message = vec![0; 4];
        message.extend(event.to_le_bytes());
        message.extend(value.to_le_bytes());
        message.extend(more);
        self.messages.push_back(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(event: u16, value: u16) -> Vec<u8> {
        [&[0; 4][..], &event.to_le_bytes(), &value.to_le_bytes()].concat()
    }

    #[test]
    fn both_sides_come_to_an_agreement() {
        let mut port = Port::default();
        port.hear(&message(DEVICE_READY, 1));
        assert_eq!(port.messages.pop_front().unwrap(), message(PORT_ADD, 0));
        port.hear(&message(PORT_READY, 1));
        let name = port.messages.pop_front().unwrap();
        assert_eq!(name[..8], message(PORT_NAME, 1));
        assert_eq!(&name[8..], b"hypertare\0");
        assert_eq!(port.messages.pop_front().unwrap(), message(PORT_OPEN, 1));
        port.hear(&message(PORT_OPEN, 1));
        assert!(port.open && port.messages.is_empty());
        port.hang_up();
        assert_eq!(port.messages.pop_front().unwrap(), message(PORT_OPEN, 0));
    }

    #[test]
    fn nonsense_is_ignored_and_bounded() {
        let mut port = Port::default();
        for nonsense in [&b""[..], &[0; 7], &message(PORT_READY, 0), &message(99, 1), &[0xff; 64]] {
            port.hear(nonsense);
        }
        assert!(port.messages.is_empty() && !port.open);
        (0..10_000).for_each(|_| port.hear(&message(DEVICE_READY, 1)));
        assert!(port.messages.len() <= 64);
    }
}
