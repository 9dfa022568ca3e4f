#include "text/guide.h"

#include "core/check.h"
#include "text/c_api.h"

namespace eadem::text {

void Guide::Free::operator()(EademGuide* guide) const { eadem_guide_free(guide); }

Result<void> Guide::mask(std::span<uint32_t> allowed) {
  EademBuffer error{};
  if (eadem_guide_mask(handle_.get(), allowed.data(), allowed.size(), &error)) return Error{take(error)};
  return {};
}

Result<void> Guide::accept(uint32_t token) {
  EademBuffer error{};
  if (eadem_guide_accept(handle_.get(), token, &error)) return Error{take(error)};
  return {};
}

bool Guide::finished() const { return eadem_guide_finished(handle_.get()) != 0; }

Result<void> Guide::rollback(size_t count) {
  EademBuffer error{};
  if (eadem_guide_rollback(handle_.get(), count, &error)) return Error{take(error)};
  return {};
}

Guide Guide::fork() const {
  EademGuide* handle = nullptr;
  EademBuffer error{};
  EADEM_CHECK(!eadem_guide_fork(handle_.get(), &handle, &error));
  return Guide(handle);
}

GuideFactory::GuideFactory(EademGuideFactory* handle)
    : handle_(handle, [](EademGuideFactory* f) { eadem_guide_factory_free(f); }) {}

Result<GuideFactory> GuideFactory::make(const Tokenizer& tokenizer, std::span<const uint32_t> ends) {
  EademGuideFactory* handle = nullptr;
  EademBuffer error{};
  if (eadem_guide_factory_new(tokenizer.handle_.get(), ends.data(), ends.size(), &handle, &error)) {
    return Error{take(error)};
  }
  return GuideFactory(handle);
}

Result<Guide> GuideFactory::guide(GuideKind kind, std::string_view text) const {
  EademGuide* handle = nullptr;
  EademBuffer error{};
  if (eadem_guide_new(handle_.get(), static_cast<int>(kind), to_bytes(text), &handle, &error)) {
    return Error{take(error)};
  }
  return Guide(handle);
}

}  // namespace eadem::text
