//! What is counted, and the difference of two countings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hypertare_plan::Values;

/// A new interface alone brings sixteen.
const NAMES_IN_A_NOTE: usize = 8;

/// How a counter may move other than up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only up, 64 bits. Less than before means that it was set anew (a driver was loaded again, an
    /// interface was made again under its old name): what it counted since is not the difference,
    /// so it is left out.
    Counter,
    /// Only up, but `unsigned int` in the kernel: it starts again at zero after 2^32 - 1.
    Counter32,
    /// Up, but may step back a little by the kernel's own account of it, as idle and iowait time
    /// do (proc(5)). A step back is no difference.
    Drifting,
    /// Begins at zero when what it counts for begins, and ends with it: a thread's counters. Born
    /// between the readings it counts in full; ended between them it is lost.
    Lifetime,
    /// Not a counter: the value is the one after.
    Gauge,
}

/// One number of a reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Identifies the number in another reading. Unique in its sample.
    pub key: String,
    /// The values that its difference adds to: its own, and a total over CPUs, for example.
    pub names: Vec<String>,
    pub raw: u64,
    pub kind: Kind,
    /// What one step of `raw` is worth in the value's unit.
    pub scale: f64,
}

/// One reading of one probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub entries: Vec<Entry>,
    /// Two readings with different ones are not about the same thing.
    pub identity: Option<String>,
    /// Values that this machine cannot give, by name, and why.
    pub absent: BTreeMap<String, String>,
}

impl Sample {
    /// Adds a number with a value of its own.
    pub fn count(&mut self, name: &str, raw: u64, kind: Kind, scale: f64) {
        self.share(name, &[name], raw, kind, scale);
    }

    /// Says that there is no such value here.
    pub fn lacks(&mut self, name: &str, why: impl Into<String>) {
        self.absent.insert(name.to_owned(), why.into());
    }

    /// Adds a number that has a part in several values.
    pub fn share(&mut self, key: &str, names: &[&str], raw: u64, kind: Kind, scale: f64) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.entries.push(Entry { key: key.to_owned(), names, raw, kind, scale });
    }
}

/// The differences by name. A value with a part that one reading lacks, or that was set anew, is
/// left out as a whole, and `notes` says so: a sum without one of its parts would pass for whole.
pub fn difference(
    before: &Sample,
    after: &Sample,
    notes: &mut Vec<String>,
) -> Result<Values, String> {
    if before.identity != after.identity {
        return Err(format!(
            "the two readings are not about the same thing: {} before, {} after",
            before.identity.as_deref().unwrap_or("nothing"),
            after.identity.as_deref().unwrap_or("nothing")
        ));
    }
    let mut old: HashMap<&str, &Entry> =
        before.entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    let mut values = Values::new();
    let mut unusable = Vec::new();
    for entry in &after.entries {
        match step(old.remove(entry.key.as_str()), entry) {
            Ok(step) => add(&mut values, entry, step as f64 * entry.scale),
            Err(what) => unusable.push((entry, what)),
        }
    }
    let gone = old.into_values().filter(|entry| entry.kind != Kind::Lifetime);
    unusable.extend(gone.map(|entry| (entry, "disappeared")));
    leave_out(&mut values, &unusable, notes);
    Ok(values)
}

/// How far one counter went, in its own steps.
fn step(before: Option<&Entry>, after: &Entry) -> Result<u64, &'static str> {
    let Some(before) = before else {
        return match after.kind {
            Kind::Gauge | Kind::Lifetime => Ok(after.raw),
            _ => Err("appeared"),
        };
    };
    match after.kind {
        Kind::Gauge => Ok(after.raw),
        Kind::Drifting => Ok(after.raw.saturating_sub(before.raw)),
        Kind::Counter32 => step32(before.raw, after.raw),
        Kind::Counter | Kind::Lifetime => after.raw.checked_sub(before.raw).ok_or("went backwards"),
    }
}

/// A step over the end of 32 bits. Between two readings a counter goes less than half the way round;
/// a step that looks longer is one backwards.
fn step32(before: u64, after: u64) -> Result<u64, &'static str> {
    const ROUND: u64 = 1 << 32;
    if after >= before {
        return Ok(after - before);
    }
    match before < ROUND && after + ROUND - before < ROUND / 2 {
        true => Ok(after + ROUND - before),
        false => Err("went backwards"),
    }
}

fn add(values: &mut Values, entry: &Entry, amount: f64) {
    for name in &entry.names {
        *values.entry(name.clone()).or_insert(0.0) += amount;
    }
}

