//! Which of a cluster's slots a key is in.

/// How many slots there are.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of a key: by what is between its first `{` and the next `}` if that is something, else by all of it.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    crc16(hashed.as_bytes()) % SLOTS as u16
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte))])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Key, Role};

    #[test]
    fn the_check_value_of_the_specification_comes_out() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }

    #[test]
    fn a_hash_tag_is_all_that_counts() {
        assert_eq!(slot_of("{user1}.a"), slot_of("b{user1}"));
        assert_eq!(slot_of("a{{b}}"), slot_of("{b"));
        assert_ne!(slot_of("a{}{b}"), slot_of("b"));
    }

    #[test]
    fn every_sibling_is_in_the_slot_of_its_lock() {
        for name in ["a", "{a}b", "a{b}c{d}", "{{a}}", "é \n"] {
            let key = Key::new("lock:", name).unwrap().for_cluster().unwrap();
            let roles = [Role::Fence, Role::Queue, Role::Waiters, Role::Turn, Role::Probe];
            assert!(roles.iter().all(|role| slot_of(&key.of(*role).to_string()) == slot_of(key.as_str())), "{name}");
            assert_eq!(slot_of(&key.gone("t").to_string()), slot_of(key.as_str()));
        }
    }
}
