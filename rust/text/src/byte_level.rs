//! The byte-to-character table of byte-level BPE: every byte has one printable character, so that a vocabulary of
//! strings can hold any bytes. Printable Latin-1 bytes stand for themselves; the other 68 follow from U+0100 on.

use std::sync::OnceLock;

fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that stands for each byte.
pub fn chars() -> &'static [char; 256] {
    static TABLE: OnceLock<[char; 256]> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = ['\0'; 256];
        let mut next = 0x100;
        for byte in 0..=255u8 {
            table[byte as usize] = if is_printable(byte) {
                char::from(byte)
            } else {
                next += 1;
                char::from_u32(next - 1).expect("below the surrogates")
            };
        }
        table
    })
}

fn byte_of(c: char) -> Option<u8> {
    static TABLE: OnceLock<[Option<u8>; 0x144]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = [None; 0x144];
        for (byte, &c) in chars().iter().enumerate() {
            table[c as usize] = Some(byte as u8);
        }
        table
    });
    table.get(c as usize).copied().flatten()
}

/// The bytes that a token of a byte-level vocabulary stands for. A token with a character outside the table (an added
/// token with a space, say) stands for its own UTF-8, as in the `tokenizers` library.
pub fn decode(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255u8 {
            assert_eq!(decode(&chars()[byte as usize].to_string()), vec![byte]);
        }
        assert_eq!(chars()[b' ' as usize], 'Ġ');
        assert_eq!(chars()[b'\n' as usize], 'Ċ');
        assert_eq!(decode("a b"), b"a b");
    }
}
