#include "weights/files.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "weights/message.h"

namespace eadem::weights {

namespace fs = std::filesystem;

Result<PathKind> kind_of_path(const fs::path& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  switch (status.type()) {
    case fs::file_type::not_found: return PathKind::absent;
    case fs::file_type::directory: return PathKind::directory;
    case fs::file_type::regular: return PathKind::file;
    case fs::file_type::none:
      return Error{"cannot read " + path.string() + ": " + fault.message() + ": check the path and its permissions"};
    default:
      return Error{"cannot read " + path.string() +
                   ": it is neither a file nor a directory: name a model file or its directory"};
  }
}

Result<MappedFile> map_file(const fs::path& path) {
  EADEM_ASSIGN_OR_RETURN(const PathKind kind, kind_of_path(path));
  if (kind == PathKind::absent)
    return Error{"cannot open " + path.string() + ": there is no such file: fetch it again"};
  if (kind == PathKind::directory)
    return Error{"cannot read " + path.string() + ": it is a directory, and a file is needed: fetch it again"};
  EADEM_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  if (file.size() == 0) return Error{path.string() + ": is empty (0 bytes): " + std::string(kFetchAgain)};
  return file;
}

Result<std::optional<std::string>> read_text_if_present(const fs::path& path, size_t limit) {
  EADEM_ASSIGN_OR_RETURN(const PathKind kind, kind_of_path(path));
  if (kind == PathKind::absent) return std::optional<std::string>();
  EADEM_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  if (file.size() > limit) {
    return Error{path.string() + ": has " + std::to_string(file.size()) + " bytes, above the limit of " +
                 std::to_string(limit) + " for this file: " + std::string(kDamaged)};
  }
  return std::optional<std::string>(std::in_place, reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

Result<std::vector<std::string>> names_ending_with(const fs::path& directory, std::string_view ending) {
  std::error_code fault;
  std::vector<std::string> names;
  fs::directory_iterator it(directory, fault);
  for (; !fault && it != fs::directory_iterator(); it.increment(fault)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(ending)) names.push_back(name);
  }
  if (fault)
    return Error{"cannot list " + directory.string() + ": " + fault.message() + ": check the path and its permissions"};
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace eadem::weights
