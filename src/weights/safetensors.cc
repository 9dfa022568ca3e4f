#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "weights/json_text.h"
#include "weights/layout.h"
#include "weights/message.h"

namespace eadem::weights {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "model files are little-endian, and are read in place");

constexpr uint64_t kHeaderLimit = 100'000'000;  // the format's own
constexpr size_t kDimensionLimit = 8;
constexpr std::array kSupported = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8};

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : kSupported) {
    if (info(dtype).name == name) return dtype;
  }
  return std::nullopt;
}

std::optional<uint64_t> unsigned_integer(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

struct Entry {
  TensorView view;
  uint64_t begin = 0;  // in the data that follow the header
  uint64_t end = 0;
};

// "dtype", "shape" and "data_offsets" of one tensor; `where` begins messages.
Result<DType> read_dtype(const json& entry, const std::string& where) {
  const auto at = entry.find("dtype");
  if (at == entry.end() || !at->is_string()) return Error{where + " has no dtype: " + std::string(kDamaged)};
  const auto& name = at->get_ref<const std::string&>();
  if (const auto dtype = dtype_named(name)) return *dtype;
  return Error{where + " has the type " + quote(name) +
               ", which is not supported (F32, F16 and BF16 are): use a BF16 version of the model"};
}

Result<Shape> read_shape(const json& entry, const std::string& where) {
  const auto at = entry.find("shape");
  if (at == entry.end() || !at->is_array()) return Error{where + " has no shape: " + std::string(kDamaged)};
  if (at->size() > kDimensionLimit) {
    return Error{where + " has " + std::to_string(at->size()) + " dimensions, more than " +
                 std::to_string(kDimensionLimit) + ": " + std::string(kDamaged)};
  }
  Shape shape;
  for (const json& dimension : *at) {
    const auto size = unsigned_integer(dimension);
    if (!size || *size == 0 || *size > uint64_t{INT64_MAX}) {
      return Error{where + " has a shape with a dimension that is no integer from 1: " + std::string(kDamaged)};
    }
    shape.push_back(static_cast<int64_t>(*size));
  }
  return shape;
}

Result<std::pair<uint64_t, uint64_t>> read_offsets(const json& entry, const std::string& where) {
  const auto at = entry.find("data_offsets");
  if (at != entry.end() && at->is_array() && at->size() == 2) {
    const auto begin = unsigned_integer((*at)[0]);
    const auto end = unsigned_integer((*at)[1]);
    if (begin && end && *begin <= *end) return std::pair{*begin, *end};
  }
  return Error{where + " has no data_offsets of the form [begin, end]: " + std::string(kDamaged)};
}

std::string range(uint64_t begin, uint64_t end) {
  return "bytes " + std::to_string(begin) + ".." + std::to_string(end);
}

// The JSON header and the data behind it.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Result<Entry> read_entry(const std::string& name, const json& entry, const Parts& parts, const std::string& file) {
  const std::string where = file + ": tensor " + quote(name);
  if (!entry.is_object()) return Error{where + " is not described by an object: " + std::string(kDamaged)};
  EADEM_ASSIGN_OR_RETURN(const DType dtype, read_dtype(entry, where));
  EADEM_ASSIGN_OR_RETURN(Shape shape, read_shape(entry, where));
  EADEM_ASSIGN_OR_RETURN(const auto offsets, read_offsets(entry, where));
  EADEM_ASSIGN_OR_RETURN(const uint64_t bytes, tensor_bytes(dtype, shape, where));
  const auto [begin, end] = offsets;
  if (end - begin != bytes) {
    return Error{where + " claims " + range(begin, end) + ", but " + std::string(info(dtype).name) + " " +
                 to_string(shape) + " takes " + std::to_string(bytes) + " bytes: " + std::string(kDamaged)};
  }
  if (end > parts.data.size()) {
    return Error{where + " claims " + range(begin, end) + " but the file has " + std::to_string(parts.data.size()) +
                 " bytes of data: " + std::string(kFetchAgain)};
  }
  if ((sizeof(uint64_t) + parts.header.size() + begin) % info(dtype).bytes != 0) {
    return Error{
        where +
        " begins at a byte that is no multiple of its element size: save the model again with a current safetensors"};
  }
  return Entry{{name, dtype, std::move(shape), parts.data.data() + begin, static_cast<size_t>(bytes)}, begin, end};
}

// Sorts by position and checks that the tensors cover the data exactly.
Result<void> check_cover(std::vector<Entry>& entries, uint64_t data_size, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    const std::string where = file + ": tensor " + quote(entry.view.name);
    if (entry.begin < covered) {
      return Error{where + " claims " + range(entry.begin, entry.end) + ", which overlap the tensor before it, up to " +
                   std::to_string(covered) + ": " + std::string(kDamaged)};
    }
    if (entry.begin > covered) {
      return Error{where + " begins at byte " + std::to_string(entry.begin) + ", which leaves a gap after byte " +
                   std::to_string(covered) + " of the data: " + std::string(kDamaged)};
    }
    covered = entry.end;
  }
  if (covered < data_size) {
    return Error{file + ": has " + std::to_string(data_size - covered) +
                 " bytes after its last tensor: " + std::string(kDamaged)};
  }
  return {};
}

Result<Parts> split(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.empty()) return Error{file + ": is empty (0 bytes): " + std::string(kFetchAgain)};
  if (bytes.size() < 8) {
    return Error{file + ": has " + std::to_string(bytes.size()) +
                 " bytes, too few for a safetensors file: " + std::string(kFetchAgain)};
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kHeaderLimit) {
    return Error{file + ": claims a header of " + std::to_string(length) + " bytes, above the format's limit of " +
                 std::to_string(kHeaderLimit) + ": it is no safetensors file, or it is damaged; fetch it again"};
  }
  if (length > bytes.size() - 8) {
    return Error{file + ": claims a header of " + std::to_string(length) + " bytes but has " +
                 std::to_string(bytes.size() - 8) + " bytes after its length: " + std::string(kFetchAgain)};
  }
  return Parts{{reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<size_t>(length)},
               bytes.subspan(8 + length)};
}

}  // namespace

Result<std::vector<TensorView>> read_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  EADEM_ASSIGN_OR_RETURN(const Parts parts, split(bytes, file));
  EADEM_ASSIGN_OR_RETURN(const json header, parse_json_object(parts.header, file + " (header)"));
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;  // free text of the tool that wrote the file
    EADEM_ASSIGN_OR_RETURN(Entry entry, read_entry(name, value, parts, file));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return Error{file + ": holds no tensors: fetch it again"};
  EADEM_RETURN_IF_ERROR(check_cover(entries, parts.data.size(), file));
  std::vector<TensorView> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.view));
  return tensors;
}

Result<std::map<std::string, std::string>> read_safetensors_index(std::string_view text, const std::string& file) {
  EADEM_ASSIGN_OR_RETURN(const json index, parse_json_object(text, file));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return Error{file + ": 'weight_map' must be an object that names each tensor's file: fetch it again"};
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      return Error{file + ": the file of tensor " + quote(tensor) + " is no string: " + std::string(kDamaged)};
    const auto& name = shard.get_ref<const std::string&>();
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        std::any_of(name.begin(), name.end(), control)) {
      return Error{file + ": tensor " + quote(tensor) + " is said to be in " + quote(name) +
                   ", which is not the name of a file beside the index: " + std::string(kDamaged)};
    }
    shards.emplace(tensor, name);
  }
  return shards;
}

}  // namespace eadem::weights
