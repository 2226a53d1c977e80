//! The command line of an emulated machine. It names no place of this host, and with the virtual clock it
//! leaves nothing to chance: see [`super`].

use std::os::fd::RawFd;

use anyhow::{Result, bail};
use hypertare_plan::{MOST_NICS, NicModel, SEED_PARAMETER};

use super::options::{Clock, Emulate, LinePace, Nic, Scheduler};
use super::{CONSOLE, RECORDS, emulator};
use crate::boot_contract::LIMIT_PARAMETER;
use crate::vmm::command_line::{
    self, CommandLine, KERNEL_ARGUMENTS, PCI_DRIVER, PROGRAM, Plugged, Q35, TCG, TCG_CPU,
    TCG_KERNEL_ARGUMENTS, nic,
};

/// What Xen's tools and the guests' interfaces need.
const DRIVER_DOMAIN_MODULES: [&str; 7] =
    ["xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xenfs", "xen_netback", "bridge"];

/// Each page that is mapped, and each that is made contiguous for devices, is a hypercall: of those a
/// driver domain makes half a million less without a quarter of a gigabyte of PCI's configuration space
/// and with 16 MB of bounce buffers, in pieces of 2 KB, in place of 64. What NICs send and receive
/// needs none of either.
const DRIVER_DOMAIN_ARGUMENTS: [&str; 2] = ["pci=nommconf", "swiotlb=8192"];

/// In virtual time no two runs may meet different dates; the date itself is of no importance.
const DATE: &str = "2026-01-01";

/// Of a machine with more the emulator has not been tried.
const MOST_CPUS: u32 = 8;

/// Megabytes for translated code, which a machine with several guests fills: QEMU's own choice, 1024, is
/// as much as four of them have of memory. The emulator begins anew when some 660 of them are filled.
const TRANSLATED: u32 = 800;

/// QEMU's command line, the program included.
pub fn words(options: &Emulate) -> Result<Vec<String>> {
    check(options)?;
    let program = if options.emulator.is_some() { emulator() } else { PROGRAM.to_owned() };
    let mut line = CommandLine::of(&program, "hypertare", "");
    line.sandbox();
    line.machine(Q35, "");
    clock_and_processors(&mut line, options)?;
    line.memory(options.memory);
    outputs(&mut line, options);
    for index in 0..options.nic.len() {
        network(&mut line, options, index);
    }
    kernel(&mut line, options)?;
    let words = line.words().into_iter().map(std::ffi::OsString::into_string);
    words.collect::<Result<_, _>>().map_err(|word| anyhow::anyhow!("{word:?} is no UTF-8"))
}

fn is_virtual(options: &Emulate) -> bool {
    options.clock == Clock::Virtual
}

fn check(options: &Emulate) -> Result<()> {
    if is_virtual(options) && options.cpus != 1 && options.emulator.is_none() {
        bail!(
            "{} CPUs cannot be had with the virtual clock of the distribution's QEMU: there is one \
             count of instructions, so they would take turns and not work at the same time; ask for \
             one, for --emulator, or for --clock wall",
            options.cpus
        );
    }
    if is_virtual(options) && !(1..=MOST_CPUS).contains(&options.cpus) {
        bail!("{} CPUs cannot be had with the virtual clock: 1 to {MOST_CPUS}", options.cpus);
    }
    if !(1..=options.cpus).contains(&options.driver_cpus) {
        let (asked, cpus) = (options.driver_cpus, options.cpus);
        bail!("{asked} virtual CPUs of a driver domain cannot be had: 1 to the machine's {cpus}");
    }
    if options.walks.is_some() && (!is_virtual(options) || options.emulator.is_none()) {
        bail!("page walks take time with the virtual clock of --emulator only: leave out --walks");
    }
    if options.nic.len() > MOST_NICS {
        bail!("{} NICs are too many: the machine has room for {MOST_NICS}", options.nic.len());
    }
    if let Some(nic) = options.nic.iter().find(|nic| nic.model != NicModel::VirtioNet)
        && options.line.is_some()
    {
        bail!("only virtio-net can send at the rate of a line, and there is a {:?}", nic.model);
    }
    Ok(())
}