fn leave_out(values: &mut Values, unusable: &[(&Entry, &str)], notes: &mut Vec<String>) {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (entry, what) in unusable {
        for name in &entry.names {
            values.remove(name);
            names.entry(what).or_default().insert(name);
        }
    }
    notes.extend(names.iter().map(|(what, names)| {
        let first: Vec<&str> = names.iter().copied().take(NAMES_IN_A_NOTE).collect();
        let more = match names.len() - first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("left out, because a counter of it {what}: {}{more}", first.join(", "))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(entries: &[(&str, u64, Kind)]) -> Sample {
        let mut sample = Sample::default();
        for (name, raw, kind) in entries {
            sample.count(name, *raw, *kind, 1.0);
        }
        sample
    }

    fn between(before: &Sample, after: &Sample) -> (Values, Vec<String>) {
        let mut notes = Vec::new();
        (difference(before, after, &mut notes).unwrap(), notes)
    }

    #[test]
    fn a_32_bit_counter_goes_over_its_end() {
        let before = sample(&[("NET_RX", u64::from(u32::MAX) - 9, Kind::Counter32)]);
        let after = sample(&[("NET_RX", 20, Kind::Counter32)]);
        assert_eq!(between(&before, &after).0["NET_RX"], 30.0);
    }

    #[test]
    fn a_counter_that_was_set_anew_is_left_out_and_named() {
        for (before, kind) in [(1000, Kind::Counter), (1000, Kind::Counter32)] {
            let (values, notes) =
                between(&sample(&[("x", before, kind)]), &sample(&[("x", 3, kind)]));
            assert!(values.is_empty());
            assert_eq!(notes, ["left out, because a counter of it went backwards: x"]);
        }
    }

    #[test]
    fn idle_time_that_steps_back_is_no_time() {
        let (values, notes) = between(
            &sample(&[("iowait_s", 7, Kind::Drifting)]),
            &sample(&[("iowait_s", 5, Kind::Drifting)]),
        );
        assert_eq!(values["iowait_s"], 0.0);
        assert!(notes.is_empty());
    }

    #[test]
    fn a_total_without_one_of_its_parts_is_left_out() {
        let mut before = Sample::default();
        before.share("0", &["cpu0.x", "x"], 1, Kind::Counter, 1.0);
        before.share("1", &["cpu1.x", "x"], 1, Kind::Counter, 1.0);
        let mut after = Sample::default();
        after.share("0", &["cpu0.x", "x"], 5, Kind::Counter, 1.0);
        let (values, notes) = between(&before, &after);
        assert_eq!(values, Values::from([("cpu0.x".to_owned(), 4.0)]));
        assert_eq!(notes, ["left out, because a counter of it disappeared: cpu1.x, x"]);
    }

    #[test]
    fn a_note_does_not_name_hundreds() {
        let names: Vec<String> = (10..30).map(|number| format!("x{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), 1, Kind::Counter)).collect();
        let (_, notes) = between(&Sample::default(), &sample(&many));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].ends_with("appeared: x10, x11, x12, x13, x14, x15, x16, x17 and 12 more"));
    }

    #[test]
    fn a_thread_counts_from_its_birth() {
        let before = sample(&[("old", 5, Kind::Lifetime)]);
        let after = sample(&[("new", 3, Kind::Lifetime)]);
        let (values, notes) = between(&before, &after);
        assert_eq!(values, Values::from([("new".to_owned(), 3.0)]));
        assert!(notes.is_empty());
    }

    #[test]
    fn readings_of_two_things_are_refused() {
        let after = Sample { identity: Some("process 7".into()), ..Sample::default() };
        let error = difference(&Sample::default(), &after, &mut Vec::new()).unwrap_err();
        assert!(error.contains("process 7"));
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Counter),
            Just(Kind::Counter32),
            Just(Kind::Drifting),
            Just(Kind::Lifetime)
        ]
    }

    proptest! {
        #[test]
        fn what_was_added_comes_out(
            parts in prop::collection::vec((0..1u64 << 40, 0..1u64 << 30), 1..20),
            kind in kinds(),
        ) {
            let width = if kind == Kind::Counter32 { u64::from(u32::MAX) } else { u64::MAX };
            let (mut before, mut after) = (Sample::default(), Sample::default());
            for (index, (start, step)) in parts.iter().enumerate() {
                let (key, own) = (index.to_string(), format!("cpu{index}.x"));
                let names = [own.as_str(), "x"];
                before.share(&key, &names, start & width, kind, 0.5);
                after.share(&key, &names, (start + step) & width, kind, 0.5);
            }
            let (values, notes) = between(&before, &after);
            prop_assert!(notes.is_empty());
            for (index, (_, step)) in parts.iter().enumerate() {
                prop_assert_eq!(values[&format!("cpu{index}.x")], *step as f64 * 0.5);
            }
            let total: u64 = parts.iter().map(|(_, step)| step).sum();
            prop_assert_eq!(values["x"], total as f64 * 0.5);
        }

        #[test]
        fn no_difference_is_ever_negative(
            before in prop::collection::btree_map("[a-f]", any::<u64>(), 0..6),
            after in prop::collection::btree_map("[a-f]", any::<u64>(), 0..6),
            kind in kinds(),
        ) {
            let of = |map: &BTreeMap<String, u64>| {
                let entries: Vec<_> = map.iter().map(|(k, v)| (k.as_str(), *v, kind)).collect();
                sample(&entries)
            };
            let (values, notes) = between(&of(&before), &of(&after));
            prop_assert!(values.values().all(|value| *value >= 0.0));
            for name in after.keys() {
                let reported = notes.iter().any(|note| {
                    note.rsplit(": ").next().unwrap().split(", ").any(|reported| reported == name)
                });
                prop_assert_ne!(values.contains_key(name), reported);
            }
        }
    }
}
