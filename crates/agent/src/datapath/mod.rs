//! The process that moves packets of guests beside their VMMs. Here are its work ([`main`]) and the walls
//! between it and this host; [`vhost_user`] is the host agent's end of it. The crate `hypertare-datapath`
//! moves the packets.
//!
//! It holds descriptors only. It reads what guests write without any wall between, so it has QEMU's own
//! walls ([`crate::vmm::jail`]) and a list of the system calls that it makes: any other call ends it. It
//! ends with the host agent, whose end of its socket then closes, and at the latest with the sandbox.

pub mod vhost_user;

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use datapath::card::{TUNSETOFFLOAD, TUNSETVNETHDRSZ};
use datapath::serve::{self, ServeMode};
use hypertare_plan::{AGENT_PREFIX, Accelerator};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::Eq;
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};

use crate::arch::ARCH;
use crate::boot_contract::is_own_machine;
use crate::vmm::jail::Jail;

pub const VERB: &str = "datapath";

/// The descriptor of the socket by which cards come.
const CARDS: i32 = 0;

/// The system calls of moving packets, of memory and of an orderly end; `ioctl` beside them.
const ALLOWED: [libc::c_long; 34] = [
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_accept4,
    libc::SYS_accept,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[derive(Args)]
pub struct Arguments {
    /// Look for work for ever, instead of sleeping until there is some
    #[arg(long)]
    polling: bool,
}

/// Serves the cards that come by the socket on descriptor 0, until that ends.
pub fn main(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{AGENT_PREFIX}the datapath ended: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    // SAFETY: the host agent has put it there, and nothing else here uses it.
    let cards = unsafe { OwnedFd::from_raw_fd(CARDS) };
    if !is_own_machine() {
        Jail::new(Accelerator::Tcg, false)?.enter().context("cannot shut itself in")?;
        let mut rules: BTreeMap<_, _> = ALLOWED.into_iter().map(|call| (call, vec![])).collect();
        let one_of = [TUNSETOFFLOAD, TUNSETVNETHDRSZ].map(|request| {
            let is_it = SeccompCondition::new(1, Dword, Eq, u64::from(request as u32))?;
            SeccompRule::new(vec![is_it])
        });
        rules.insert(libc::SYS_ioctl, one_of.into_iter().collect::<Result<_, _>>()?);
        let (otherwise, matched) = (SeccompAction::KillProcess, SeccompAction::Allow);
        let filter = SeccompFilter::new(rules, otherwise, matched, ARCH.filtered)?;
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program).context("cannot filter its system calls")?;
    }
    serve::serve(cards, if arguments.polling { ServeMode::Polling } else { ServeMode::Notified })
}