fn clock_and_processors(line: &mut CommandLine, options: &Emulate) -> Result<()> {
    // Without -smap a PV driver domain crashes at its first return to user mode.
    let smap = if options.hypervisor.is_some() { ",-smap" } else { "" };
    let cpu = format!("{}{smap}", options.cpu_model.as_deref().unwrap_or(TCG_CPU));
    if is_virtual(options) {
        let accelerator = format!("tcg,thread=single,tb-size={TRANSLATED}");
        // With several CPUs, QEMU's MWAIT does not sleep but asks again and again.
        let (monitor, quantum) = match &options.emulator {
            Some(_) => (",-monitor", format!(",quantum={}", options.quantum)),
            None => ("", String::new()),
        };
        line.processors(&accelerator, &format!("{cpu},-rdrand,-rdseed{monitor}"), options.cpus);
        let walks = walks(options)?;
        line.option("-icount", [format!("shift={},sleep=off{quantum}{walks}", options.shift)]);
    } else {
        line.processors(TCG, &cpu, options.cpus);
    }
    line.option("-seed", [(options.seed & u64::from(u32::MAX)).to_string()]);
    let clock = if is_virtual(options) { "vm" } else { "host" };
    line.option("-rtc", [format!("base={DATE},clock={clock}")]);
    Ok(())
}

/// The processor whose translation of addresses takes time.
fn walks(options: &Emulate) -> Result<String> {
    let Some(processor) = &options.walks else { return Ok(String::new()) };
    let parts = processor.for_emulator(options.cache_share, options.walk_cost);
    let parts = parts.map_err(anyhow::Error::msg)?;
    Ok(format!(",walks={parts}"))
}

/// QEMU's user may not open them, and to cut short what is no file would fail.
fn outputs(line: &mut CommandLine, options: &Emulate) {
    let mut output = |id: &str, descriptor: RawFd| {
        line.option("-add-fd", [format!("fd={descriptor},set={descriptor}")]);
        let path = format!("/dev/fdset/{descriptor}");
        line.option("-chardev", [format!("file,id={id},path={path},append=on")]);
    };
    output("console", CONSOLE);
    output("records", RECORDS);
    line.console_and_port(
        "pci",
        "records",
        if is_virtual(options) { ",ioeventfd=off" } else { "" },
    );
}

fn network(line: &mut CommandLine, options: &Emulate, index: usize) {
    let Nic { model, mac, hub } = &options.nic[index];
    let place = place(index, options.nic.len());
    line.nic(
        index,
        &Plugged {
            device: nic(*model).device,
            mac,
            netdev: &format!("hubport,hubid={hub}"),
            more: &format!("{}{place}", timing(options, *model)),
        },
    );
}

/// How long after the notification of a frame a card fetches it, where no line sets the pace: about what a real
/// one takes. QEMU's own 150 us would be most of a round trip, natively and in a guest.
const FETCHED_NS: u32 = 1000;

/// When a card sends: by its timer, for in virtual time no other thread may serve it, and at the end of
/// a line that sets the pace.
fn timing(options: &Emulate, model: NicModel) -> String {
    // A guest that sees which frame is awaited next wakes the card before its time.
    let at_line = options.line.map(|LinePace { frames, every_ns }| {
        format!(",event_idx=off,x-txburst={frames},x-txtimer={every_ns}")
    });
    match (model, at_line) {
        (NicModel::VirtioNet, at_line) if is_virtual(options) => {
            let paced = at_line.unwrap_or_else(|| format!(",x-txtimer={FETCHED_NS}"));
            format!(",ioeventfd=off,tx=timer{paced}")
        }
        (NicModel::VirtioNet, Some(at_line)) => format!(",tx=timer{at_line}"),
        _ => String::new(),
    }
}

