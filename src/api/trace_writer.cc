#include "api/trace_writer.h"

#include <memory>

#include "core/sha256.h"

namespace eadem::api {

Result<std::unique_ptr<TraceWriter>> TraceWriter::open(const std::filesystem::path& path,
                                                       std::function<std::string(int)> name_of) {
  auto writer = std::make_unique<TraceWriter>();
  writer->out_.open(path, std::ios::trunc);
  if (!writer->out_)
    return Error{"cannot write the trace file " + path.string() + ": check the path and its permissions"};
  writer->path_ = path;
  writer->name_of_ = std::move(name_of);
  return writer;
}

void TraceWriter::record(const model::Batch& batch, int row, int layer, std::string_view op,
                         std::span<const std::byte> bytes) {
  const model::Row& r = batch.rows[static_cast<size_t>(row)];
  Sha256 hash;
  hash.update(bytes);
  // Names are ours, plain words and numbers: no escapes are needed.
  out_ << "{\"answer\":\"" << name_of_(r.sequence) << "\",\"position\":" << r.position << ",\"token\":" << r.token
       << ",\"layer\":" << layer << ",\"op\":\"" << op << "\",\"sha256\":\"" << hash.hex() << "\"}\n";
}

Result<void> TraceWriter::finish() {
  out_.flush();
  if (out_) return {};
  return Error{"cannot write the trace file " + path_.string() +
               ": the disk is full or broken; what it holds is not all"};
}

}  // namespace eadem::api
