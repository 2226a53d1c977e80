//! What damage and other versions do to a line of JSON, and the lines that it is done to.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

/// Lines that once were, or could be, too much for something: each file's name says what they are.
pub fn corpus(kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = format!("{}/../../tests/corpus/{kind}", env!("CARGO_MANIFEST_DIR"));
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "there is no corpus of {kind}");
    found
}

/// Steps of every type, as the controller writes them.
pub fn right_steps() -> Vec<Value> {
    include_str!("../plans.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How long a property is searched: always the same cases, unless someone asks for more.
pub fn searched(cases: u32) -> Config {
    match std::env::var("HYPERTARE_EXAMPLES") {
        Ok(wanted) => Config::with_cases(wanted.parse().expect("a number of examples")),
        Err(_) => Config { rng_seed: RngSeed::Fixed(1), ..Config::with_cases(cases) },
    }
}

/// One thing wrong: where, how, and with what.
#[derive(Clone, Debug)]
pub struct Mutation {
    place: Index,
    way: u8,
    other: Index,
}

pub fn mutations(most: usize) -> impl Strategy<Value = Vec<Mutation>> {
    let one = (any::<Index>(), 0_u8..9, any::<Index>()).prop_map(|(place, way, other)| Mutation {
        place,
        way,
        other,
    });
    prop::collection::vec(one, 1..=most)
}

/// Where a value stands: keys and numbers from the root.
type Place = Vec<String>;

pub fn mutated(mut tree: Value, mutations: &[Mutation]) -> Value {
    for mutation in mutations {
        let places = places(&tree);
        if places.is_empty() {
            break;
        }
        mutation.apply(&mut tree, mutation.place.get(&places), &places);
    }
    tree
}

fn places(tree: &Value) -> Vec<Place> {
    let inner: Vec<(String, &Value)> = match tree {
        Value::Object(table) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
        }
        _ => vec![],
    };
    let mut found = vec![];
    for (key, value) in inner {
        found.push(vec![key.clone()]);
        found.extend(places(value).into_iter().map(|rest| [vec![key.clone()], rest].concat()));
    }
    found
}

fn at<'a>(tree: &'a mut Value, place: &[String]) -> &'a mut Value {
    place.iter().fold(tree, |value, key| match value {
        Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
        table => &mut table[key.as_str()],
    })
}

impl Mutation {
    fn apply(&self, tree: &mut Value, place: &Place, places: &[Place]) {
        let value = at(tree, place).clone();
        let from: &Place = self.other.get(places);
        let elsewhere = at(tree, from).clone();
        let (key, parent) = place.split_last().unwrap();
        let parent = at(tree, parent);
        match (self.way, &mut *parent) {
            (0, Value::Object(table)) => drop(table.remove(key)),
            (0, Value::Array(list)) => drop(list.remove(key.parse().unwrap())),
            (1, Value::Object(table)) => drop(table.insert(format!("{key}2"), value)),
            (1, Value::Array(list)) => list.push(value),
            (2, _) => *at(tree, place) = elsewhere,
            (3, _) => *at(tree, place) = self.other.get(&odd()).clone(),
            (4, _) => *at(tree, place) = json!([value]),
            _ => *at(tree, place) = self.changed(&value),
        }
    }

    /// A value of the same type: what types alone do not refuse gets furthest.
    fn changed(&self, value: &Value) -> Value {
        match value {
            Value::Bool(truth) => json!(!truth),
            Value::Number(_) => self.other.get(&numbers()).clone(),
            Value::String(text) => {
                let words = ["", "x", "..", "a/b", "\0", "ß", "0.0.0.0/0", "10.77.0.2/33", "::/0"];
                let long = text.repeat(100);
                let changed = [&format!("{text}x"), &text.to_uppercase(), &long];
                let all = words.iter().copied().chain(changed.into_iter().map(String::as_str));
                json!(self.other.get(&all.collect::<Vec<_>>()))
            }
            Value::Array(list) => list.iter().rev().cloned().collect(),
            Value::Object(_) => json!({}),
            Value::Null => json!(1),
        }
    }
}

fn numbers() -> Vec<Value> {
    let whole = [0, 1, 2, 255, 65_535, 65_536, u64::from(u32::MAX), u64::MAX / 2, u64::MAX];
    let others = [-1.0, 0.5, 1e-308, 1e-9, 1e9, 1e19, 1e30, 1e308, -1e308];
    whole.into_iter().map(|n| json!(n)).chain(others.into_iter().map(|n| json!(n))).collect()
}

fn odd() -> Vec<Value> {
    let text = "x".repeat(5000);
    let others =
        [json!(null), json!(true), json!(""), json!(text), json!([]), json!({}), json!({"": []})];
    numbers().into_iter().chain(others).collect()
}

/// Cut off, with bytes of chance in it, or nested without end.
pub fn damaged() -> impl Strategy<Value = (Index, Vec<u8>, bool)> {
    (any::<Index>(), prop::collection::vec(any::<u8>(), 0..5), any::<bool>())
}

pub fn damage(line: &str, (place, noise, cut): &(Index, Vec<u8>, bool)) -> Vec<u8> {
    let place = place.index(line.len());
    let rest = if *cut { &[] } else { &line.as_bytes()[place..] };
    [&line.as_bytes()[..place], noise, rest].concat()
}
