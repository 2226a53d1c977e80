//! How memory is virtualised and in which pages: what is compared.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    #[serde(rename = "4K")]
    Small,
    #[serde(rename = "2M")]
    Large,
}

impl PageSize {
    /// Address bits within a page.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Small => 12,
            Self::Large => 21,
        }
    }

    /// The level whose entries map such pages: 1 is the last table of a walk.
    pub const fn leaf(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Large => 2,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Paging {
    /// No virtualisation: one walk through the system's own tables.
    Native,
    /// The hypervisor's tables map guest-virtual to host-physical: one walk, as natively. What
    /// shadow paging costs beyond it are exits, which no walk shows.
    Shadow,
    /// Guest tables and host tables: each reference of the guest's walk is itself walked.
    Nested,
}

/// One thing to compare: a kind of paging with the pages of the guest (or, natively, of the system)
/// and those of the host that back the guest's memory.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct Layout {
    pub paging: Paging,
    pub guest_pages: PageSize,
    pub host_pages: Option<PageSize>,
}

impl Layout {
    /// Pages of the TLB's entries: a translation holds as far as both dimensions do.
    pub fn entry_pages(self) -> PageSize {
        self.host_pages.map_or(self.guest_pages, |host| host.min(self.guest_pages))
    }

    /// The references of a walk for which nothing is cached, with so many levels of tables in each
    /// dimension: mn + m + n nested (m guest, n host references of one walk alone), else m.
    pub fn uncached_references(self, levels: u32) -> u32 {
        let walk = |pages: PageSize| levels + 1 - pages.leaf();
        match (self.paging, self.host_pages) {
            (Paging::Nested, Some(host)) => {
                let (m, n) = (walk(self.guest_pages), walk(host));
                m * n + m + n
            }
            _ => walk(self.entry_pages()),
        }
    }
}

/// What is reported, in this order.
pub const LAYOUTS: [Layout; 8] = {
    use PageSize::{Large, Small};
    use Paging::{Native, Nested, Shadow};
    const fn of(paging: Paging, guest_pages: PageSize, host_pages: Option<PageSize>) -> Layout {
        Layout { paging, guest_pages, host_pages }
    }
    [
        of(Native, Small, None),
        of(Native, Large, None),
        of(Shadow, Small, Some(Small)),
        of(Shadow, Small, Some(Large)),
        of(Shadow, Large, Some(Large)),
        of(Nested, Small, Some(Small)),
        of(Nested, Small, Some(Large)),
        of(Nested, Large, Some(Large)),
    ]
};
