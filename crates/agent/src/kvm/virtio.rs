//! A virtio console with one port, as a PCI device of the legacy kind: its registers are I/O ports, of
//! which an access costs less than one to memory, and whole messages go by queues in the guest's
//! memory. So a record costs some ten exits, however long it is, where a serial line takes one or
//! more a byte.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, sections 4.1.4.10 "Legacy Interfaces: A Note on PCI Device
//! Layout", 2.7.2 "Legacy Interfaces: A Note on Virtqueue Layout" and 5.3 "Console Device".

use std::io::{Read, Write};

use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

use super::pci::Identity;
use super::port::Port;

pub const IDENTITY: Identity = Identity {
    vendor: 0x1af4,
    device: 0x1003,
    class: 0x0780,
    subsystem_vendor: 0x1af4,
    subsystem: 3,
};

/// Entries of each queue.
const SIZE: u16 = 64;
const PAGE: u64 = 4096;

/// The port's own queues, and those on which is said what ports there are.
const TO_GUEST: usize = 0;
const FROM_GUEST: usize = 1;
const CONTROL_TO_GUEST: usize = 2;
const CONTROL_FROM_GUEST: usize = 3;

/// VIRTIO_CONSOLE_F_MULTIPORT: ports have names.
const FEATURES: u32 = 1 << 1;

/// Bytes of one message of the guest's that are looked at: more than its driver sends at once.
const MOST: usize = 1 << 20;

/// Registers, by their offsets.
const HOST_FEATURES: u16 = 0;
const QUEUE_PAGE: u16 = 8;
const QUEUE_SIZE: u16 = 12;
const QUEUE_SELECT: u16 = 14;
const QUEUE_NOTIFY: u16 = 16;
const STATUS: u16 = 18;
const ISR: u16 = 19;
/// The device's own: columns, rows, the number of ports.
const PORTS: u16 = 24;

/// The wire of an interrupt.
pub trait Line {
    fn set(&self, high: bool);
}

pub struct Console<L, W> {
    memory: GuestMemoryMmap,
    queues: [Queue; 4],
    selected: u16,
    status: u8,
    interrupting: bool,
    line: L,
    port: Port,
    records: W,
}

impl<L: Line, W: Write> Console<L, W> {
    /// What the guest writes to its port goes to `records`.
    pub fn new(memory: GuestMemoryMmap, line: L, records: W) -> anyhow::Result<Self> {
        let queue = || Queue::new(SIZE).map_err(|error| anyhow::anyhow!("a queue: {error}"));
        Ok(Console {
            memory,
            queues: [queue()?, queue()?, queue()?, queue()?],
            selected: 0,
            status: 0,
            interrupting: false,
            line,
            port: Port::default(),
            records,
        })
    }

    /// For the guest to read, as soon as it does.
    pub fn send(&mut self, orders: &[u8]) {
        self.port.orders.extend(orders);
        self.serve();
    }

    /// No more will come.
    pub fn hang_up(&mut self) {
        self.port.hang_up();
        self.serve();
    }

    // --- registers

    pub fn read(&mut self, offset: u16, data: &mut [u8]) {
        let queue = self.queues.get(usize::from(self.selected));
        let value: u32 = match offset {
            HOST_FEATURES => FEATURES,
            QUEUE_PAGE => queue.map_or(0, |queue| (queue.desc_table() / PAGE) as u32),
            QUEUE_SIZE if queue.is_some() => SIZE.into(),
            QUEUE_SELECT => self.selected.into(),
            STATUS => self.status.into(),
            ISR => self.take_interrupt().into(),
            PORTS => 1,
            _ => 0,
        };
        let bytes = value.to_le_bytes();
        data.iter_mut().zip(bytes.iter().chain(&[0; 4])).for_each(|(to, from)| *to = *from);
    }

