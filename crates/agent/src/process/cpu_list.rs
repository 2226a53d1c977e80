//! Sets of CPUs as the kernel writes them: lists (`0-2,5`) and hexadecimal masks
//! (`00000000,00000027`).

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

/// No kernel is built for more.
const MOST_CPUS: u32 = 8192;

/// The one form of a list: ranges as long as they go, ascending. No CPU is an empty text.
pub fn canonical(list: &str) -> Result<String> {
    Ok(to_list(&parse_list(list)?))
}

pub fn to_list(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

pub fn parse_list(list: &str) -> Result<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.parse().with_context(|| format!("{list:?} is not a list of CPUs, such as 0-2,5"))
        };
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        ensure!(last < MOST_CPUS, "there is no CPU {last}");
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// A mask's list.
pub fn from_mask(mask: &str) -> Result<String> {
    let mut cpus = BTreeSet::new();
    for (word, digits) in mask.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16)
            .with_context(|| format!("{mask:?} is not a mask of CPUs"))?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as u32 * 32 + bit));
    }
    Ok(to_list(&cpus))
}

/// A list's mask.
pub fn to_mask(list: &str) -> Result<String> {
    let cpus = parse_list(list)?;
    let words = cpus.last().map_or(1, |last| last / 32 + 1);
    let word = |index: u32| {
        let bits = (0..32).filter(|bit| cpus.contains(&(index * 32 + bit)));
        format!("{:08x}", bits.fold(0_u32, |word, bit| word | 1 << bit))
    };
    Ok((0..words).rev().map(word).collect::<Vec<_>>().join(","))
}

/// What a knob asks for, checked against the CPUs that are there.
pub fn wanted(cpus: &[u32]) -> Result<String> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")
        .context("reading which CPUs are online")?;
    let online = parse_list(&online)?;
    for cpu in cpus {
        ensure!(online.contains(cpu), "there is no CPU {cpu}; there are {}", to_list(&online));
    }
    Ok(to_list(&cpus.iter().copied().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_masks_of_the_kernel() {
        assert_eq!(canonical("0,1,2,5\n").unwrap(), "0-2,5");
        assert_eq!(canonical("").unwrap(), "");
        assert_eq!(from_mask("00000001,00000027").unwrap(), "0-2,5,32");
        assert_eq!(from_mask("f").unwrap(), "0-3");
        assert_eq!(to_mask("0-2,5,32").unwrap(), "00000001,00000027");
        assert_eq!(to_mask("").unwrap(), "00000000");
        for wrong in ["a", "0-", "1-4000000000"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
        assert!(from_mask("xyz").is_err());
    }

    proptest! {
        #[test]
        fn there_and_back(cpus in prop::collection::btree_set(0..300_u32, 0..40)) {
            let list = to_list(&cpus);
            prop_assert_eq!(parse_list(&list).unwrap(), cpus);
            prop_assert_eq!(from_mask(&to_mask(&list).unwrap()).unwrap(), list);
        }
    }
}
