// The named schemas of /openapi.json: parts of requests that several endpoints share, and the replies.
#pragma once

#include <string_view>

namespace eadem::server {

// A JSON object; TokenId is added by the model's vocabulary.
inline constexpr std::string_view kSchemas = R"json({
"Prompt": {"anyOf": [
  {"type": "string"},
  {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "string"}},
  {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}},
  {"type": "array", "minItems": 1, "maxItems": 1024, "items":
    {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}}}]},
"Messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}},
"Message": {"type": "object", "required": ["role", "content"], "additionalProperties": false, "properties": {
  "role": {"type": "string", "examples": ["system", "user", "assistant", "tool"]},
  "content": {"anyOf": [{"type": "string"},
    {"type": "array", "items": {"type": "object", "required": ["type", "text"], "additionalProperties": false,
      "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]},
  "name": {"type": ["string", "null"]},
  "tool_call_id": {"type": ["string", "null"]},
  "reasoning_content": {"type": ["string", "null"]},
  "refusal": {"type": "null"}, "audio": {"type": "null"}, "function_call": {"type": "null"},
  "annotations": {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]},
  "tool_calls": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/components/schemas/ToolCall"}}]}}},
"ToolCall": {"type": "object", "required": ["function"], "properties": {
  "id": {"type": "string"}, "type": {"const": "function"},
  "function": {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string"},
    "arguments": {"description": "A JSON object, or its text.", "anyOf": [{"type": ["object", "null"]},
      {"type": "string", "enum": ["{}", "{\"x\": 1}"]}]}}}}},
"ToolCallMade": {"type": "object", "required": ["id", "type", "function"], "properties": {
  "id": {"type": "string"}, "type": {"const": "function"},
  "function": {"type": "object", "required": ["name", "arguments"], "properties": {
    "name": {"type": "string"}, "arguments": {"type": "string"}}}}},
"Tool": {"type": "object", "required": ["type", "function"], "properties": {
  "type": {"const": "function"},
  "function": {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
    "description": {"type": "string"}, "parameters": {"type": "object"}, "strict": {"type": ["boolean", "null"]}}}}},
"ToolChoice": {"anyOf": [{"enum": ["none", "auto", "required"]},
  {"type": "object", "required": ["type", "function"], "properties": {"type": {"const": "function"},
    "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}]},
"StreamOptions": {"type": "object", "additionalProperties": false, "properties": {
  "include_usage": {"type": ["boolean", "null"]}, "continuous_usage_stats": {"type": ["boolean", "null"]},
  "include_obfuscation": {"type": ["boolean", "null"], "description": "No effect."}}},
"LogitBias": {"type": "object", "maxProperties": 1024, "propertyNames": {"pattern": "^[0-9]{1,9}$"},
  "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
"Stop": {"anyOf": [{"type": "string", "minLength": 1},
  {"type": "array", "items": {"type": "string", "minLength": 1}}]},
"ResponseFormat": {"anyOf": [
  {"type": "object", "required": ["type"], "additionalProperties": false, "properties":
    {"type": {"enum": ["text", "json_object"]}}},
  {"type": "object", "required": ["type", "json_schema"], "additionalProperties": false, "properties": {
    "type": {"const": "json_schema"},
    "json_schema": {"type": "object", "required": ["name", "schema"], "additionalProperties": false, "properties": {
      "name": {"type": "string"}, "description": {"type": "string"}, "strict": {"type": ["boolean", "null"]},
      "schema": {"type": "object"}}}}}]},
"StructuredOutputs": {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
  "properties": {
    "json": {"type": "object"}, "json_object": {"const": true}, "regex": {"type": "string"},
    "choice": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
    "grammar": {"type": "string"}}},
"VerifyEadem": {"type": "object", "required": ["fingerprint", "seed", "sampling"], "properties": {
  "fingerprint": {"type": "string"}, "seed": {"type": "integer", "minimum": 0},
  "prompt_hash": {"type": ["string", "null"]}, "sampling": {"type": "object"}}},

"Error": {"type": "object", "required": ["error"], "properties": {"error": {
  "type": "object", "required": ["message", "type", "param", "code"], "properties": {
    "message": {"type": "string"}, "type": {"type": "string"}, "param": {"type": ["string", "null"]},
    "code": {"type": ["string", "null"]}}}}},
"Eadem": {"type": "object", "required": ["fingerprint", "numerics", "seed", "answer_seeds", "sampling"],
  "description": "All that the answers are a function of: where it is equal, they are equal, bit for bit.",
  "properties": {
    "fingerprint": {"type": "string"}, "numerics": {"type": "string"}, "seed": {"type": "integer", "minimum": 0},
    "answer_seeds": {"type": "array", "items": {"type": "integer", "minimum": 0},
      "description": "Of each of the n answers: with it, that answer is had alone."},
    "prompt_hash": {"type": "string", "description": "BLAKE3 of the token ids, four little-endian bytes each."},
    "prompts": {"type": "array", "description": "Instead of prompt_hash, where prompts came as a list.",
      "items": {"type": "object", "required": ["prompt_hash", "prompt_tokens", "max_tokens"], "properties": {
        "prompt_hash": {"type": "string"}, "prompt_tokens": {"type": "integer"}, "max_tokens": {"type": "integer"}}}},
    "sampling": {"type": "object", "description": "The values that counted, under their names."},
    "receipts": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Envelope"}]},
      "description": "Where receipt asked: one for each choice. Streamed: in a choice's last object."}}},
"Envelope": {"type": "object", "description": "A DSSE envelope with an in-toto statement (docs/receipts.md).",
  "required": ["payload", "payloadType", "signatures"], "properties": {
    "payload": {"type": "string"}, "payloadType": {"const": "application/vnd.in-toto+json"},
    "signatures": {"type": "array", "items": {"type": "object", "required": ["keyid", "sig"], "properties": {
      "keyid": {"type": "string"}, "sig": {"type": "string"}}}}}},
"Usage": {"type": "object", "required": ["prompt_tokens", "total_tokens"], "properties": {
  "prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"},
  "prompt_tokens_details": {"type": "object", "properties": {
    "cached_tokens": {"type": "integer", "description": "About the run, no part of the answer."}}},
  "completion_tokens_details": {"type": "object", "description": "Guesses of speculation; about the run.",
    "properties": {"accepted_prediction_tokens": {"type": "integer"},
      "rejected_prediction_tokens": {"type": "integer"}}}}},
"PromptLogprobs": {"type": "array", "items": {"anyOf": [{"type": "null"},
  {"type": "object", "description": "By token id: the token itself, then the most likely.", "additionalProperties": {
    "type": "object", "required": ["logprob", "rank", "decoded_token"], "properties": {
      "logprob": {"type": ["number", "null"]}, "rank": {"type": ["integer", "null"]},
      "decoded_token": {"type": "string"}}}}]}},
"TokenIds": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}},
"Completion": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage", "eadem"], "properties": {
    "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "usage": {"$ref": "#/components/schemas/Usage"}, "eadem": {"$ref": "#/components/schemas/Eadem"},
    "choices": {"type": "array", "description": "All answers to the first prompt, then to the second, and so on.",
      "items": {"type": "object", "required": ["index", "text", "logprobs", "finish_reason"], "properties": {
        "index": {"type": "integer"}, "text": {"type": "string"}, "finish_reason": {"enum": ["stop", "length"]},
        "logprobs": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/CompletionLogprobs"}]},
        "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"},
        "prompt_token_ids": {"$ref": "#/components/schemas/TokenIds"},
        "token_ids": {"$ref": "#/components/schemas/TokenIds"}}}}}},
"CompletionLogprobs": {"type": "object", "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
  "properties": {
    "tokens": {"type": "array", "items": {"type": "string"}},
    "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
    "top_logprobs": {"type": "array", "items": {"anyOf": [{"type": "null"},
      {"type": "object", "additionalProperties": {"type": "number"}}]}},
    "text_offset": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
"ChatCompletion": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage", "eadem"], "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "usage": {"$ref": "#/components/schemas/Usage"}, "eadem": {"$ref": "#/components/schemas/Eadem"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "message", "logprobs", "finish_reason"], "properties": {
        "index": {"type": "integer"}, "finish_reason": {"enum": ["stop", "length", "tool_calls"]},
        "message": {"type": "object", "required": ["role", "content", "refusal"], "properties": {
          "role": {"const": "assistant"}, "content": {"type": ["string", "null"]}, "refusal": {"type": "null"},
          "reasoning_content": {"type": "string"},
          "tool_calls": {"type": "array", "items": {"$ref": "#/components/schemas/ToolCallMade"}}}},
        "logprobs": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["content"], "properties": {
          "content": {"type": "array", "items": {"$ref": "#/components/schemas/ChatLogprob"}}}}]},
        "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"},
        "prompt_token_ids": {"$ref": "#/components/schemas/TokenIds"},
        "token_ids": {"$ref": "#/components/schemas/TokenIds"}}}}}},
