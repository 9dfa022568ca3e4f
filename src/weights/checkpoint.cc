#include "weights/checkpoint.h"

#include <set>
#include <utility>

#include "weights/files.h"
#include "weights/gguf.h"
#include "weights/json_metadata.h"
#include "weights/json_text.h"
#include "weights/message.h"
#include "weights/safetensors.h"

namespace eadem::weights {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kWhole = "model.safetensors";
constexpr size_t kConfigLimit = size_t{16} << 20;      // bytes; real ones have kilobytes
constexpr size_t kTokenizerLimit = size_t{256} << 20;  // real ones have up to about 35 MB

std::string list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) text += (i ? ", " : "") + quote(names[i]);
  return text + (names.size() > kShown ? ", ..." : "");
}

// The one GGUF model of a directory: its only .gguf file, or the first part of its only split model.
Result<fs::path> only_gguf(const fs::path& directory, const std::vector<std::string>& names) {
  std::set<std::string> models;
  for (const std::string& name : names) {
    const auto split = parse_split_name(name);
    models.insert(split ? split->part(1) : name);
  }
  if (models.size() == 1) return directory / *models.begin();
  return Error{directory.string() + ": holds several GGUF models (" + list(names) + "): name one of the files"};
}

// The file that a split model is opened by, its first part, and how many parts there are; a single file has one.
Result<std::vector<fs::path>> gguf_parts(const fs::path& path, const Metadata& metadata) {
  EADEM_ASSIGN_OR_RETURN(const int64_t count, metadata.get_or<int64_t>("split.count", 1));
  if (count <= 1) return std::vector<fs::path>{path};
  const auto name = parse_split_name(path.filename().string());
  if (!name || name->count != count) {
    return Error{path.string() + ": is part of a model of " + std::to_string(count) +
                 " files; its name must end with -00001-of-0000N.gguf, as it was published: rename it back"};
  }
  std::vector<fs::path> parts;
  for (int part = 1; part <= name->count; ++part) parts.push_back(path.parent_path() / name->part(part));
  return parts;
}

// A part must say itself that it is part `number` (from 0) of `count`.
Result<void> check_part(const Metadata& part, int64_t number, int64_t count) {
  if (count == 1) return {};
  EADEM_ASSIGN_OR_RETURN(const int64_t own_count, part.get<int64_t>("split.count"));
  EADEM_ASSIGN_OR_RETURN(const int64_t own_number, part.get<int64_t>("split.no"));
  if (own_count == count && own_number == number) return {};
  return Error{part.file() + ": says it is part " + std::to_string(own_number) + " (from 0) of " +
               std::to_string(own_count) + ", not part " + std::to_string(number) + " of " + std::to_string(count) +
               ": fetch it again"};
}

// tokenizer_config.json's template: a string, or the entry "default" of a list of {name, template}.
Result<std::optional<std::string>> template_of_config(const std::string& text, const std::string& file) {
  EADEM_ASSIGN_OR_RETURN(const nlohmann::json config, parse_json_object(text, file));
  const auto entry = config.find("chat_template");
  if (entry == config.end() || entry->is_null()) return std::optional<std::string>();
  if (entry->is_string()) return std::optional(entry->get<std::string>());
  const Error malformed{
      file + ": 'chat_template' is neither a string nor a list of {name, template}: " + std::string(kDamaged)};
  if (!entry->is_array()) return malformed;
  for (const auto& named : *entry) {
    if (!named.is_object()) return malformed;
    const auto name = named.find("name");
    const auto body = named.find("template");
    if (name == named.end() || body == named.end() || !name->is_string() || !body->is_string()) return malformed;
    if (*name == "default") return std::optional(body->get<std::string>());
  }
  return std::optional<std::string>();
}

Result<TextAssets> read_text_assets(const fs::path& directory) {
  TextAssets text;
  EADEM_ASSIGN_OR_RETURN(text.tokenizer_json, read_text_if_present(directory / "tokenizer.json", kTokenizerLimit));
  EADEM_ASSIGN_OR_RETURN(text.tokenizer_config_json,
                         read_text_if_present(directory / "tokenizer_config.json", kConfigLimit));
  EADEM_ASSIGN_OR_RETURN(text.chat_template, read_text_if_present(directory / "chat_template.jinja", kConfigLimit));
  if (!text.chat_template && text.tokenizer_config_json) {
    const std::string file = (directory / "tokenizer_config.json").string();
    EADEM_ASSIGN_OR_RETURN(text.chat_template, template_of_config(*text.tokenizer_config_json, file));
  }
  return text;
}

