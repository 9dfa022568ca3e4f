//! Tokenizers, chat templates, guides and BLAKE3 for Eadem, behind the C interface of `include/eadem_text.h`.

pub mod byte_level;
pub mod decode;
mod ffi;
pub mod gguf;
pub mod guide;
mod memory;
mod methods;
pub mod pre_tokenizers;
pub mod python;
pub mod spm;
pub mod template;
pub mod tokenizer;