"ChatLogprob": {"type": "object", "required": ["token", "logprob", "bytes"], "properties": {
  "token": {"type": "string"}, "logprob": {"type": "number"},
  "bytes": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}}]},
  "top_logprobs": {"type": "array", "items": {"$ref": "#/components/schemas/ChatLogprob"}}}},
"Embeddings": {"type": "object", "required": ["object", "data", "model", "usage", "eadem"], "properties": {
  "object": {"const": "list"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"},
  "eadem": {"type": "object"},
  "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "embedding"], "properties": {
    "object": {"const": "embedding"}, "index": {"type": "integer"},
    "embedding": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}]}}}}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {
  "object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"Model": {"type": "object", "required": ["id", "object", "created", "owned_by", "max_model_len"], "properties": {
  "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"},
  "owned_by": {"type": "string"}, "root": {"type": "string"}, "parent": {"type": "null"},
  "max_model_len": {"type": "integer"}}},
"Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"], "properties": {
  "count": {"type": "integer"}, "max_model_len": {"type": "integer"},
  "tokens": {"$ref": "#/components/schemas/TokenIds"},
  "token_strs": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}}},
"Text": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
"TokenizerInfo": {"type": "object", "required": ["tokenizer_class", "eos_token_ids", "vocab_size", "model_max_length"],
  "properties": {
    "tokenizer_class": {"type": ["string", "null"]},
    "bos_token": {"type": ["string", "null"]}, "eos_token": {"type": ["string", "null"]},
    "unk_token": {"type": ["string", "null"]}, "pad_token": {"type": ["string", "null"]},
    "eos_token_ids": {"$ref": "#/components/schemas/TokenIds"}, "vocab_size": {"type": "integer"},
    "model_max_length": {"type": "integer"}, "chat_template": {"type": ["string", "null"]}}},