fn kernel(line: &mut CommandLine, options: &Emulate) -> Result<()> {
    let arguments = kernel_arguments(options)?;
    if options.hypervisor.is_some() {
        // Its modules: files with their command lines, separated by commas; one in a line is doubled.
        let archives = format!("kernel {},initramfs", arguments.replace(',', ",,"));
        line.kernel("hypervisor", &archives, &hypervisor_arguments(options));
    } else {
        line.kernel("kernel", "initramfs", &arguments);
    }
    Ok(())
}

const FUNCTIONS: usize = 8;
/// The first that NICs share, and the one behind the last: the PC's own bridge is there.
const FIRST_SLOT: usize = 8;
const END_SLOT: usize = 31;
const _: () = assert!((END_SLOT - FIRST_SLOT) * FUNCTIONS == MOST_NICS);

/// Few NICs have a slot each, where the bus has one for them. Many are functions of the same devices,
/// eight of each, behind what else is on the bus.
fn place(index: usize, count: usize) -> String {
    const SLOTS: usize = 16;
    if count <= SLOTS {
        return String::new();
    }
    let (slot, function) = (FIRST_SLOT + index / FUNCTIONS, index % FUNCTIONS);
    format!(",multifunction=on,addr={slot:x}.{function}")
}

/// Memory that is zero already need not be scrubbed. A guest's vector registers are put back when it runs and not when it first
/// uses them: QEMU's AVX instructions use them without asking (they do not look at CR0.TS), and what
/// they would find are those of another guest.
fn hypervisor_arguments(options: &Emulate) -> String {
    let scheduler = match options.scheduler {
        Scheduler::Credit => "credit",
        Scheduler::Credit2 => "credit2",
    };
    let (memory, cpus) = (options.driver_memory >> 20, options.driver_cpus);
    let bound = if options.driver_bound { " dom0_vcpus_pin" } else { "" };
    format!(
        "com1=115200,8n1 console=com1 dom0_mem={memory}M,max:{memory}M dom0_max_vcpus={cpus}{bound} \
         sched={scheduler} bootscrub=0 spec-ctrl=eager-fpu"
    )
}

