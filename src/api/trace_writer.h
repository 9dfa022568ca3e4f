// Writes a trace: one JSON line for each row, layer and op with a digest of the op's result. Two traces are compared by
// (answer, position, layer, op): the first line that differs is where two runs parted.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "model/trace.h"

namespace eadem::api {

class TraceWriter final : public model::TraceSink {
 public:
  // name_of: the answer that the batch's sequence `index` belongs to, e.g. "request-1/0".
  static Result<std::unique_ptr<TraceWriter>> open(const std::filesystem::path& path,
                                                   std::function<std::string(int)> name_of);
  void record(const model::Batch& batch, int row, int layer, std::string_view op,
              std::span<const std::byte> bytes) override;
  // Writes what is held back. Errors: something that was recorded so far is not in the file.
  Result<void> finish();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  std::function<std::string(int)> name_of_;
};

}  // namespace eadem::api
