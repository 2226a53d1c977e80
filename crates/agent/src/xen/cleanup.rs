//! Removes what runs have left on a user's host: the driver domain's weight first, for that is the
//! host's own; then guests. What cannot be removed stops nothing of the rest, and is noted in the
//! [`journal`], where the run's end and the next run find it.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::store::Store;
use super::{journal, tools};
use crate::process::cgroup::{self, Scope};

const DESTROY_LIMIT: Duration = Duration::from_secs(30);
/// A domain whose interfaces are on their way cannot always be destroyed at the first try.
const TRIES: u32 = 3;

/// What is asked of a host to clean it up.
pub trait Host {
    /// Guests by number and name.
    fn guests(&mut self) -> Result<Vec<(u32, String)>>;
    fn destroy(&mut self, guest: u32) -> Result<()>;
    /// Runs that have noted something.
    fn noted(&mut self) -> Result<Vec<Scope>>;
    /// Does nothing if none is noted.
    fn put_weight_back(&mut self, scope: &Scope) -> Result<()>;
    fn note_left(&mut self, scope: &Scope, left: &str) -> Result<()>;
    /// Nothing is left of the run.
    fn forget(&mut self, scope: &Scope) -> Result<()>;
}

impl Host for Store<UnixStream> {
    fn guests(&mut self) -> Result<Vec<(u32, String)>> {
        self.domains()
    }

    fn destroy(&mut self, guest: u32) -> Result<()> {
        tools::run("xl", &["destroy", &guest.to_string()], DESTROY_LIMIT).map(drop)
    }

    fn noted(&mut self) -> Result<Vec<Scope>> {
        journal::scopes(self)
    }

    fn put_weight_back(&mut self, scope: &Scope) -> Result<()> {
        journal::put_back(self, scope)
    }

    fn note_left(&mut self, scope: &Scope, left: &str) -> Result<()> {
        journal::note_trouble(self, scope, left)
    }

    fn forget(&mut self, scope: &Scope) -> Result<()> {
        journal::forget(self, scope)
    }
}

/// After one run.
///
/// # Errors
/// Something is left: what, why, and what to do.
pub fn clear(host: &mut impl Host, scope: &Scope) -> Result<()> {
    clear_all(host, std::slice::from_ref(scope), Vec::new())
}

/// After all runs of which nobody is left.
///
/// # Errors
/// Something is left: what, why, and what to do.
pub fn sweep(host: &mut impl Host, is_alive: impl Fn(&str) -> bool) -> Result<()> {
    let mut left = Vec::new();
    let guests = host.guests().unwrap_or_else(|error| none(&mut left, &error));
    let noted = host.noted().unwrap_or_else(|error| none(&mut left, &error));
    let named = guests.iter().filter_map(|(_, name)| cgroup::run_of(name));
    let runs: BTreeSet<String> =
        named.map(str::to_owned).chain(noted.iter().map(|scope| scope.name().to_owned())).collect();
    let dead = runs.iter().filter(|name| !is_alive(name));
    let scopes: Vec<Scope> = dead.map(|name| Scope::named(name)).collect();
    clear_all(host, &scopes, left)
}

fn none<T>(left: &mut Vec<String>, error: &anyhow::Error) -> Vec<T> {
    left.push(format!("it cannot be seen what is left: {error:#}"));
    Vec::new()
}

fn clear_all(host: &mut impl Host, scopes: &[Scope], mut left: Vec<String>) -> Result<()> {
    let weights: Vec<_> = scopes.iter().map(|scope| host.put_weight_back(scope)).collect();
    for (scope, weight) in scopes.iter().zip(weights) {
        let weight = weight.map_err(|error| {
            anyhow!(
                "the driver domain's weight is not as it was: {error:#}; `xl sched-credit -d \
                 Domain-0` shows it, with -w it is set"
            )
        });
        let guests = destroy(host, |name| scope.owns(name));
        let found: Vec<String> = [weight, guests]
            .into_iter()
            .filter_map(Result::err)
            .map(|e| format!("{e:#}"))
            .collect();
        let noted = match found.as_slice() {
            [] => host.forget(scope),
            found => host.note_left(scope, &found.join("; ")),
        };
        left.extend(found);
        left.extend(noted.err().map(|error| format!("{error:#}")));
    }
    match left.as_slice() {
        [] => Ok(()),
        left => bail!("{}", left.join("; ")),
    }
}

