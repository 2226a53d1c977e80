//! One program under QEMU: its threads, what they share, its answer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use walk::{Core, Counts, Mark, Marks, Shared};

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
    reported: u64,
}

impl Thread {
    /// Of a thread that has not begun: its first access makes its core.
    pub const fn new() -> Self {
        Self { core: None, instructions: 0, reported: 0 }
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
        session.progress.fetch_add(core.accesses() - self.reported, Ordering::Relaxed);
        self.reported = core.accesses();
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
    marks: Mutex<Marks>,
    progress: &'static AtomicU64,
    answer: PathBuf,
}

static mut SESSION: *const Session = std::ptr::null();

impl Session {
    /// # Errors
    /// In words, if the job cannot be done.
    pub fn begin(
        job: Job,
        program: String,
        marks: Marks,
        progress: &'static AtomicU64,
    ) -> Result<(), String> {
        let shared = Mutex::new(Shared::new(job.processors()?, job.cache_share)?);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let answer = job.results.join(format!("{began}-{}.json", std::process::id()));
        let marks = Mutex::new(marks);
        let session = Self { job, program, shared, marks, progress, answer };
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
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread says that what counts of the program begins or ends.
    pub fn mark(&self, thread: u32, mark: Mark) {
        let mut marks = self.marks();
        marks.take(mark, self.counts(Some(thread)).0);
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
        // Another thread of the parent may have been about to make a mark, and is not here to unlock.
        let marks =
            parent.marks.try_lock().map_or_else(|_| Marks::default(), |marks| marks.of_child());
        let (job, program) = (parent.job.clone(), parent.program.clone());
        let again =
            Self::begin(job, program, marks, parent.progress).and_then(|()| Self::get().announce());
        if let Err(reason) = again {
            crate::give_up(&reason);
        }
    }

    /// Writes the answer. `only`: the one thread whose gathered pages may be touched, if others run.
    pub fn end(&self, only: Option<u32>) -> Result<(), String> {
        let (counts, threads) = self.counts(only);
        let marks = self.marks();
        self.write(&Answer {
            program: self.program.clone(),
            ended: true,
            threads,
            marked: marks.any(),
            counts: marks.counted(counts),
        })
    }

    /// What was counted since the program's start, and of how many threads.
    fn counts(&self, only: Option<u32>) -> (Counts, usize) {
        let (mut counts, mut threads) = (Counts::default(), 0);
        for number in 0..=HIGHEST.load(Ordering::Relaxed) {
            // SAFETY: see `end`; of other threads only numbers are read.
            let thread = unsafe { thread(number) };
            if only.is_none_or(|one| one == number) {
                thread.walk();
            }
            let instructions = thread.instructions;
            let (accesses, processors) = match &thread.core {
                Some(core) => (core.accesses(), core.results(&self.shared())),
                None => (0, Vec::new()),
            };
            threads += usize::from(thread.core.is_some());
            counts = counts.plus(&Counts { instructions, accesses, processors });
        }
        (counts, threads)
    }
}