// Which safetensors files make the model, and, where there is an index, which tensors it promises in each.
struct Shards {
  std::vector<std::string> files;
  std::map<std::string, std::string> index;  // tensor -> file; empty without an index
};

Result<Shards> find_shards(const fs::path& directory, const fs::path& only) {
  EADEM_ASSIGN_OR_RETURN(const auto index_text, read_text_if_present(directory / kIndex, kConfigLimit));
  Shards shards;
  if (index_text) {
    EADEM_ASSIGN_OR_RETURN(shards.index, read_safetensors_index(*index_text, (directory / kIndex).string()));
    std::set<std::string> files;
    for (const auto& [tensor, file] : shards.index) files.insert(file);
    if (only.empty() || files.contains(only.filename().string())) {
      shards.files.assign(files.begin(), files.end());
      return shards;
    }
    shards.index.clear();
  }
  if (!only.empty()) {
    shards.files = {only.filename().string()};
    return shards;
  }
  EADEM_ASSIGN_OR_RETURN(const auto names, names_ending_with(directory, kSafetensors));
  for (const std::string& name : names) {
    if (name == kWhole || names.size() == 1) shards.files = {name};
  }
  if (shards.files.empty()) {
    return Error{directory.string() + ": holds several safetensors files (" + list(names) + ") and no " +
                 std::string(kIndex) + " that says what is in them: fetch the index too, or name one file"};
  }
  return shards;
}

// What the index promises of one file, and what the file holds, must be the same: else files of two revisions were
// mixed.
Result<void> check_index(const Shards& shards, const std::string& file, const std::vector<TensorView>& tensors,
                         const fs::path& directory) {
  if (shards.index.empty()) return {};
  const std::string index = (directory / kIndex).string();
  std::set<std::string_view> held;
  for (const TensorView& tensor : tensors) {
    held.insert(tensor.name);
    const auto at = shards.index.find(tensor.name);
    if (at == shards.index.end() || at->second != file) {
      return Error{index + ": does not place tensor " + quote(tensor.name) + " in " + quote(file) +
                   ", where it is: the files are of different revisions; fetch them again"};
    }
  }
  for (const auto& [tensor, place] : shards.index) {
    if (place == file && !held.contains(tensor)) {
      return Error{index + ": promises tensor " + quote(tensor) + " in " + quote(file) +
                   ", which does not hold it: the files are of different revisions; fetch them again"};
    }
  }
  return {};
}

}  // namespace

Result<std::span<const std::byte>> Checkpoint::map(const fs::path& path) {
  EADEM_ASSIGN_OR_RETURN(MappedFile file, map_file(path));
  files_.push_back(std::move(file));
  return files_.back().bytes();
}

Result<void> Checkpoint::add(std::vector<TensorView> tensors, const fs::path& path) {
  for (TensorView& tensor : tensors) {
    if (!index_.emplace(tensor.name, tensors_.size()).second) {
      return Error{path.string() + ": tensor " + quote(tensor.name) +
                   " is in another file of the model too: " + std::string(kDamaged)};
    }
    tensors_.push_back(std::move(tensor));
  }
  return {};
}

Result<void> Checkpoint::read_gguf_parts(const fs::path& path) {
  format_ = Format::gguf;
  // Any part names the model; the first one describes it.
  const auto split = parse_split_name(path.filename().string());
  const fs::path first = split ? path.parent_path() / split->part(1) : path;
  EADEM_ASSIGN_OR_RETURN(const auto first_bytes, map(first));
  EADEM_ASSIGN_OR_RETURN(GgufFile head, read_gguf(first_bytes, first.string()));
  EADEM_ASSIGN_OR_RETURN(const std::vector<fs::path> parts, gguf_parts(first, head.metadata));
  const auto count = static_cast<int64_t>(parts.size());
  EADEM_RETURN_IF_ERROR(check_part(head.metadata, 0, count));
  metadata_ = std::move(head.metadata);
  EADEM_RETURN_IF_ERROR(add(std::move(head.tensors), first));
  for (int64_t i = 1; i < count; ++i) {
    EADEM_ASSIGN_OR_RETURN(const auto bytes, map(parts[i]));
    EADEM_ASSIGN_OR_RETURN(GgufFile part, read_gguf(bytes, parts[i].string()));
    EADEM_RETURN_IF_ERROR(check_part(part.metadata, i, count));
    EADEM_RETURN_IF_ERROR(add(std::move(part.tensors), parts[i]));
  }
  const auto held = static_cast<int64_t>(tensors_.size());
  if (held == 0)
    return Error{path.string() + ": holds no tensors (a vocabulary alone is no model): use a file with weights"};
  EADEM_ASSIGN_OR_RETURN(const int64_t promised, metadata_.get_or<int64_t>("split.tensors.count", held));
  if (count > 1 && promised != held) {
    return Error{first.string() + ": promises " + std::to_string(promised) + " tensors, but the " +
                 std::to_string(count) + " parts hold " + std::to_string(held) + ": fetch them again"};
  }
  if (metadata_.has("tokenizer.chat_template")) {
    EADEM_ASSIGN_OR_RETURN(text_.chat_template, metadata_.get<std::string>("tokenizer.chat_template"));
  }
  return {};
}

