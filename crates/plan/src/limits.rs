//! Bounds on what crosses the seam. What a guest sends is untrusted, so every reader enforces them.

/// Longest line, in bytes, newline included. A longer one fails the node that sent it.
pub const MAX_LINE: usize = 1 << 20;

/// Most bytes of records that one node may send during one trial. More fails the trial.
pub const MAX_TRIAL_BYTES: usize = 64 << 20;

/// Bytes kept of a command's standard output and of its standard error: the last ones.
pub const MAX_OUTPUT: usize = 16 << 10;

/// Lines kept of a guest's console: the last ones.
pub const MAX_CONSOLE_LINES: usize = 40;
