//! The host agent's ends of nodes, and what is behind each: a [`process`] of this machine, an agent that was
//! [`joined`] (in a container of the user's own engine, on a machine that was given), a [`guest`] in a VMM, a
//! [`domain`] of Xen. Whoever holds a [`NodeLink`] need not know which.

pub mod domain;
pub mod guest;
mod inbox;
pub mod joined;
pub mod process;
mod streams;

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::Result;
use hypertare_plan::{NodeReady, NumberedOrder};

use crate::probe::Outside;

pub use inbox::{Inbox, News};

/// The host agent's end of a node.
pub trait NodeLink {
    /// Hands an order over. Never blocks; that a node is gone is known by its inbox.
    fn send(&mut self, order: &NumberedOrder);

    /// What is known once the node is set up. Its name and its times are filled in by whoever asks.
    fn about(&mut self) -> Result<NodeReady>;

    /// Checks that the node is still connected as it was made, as far as the node itself does not do so:
    /// called before each trial that needs it.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    /// The reason why the node ended, if it is known.
    fn failure(&mut self) -> Option<String>;

    /// The last lines that the node printed apart from its records.
    fn console(&mut self) -> Vec<String>;

    /// Its process on this machine; nothing where it has none of its own.
    fn pid(&self) -> Option<i32> {
        None
    }

    /// Saves the state of a virtual machine, which stands still from then on; nothing of others.
    fn save(&mut self, _limit: Duration) -> Result<Option<File>> {
        Ok(None)
    }

    /// Where the CPU time that the machine spends for this node is counted; nothing for a host node,
    /// which has no outside, unless it is Xen's driver domain.
    fn outside(&mut self) -> Option<Outside>;

    /// Waits until the node has ended; false when it has not by then.
    fn ended(&mut self, deadline: Instant) -> bool;

    /// Ends it at once.
    fn kill(&mut self);
}
