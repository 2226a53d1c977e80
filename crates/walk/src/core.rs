//! A core: what the accesses of one thread go through.

use crate::cache::SharedCaches;
use crate::emulated::check_share;
use crate::layout::{LAYOUTS, Layout, Paging};
use crate::processor::Processor;
use crate::result::{LayoutResult, ProcessorResult};
use crate::tlb::{MOST_PROCESSORS, Tlbs};
use crate::walker::{Tables, Walker};

/// The layouts that are walked. A shadow walk is that of native tables with the pages of the TLB's
/// entries: it is counted there.
const WALKED: [Layout; 5] = [LAYOUTS[0], LAYOUTS[1], LAYOUTS[5], LAYOUTS[6], LAYOUTS[7]];

/// Where a layout is walked.
#[expect(clippy::expect_used, reason = "each layout is walked itself, or where its entries are")]
fn walked(layout: Layout) -> usize {
    WALKED
        .iter()
        .position(|&other| match layout.paging {
            Paging::Nested => other == layout,
            _ => other.paging == Paging::Native && other.guest_pages == layout.entry_pages(),
        })
        .expect("every layout is walked")
}

/// What all cores of an address space share: its page tables and the shared caches.
pub struct Shared {
    processors: Vec<Processor>,
    share: f64,
    /// By levels of tables (processors of the same number share them) and walked layout.
    tables: Vec<(u32, [Tables; WALKED.len()])>,
    /// By processor and walked layout.
    caches: Vec<[SharedCaches; WALKED.len()]>,
}

impl Shared {
    /// `share`: of every cache, what page tables may hold, above 0 and at most 1.
    ///
    /// # Errors
    /// In words, if a processor is impossible, or there are none or too many.
    pub fn new(processors: Vec<Processor>, share: f64) -> Result<Self, String> {
        if processors.is_empty() || processors.len() > MOST_PROCESSORS {
            return Err(format!(
                "{} processors; 1 to {MOST_PROCESSORS} in one pass",
                processors.len()
            ));
        }
        check_share(share)?;
        processors.iter().try_for_each(Processor::check)?;
        let mut levels: Vec<u32> = processors.iter().map(|processor| processor.levels).collect();
        levels.sort_unstable();
        levels.dedup();
        Ok(Self {
            tables: (levels.iter())
                .map(|&levels| (levels, WALKED.map(|layout| Tables::new(layout, levels))))
                .collect(),
            caches: (processors.iter())
                .map(|processor| WALKED.map(|_| SharedCaches::new(processor, share)))
                .collect(),
            processors,
            share,
        })
    }
}

/// One core of every processor.
pub struct Core {
    tlbs: Tlbs,
    walkers: Vec<[Walker; WALKED.len()]>,
}

impl Core {
    pub fn new(shared: &Shared) -> Self {
        Self {
            tlbs: Tlbs::new(&shared.processors),
            walkers: (shared.processors.iter())
                .map(|processor| WALKED.map(|layout| Walker::new(processor, layout, shared.share)))
                .collect(),
        }
    }

    /// Takes an access if no TLB has anything to do for it; see [`Tlbs::hit`].
    #[inline(always)]
    pub fn hit(&mut self, address: u64) -> bool {
        self.tlbs.hit(address)
    }

    /// Takes an access to a virtual address. Touches nothing shared; returns how many misses wait to
    /// be walked.
    pub fn access(&mut self, address: u64) -> usize {
        self.tlbs.access(address);
        self.tlbs.waiting()
    }

    pub fn accesses(&self) -> u64 {
        self.tlbs.accesses()
    }

    /// Walks what the look-ups missed.
    #[expect(clippy::expect_used, reason = "`Shared::new` makes the tables of every processor")]
    pub fn walk(&mut self, shared: &mut Shared) {
        for miss in self.tlbs.drain_misses() {
            let at = usize::from(miss.processor);
            let processor = &shared.processors[at];
            let tables = (shared.tables.iter_mut())
                .find(|(levels, _)| *levels == processor.levels)
                .map(|(_, tables)| tables)
                .expect("tables of every number of levels");
            for (number, layout) in WALKED.iter().enumerate() {
                let possible = processor.nested || layout.paging != Paging::Nested;
                if layout.entry_pages() == miss.pages && possible {
                    self.walkers[at][number].walk(
                        miss.address,
                        &mut tables[number],
                        &mut shared.caches[at][number],
                    );
                }
            }
        }
    }

    /// What was counted so far.
    pub fn results(&self, shared: &Shared) -> Vec<ProcessorResult> {
        (shared.processors.iter().enumerate())
            .map(|(at, processor)| ProcessorResult {
                processor: processor.name.clone(),
                layouts: (LAYOUTS.iter())
                    .filter(|layout| processor.nested || layout.paging != Paging::Nested)
                    .map(|&layout| self.result(at, processor, layout))
                    .collect(),
            })
            .collect()
    }

    fn result(&self, at: usize, processor: &Processor, layout: Layout) -> LayoutResult {
        let tlb = self.tlbs.counts(at, layout.entry_pages());
        LayoutResult {
            layout,
            uncached_references: layout.uncached_references(processor.levels),
            tlb,
            second_tlb_cycles: tlb.first_tlb_misses * processor.second_tlb.look_up_cycles(),
            walks: self.walkers[at][walked(layout)].walks,
        }
    }
}
