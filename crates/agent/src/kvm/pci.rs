//! A PCI bus with two devices, reached by configuration mechanism 1 (ports 0xCF8 and 0xCFC): a host
//! bridge, without which a kernel does not believe in the bus, and one device with one I/O range.
//!
//! Source: PCI Local Bus Specification 3.0, chapter 6.

/// Ports of the mechanism.
pub const PORTS: std::ops::Range<u16> = 0xcf8..0xd00;

/// Where the device's registers are; a guest may read it and not move it.
pub const IO_BASE: u16 = 0xc000;
pub const IO_SIZE: u16 = 64;
/// Line of the first interrupt controller, of which no other device here has need.
pub const INTERRUPT: u32 = 5;

const ENABLED: u32 = 1 << 31;
const BAR0: usize = 0x10;
const COMMAND: usize = 0x04;
const INTERRUPT_LINE: usize = 0x3c;
const DATA: u16 = 0xcfc;

/// Who a device is.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    pub vendor: u16,
    pub device: u16,
    /// Class and subclass.
    pub class: u16,
    pub subsystem_vendor: u16,
    pub subsystem: u16,
}

const HOST_BRIDGE: Identity = Identity {
    vendor: 0x1b36,
    device: 0x0008,
    class: 0x0600,
    subsystem_vendor: 0x1af4,
    subsystem: 0x1100,
};

pub struct Bus {
    address: u32,
    devices: [[u8; 256]; 2],
}

impl Bus {
    pub fn new(device: Identity) -> Self {
        let mut space = header(device);
        space[BAR0..BAR0 + 2].copy_from_slice(&(IO_BASE | 1).to_le_bytes());
        space[INTERRUPT_LINE] = INTERRUPT as u8;
        space[INTERRUPT_LINE + 1] = 1;
        Bus { address: 0, devices: [header(HOST_BRIDGE), space] }
    }

    pub fn read(&self, port: u16, data: &mut [u8]) {
        let at = usize::from(port);
        let source = |index: usize| -> u8 {
            if port < DATA {
                let byte = at - usize::from(PORTS.start) + index;
                return self.address.to_le_bytes().get(byte).copied().unwrap_or(0xff);
            }
            let place = self.selected(at - usize::from(DATA) + index);
            place.map_or(0xff, |(device, register)| self.devices[device][register])
        };
        data.iter_mut().enumerate().for_each(|(index, byte)| *byte = source(index));
    }

    pub fn write(&mut self, port: u16, data: &[u8]) {
        if port == PORTS.start {
            if let Ok(word) = data.try_into() {
                self.address = u32::from_le_bytes(word);
            }
        } else if port >= DATA {
            for (index, &byte) in data.iter().enumerate() {
                if let Some((1, register)) = self.selected(usize::from(port - DATA) + index) {
                    self.write_register(register, byte);
                }
            }
        }
    }

    /// The device that the address names, and a register of it.
    fn selected(&self, offset: usize) -> Option<(usize, usize)> {
        let register = (self.address & 0xfc) as usize + offset;
        let function = (self.address & !ENABLED) >> 8;
        // Bus 0, function 0 of each device.
        let device = (function >> 3) as usize;
        let there = self.address & ENABLED != 0 && function & 7 == 0 && register < 256;
        (there && device < self.devices.len()).then_some((device, register))
    }

    fn write_register(&mut self, register: usize, byte: u8) {
        let space = &mut self.devices[1];
        match register {
            COMMAND | 0x05 | INTERRUPT_LINE => space[register] = byte,
            // Its size is found by writing ones; whatever else is written, it stays where it is.
            0x10..0x14 => {
                let sizing = byte == 0xff;
                let mask = !(u32::from(IO_SIZE) - 1) | 1;
                let shown = if sizing { mask } else { u32::from(IO_BASE) | 1 };
                space[register] = shown.to_le_bytes()[register - BAR0];
            }
            _ => {}
        }
    }
}

fn header(identity: Identity) -> [u8; 256] {
    let mut space = [0; 256];
    let mut put = |at: usize, value: u16| space[at..at + 2].copy_from_slice(&value.to_le_bytes());
    put(0x00, identity.vendor);
    put(0x02, identity.device);
    put(0x0a, identity.class);
    put(0x2c, identity.subsystem_vendor);
    put(0x2e, identity.subsystem);
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: Identity = Identity {
        vendor: 0x1af4,
        device: 0x1003,
        class: 0x0780,
        subsystem_vendor: 0x1af4,
        subsystem: 3,
    };

    fn select(bus: &mut Bus, device: u32, register: u32) {
        bus.write(0xcf8, &(ENABLED | device << 11 | register).to_le_bytes());
    }

    fn read(bus: &mut Bus, device: u32, register: u32) -> u32 {
        select(bus, device, register);
        let mut data = [0; 4];
        bus.read(0xcfc, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn two_devices_are_there_and_no_more() {
        let mut bus = Bus::new(CONSOLE);
        assert_eq!(read(&mut bus, 0, 0), 0x0008_1b36);
        assert_eq!(read(&mut bus, 0, 8) >> 16, 0x0600);
        assert_eq!(read(&mut bus, 1, 0), 0x1003_1af4);
        assert_eq!(read(&mut bus, 1, 0x2c), 0x0003_1af4);
        for device in 2..32 {
            assert_eq!(read(&mut bus, device, 0), u32::MAX);
        }
        // Another function, another bus, and the mechanism switched off.
        for address in [ENABLED | 1 << 11 | 1 << 8, ENABLED | 1 << 16, 1 << 11] {
            bus.write(0xcf8, &address.to_le_bytes());
            let mut data = [0; 2];
            bus.read(0xcfc, &mut data);
            assert_eq!(data, [0xff; 2]);
        }
    }

    #[test]
    fn the_range_tells_its_size_and_does_not_move() {
        let mut bus = Bus::new(CONSOLE);
        assert_eq!(read(&mut bus, 1, 0x10), u32::from(IO_BASE) | 1);
        bus.write(0xcfc, &u32::MAX.to_le_bytes());
        assert_eq!(read(&mut bus, 1, 0x10), !(u32::from(IO_SIZE) - 1) | 1);
        bus.write(0xcfc, &0x1234_5678u32.to_le_bytes());
        assert_eq!(read(&mut bus, 1, 0x10), u32::from(IO_BASE) | 1);
    }

    #[test]
    fn whatever_a_guest_writes_is_survived() {
        let mut bus = Bus::new(CONSOLE);
        for port in PORTS {
            for data in [&[0xff; 4][..], &[0xff; 1], &[], &[0x80; 8]] {
                bus.write(port, data);
                let mut back = vec![0; data.len()];
                bus.read(port, &mut back);
            }
        }
        bus.write(0xcf8, &(ENABLED | 1 << 11 | 0xfc).to_le_bytes());
        bus.write(0xcff, &[1; 4]);
        let mut data = [0; 4];
        bus.read(0xcff, &mut data);
        assert_eq!(data, [0, 0xff, 0xff, 0xff]);
        assert_eq!(read(&mut bus, 1, 0), 0x1003_1af4);
    }
}
