//! One program under QEMU: its threads, what they share, its answer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use walk::{Core, ProcessorResult, Shared};

use crate::job::{Answer, Job};

/// Misses that a thread gathers before it walks them, all at once, for walks share page tables and
/// caches with those of other threads.
const GATHERED: usize = 512;

/// One thread of the program.
#[repr(align(64))]
pub struct Thread {
    core: Option<Box<Core>>,
    pub instructions: u64,
    /// Accesses that the progress file knows of.
    told: u64,
}

impl Thread {
    /// Of a thread that has not begun: its first access makes its core.
    pub const fn new() -> Self {
        Self { core: None, instructions: 0, told: 0 }
    }

    #[inline(always)]
    pub fn access(&mut self, address: u64) {
        if !self.core.as_mut().is_some_and(|core| core.hit(address)) {
            self.other(address);
        }
    }

    #[inline(never)]
    fn other(&mut self, address: u64) {
        let core = self.core.get_or_insert_with(|| Box::new(Core::new(&Session::get().shared())));
        if core.access(address) >= GATHERED {
            self.walk();
        }
    }

    fn walk(&mut self) {
        let Some(core) = &mut self.core else { return };
        let session = Session::get();
        core.walk(&mut session.shared());
        session.progress.fetch_add(core.accesses() - self.told, Ordering::Relaxed);
        self.told = core.accesses();
    }
}

/// Threads of a program at once.
pub const MOST_THREADS: usize = 4096;

/// QEMU numbers threads; each has its place. Touched by that thread, and by the last one at the end.
pub static mut THREADS: [Thread; MOST_THREADS] = [const { Thread::new() }; MOST_THREADS];

/// The highest number of a thread that there was.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// A thread begins. Before it runs, so that those that access memory need not check.
pub fn thread_begins(number: u32) {
    if number as usize >= MOST_THREADS {
        crate::give_up(&format!("the program has more than {MOST_THREADS} threads at once"));
    }
    HIGHEST.fetch_max(number, Ordering::Relaxed);
}

/// # Safety
/// By the thread of that number, or when no other runs.
#[inline(always)]
pub unsafe fn thread(number: u32) -> &'static mut Thread {
    // SAFETY: the number is below MOST_THREADS, see `thread_begins`.
    unsafe { &mut *(&raw mut THREADS).cast::<Thread>().add(number as usize) }
}

pub struct Session {
    pub job: Job,
    pub program: String,
    shared: Mutex<Shared>,
    progress: &'static AtomicU64,
    answer: PathBuf,
}

static mut SESSION: *const Session = std::ptr::null();

impl Session {
    /// # Errors
    /// In words, if the job cannot be done.
    pub fn begin(job: Job, program: String, progress: &'static AtomicU64) -> Result<(), String> {
        let shared = Mutex::new(Shared::new(job.processors()?, job.cache_share)?);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let answer = job.results.join(format!("{began}-{}.json", std::process::id()));
        let session = Self { job, program, shared, progress, answer };
        // SAFETY: at the start of a program, or of a child after fork: no other thread is there yet.
        unsafe { SESSION = Box::into_raw(Box::new(session)) };
        Ok(())
    }

    /// Says that there is a program whose end is to come.
    pub fn announce(&self) -> Result<(), String> {
        self.write(&Answer { program: self.program.clone(), ..Answer::default() })
    }

    fn write(&self, answer: &Answer) -> Result<(), String> {
        answer.write(&self.answer).or_else(|reason| if self.asked() { Err(reason) } else { Ok(()) })
    }

    /// Whether anyone waits for the answer. A program in the background may outlive who asked.
    pub fn asked(&self) -> bool {
        self.job.results.is_dir()
    }

    pub fn get() -> &'static Self {
        // SAFETY: callbacks are registered after `begin`, and sessions are never freed.
        unsafe { &*SESSION }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// After fork: the child counts from nothing, with cold TLBs. What the parent's threads had is its
    /// own and left alone.
    pub fn begin_child() {
        let highest = HIGHEST.load(Ordering::Relaxed);
        for number in 0..=highest {
            // SAFETY: the child has one thread.
            let thread = unsafe { thread(number) };
            // Not freed: that would copy the parent's memory, page for page.
            std::mem::forget(std::mem::replace(thread, Thread::new()));
        }
        let parent = Self::get();
        let again = Self::begin(parent.job.clone(), parent.program.clone(), parent.progress)
            .and_then(|()| Self::get().announce());
        if let Err(reason) = again {
            crate::give_up(&reason);
        }
    }

    /// Writes the answer. `only`: the one thread whose gathered pages may be touched, if others run.
    pub fn end(&self, only: Option<u32>) -> Result<(), String> {
        let mut answer = Answer { program: self.program.clone(), ended: true, ..Answer::default() };
        for number in 0..=HIGHEST.load(Ordering::Relaxed) {
            // SAFETY: see `only`; of other threads only numbers are read.
            let thread = unsafe { thread(number) };
            if only.is_none_or(|one| one == number) {
                thread.walk();
            }
            answer.instructions += thread.instructions;
            let Some(core) = &thread.core else { continue };
            add(&mut answer.processors, core.results(&self.shared()));
            answer.accesses += core.accesses();
            answer.threads += 1;
        }
        self.write(&answer)
    }
}

fn add(sums: &mut Vec<ProcessorResult>, others: Vec<ProcessorResult>) {
    if sums.is_empty() {
        *sums = others;
        return;
    }
    for (sum, other) in sums.iter_mut().zip(&others) {
        for (layout, other) in sum.layouts.iter_mut().zip(&other.layouts) {
            layout.add(other);
        }
    }
}