fn kernel_arguments(options: &Emulate) -> Result<String> {
    let fixed = KERNEL_ARGUMENTS.iter().chain(&TCG_KERNEL_ARGUMENTS);
    let mut words: Vec<String> = fixed.map(|&word| word.to_owned()).collect();
    if options.hypervisor.is_some() {
        // The serial line is Xen's, which prints for the driver domain.
        words.retain(|word| !word.starts_with("console="));
        // Under PV each change of a page's protection is a hypercall: a boot takes seconds less.
        words.extend(["console=hvc0", "rodata=off"].map(String::from));
        words.extend(DRIVER_DOMAIN_ARGUMENTS.map(String::from));
    }
    words.push("random.trust_cpu=off".into());
    words.push("random.trust_bootloader=off".into());
    words.push(format!("{SEED_PARAMETER}{}", options.seed));
    words.push(format!("{LIMIT_PARAMETER}{}", options.limit));
    let of_xen: &[&str] = if options.hypervisor.is_some() { &DRIVER_DOMAIN_MODULES } else { &[] };
    let drivers = options.nic.iter().map(|card| nic(card.model).driver);
    let further = options.module.iter().map(String::as_str);
    let modules = of_xen.iter().copied().chain(drivers).chain(further);
    words.push(command_line::modules(PCI_DRIVER, modules));
    words.extend(options.kernel_arg.iter().cloned());
    command_line::kernel_arguments(&words)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        options: Emulate,
    }

    fn line(arguments: &[&str]) -> Result<Vec<String>> {
        let files = ["emulate", "--kernel=/k", "--initramfs=/i"];
        let arguments = files.iter().chain(arguments);
        words(&Given::parse_from(arguments).options)
    }

    fn after<'a>(line: &'a [String], option: &str) -> &'a str {
        let found = line.iter().position(|word| word == option);
        found.map_or("", |index| line[index + 1].as_str())
    }

    #[test]
    fn in_virtual_time_nothing_is_left_to_chance() {
        let nic = "virtio-net=52:54:00:77:00:02";
        let line = line(&["--seed", "7", "--shift", "2", "--nic", nic]).unwrap();
        assert_eq!(after(&line, "-icount"), "shift=2,sleep=off");
        assert_eq!(after(&line, "-accel"), "tcg,thread=single,tb-size=800");
        assert_eq!(after(&line, "-seed"), "7");
        assert_eq!(after(&line, "-rtc"), "base=2026-01-01,clock=vm");
        assert!(after(&line, "-cpu").ends_with(",-rdrand,-rdseed"));
        assert!(after(&line, "-append").contains("random.trust_cpu=off"));
        assert!(after(&line, "-append").contains("hypertare.seed=7"));
        let nic = line.iter().find(|word| word.starts_with("virtio-net-pci")).unwrap();
        assert!(nic.ends_with("ioeventfd=off,tx=timer,x-txtimer=1000"), "{nic}");
    }

    #[test]
    fn at_the_end_of_a_line_a_card_sends_by_its_timer() {
        let nic = ["--nic", "virtio-net=52:54:00:77:00:02"];
        let of = |more: &[&str]| line(&[&nic, more].concat()).unwrap().join(" ");
        assert!(of(&["--line=5/1025333"]).contains("event_idx=off,x-txburst=5,x-txtimer=1025333"));
        assert!(of(&["--line=1/9", "--clock=wall"]).contains("tx=timer,event_idx=off,x-txburst=1"));
        assert!(!of(&[]).contains("txburst"));
        let error = line(&["--nic=e1000=52:54:00:77:00:02", "--line=5/1025333"]).unwrap_err();
        assert!(error.to_string().contains("only virtio-net"), "{error}");
    }

    #[test]
    fn nothing_of_this_host_stands_on_it() {
        let line = line(&["--nic", "e1000=52:54:00:77:00:02"]).unwrap();
        let of_qemu = |word: &str| word.replace("=/dev/fdset/", "");
        let names = |word: &String| of_qemu(word).contains("=/") || word.starts_with('/');
        assert!(!line.iter().any(names), "{line:?}");
    }

    #[test]
    fn several_cpus_are_for_the_emulator_and_the_wall_clock() {
        let error = line(&["--cpus", "2"]).unwrap_err().to_string();
        assert!(error.contains("one count of instructions"), "{error}");
        let own = ["--emulator=/e", "--quantum=500", "--cpus"];
        let error = line(&[&own[..], &["9"]].concat()).unwrap_err().to_string();
        assert!(error.contains("1 to 8"), "{error}");
        let line_of_eight = line(&[&own[..], &["8"]].concat()).unwrap();
        assert_eq!(line_of_eight[0], emulator());
        assert_eq!(after(&line_of_eight, "-icount"), "shift=3,sleep=off,quantum=500");
        assert!(after(&line_of_eight, "-smp").starts_with("cpus=8,"));
        let line = line(&["--cpus", "2", "--clock", "wall"]).unwrap();
        assert_eq!(after(&line, "-icount"), "");
        assert_eq!(after(&line, "-accel"), "tcg,thread=multi");
    }

    const PROCESSOR: &str = r#"{"name": "p", "title": "P", "nested": true, "memory_cycles": 100,
        "first_tlb": {"4K": {"entries": 8, "ways": 8}, "2M": {"entries": 4, "ways": 4}},
        "second_tlb": {"cycles": 1}, "caches": [{"name": "L2", "size": 65536, "ways": 8, "cycles": 9}]}"#;

    #[test]
    fn page_walks_of_a_processor_take_time() {
        let walks = ["--emulator=/e", "--cache-share=0.5", "--walks", PROCESSOR];
        let parts = "walks=first_4k=8/8:first_2m=4/4:cache=512/4/9:memory=100";
        let line_of_it = line(&walks).unwrap();
        assert_eq!(
            after(&line_of_it, "-icount"),
            format!("shift=3,sleep=off,quantum=2000,{parts}")
        );
        for without in [&walks[1..], &[&walks[..], &["--clock=wall"]].concat()] {
            let error = line(without).unwrap_err().to_string();
            assert!(error.contains("leave out --walks"), "{error}");
        }
        let dearer = line(&[&walks[..], &["--walk-cost=2"]].concat()).unwrap();
        assert!(after(&dearer, "-icount").ends_with("cache=512/4/18:memory=200"));
        let wrong = PROCESSOR.replace("\"ways\": 4", "\"ways\": 3");
        let error = line(&["--emulator=/e", "--walks", &wrong]).unwrap_err().to_string();
        assert!(error.contains("first_tlb, 2M: 4 entries"), "{error}");
    }

    #[test]
    fn xen_boots_the_kernel_as_its_driver_domain() {
        let nic = "e1000=52:54:00:77:00:02";
        let line =
            line(&["--hypervisor=/x", "--driver-memory=384M", "--scheduler=credit2", "--nic", nic]);
        let line = line.unwrap();
        assert_eq!(after(&line, "-kernel"), "hypervisor");
        let append = after(&line, "-append");
        assert!(append.contains("dom0_mem=384M,max:384M") && append.contains("sched=credit2"));
        assert!(append.contains("spec-ctrl=eager-fpu"), "{append}");
        assert!(append.contains("dom0_max_vcpus=1 sched"), "{append}");
        let modules = after(&line, "-initrd");
        assert!(modules.starts_with("kernel ") && modules.ends_with(",initramfs"), "{modules}");
        assert!(modules.contains("virtio_pci,,virtio_console,,xen_evtchn"), "{modules}");
        assert!(modules.contains("console=hvc0") && !modules.contains("ttyS0"), "{modules}");
        assert!(after(&line, "-cpu").contains("-smap"));
    }

    #[test]
    fn a_driver_domain_has_cpus_for_itself_or_with_its_guests() {
        let of = |more: &[&str]| {
            let four = ["--hypervisor=/x", "--emulator=/e", "--cpus=4"];
            line(&[&four, more].concat())
        };
        let append = |more: &[&str]| after(&of(more).unwrap(), "-append").to_owned();
        assert!(append(&["--driver-cpus=4"]).contains("dom0_max_vcpus=4 sched"));
        let bound = append(&["--driver-cpus=2", "--driver-bound"]);
        assert!(bound.contains("dom0_max_vcpus=2 dom0_vcpus_pin sched"), "{bound}");
        let error = of(&["--driver-cpus=5"]).unwrap_err().to_string();
        assert!(error.contains("1 to the machine's 4"), "{error}");
    }

    #[test]
    fn there_is_room_for_so_many_nics() {
        let nics: Vec<String> =
            (0..185).map(|n| format!("--nic=e1000=52:54:00:77:00:{n:02x}@{n}")).collect();
        let words: Vec<&str> = nics.iter().map(String::as_str).collect();
        let whole = line(&words[..184]).unwrap().join(" ");
        assert!(whole.contains("addr=1e.7") && !whole.contains("addr=1f"));
        assert!(line(&words).unwrap_err().to_string().contains("room for 184"));
    }

    #[test]
    fn drivers_are_loaded_once() {
        let (a, b) = ("e1000=52:54:00:77:00:02", "e1000=52:54:00:77:00:03");
        let line = line(&["--nic", a, "--nic", b, "--module", "veth"]).unwrap();
        let append = after(&line, "-append");
        assert!(append.contains("modules=virtio_pci,virtio_console,e1000,veth"), "{append}");
    }
}
