//! Definitions of the values that workloads and probes report; each of these has a list of its own. The
//! controller makes its responses from them, and a test on each side checks that both agree.

use std::fmt::Debug;

use serde::Serialize;

/// A choice as plans and records spell it.
pub fn spelt(choice: impl Serialize + Debug) -> String {
    match serde_json::to_value(&choice) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{choice:?}"),
    }
}

/// Name, unit, meaning. In a probe's list `*` stands for any text in a name and `#` for a number; the first
/// definition that fits applies.
pub type Definition = (&'static str, &'static str, &'static str);

/// Whether a definition's pattern fits a name: `*` stands for any text and `#` for a number.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        Some((b'#', rest)) => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && fits(rest, &name[digits..])
        }
        Some((byte, rest)) => name.first() == Some(byte) && fits(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_hash_a_number() {
        assert!(fits(b"cpu#.*", b"cpu12.NET_RX") && !fits(b"cpu#.*", b"cpu.NET_RX"));
        assert!(fits(b"*.rx_bytes", b"eth0.100.rx_bytes") && !fits(b"pgpgin", b"pgpgout"));
    }
}
