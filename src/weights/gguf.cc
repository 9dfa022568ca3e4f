#include "weights/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "weights/gguf_types.h"
#include "weights/layout.h"
#include "weights/message.h"

namespace eadem::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "model files are little-endian, and are read in place");

constexpr uint64_t kKeyLimit = 65535;       // the format's own
constexpr uint64_t kTensorNameLimit = 256;  // the format says 64; some tools write longer ones
constexpr uint32_t kDimensionLimit = 4;     // the format's own
constexpr uint64_t kAlignmentLimit = 1 << 20;
// Far above any model's; they bound the memory that a hostile file can make its reader take.
constexpr uint64_t kPairLimit = 1 << 16;
constexpr uint64_t kTensorLimit = 1 << 20;
constexpr uint64_t kArrayLimit = 1 << 24;
constexpr uint64_t kTextLimit = 1 << 26;
// The fewest bytes that an entry takes: a claimed count beyond what the file could hold is refused before it is used.
constexpr uint64_t kPairBytes = 8 + 4 + 1;
constexpr uint64_t kTensorBytes = 8 + 4 + 8 + 4 + 8;

// Reads forward through a file; every length is held against what is left. `what` says in messages what was being read.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  const std::string& file() const { return file_; }
  size_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  Error truncated(const std::string& what) const {
    return Error{file_ + ": the file ends inside " + what + " (at byte " + std::to_string(bytes_.size()) +
                 "): " + std::string(kFetchAgain)};
  }

  template <class T>
  Result<T> take(const std::string& what) {
    if (left() < sizeof(T)) return truncated(what);
    return next<T>();
  }

  Result<std::string_view> text(const std::string& what, uint64_t limit) {
    EADEM_ASSIGN_OR_RETURN(const uint64_t length, take<uint64_t>(what));
    if (length > limit) {
      return Error{file_ + ": " + what + " claims a length of " + std::to_string(length) +
                   " bytes, above the limit of " + std::to_string(limit) + ": " + std::string(kDamaged)};
    }
    if (length > left()) return truncated(what + ", which claims " + std::to_string(length) + " bytes");
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<size_t>(length));
    position_ += static_cast<size_t>(length);
    return text;
  }

  // The next T; the caller has checked that it is there.
  template <class T>
  T next() {
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t position_ = 0;
};

Metadata::Value stored(uint64_t value) {
  if (value <= uint64_t{INT64_MAX}) return static_cast<int64_t>(value);
  return value;
}

template <class T>
Metadata::Value stored_number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return stored(value);
  } else {
    return static_cast<int64_t>(value);
  }
}

// Calls f with a zero of the C++ type of a fixed-width value type, or returns false where `type` is none.
template <class F>
bool with_number_type(GgufValueType type, F f) {
  switch (type) {
    case GgufValueType::kUint8: return f(uint8_t{}), true;
    case GgufValueType::kInt8: return f(int8_t{}), true;
    case GgufValueType::kUint16: return f(uint16_t{}), true;
    case GgufValueType::kInt16: return f(int16_t{}), true;
    case GgufValueType::kUint32: return f(uint32_t{}), true;
    case GgufValueType::kInt32: return f(int32_t{}), true;
    case GgufValueType::kUint64: return f(uint64_t{}), true;
    case GgufValueType::kInt64: return f(int64_t{}), true;
    case GgufValueType::kFloat32: return f(float{}), true;
    case GgufValueType::kFloat64: return f(double{}), true;
    default: return false;
  }
}

Result<bool> read_bool(Cursor& cursor, const std::string& what) {
  EADEM_ASSIGN_OR_RETURN(const uint8_t byte, cursor.take<uint8_t>(what));
  if (byte > 1)
    return Error{cursor.file() + ": " + what + " is a boolean of " + std::to_string(byte) + ": " +
                 std::string(kDamaged)};
  return byte == 1;
}

Result<void> check_limit(const Cursor& cursor, const std::string& what, uint64_t count, std::string_view noun,
                         uint64_t limit) {
  if (count <= limit) return {};
  return Error{cursor.file() + ": " + what + " claims " + std::to_string(count) + " " + std::string(noun) +
               ", above the limit of " + std::to_string(limit) + ": " + std::string(kDamaged)};
}

