#include "fetch/zip.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace eadem::fetch {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kMaxComment = 65535;

using Bytes = std::span<const std::byte>;

// A little-endian number; the caller has checked the bounds.
uint32_t number(Bytes bytes, size_t offset, size_t width) {
  uint32_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= std::to_integer<uint32_t>(bytes[offset + i]) << (8 * i);
  return value;
}

bool has(Bytes bytes, uint64_t offset, uint64_t length) {
  return offset <= bytes.size() && length <= bytes.size() - offset;
}

std::optional<size_t> find_end_record(Bytes bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const size_t last = bytes.size() - kEndBytes;
  for (size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
    if (number(bytes, last - back, 4) == kEndSignature) return last - back;
  }
  return std::nullopt;
}

Error broken(const MappedFile& file, const std::string& what) {
  return Error{file.path().string() + ": not a sound zip file (" + what + "); remove it and pull again"};
}

// Fills `member` from the entry at `offset` of the central directory; returns the offset of the next entry.
Result<size_t> read_entry(const MappedFile& file, size_t offset, ZipMember& member) {
  const Bytes bytes = file.bytes();
  if (!has(bytes, offset, kEntryBytes) || number(bytes, offset, 4) != kEntrySignature) return broken(file, "directory");
  const uint32_t flags = number(bytes, offset + 8, 2), method = number(bytes, offset + 10, 2);
  const uint32_t packed = number(bytes, offset + 20, 4), size = number(bytes, offset + 24, 4);
  const uint32_t name_length = number(bytes, offset + 28, 2);
  const uint64_t tail = uint64_t{name_length} + number(bytes, offset + 30, 2) + number(bytes, offset + 32, 2);
  const uint32_t local = number(bytes, offset + 42, 4);
  if (!has(bytes, offset + kEntryBytes, tail)) return broken(file, "directory entry");
  member.name.assign(reinterpret_cast<const char*>(bytes.data()) + offset + kEntryBytes, name_length);
  member.crc = number(bytes, offset + 16, 4);
  member.size = size;
  member.deflated = method == 8;
  const size_t next = offset + kEntryBytes + tail;
  if ((flags & 1) != 0) return broken(file, "encrypted member " + member.name);
  if (method != 0 && method != 8) return broken(file, "unknown compression of " + member.name);
  if (local == UINT32_MAX || size == UINT32_MAX || packed == UINT32_MAX) return broken(file, "zip64 is not supported");
  if (!has(bytes, local, kLocalBytes) || number(bytes, local, 4) != kLocalSignature)
    return broken(file, "local header");
  const uint64_t data = uint64_t{local} + kLocalBytes + number(bytes, local + 26, 2) + number(bytes, local + 28, 2);
  if (!has(bytes, data, packed)) return broken(file, "member beyond the end");
  if (method == 0 && packed != size) return broken(file, "length of a stored member");
  member.packed = bytes.subspan(data, packed);
  return next;
}

struct Inflater {
  z_stream stream{};
  bool ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK;
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

Result<ZipMember> find_zip_member(const MappedFile& file, std::string_view suffix) {
  const Bytes bytes = file.bytes();
  const std::optional<size_t> end = find_end_record(bytes);
  if (!end) return broken(file, "no directory");
  size_t offset = number(bytes, *end + 16, 4);
  const uint32_t count = number(bytes, *end + 10, 2);
  std::optional<ZipMember> found;
  for (uint32_t i = 0; i < count; ++i) {
    ZipMember member;
    EADEM_ASSIGN_OR_RETURN(offset, read_entry(file, offset, member));
    if (!member.name.ends_with(suffix)) continue;
    if (found) return broken(file, "several members end in " + std::string(suffix));
    found = std::move(member);
  }
  if (!found) return broken(file, "no member ends in " + std::string(suffix));
  return *std::move(found);
}

Result<void> unpack_zip_member(const ZipMember& member, const std::function<Result<void>(Bytes)>& sink) {
  constexpr size_t kStep = 1 << 20;
  std::vector<std::byte> buffer(kStep);
  Inflater inflater;
  if (!inflater.ready) return Error{"zlib could not be initialised"};
  uLong crc = crc32(0, nullptr, 0);
  uint64_t written = 0;
  bool ended = false;
  // A piece of input at a time: zlib counts in 32 bits. A stored member passes through as it is.
  for (size_t offset = 0; offset < member.packed.size() && !ended; offset += kStep) {
    const Bytes piece = member.packed.subspan(offset, std::min(kStep, member.packed.size() - offset));
    inflater.stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    inflater.stream.avail_in = static_cast<uInt>(piece.size());
    do {
      Bytes out = piece;
      if (member.deflated) {
        inflater.stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
        inflater.stream.avail_out = static_cast<uInt>(buffer.size());
        const int status = inflate(&inflater.stream, Z_NO_FLUSH);
        ended = status == Z_STREAM_END;
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
          return Error{member.name + ": damaged in the zip file; pull again"};
        }
        out = Bytes(buffer).first(buffer.size() - inflater.stream.avail_out);
      }
      written += out.size();
      if (written > member.size) return Error{member.name + ": longer than the zip file says; pull again"};
      crc = crc32(crc, reinterpret_cast<const Bytef*>(out.data()), static_cast<uInt>(out.size()));
      EADEM_RETURN_IF_ERROR(sink(out));
    } while (member.deflated && !ended && inflater.stream.avail_out == 0);
  }
  if (written != member.size || crc != member.crc) return Error{member.name + ": damaged in the zip file; pull again"};
  return {};
}

}  // namespace eadem::fetch
