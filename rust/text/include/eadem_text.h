/* Tokenizers, chat templates, guides and BLAKE3: the C interface of the Rust library in rust/text.
 *
 * Objects are opaque, made by *_new functions and released by *_free (NULL is allowed). Tokenizers and templates never
 * change after they were made: any number of threads may use one; so do guide factories. A stream, guide or hasher
 * belongs to one thread at a time.
 *
 * Functions that can fail return 0 on success. On failure they return 1, leave their outputs alone and put one line of
 * text into `error`, to be released with eadem_buffer_free. No panic crosses this border. Inputs are bytes with a
 * length; they need no terminator and are not kept.
 */
#ifndef EADEM_TEXT_H
#define EADEM_TEXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const uint8_t* data; /* may be NULL where size is 0 */
  size_t size;
} EademBytes;

/* Owned by the library; zero before use. */
typedef struct {
  uint8_t* data;
  size_t size;
  size_t capacity;
} EademBuffer;

/* Token ids, owned by the library; zero before use. */
typedef struct {
  uint32_t* data;
  size_t size;
  size_t capacity;
} EademIds;

void eadem_buffer_free(EademBuffer buffer);
void eadem_ids_free(EademIds ids);

/* ---- tokenizers ---- */

typedef struct EademTokenizer EademTokenizer;

/* The tokenizer.ggml.* metadata of a GGUF file. Ids and flags: -1 where the file says nothing. Arrays may be empty. */
typedef struct {
  EademBytes model; /* gpt2 or llama */
  EademBytes pre;   /* name of the pre-tokenizer of gpt2 */
  const EademBytes* tokens;
  size_t token_count;
  const float* scores;
  size_t score_count;
  const int32_t* token_types;
  size_t token_type_count;
  const EademBytes* merges;
  size_t merge_count;
  int64_t bos_id, eos_id, unknown_id, pad_id;
  int32_t add_bos, add_eos, add_space_prefix;
} EademGgufVocab;

/* From the bytes of a tokenizer.json, and of a tokenizer_config.json (size 0: none), which names BOS, EOS, ... */
int eadem_tokenizer_new_json(EademBytes json, EademBytes config, EademTokenizer** out, EademBuffer* error);
int eadem_tokenizer_new_gguf(const EademGgufVocab* vocab, EademTokenizer** out, EademBuffer* error);
void eadem_tokenizer_free(EademTokenizer* tokenizer);

/* add_special: with the tokens that belong around a text (BOS, ...). parse_special: special tokens spelled in the text
 * become their ids; otherwise they are plain text. Broken UTF-8 counts as U+FFFD. */
int eadem_tokenizer_encode(const EademTokenizer* tokenizer, EademBytes text, int add_special, int parse_special,
                           EademIds* out, EademBuffer* error);
/* continuation: the ids follow others, so a leading space stays. Unknown ids add nothing. */
int eadem_tokenizer_decode(const EademTokenizer* tokenizer, const uint32_t* ids, size_t count, int skip_special,
                           int continuation, EademBuffer* out, EademBuffer* error);

size_t eadem_tokenizer_size(const EademTokenizer* tokenizer); /* greatest id + 1 */
/* -1 where there is none. role: 0 BOS, 1 EOS, 2 unknown, 3 padding. */
int64_t eadem_tokenizer_special_id(const EademTokenizer* tokenizer, int role);
/* The ids at which an answer ends, EOS first; points into the tokenizer. */
const uint32_t* eadem_tokenizer_end_ids(const EademTokenizer* tokenizer, size_t* count);
int64_t eadem_tokenizer_id(const EademTokenizer* tokenizer, EademBytes text);
int eadem_tokenizer_is_special(const EademTokenizer* tokenizer, uint32_t id);
/* Both point into the tokenizer; empty for unknown ids. The bytes are those in the middle of a text. */
EademBytes eadem_tokenizer_token_text(const EademTokenizer* tokenizer, uint32_t id);
EademBytes eadem_tokenizer_token_bytes(const EademTokenizer* tokenizer, uint32_t id);