template <class T>
Result<Metadata::Value> read_number_array(Cursor& cursor, uint64_t count, const std::string& what) {
  if (count > cursor.left() / sizeof(T)) {
    return cursor.truncated(what + ", which claims " + std::to_string(count) + " elements");
  }
  using Stored = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  std::vector<Stored> values(static_cast<size_t>(count));
  for (Stored& value : values) {
    const T raw = cursor.next<T>();
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (raw > uint64_t{INT64_MAX}) {
        return Error{cursor.file() + ": " + what + " has an element beyond 63 bits: " + std::string(kDamaged)};
      }
    }
    value = static_cast<Stored>(raw);  // NOLINT(bugprone-signed-char-misuse): an int8 is a number here
  }
  return Metadata::Value(std::move(values));
}

Result<Metadata::Value> read_array(Cursor& cursor, const std::string& what) {
  EADEM_ASSIGN_OR_RETURN(const auto type, cursor.take<GgufValueType>(what));
  EADEM_ASSIGN_OR_RETURN(const uint64_t count, cursor.take<uint64_t>(what));
  EADEM_RETURN_IF_ERROR(check_limit(cursor, what, count, "elements", kArrayLimit));
  const auto too_many = [&](uint64_t least) { return count > cursor.left() / least; };
  const std::string claim = what + ", which claims " + std::to_string(count) + " elements";
  if (type == GgufValueType::kString) {
    if (too_many(sizeof(uint64_t))) return cursor.truncated(claim);
    StringList list;
    for (uint64_t i = 0; i < count; ++i) {
      EADEM_ASSIGN_OR_RETURN(const std::string_view text, cursor.text(what, kTextLimit));
      list.push_back(text);
    }
    return Metadata::Value(std::move(list));
  }
  if (type == GgufValueType::kBool) {
    if (too_many(1)) return cursor.truncated(claim);
    std::vector<bool> values;
    for (uint64_t i = 0; i < count; ++i) {
      EADEM_ASSIGN_OR_RETURN(const bool value, read_bool(cursor, what));
      values.push_back(value);
    }
    return Metadata::Value(std::move(values));
  }
  Result<Metadata::Value> value = Error{};
  if (with_number_type(type, [&](auto zero) { value = read_number_array<decltype(zero)>(cursor, count, what); }))
    return value;
  return Error{
      cursor.file() + ": " + what + " is an array of " +
      (type == GgufValueType::kArray ? "arrays" : "the unknown type " + std::to_string(static_cast<uint32_t>(type))) +
      ", which no supported model has: " + std::string(kDamaged)};
}

Result<Metadata::Value> read_value(Cursor& cursor, const std::string& what) {
  EADEM_ASSIGN_OR_RETURN(const auto type, cursor.take<GgufValueType>(what));
  if (type == GgufValueType::kArray) return read_array(cursor, what);
  if (type == GgufValueType::kBool) {
    EADEM_ASSIGN_OR_RETURN(const bool value, read_bool(cursor, what));
    return Metadata::Value(value);
  }
  if (type == GgufValueType::kString) {
    EADEM_ASSIGN_OR_RETURN(const std::string_view text, cursor.text(what, kTextLimit));
    return Metadata::Value(std::string(text));
  }
  Result<Metadata::Value> value = Error{};
  const bool known = with_number_type(type, [&](auto zero) {
    auto number = cursor.take<decltype(zero)>(what);
    value =
        number.ok() ? Result<Metadata::Value>(stored_number(number.value())) : Result<Metadata::Value>(number.error());
  });
  if (known) return value;
  return Error{cursor.file() + ": " + what + " has the unknown type " + std::to_string(static_cast<uint32_t>(type)) +
               ": " + std::string(kDamaged)};
}

struct Header {
  uint64_t tensors = 0;
  uint64_t pairs = 0;
};

