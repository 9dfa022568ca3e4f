//! SentencePiece-style BPE as GGUF files store it: no merges, only a score per token. Of all neighbouring pairs whose
//! concatenation is a token the one with the highest score is joined first, the leftmost of equals.

use std::collections::{BinaryHeap, HashMap};

pub struct Spm {
    /// Tokens that text can become: (id, score).
    pieces: HashMap<Box<str>, (u32, f32)>,
    /// Ids of the byte tokens; absent where the vocabulary has no byte fallback.
    bytes: Option<Box<[u32; 256]>>,
    unknown: u32,
    adds_space_prefix: bool,
}

/// A candidate pair. The heap's greatest is joined first.
#[derive(PartialEq)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    size: usize,
}

impl Eq for Pair {}
impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Pair {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

/// A stretch of the text; size 0 once it was joined into its left neighbour.
struct Symbol {
    start: usize,
    size: usize,
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

impl Spm {
    pub fn new(
        pieces: HashMap<Box<str>, (u32, f32)>,
        bytes: Option<Box<[u32; 256]>>,
        unknown: u32,
        adds_space_prefix: bool,
    ) -> Spm {
        // A negative zero must compare equal to zero.
        let pieces = pieces.into_iter().map(|(text, (id, score))| (text, (id, score + 0.0))).collect();
        Spm { pieces, bytes, unknown, adds_space_prefix }
    }

    /// Appends the ids of a text without special tokens.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let prefix = if self.adds_space_prefix { "\u{2581}" } else { "" };
        let text = format!("{prefix}{}", text.replace(' ', "\u{2581}"));
        let symbols = self.merge(&text);
        let mut at = 0;
        let mut last_unknown = false;
        while at != NONE {
            let symbol = &symbols[at];
            let piece = &text[symbol.start..symbol.start + symbol.size];
            if let Some((id, _)) = self.pieces.get(piece) {
                ids.push(*id);
                last_unknown = false;
            } else if let Some(bytes) = &self.bytes {
                ids.extend(piece.bytes().map(|byte| bytes[byte as usize]));
            } else if !last_unknown {
                ids.push(self.unknown);
                last_unknown = true;
            }
            at = symbol.next;
        }
    }

    fn merge(&self, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol { start, size: c.len_utf8(), previous: i.wrapping_sub(1), next: i + 1 })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        let mut queue = BinaryHeap::new();
        for right in 1..symbols.len() {
            self.propose(text, &symbols, right - 1, right, &mut queue);
        }
        while let Some(pair) = queue.pop() {
            let (left, right) = (pair.left, pair.right);
            if symbols[left].size == 0 || symbols[right].size == 0 {
                continue;
            }
            if symbols[left].size + symbols[right].size != pair.size {
                continue;
            }
            symbols[left].size = pair.size;
            symbols[right].size = 0;
            let next = symbols[right].next;
            symbols[left].next = next;
            if next != NONE {
                symbols[next].previous = left;
                self.propose(text, &symbols, left, next, &mut queue);
            }
            if symbols[left].previous != NONE {
                self.propose(text, &symbols, symbols[left].previous, left, &mut queue);
            }
        }
        symbols
    }

    fn propose(&self, text: &str, symbols: &[Symbol], left: usize, right: usize, queue: &mut BinaryHeap<Pair>) {
        let size = symbols[left].size + symbols[right].size;
        let start = symbols[left].start;
        if let Some((_, score)) = self.pieces.get(&text[start..start + size]) {
            queue.push(Pair { score: *score, left, right, size });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(pieces: &[(&str, f32)], text: &str) -> Vec<u32> {
        let map = pieces.iter().enumerate().map(|(i, (text, score))| ((*text).into(), (i as u32, *score))).collect();
        let mut ids = vec![];
        Spm::new(map, None, 99, false).encode(text, &mut ids);
        ids
    }

    #[test]
    fn the_best_score_goes_first_and_the_leftmost_of_equals() {
        let pieces = [("a", -9.0), ("b", -9.0), ("ab", -1.0), ("bb", -0.5), ("aa", -2.0), ("aaa", -3.0)];
        assert_eq!(encode(&pieces, "abb"), vec![0, 3]);
        assert_eq!(encode(&pieces, "aaaaa"), vec![4, 5]);
        assert_eq!(encode(&pieces[..5], "aaa"), vec![4, 0]);
        assert_eq!(encode(&pieces, "aaa"), vec![5]);
        assert_eq!(encode(&pieces, "xxa"), vec![99, 0]);
    }
}