/* ---- streaming: the pieces, joined, are exactly what eadem_tokenizer_decode gives ---- */

typedef struct EademStream EademStream;

/* The tokenizer must outlive the stream. NULL only if the tokenizer is NULL. */
EademStream* eadem_stream_new(const EademTokenizer* tokenizer, int skip_special, int continuation);
void eadem_stream_free(EademStream* stream);
/* Appends nothing to out while a character is unfinished. */
int eadem_stream_push(EademStream* stream, uint32_t id, EademBuffer* out, EademBuffer* error);
/* The rest: an unfinished character as U+FFFD. The stream is then at its start again. */
int eadem_stream_finish(EademStream* stream, EademBuffer* out, EademBuffer* error);

/* ---- chat templates ---- */

typedef struct EademTemplate EademTemplate;

int eadem_template_new(EademBytes source, EademTemplate** out, EademBuffer* error);
void eadem_template_free(EademTemplate* chat_template);
/* variables, overrides: JSON objects; overrides may be empty and win. fuel: budget, one for an instruction or 64 bytes.
 * now: what strftime_now sees, seconds since 1970 (UTC); INT64_MIN: the clock, in local time. */
int eadem_template_render(const EademTemplate* chat_template, EademBytes variables, EademBytes overrides, uint64_t fuel,
                          int64_t now, EademBuffer* out, EademBuffer* error);
/* The template called `name` of a tokenizer_config.json ("default" also finds a single one). found: 0 or 1. */
int eadem_config_template(EademBytes config, EademBytes name, int* found, EademBuffer* out, EademBuffer* error);
/* The text of a token named by a tokenizer_config.json, e.g. bos_token. */
int eadem_config_token(EademBytes config, EademBytes field, int* found, EademBuffer* out, EademBuffer* error);

/* ---- guides: which tokens may follow, so that a text matches a schema, a regular expression or a grammar ---- */

typedef struct EademGuideFactory EademGuideFactory;
typedef struct EademGuide EademGuide;

/* ends: the tokens at which an answer ends. Takes some tenths of a second. The tokenizer need not outlive it. */
int eadem_guide_factory_new(const EademTokenizer* tokenizer, const uint32_t* ends, size_t end_count,
                            EademGuideFactory** out, EademBuffer* error);
void eadem_guide_factory_free(EademGuideFactory* factory);

/* A guide at its beginning; the factory need not outlive it. kind: 0 JSON schema, 1 regular expression, 2 Lark grammar.
 * Errors: what cannot be expressed, costs too much or matches nothing. */
int eadem_guide_new(const EademGuideFactory* factory, int kind, EademBytes text, EademGuide** out, EademBuffer* error);
void eadem_guide_free(EademGuide* guide);
/* One at the same place that shares nothing with this one. Any number of threads may fork one that none moves. */
int eadem_guide_fork(const EademGuide* guide, EademGuide** out, EademBuffer* error);
/* Bit t % 32 of words[t / 32]: token t may follow. Ends may where the text so far is a whole match. */
int eadem_guide_mask(EademGuide* guide, uint32_t* words, size_t count, EademBuffer* error);
/* An error, and no move, where the token may not follow. */
int eadem_guide_accept(EademGuide* guide, uint32_t token, EademBuffer* error);
int eadem_guide_finished(const EademGuide* guide); /* nothing may follow */
int eadem_guide_rollback(EademGuide* guide, size_t count, EademBuffer* error);

/* ---- BLAKE3 ---- */

typedef struct EademBlake3 EademBlake3;

EademBlake3* eadem_blake3_new(void);
void eadem_blake3_free(EademBlake3* hasher);
void eadem_blake3_update(EademBlake3* hasher, EademBytes bytes);
/* The digest of everything so far; the hasher goes on. */
void eadem_blake3_digest(const EademBlake3* hasher, uint8_t out[32]);

#ifdef __cplusplus
}
#endif

#endif