Result<Header> read_header(Cursor& cursor) {
  const std::string& file = cursor.file();
  if (cursor.left() == 0) return Error{file + ": is empty (0 bytes): " + std::string(kFetchAgain)};
  EADEM_ASSIGN_OR_RETURN(const auto magic, (cursor.take<std::array<char, 4>>("its header")));
  if (std::string_view(magic.data(), 4) != "GGUF")
    return Error{file + ": is no GGUF file (it does not begin with 'GGUF'): fetch it again"};
  EADEM_ASSIGN_OR_RETURN(const uint32_t version, cursor.take<uint32_t>("its header"));
  if ((version & 0xffff) == 0)
    return Error{file + ": is a big-endian GGUF file, which is not supported: use a little-endian one"};
  if (version != 2 && version != 3) {
    return Error{file + ": has the GGUF version " + std::to_string(version) +
                 ", which is not supported (2 and 3 are): convert the model again"};
  }
  Header header;
  EADEM_ASSIGN_OR_RETURN(header.tensors, cursor.take<uint64_t>("its header"));
  EADEM_ASSIGN_OR_RETURN(header.pairs, cursor.take<uint64_t>("its header"));
  EADEM_RETURN_IF_ERROR(check_limit(cursor, "its header", header.pairs, "keys", kPairLimit));
  EADEM_RETURN_IF_ERROR(check_limit(cursor, "its header", header.tensors, "tensors", kTensorLimit));
  if (header.pairs > cursor.left() / kPairBytes) {
    return cursor.truncated("the metadata, which claim " + std::to_string(header.pairs) + " keys");
  }
  if (header.tensors > cursor.left() / kTensorBytes) {
    return cursor.truncated("the tensor list, which claims " + std::to_string(header.tensors) + " tensors");
  }
  return header;
}

Result<Metadata> read_metadata(Cursor& cursor, uint64_t pairs) {
  Metadata metadata(cursor.file());
  for (uint64_t i = 0; i < pairs; ++i) {
    EADEM_ASSIGN_OR_RETURN(const std::string_view key, cursor.text("the name of key " + std::to_string(i), kKeyLimit));
    const std::string what = "the value of " + quote(key);
    EADEM_ASSIGN_OR_RETURN(Metadata::Value value, read_value(cursor, what));
    if (!metadata.add(std::string(key), std::move(value))) {
      return Error{cursor.file() + ": has the key " + quote(key) + " twice: " + std::string(kDamaged)};
    }
  }
  return metadata;
}

Result<uint64_t> alignment_of(const Metadata& metadata) {
  EADEM_ASSIGN_OR_RETURN(const int64_t alignment, metadata.get_or<int64_t>("general.alignment", 32));
  const auto value = static_cast<uint64_t>(alignment);
  if (alignment < 8 || value > kAlignmentLimit || !std::has_single_bit(value)) {
    return Error{metadata.file() + ": 'general.alignment' is " + std::to_string(alignment) +
                 ", not a power of two from 8 to " + std::to_string(kAlignmentLimit) + ": " + std::string(kDamaged)};
  }
  return value;
}

// A tensor as the file describes it; its data begin `offset` bytes into the data section.
struct Entry {
  TensorView view;
  uint64_t offset = 0;
};