Result<void> Checkpoint::read_safetensors_directory(const fs::path& directory, const fs::path& only) {
  format_ = Format::safetensors;
  const fs::path config = directory / "config.json";
  EADEM_ASSIGN_OR_RETURN(const auto config_text, read_text_if_present(config, kConfigLimit));
  if (!config_text) return Error{config.string() + ": is missing; it says what model the weights are of: fetch it too"};
  EADEM_ASSIGN_OR_RETURN(metadata_, read_json_metadata(*config_text, config.string()));
  const fs::path generation = directory / "generation_config.json";
  EADEM_ASSIGN_OR_RETURN(const auto generation_text, read_text_if_present(generation, kConfigLimit));
  generation_ = Metadata(generation.string());
  if (generation_text) {
    EADEM_ASSIGN_OR_RETURN(generation_, read_json_metadata(*generation_text, generation.string()));
  }
  EADEM_ASSIGN_OR_RETURN(const Shards shards, find_shards(directory, only));
  for (const std::string& file : shards.files) {
    const fs::path path = directory / file;
    EADEM_ASSIGN_OR_RETURN(const auto bytes, map(path));
    EADEM_ASSIGN_OR_RETURN(std::vector<TensorView> tensors, read_safetensors(bytes, path.string()));
    EADEM_RETURN_IF_ERROR(check_index(shards, file, tensors, directory));
    EADEM_RETURN_IF_ERROR(add(std::move(tensors), path));
  }
  EADEM_ASSIGN_OR_RETURN(text_, read_text_assets(directory));
  return {};
}

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  EADEM_ASSIGN_OR_RETURN(const PathKind kind, kind_of_path(path));
  Checkpoint checkpoint;
  if (kind == PathKind::absent)
    return Error{"cannot open " + path.string() + ": there is no such file or directory: check the path"};
  if (kind == PathKind::file) {
    const std::string name = path.filename().string();
    if (name.ends_with(kSafetensors)) {
      EADEM_RETURN_IF_ERROR(checkpoint.read_safetensors_directory(path.parent_path(), path));
    } else if (name.ends_with(kGguf)) {
      EADEM_RETURN_IF_ERROR(checkpoint.read_gguf_parts(path));
    } else {
      return Error{path.string() + ": is neither a .gguf nor a .safetensors file: name a model file or its directory"};
    }
    return checkpoint;
  }
  EADEM_ASSIGN_OR_RETURN(const auto safetensors, names_ending_with(path, kSafetensors));
  EADEM_ASSIGN_OR_RETURN(const auto gguf, names_ending_with(path, kGguf));
  if (!safetensors.empty() && !gguf.empty()) {
    return Error{path.string() + ": holds both safetensors and GGUF files (" + list({safetensors[0], gguf[0]}) +
                 "): name one of the files"};
  }
  if (!gguf.empty()) {
    EADEM_ASSIGN_OR_RETURN(const fs::path file, only_gguf(path, gguf));
    EADEM_RETURN_IF_ERROR(checkpoint.read_gguf_parts(file));
    return checkpoint;
  }
  EADEM_ASSIGN_OR_RETURN(const PathKind index, kind_of_path(path / kIndex));
  if (safetensors.empty() && index == PathKind::absent) {
    return Error{path.string() +
                 ": holds no model (no .safetensors and no .gguf file): check the path, or fetch the weights"};
  }
  EADEM_RETURN_IF_ERROR(checkpoint.read_safetensors_directory(path, {}));
  return checkpoint;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

void Checkpoint::release(const TensorView& tensor) const {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  for (const MappedFile& file : files_) {
    const auto begin = reinterpret_cast<uintptr_t>(file.bytes().data());
    if (address >= begin && address - begin < file.size()) file.release(tensor.data, tensor.bytes);
  }
}

}  // namespace eadem::weights