    pub fn write(&mut self, offset: u16, data: &[u8]) {
        let mut bytes = [0; 4];
        bytes.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        let value = u32::from_le_bytes(bytes);
        match offset {
            QUEUE_PAGE => self.place_queue(value),
            QUEUE_SELECT => self.selected = value as u16,
            QUEUE_NOTIFY => self.hear(value as usize),
            STATUS if value as u8 == 0 => self.reset(),
            STATUS => self.status = value as u8,
            _ => {}
        }
    }

    /// Reading it takes it back.
    fn take_interrupt(&mut self) -> u8 {
        let was = u8::from(self.interrupting);
        if self.interrupting {
            self.interrupting = false;
            self.line.set(false);
        }
        was
    }

    fn interrupt(&mut self) {
        self.interrupting = true;
        self.line.set(true);
    }

    fn reset(&mut self) {
        self.take_interrupt();
        self.status = 0;
        self.queues.iter_mut().for_each(Queue::reset);
        self.port = Port::default();
    }

    /// Descriptors, then what is available, then on a page of its own what was used.
    fn place_queue(&mut self, page: u32) {
        let Some(queue) = self.queues.get_mut(usize::from(self.selected)) else { return };
        let descriptors = u64::from(page) * PAGE;
        let available = descriptors + 16 * u64::from(SIZE);
        let used = (available + 6 + 2 * u64::from(SIZE)).next_multiple_of(PAGE);
        let halves = |address: u64| (Some(address as u32), Some((address >> 32) as u32));
        let set = |queue: &mut Queue, address, to: fn(&mut Queue, Option<u32>, Option<u32>)| {
            let (low, high) = halves(address);
            to(queue, low, high);
        };
        queue.reset();
        set(queue, descriptors, Queue::set_desc_table_address);
        set(queue, available, Queue::set_avail_ring_address);
        set(queue, used, Queue::set_used_ring_address);
        queue.set_size(SIZE);
        queue.set_ready(page != 0);
    }

    // --- queues

    fn hear(&mut self, queue: usize) {
        match queue {
            FROM_GUEST => {
                while let Some(bytes) = self.take(FROM_GUEST) {
                    // That nobody listens any more ends this process from another side.
                    let _ = self.records.write_all(&bytes);
                }
            }
            CONTROL_FROM_GUEST => {
                while let Some(message) = self.take(CONTROL_FROM_GUEST) {
                    self.port.hear(&message);
                }
            }
            _ => {}
        }
        self.serve();
    }

    /// Gives the guest what waits for it, as far as it has room.
    fn serve(&mut self) {
        while let Some(message) = self.port.messages.front() {
            if give(&mut self.queues[CONTROL_TO_GUEST], &self.memory, message).is_none() {
                break;
            }
            self.port.messages.pop_front();
            self.used(CONTROL_TO_GUEST);
        }
        while self.port.open && !self.port.orders.is_empty() {
            let orders = self.port.orders.make_contiguous();
            let Some(given) = give(&mut self.queues[TO_GUEST], &self.memory, orders) else { break };
            self.port.orders.drain(..given);
            self.used(TO_GUEST);
        }
    }

    fn take(&mut self, index: usize) -> Option<Vec<u8>> {
        let queue = &mut self.queues[index];
        let memory = &self.memory;
        if !queue.ready() {
            return None;
        }
        let chain = queue.pop_descriptor_chain(memory)?;
        let head = chain.head_index();
        let mut bytes = Vec::new();
        // A chain that leads out of the guest's memory holds nothing.
        if let Ok(reader) = chain.reader(memory) {
            let _ = reader.take(MOST as u64).read_to_end(&mut bytes);
        }
        queue.add_used(memory, head, 0).ok()?;
        self.used(index);
        Some(bytes)
    }

    fn used(&mut self, index: usize) {
        if self.queues[index].needs_notification(&self.memory).unwrap_or(true) {
            self.interrupt();
        }
    }
}