Result<Entry> read_entry(Cursor& cursor, uint64_t index, uint64_t alignment) {
  EADEM_ASSIGN_OR_RETURN(const std::string_view name,
                         cursor.text("the name of tensor " + std::to_string(index), kTensorNameLimit));
  const std::string what = "the description of tensor " + quote(name);
  const std::string where = cursor.file() + ": tensor " + quote(name);
  EADEM_ASSIGN_OR_RETURN(const uint32_t dimensions, cursor.take<uint32_t>(what));
  if (dimensions < 1 || dimensions > kDimensionLimit) {
    return Error{where + " has " + std::to_string(dimensions) + " dimensions, not 1 to " +
                 std::to_string(kDimensionLimit) + ": " + std::string(kDamaged)};
  }
  Entry entry;
  entry.view.name = name;
  entry.view.shape.resize(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {  // GGUF writes the innermost dimension first
    EADEM_ASSIGN_OR_RETURN(entry.view.shape[dimensions - 1 - i], cursor.take<int64_t>(what));
  }
  EADEM_ASSIGN_OR_RETURN(const uint32_t type, cursor.take<uint32_t>(what));
  EADEM_ASSIGN_OR_RETURN(entry.offset, cursor.take<uint64_t>(what));
  const std::optional<DType> dtype = gguf_dtype(type);
  if (!dtype) {
    return Error{where + " has the type " + gguf_type_name(type) +
                 ", which is not supported (F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are): "
                 "use another version of the model"};
  }
  entry.view.dtype = *dtype;
  EADEM_ASSIGN_OR_RETURN(const uint64_t bytes, tensor_bytes(*dtype, entry.view.shape, where));
  entry.view.bytes = static_cast<size_t>(bytes);
  if (entry.offset % alignment != 0) {
    return Error{where + " begins at byte " + std::to_string(entry.offset) +
                 " of the data, no multiple of the alignment of " + std::to_string(alignment) + ": " +
                 std::string(kDamaged)};
  }
  return entry;
}

Result<std::vector<Entry>> read_entries(Cursor& cursor, uint64_t count, uint64_t alignment) {
  std::vector<Entry> entries;
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < count; ++i) {
    EADEM_ASSIGN_OR_RETURN(Entry entry, read_entry(cursor, i, alignment));
    if (!names.insert(entry.view.name).second) {
      return Error{cursor.file() + ": has the tensor " + quote(entry.view.name) + " twice: " + std::string(kDamaged)};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Gives each view its bytes in `data`, and checks that they lie inside and do not overlap.
Result<void> place(std::vector<Entry>& entries, std::span<const std::byte> data, const std::string& file) {
  for (Entry& entry : entries) {
    const uint64_t bytes = entry.view.bytes;
    if (entry.offset > data.size() || bytes > data.size() - entry.offset) {
      return Error{file + ": tensor " + quote(entry.view.name) + " claims " + std::to_string(bytes) +
                   " bytes from byte " + std::to_string(entry.offset) + " but the file has " +
                   std::to_string(data.size()) + " bytes of data: " + std::string(kFetchAgain)};
    }
    entry.view.data = data.data() + entry.offset;
  }
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->view.bytes) {
      return Error{file + ": the bytes of the tensors " + quote(sorted[i - 1]->view.name) + " and " +
                   quote(sorted[i]->view.name) + " overlap: " + std::string(kDamaged)};
    }
  }
  return {};
}

// "00002" as 2; nothing where the text is not five digits.
std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || text.size() != 5 || text[0] == '-')
    return std::nullopt;
  return value;
}

}  // namespace

Result<GgufFile> read_gguf(std::span<const std::byte> bytes, const std::string& file) {
  Cursor cursor(bytes, file);
  EADEM_ASSIGN_OR_RETURN(const Header header, read_header(cursor));
  EADEM_ASSIGN_OR_RETURN(Metadata metadata, read_metadata(cursor, header.pairs));
  EADEM_ASSIGN_OR_RETURN(const uint64_t alignment, alignment_of(metadata));
  EADEM_ASSIGN_OR_RETURN(std::vector<Entry> entries, read_entries(cursor, header.tensors, alignment));
  const uint64_t begin = (cursor.position() + alignment - 1) / alignment * alignment;
  const auto data = bytes.subspan(static_cast<size_t>(std::min<uint64_t>(begin, bytes.size())));
  EADEM_RETURN_IF_ERROR(place(entries, data, file));
  GgufFile out{std::move(metadata), {}};
  out.tensors.reserve(entries.size());
  for (Entry& entry : entries) out.tensors.push_back(std::move(entry.view));
  return out;
}

std::string GgufSplitName::part(int part) const {
  const auto five = [](int value) {
    const std::string digits = std::to_string(value);
    return std::string(5 - std::min<size_t>(digits.size(), 5), '0') + digits;
  };
  return prefix + "-" + five(part) + "-of-" + five(count) + ".gguf";
}

std::optional<GgufSplitName> parse_split_name(std::string_view file_name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (file_name.size() <= kTail.size() || !file_name.ends_with(".gguf")) return std::nullopt;
  const std::string_view tail = file_name.substr(file_name.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return GgufSplitName{std::string(file_name.substr(0, file_name.size() - kTail.size())), *number, *count};
}

}  // namespace eadem::weights
