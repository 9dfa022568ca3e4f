#include "fetch/download.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fetch/http.h"

namespace eadem::fetch {
namespace {

namespace fs = std::filesystem;

// What is on disk of a download that has not ended.
struct Part {
  fs::path path, etag_path;
  explicit Part(const fs::path& target) : path(target.string() + ".part"), etag_path(target.string() + ".part.etag") {}

  uint64_t size() const {
    std::error_code failure;
    const uint64_t bytes = fs::file_size(path, failure);
    return failure ? 0 : bytes;
  }
  std::string etag() const {
    std::ifstream in(etag_path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_etag(const std::string& etag) const { std::ofstream(etag_path) << etag; }
  void remove() const {
    std::error_code ignored;
    fs::remove(path, ignored);
    fs::remove(etag_path, ignored);
  }
};

struct Attempt {
  HttpReply reply;
  uint64_t received = 0;
  Result<void> written;   // a fault of the disk
  bool unusable = false;  // the server's range does not begin where ours ends
};

// Opens the file for a reply whose first piece has come: appended to for a range, begun anew for a whole body.
Result<OutputFile> open_part(const Part& part, const HttpReply& reply) {
  if (reply.status == 206) return OutputFile::create(part.path, true);
  part.remove();
  part.set_etag(reply.etag);
  return OutputFile::create(part.path, false);
}

bool range_begins_at(const std::string& content_range, uint64_t offset) {
  return content_range.starts_with("bytes " + std::to_string(offset) + "-");
}

Attempt try_once(const Download& what, const Part& part, const PullOptions& options, Meter& meter) {
  Attempt attempt;
  HttpRequest request{what.url, what.headers, part.size(), {}, options.stall_seconds, true};
  if (const std::string etag = part.etag(); !etag.starts_with("W/")) request.if_range = etag;
  const std::string name = what.target.filename().string();
  const uint64_t before = meter.done;
  std::optional<OutputFile> out;
  attempt.reply = http_get(request, [&](const HttpReply& reply, std::span<const std::byte> piece) {
    if (!out) {
      attempt.unusable = reply.status == 206 && !range_begins_at(reply.content_range, request.offset);
      if (attempt.unusable) return false;
      if (reply.status == 206) meter.done = before + request.offset;
      if (!what.size && reply.length) meter.total = meter.done + *reply.length;
      auto opened = open_part(part, reply);
      if (!opened.ok()) {
        attempt.written = opened.error();
        return false;
      }
      out.emplace(std::move(opened).value());
    }
    attempt.written = out->write(piece);
    attempt.received += piece.size();
    return attempt.written.ok() && meter.tick("downloading", name, piece.size());
  });
  if (out && attempt.written.ok()) attempt.written = out->close();
  meter.done = before;
  return attempt;
}

// Brings `part` to its full length, over as many attempts as bring something new.
Result<void> fill_part(const Download& what, const Part& part, const PullOptions& options, Meter& meter,
                       HttpReply& last) {
  for (int fruitless = 0;;) {
    if (what.size && part.size() == *what.size && *what.size > 0) return {};
    if (what.size && part.size() > *what.size) part.remove();
    const Attempt attempt = try_once(what, part, options, meter);
    last = attempt.reply;
    if (!attempt.written.ok()) return attempt.written.error();
    const bool range_refused = attempt.unusable || attempt.reply.status == 416;
    if (range_refused) {
      part.remove();
    } else if (attempt.reply.stopped) {
      return Error{"stopped while fetching " + what.target.filename().string() + "; the same command resumes it"};
    } else if (attempt.reply.ok()) {
      if (!what.size || part.size() == *what.size) return {};
      last.fault = "got " + std::to_string(part.size()) + " bytes of " + std::to_string(*what.size);
    } else if (!attempt.reply.transient) {
      return Error{attempt.reply.describe()};
    }
    if (attempt.received == 0 || range_refused) {
      if (++fruitless > options.retries) return Error{last.describe() + "; the same command resumes the download"};
      wait_before_retry(fruitless - 1, options.retry_seconds);
    } else if (attempt.reply.ok()) {  // whole answers of a wrong length will not get better for ever
      if (++fruitless > options.retries) return Error{last.describe()};
      if (part.size() > what.size.value_or(0)) part.remove();
    } else {
      fruitless = 0;
    }
  }
}

// The hub's entity tags are digests: 64 digits of SHA-256 for large files, 40 of git's object name for small ones.
void digest_from_etag(const HttpReply& reply, std::string& digest, Digest::Kind& kind) {
  std::string tag = !reply.linked_etag.empty() ? reply.linked_etag : reply.etag;
  if (tag.starts_with("W/")) tag = tag.substr(2);
  std::erase(tag, '"');
  const bool hexadecimal = tag.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hexadecimal || (tag.size() != 64 && tag.size() != 40)) return;
  digest = tag;
  kind = tag.size() == 64 ? Digest::Kind::kSha256 : Digest::Kind::kGitBlob;
}

}  // namespace

bool Meter::tick(std::string_view stage, std::string_view file, uint64_t bytes) {
  done += bytes;
  return !report || report({stage, file, done, total});
}

Result<void> download(const Download& what, const PullOptions& options, Meter& meter) {
  std::error_code ignored;
  if (fs::exists(what.target, ignored)) {  // got its name in an earlier attempt, so it was checked
    meter.tick("downloading", what.target.filename().string(), fs::file_size(what.target, ignored));
    return {};
  }
  EADEM_RETURN_IF_ERROR(make_folders(what.target.parent_path()));
  const Part part(what.target);
  for (bool resumed = part.size() > 0;; resumed = false) {
    HttpReply reply;
    EADEM_RETURN_IF_ERROR(fill_part(what, part, options, meter, reply));
    if (part.size() == 0) EADEM_RETURN_IF_ERROR(OutputFile::create(part.path, false));
    std::string expected = what.digest;
    Digest::Kind kind = what.digest_kind;
    if (expected.empty()) digest_from_etag(reply, expected, kind);
    const std::string name = what.target.filename().string();
    const auto report = [&](uint64_t) { return meter.tick("checking", name, 0); };
    std::string actual = expected;
    if (!expected.empty()) {
      EADEM_ASSIGN_OR_RETURN(actual, file_digest(part.path, kind, report));
    }
    if (actual == expected) break;
    part.remove();
    // A part of an older version of the file may have been completed with bytes of a newer one: once more, from the
    // start.
    if (!resumed) {
      return Error{public_url(what.url) + ": the digest is " + actual + ", expected " + expected + what.remedy};
    }
  }
  meter.tick("downloading", what.target.filename().string(), part.size());
  EADEM_RETURN_IF_ERROR(rename_path(part.path, what.target));
  part.remove();
  return {};
}

}  // namespace eadem::fetch
