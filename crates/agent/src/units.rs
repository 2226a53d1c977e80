//! Numbers as people write and read them. Rates are decimal (1K = 1000 b/s), sizes binary
//! (1K = 1024 B).

const PREFIXES: [(char, i32); 4] = [('k', 1), ('m', 2), ('g', 3), ('t', 4)];

/// `100M`, `2.5G`, `64k`, `9600`: bits per second.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = parse(text, 1000.0)?;
    if rate >= 1.0 { Ok(rate) } else { Err("a rate is at least 1 bit per second".to_owned()) }
}

/// A floating-point number cannot hold every larger number of bytes, and no machine has as many.
const MOST_BYTES: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// `128K`, `4M`, `1448`: bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse(text, 1024.0)?;
    if bytes.fract() != 0.0 {
        return Err(format!("`{text}` is not a whole number of bytes"));
    }
    if bytes > MOST_BYTES { Err("more than any machine has".into()) } else { Ok(bytes as u64) }
}

/// The same for a size of at least one byte that fits into 32 bits.
pub fn parse_small_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).ok().and_then(|bytes| u32::try_from(bytes).ok());
    match (parse(text, 1024.0)?, bytes) {
        (_, Some(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("`{text}` is not a whole number of bytes from 1 to 4G")),
    }
}

fn parse(text: &str, base: f64) -> Result<f64, String> {
    let last = text.chars().last().map(|last| last.to_ascii_lowercase());
    let power = PREFIXES.iter().find(|(letter, _)| Some(*letter) == last).map(|(_, power)| *power);
    let number = if power.is_some() { &text[..text.len() - 1] } else { text };
    let plain = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    match number.parse::<f64>() {
        Ok(value) if plain => Ok(value * base.powi(power.unwrap_or(0))),
        _ => Err(format!("`{text}` is not a number with K, M, G or T behind it, like 100M")),
    }
}

pub fn rate(bits_per_second: f64) -> String {
    with_prefix(bits_per_second, 1000.0, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

pub fn size(bytes: f64) -> String {
    with_prefix(bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

pub fn count(number: f64) -> String {
    format!("{number:.0}")
}

pub fn time(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        0.001.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

/// A time with three digits, in the unit that suits it.
pub fn three_digits(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

fn with_prefix(value: f64, base: f64, units: [&str; 5]) -> String {
    let (mut value, mut index) = (value, 0);
    while value.abs() >= base && index + 1 < units.len() {
        value /= base;
        index += 1;
    }
    let digits = if index == 0 { 0 } else { 2 };
    format!("{value:.digits$} {}", units[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_sizes_binary() {
        assert_eq!(parse_rate("100M"), Ok(100e6));
        assert_eq!(parse_rate("2.5g"), Ok(2.5e9));
        assert_eq!(parse_rate("9600"), Ok(9600.0));
        assert_eq!(parse_small_size("128K"), Ok(131072));
        assert_eq!(parse_small_size("1448"), Ok(1448));
        assert_eq!(parse_small_size("1.5k"), Ok(1536));
        assert_eq!(parse_size("160M"), Ok(160 << 20));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("0"), Ok(0));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "K", "-1M", "1e9", "inf", "nan", "1KB", "1 M", "0.5", "é", "1é"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for text in ["", "0", "5G", "1.0001", "-1", "4GiB", "K", "ß"] {
            assert!(parse_small_size(text).is_err(), "{text}");
        }
        for text in ["M", "-1", "1.0001", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(three_digits(950.0), "950 ns");
        assert_eq!(three_digits(12_345.0), "12.3 us");
        assert_eq!(three_digits(1_234_000.0), "1.23 ms");
        assert_eq!(three_digits(2e9), "2.00 s");
    }

    #[test]
    fn numbers_are_shown_with_their_units() {
        assert_eq!(rate(18.9e9), "18.90 Gb/s");
        assert_eq!(rate(12.0), "12 b/s");
        assert_eq!(size(131072.0), "128.00 KiB");
        assert_eq!(time(0.000_042), "42 µs");
        assert_eq!(time(0.0123), "12.30 ms");
    }
}
