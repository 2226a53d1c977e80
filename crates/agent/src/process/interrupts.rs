//! The table of /proc/interrupts, line by line. Layout: `show_interrupts` in kernel/irq/proc.c.

/// One line: an interrupt's number or short name, its counts, and the name of who handles it.
#[derive(Debug, PartialEq)]
pub struct InterruptLine<'a> {
    pub id: &'a str,
    /// What the driver calls it; several, joined by commas, for a shared interrupt.
    pub label: Option<&'a str>,
    counts: Vec<u64>,
}

impl InterruptLine<'_> {
    /// The interrupt's number; architecture-specific ones have none.
    pub fn number(&self) -> Option<u32> {
        self.id.parse().ok()
    }

    /// By CPU, or one for the machine.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The name that the driver gave, or the architecture's.
    pub fn name(&self) -> String {
        match (self.number(), self.label) {
            (Some(_), Some(label)) => label.to_owned(),
            (Some(number), None) => format!("irq{number}"),
            (None, _) => self.id.to_owned(),
        }
    }
}

/// Every line of the table that can be understood.
pub fn lines(text: &str) -> impl Iterator<Item = InterruptLine<'_>> {
    let mut lines = text.lines();
    let cpus = columns(lines.next().unwrap_or_default()).len();
    lines.filter_map(move |line| parse_line(line, cpus))
}

fn parse_line(line: &str, cpus: usize) -> Option<InterruptLine<'_>> {
    let (id, mut rest) = line.split_once(':')?;
    let mut counts = Vec::with_capacity(cpus);
    while counts.len() < cpus {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let Ok(count) = trimmed[..end].parse() else { break };
        counts.push(count);
        rest = &trimmed[end..];
    }
    let id = id.trim();
    (!counts.is_empty() && !id.is_empty()).then(|| InterruptLine { id, label: label(rest), counts })
}

/// What stands after the last two spaces: the kernel puts exactly these before a driver's name, and
/// pads what is before. A line without a driver ends in the flow handler's name.
fn label(rest: &str) -> Option<&str> {
    let label = rest.rsplit_once("  ")?.1.trim();
    let is_handler = ["edge", "level", "fasteoi"]
        .iter()
        .any(|end| label.strip_suffix(end).is_some_and(|number| number.ends_with('-')));
    (!label.is_empty() && !is_handler).then_some(label)
}

/// `CPU0 CPU2` as `cpu0`, `cpu2`: offline CPUs have no column.
pub fn columns(header: &str) -> Vec<String> {
    header
        .split_whitespace()
        .map(str::to_lowercase)
        .filter(|name| name.starts_with("cpu"))
        .collect()
}