/// Destroys guests until none of them is there.
///
/// # Errors
/// Some are left: which, why, and what to do.
pub fn destroy(host: &mut impl Host, is_ours: impl Fn(&str) -> bool) -> Result<()> {
    let mut why = String::new();
    for _ in 0..TRIES {
        let ours = ours(host, &is_ours)?;
        if ours.is_empty() {
            return Ok(());
        }
        for (number, _) in ours {
            if let Err(error) = host.destroy(number) {
                why = format!(": {error:#}");
            }
        }
    }
    let left: Vec<String> = ours(host, &is_ours)?.into_iter().map(|(_, name)| name).collect();
    if left.is_empty() {
        return Ok(());
    }
    let names = left.join(", ");
    bail!("still there after {TRIES} times `xl destroy`{why}: {names}; see `xl list`")
}

fn ours(host: &mut impl Host, is_ours: impl Fn(&str) -> bool) -> Result<Vec<(u32, String)>> {
    Ok(host.guests()?.into_iter().filter(|(_, name)| is_ours(name)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DEAD: &str = "hypertare-7-99";
    const OTHER: &str = "hypertare-8-11";

    /// A host of which some things fail.
    #[derive(Default)]
    struct Faulty {
        guests: Vec<(u32, String)>,
        /// How often each is destroyed in vain, and what `xl` says of it: nothing if it says Ok.
        stubborn: BTreeMap<u32, (u32, Option<&'static str>)>,
        weights: BTreeMap<String, Result<(), &'static str>>,
        blind: bool,
        trouble: BTreeMap<String, String>,
        course: Vec<String>,
    }

    impl Faulty {
        fn with(guests: &[(u32, &str)]) -> Self {
            let guests = guests.iter().map(|&(number, name)| (number, name.to_owned())).collect();
            Faulty { guests, ..Faulty::default() }
        }

        fn names(&self) -> Vec<&str> {
            self.guests.iter().map(|(_, name)| name.as_str()).collect()
        }
    }

    impl Host for Faulty {
        fn guests(&mut self) -> Result<Vec<(u32, String)>> {
            if self.blind {
                bail!("Xen's store is silent");
            }
            Ok(self.guests.clone())
        }

        fn destroy(&mut self, guest: u32) -> Result<()> {
            self.course.push(format!("destroy {guest}"));
            if let Some((times, said)) = self.stubborn.get_mut(&guest)
                && *times > 0
            {
                *times -= 1;
                return said.map_or(Ok(()), |said| bail!("{said}"));
            }
            self.guests.retain(|&(number, _)| number != guest);
            Ok(())
        }

        fn noted(&mut self) -> Result<Vec<Scope>> {
            let names: BTreeSet<&String> = self.weights.keys().chain(self.trouble.keys()).collect();
            Ok(names.into_iter().map(|name| Scope::named(name)).collect())
        }

        fn put_weight_back(&mut self, scope: &Scope) -> Result<()> {
            let Some(weight) = self.weights.get(scope.name()) else { return Ok(()) };
            weight.map_err(|said| anyhow!(said))?;
            self.course.push(format!("weight {}", scope.name()));
            self.weights.remove(scope.name());
            Ok(())
        }

        fn note_left(&mut self, scope: &Scope, left: &str) -> Result<()> {
            self.trouble.insert(scope.name().to_owned(), left.to_owned());
            Ok(())
        }

        fn forget(&mut self, scope: &Scope) -> Result<()> {
            self.trouble.remove(scope.name());
            Ok(())
        }
    }

    fn is_alive(name: &str) -> bool {
        name.starts_with("hypertare-1-")
    }

    fn guests() -> Faulty {
        Faulty::with(&[
            (0, "Domain-0"),
            (1, "mail"),
            (2, "hypertare-7-99.xen1"),
            (3, "hypertare-8-11.xen1"),
            (4, "hypertare-1-5.xen1"),
        ])
    }

    #[test]
    fn one_run_is_cleared_and_nothing_else_is_touched() {
        let mut host = guests();
        host.weights.insert(DEAD.to_owned(), Ok(()));
        clear(&mut host, &Scope::named(DEAD)).unwrap();
        assert_eq!(host.course, [&format!("weight {DEAD}"), "destroy 2"]);
        assert_eq!(host.names().len(), 4);
    }

    #[test]
    fn all_weights_are_put_back_before_any_guest_and_living_runs_are_left_alone() {
        let mut host = guests();
        for run in [DEAD, OTHER, "hypertare-1-5"] {
            host.weights.insert(run.to_owned(), Ok(()));
        }
        sweep(&mut host, is_alive).unwrap();
        let weights = [format!("weight {DEAD}"), format!("weight {OTHER}")];
        assert_eq!(host.course, [&weights[0], &weights[1], "destroy 2", "destroy 3"]);
        assert_eq!(host.names(), ["Domain-0", "mail", "hypertare-1-5.xen1"]);
        assert!(host.trouble.is_empty());
    }

    #[test]
    fn a_guest_that_cannot_be_destroyed_stops_nothing_else_and_is_noted() {
        // `xl` says no, and `xl` says yes though the guest stays.
        for (said, expected) in [(Some("xl failed: busy"), ": xl failed: busy"), (None, "`")] {
            let mut host = guests();
            host.stubborn.insert(2, (TRIES, said));
            host.weights.insert(DEAD.to_owned(), Ok(()));
            host.weights.insert(OTHER.to_owned(), Ok(()));
            let error = sweep(&mut host, is_alive).unwrap_err().to_string();
            assert!(error.contains("hypertare-7-99.xen1") && error.contains(expected), "{error}");
            assert!(host.weights.is_empty());
            assert_eq!(
                host.names(),
                ["Domain-0", "mail", "hypertare-7-99.xen1", "hypertare-1-5.xen1"]
            );
            assert_eq!(host.trouble.keys().collect::<Vec<_>>(), [DEAD]);
            // The next run tries again, and forgets it when it is gone.
            sweep(&mut host, is_alive).unwrap();
            assert!(host.trouble.is_empty() && !host.names().contains(&"hypertare-7-99.xen1"));
        }
    }

    #[test]
    fn a_guest_that_goes_at_the_last_try_is_no_error() {
        let mut host = guests();
        host.stubborn.insert(2, (TRIES - 1, Some("xl failed: busy")));
        clear(&mut host, &Scope::named(DEAD)).unwrap();
        assert!(!host.names().contains(&"hypertare-7-99.xen1"));
    }

    #[test]
    fn a_weight_that_cannot_be_put_back_is_reported_and_guests_are_destroyed_all_the_same() {
        let mut host = guests();
        host.weights.insert(DEAD.to_owned(), Err("xl failed"));
        let error = clear(&mut host, &Scope::named(DEAD)).unwrap_err().to_string();
        assert!(error.contains("weight is not as it was: xl failed"), "{error}");
        assert!(!host.names().contains(&"hypertare-7-99.xen1"));
        assert_eq!(host.trouble[DEAD], error);
    }

    #[test]
    fn who_cannot_see_the_guests_puts_weights_back_and_says_so() {
        let mut host = guests();
        host.blind = true;
        host.weights.insert(DEAD.to_owned(), Ok(()));
        let error = sweep(&mut host, is_alive).unwrap_err().to_string();
        assert!(error.contains("cannot be seen") && error.contains("silent"), "{error}");
        assert!(host.weights.is_empty());
    }
}