"Fingerprint": {"type": "object",
  "required": ["fingerprint", "numerics", "covers", "promise", "deployment_digest", "deployment"],
  "properties": {
    "fingerprint": {"type": "string"}, "numerics": {"type": "string"}, "promise": {"type": "string"},
    "covers": {"type": "object", "additionalProperties": {"type": "string"}},
    "receipts": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["key_id", "public_key"],
      "properties": {"key_id": {"type": "string"}, "public_key": {"type": "string"}}}],
      "description": "The key that receipts are signed with; null: none are given."},
    "deployment_digest": {"type": "string"},
    "deployment": {"type": "object", "additionalProperties": {"type": ["string", "integer"]},
      "description": "Without influence on the bits."}}},
"Verification": {"type": "object", "required": ["equal", "compared", "first_difference", "fingerprint"], "properties": {
  "equal": {"type": "boolean"}, "fingerprint": {"type": "string"},
  "compared": {"type": "object", "properties": {"tokens": {"type": "integer"}, "logprobs": {"type": "integer"}}},
  "first_difference": {"anyOf": [{"type": "null"}, {"type": "object",
    "required": ["index", "what", "given", "computed"], "properties": {
      "index": {"type": "integer"}, "what": {"enum": ["token", "logprob"]},
      "given": {"type": ["number", "null"]}, "computed": {"type": ["number", "null"]}}}]}}},
"Description": {"type": "object"}
})json";

}  // namespace eadem::server
