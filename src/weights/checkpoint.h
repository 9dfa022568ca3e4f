// A model on disk: its mapped files, its tensors as they are stored, what it says about itself, and its text assets.
// Names and layouts stay the file's; giving them meaning is the model's business.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "core/result.h"
#include "core/tensor.h"
#include "weights/metadata.h"

namespace eadem::weights {

// What the tokenizer and the chat template are made of; absent where the model has none. For GGUF the vocabulary is in
// metadata()
// ("tokenizer.ggml.*").
struct TextAssets {
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;
  // chat_template.jinja, else tokenizer_config.json's chat_template (a string, or the list entry named "default"), else
  // GGUF's tokenizer.chat_template.
  std::optional<std::string> chat_template;
};

class Checkpoint {
 public:
  enum class Format { safetensors, gguf };

  // `path` is a directory (config.json with *.safetensors, or the parts of one GGUF model), a .gguf file (any part of a
  // split model), or a .safetensors file (with config.json beside it). A GGUF model is complete in itself: nothing else
  // beside it is read.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  Format format() const { return format_; }
  const Metadata& metadata() const { return metadata_; }      // config.json, or GGUF's key-value pairs
  const Metadata& generation() const { return generation_; }  // generation_config.json, or empty
  const TextAssets& text() const { return text_; }

  const std::vector<TensorView>& tensors() const { return tensors_; }
  // Null where there is no tensor of that name.
  const TensorView* find(std::string_view name) const;

  const std::vector<MappedFile>& files() const { return files_; }
  // The tensor's bytes were repacked and need not stay in memory; reading them again is slow, but right.
  void release(const TensorView& tensor) const;

 private:
  // `only` names the one .safetensors file to read; empty means what the directory holds.
  Result<void> read_safetensors_directory(const std::filesystem::path& directory, const std::filesystem::path& only);
  Result<void> read_gguf_parts(const std::filesystem::path& path);
  // Maps a file and keeps it; the bytes stay valid for the life of the checkpoint.
  Result<std::span<const std::byte>> map(const std::filesystem::path& path);
  // Takes the tensors of one file; a name that an earlier file had is an error.
  Result<void> add(std::vector<TensorView> tensors, const std::filesystem::path& path);

  Format format_ = Format::gguf;
  std::vector<MappedFile> files_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> position in tensors_
  Metadata metadata_;
  Metadata generation_;
  TextAssets text_;
};

}  // namespace eadem::weights