/// As much of it as fits into the next buffer of the guest's; none when it has given none.
fn give(queue: &mut Queue, memory: &GuestMemoryMmap, bytes: &[u8]) -> Option<usize> {
    if !queue.ready() {
        return None;
    }
    let chain = queue.pop_descriptor_chain(memory)?;
    let head = chain.head_index();
    let mut given = 0;
    if let Ok(mut writer) = chain.writer(memory) {
        given = bytes.len().min(writer.available_bytes());
        if writer.write_all(&bytes[..given]).is_err() {
            given = 0;
        }
    }
    queue.add_used(memory, head, given as u32).ok()?;
    Some(given)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use vm_memory::{Bytes, GuestAddress};

    use super::super::memory::{Pages, map};
    use super::*;

    #[derive(Clone, Default)]
    struct Wire(Rc<RefCell<Vec<bool>>>);

    impl Line for Wire {
        fn set(&self, high: bool) {
            self.0.borrow_mut().push(high);
        }
    }

    /// A guest's driver, as far as these tests need one: queue Q lies at page 256 + 16 Q, its buffers
    /// 16 pages after.
    struct Driver {
        console: Console<Wire, Vec<u8>>,
        memory: GuestMemoryMmap,
        wire: Wire,
        offered: [u16; 4],
    }

    impl Driver {
        fn new() -> Self {
            let (memory, wire) = (map(64 << 20, Pages::Any).unwrap(), Wire::default());
            let mut console = Console::new(memory.clone(), wire.clone(), Vec::new()).unwrap();
            for queue in 0..4u32 {
                console.write(QUEUE_SELECT, &(queue as u16).to_le_bytes());
                let mut size = [0; 2];
                console.read(QUEUE_SIZE, &mut size);
                assert_eq!(u16::from_le_bytes(size), SIZE);
                console.write(QUEUE_PAGE, &(256 + 16 * queue).to_le_bytes());
            }
            Driver { console, memory, wire, offered: [0; 4] }
        }

        fn place(queue: usize) -> u64 {
            (256 + 16 * queue as u64) * PAGE
        }

        fn buffer(queue: usize) -> u64 {
            (1024 + 16 * queue as u64) * PAGE
        }

        /// Offers one buffer, for the device to read if it holds something and else to write to.
        fn offer(&mut self, queue: usize, address: u64, length: u32, writable: bool) {
            let (place, count) = (Self::place(queue), self.offered[queue]);
            let slot = u64::from(count % SIZE);
            let put = |at: u64, value: &[u8]| {
                self.memory.write_slice(value, GuestAddress(place + at)).unwrap();
            };
            put(16 * slot, &address.to_le_bytes());
            put(16 * slot + 8, &length.to_le_bytes());
            put(16 * slot + 12, &(2 * u16::from(writable)).to_le_bytes());
            let ring = 16 * u64::from(SIZE);
            put(ring + 4 + 2 * slot, &(slot as u16).to_le_bytes());
            self.offered[queue] += 1;
            put(ring + 2, &self.offered[queue].to_le_bytes());
            self.console.write(QUEUE_NOTIFY, &(queue as u16).to_le_bytes());
        }

        fn say(&mut self, queue: usize, bytes: &[u8]) {
            self.memory.write_slice(bytes, GuestAddress(Self::buffer(queue))).unwrap();
            self.offer(queue, Self::buffer(queue), bytes.len() as u32, false);
        }

        fn control(&mut self, event: u16, value: u16) {
            let message = [&[0; 4][..], &event.to_le_bytes(), &value.to_le_bytes()].concat();
            self.say(CONTROL_FROM_GUEST, &message);
        }

        /// How many buffers came back, and how long the last one's content is.
        fn used(&self, queue: usize) -> (u16, u32) {
            let ring = Self::place(queue) + 2 * PAGE - PAGE;
            let count: u16 = self.memory.read_obj(GuestAddress(ring + 2)).unwrap();
            let last = 4 + 8 * u64::from(count.wrapping_sub(1) % SIZE) + 4;
            (count, self.memory.read_obj(GuestAddress(ring + last)).unwrap())
        }

        fn given(&self, queue: usize) -> Vec<u8> {
            let mut bytes = vec![0; self.used(queue).1 as usize];
            self.memory.read_slice(&mut bytes, GuestAddress(Self::buffer(queue))).unwrap();
            bytes
        }
    }

    #[test]
    fn orders_go_in_once_the_port_is_open_and_records_come_out() {
        let mut driver = Driver::new();
        for _ in 0..3 {
            driver.offer(CONTROL_TO_GUEST, Driver::buffer(CONTROL_TO_GUEST), 4096, true);
        }
        driver.offer(TO_GUEST, Driver::buffer(TO_GUEST), 4, true);
        driver.control(0, 1);
        assert_eq!(driver.given(CONTROL_TO_GUEST)[4..6], [1, 0]);
        driver.control(3, 1);
        assert_eq!(driver.used(CONTROL_TO_GUEST).0, 3);
        driver.console.send(b"orders\n");
        assert_eq!(driver.used(TO_GUEST).0, 0);
        driver.control(6, 1);
        assert_eq!(driver.given(TO_GUEST), b"orde");
        driver.offer(TO_GUEST, Driver::buffer(TO_GUEST), 4096, true);
        assert_eq!(driver.given(TO_GUEST), b"rs\n");
        driver.say(FROM_GUEST, b"{\"record\":\"hello\"}\n");
        assert_eq!(driver.console.records, b"{\"record\":\"hello\"}\n");
    }

    #[test]
    fn an_interrupt_stands_until_it_is_read() {
        let mut driver = Driver::new();
        driver.say(FROM_GUEST, b"x");
        assert_eq!(driver.wire.0.borrow().last(), Some(&true));
        let mut isr = [0];
        driver.console.read(ISR, &mut isr);
        assert_eq!((isr, driver.wire.0.borrow().last()), ([1], Some(&false)));
        driver.console.read(ISR, &mut isr);
        assert_eq!(isr, [0]);
    }

    #[test]
    fn what_a_hostile_driver_writes_is_survived() {
        let mut driver = Driver::new();
        // A buffer outside of memory, one that wraps around, one that claims 4 GB.
        for (address, length) in [(1 << 40, 64), (u64::MAX - 3, 64), (0x1000, u32::MAX)] {
            driver.offer(FROM_GUEST, address, length, false);
            driver.offer(TO_GUEST, address, length, true);
        }
        assert!(driver.console.records.len() <= MOST);
        // More announced than a queue holds.
        let ring = Driver::place(FROM_GUEST) + 16 * u64::from(SIZE);
        driver.memory.write_obj(0x8000u16, GuestAddress(ring + 2)).unwrap();
        driver.console.write(QUEUE_NOTIFY, &1u16.to_le_bytes());
        // A queue outside of memory, one that is not there, registers that are not there.
        driver.console.write(QUEUE_PAGE, &u32::MAX.to_le_bytes());
        (0..=9u16).for_each(|queue| driver.console.write(QUEUE_NOTIFY, &queue.to_le_bytes()));
        driver.console.write(QUEUE_SELECT, &77u16.to_le_bytes());
        driver.console.write(QUEUE_PAGE, &1u32.to_le_bytes());
        for offset in 0..u16::from(u8::MAX) {
            driver.console.write(offset, &[0xff; 4]);
            driver.console.read(offset, &mut [0; 8]);
        }
        driver.console.write(STATUS, &[0]);
        assert!(!driver.console.port.open);
    }

    #[test]
    fn descriptors_that_go_round_end() {
        let mut driver = Driver::new();
        let place = Driver::place(FROM_GUEST);
        // Descriptor 0 names itself as the next.
        driver.memory.write_obj(0x1000u64, GuestAddress(place)).unwrap();
        driver.memory.write_obj(64u32, GuestAddress(place + 8)).unwrap();
        driver.memory.write_obj(1u16, GuestAddress(place + 12)).unwrap();
        driver.memory.write_obj(0u16, GuestAddress(place + 14)).unwrap();
        let ring = place + 16 * u64::from(SIZE);
        driver.memory.write_obj(1u16, GuestAddress(ring + 2)).unwrap();
        driver.console.write(QUEUE_NOTIFY, &1u16.to_le_bytes());
        assert!(driver.console.records.len() <= 64 * usize::from(SIZE));
    }
}
