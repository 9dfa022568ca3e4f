#include "core/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "core/check.h"

namespace eadem {
namespace {

// Reading weights page by page of 4 KiB costs a fifth of the memory's rate, so all memory is of huge pages where the
// system has them. Those are 2 MiB and most buffers are not: small ones share slabs.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlab = size_t{64} << 20;
constexpr size_t kSmall = size_t{8} << 20;
constexpr size_t kLine = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Anonymous pages that begin at a huge page, arrive zero-filled and take no memory until they are written; null where
// the system has none.
std::byte* map_pages(size_t bytes) {
  const size_t wanted = bytes + kHugePage;
  void* const all = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(all);
  const size_t before = round_up(address, kHugePage) - address;
  auto* const begin = static_cast<std::byte*>(all) + before;
  const size_t used = round_up(bytes, size_t{4096}), after = wanted - before - used;
  if (before > 0) ::munmap(all, before);
  if (after > 0) ::munmap(begin + used, after);
  ::madvise(begin, used, MADV_HUGEPAGE);  // a hint; refused harmlessly where huge pages are off
  return begin;
}

// Memory from which small buffers are cut, one after the other.
struct Slab {
  std::byte* base = nullptr;
  size_t used = 0, live = 0;  // bytes given out; buffers of them that live
};

std::mutex slab_mutex;
Slab* open_slab = nullptr;  // the one that still has room

// The pages that lie wholly inside go back to the system; those of its neighbours stay.
void release_small(void* owner, std::byte* pointer, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = round_up(reinterpret_cast<uintptr_t>(pointer), kPage);
  const auto end = (reinterpret_cast<uintptr_t>(pointer) + bytes) / kPage * kPage;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  const std::lock_guard lock(slab_mutex);
  auto* const slab = static_cast<Slab*>(owner);
  EADEM_CHECK(slab->live > 0);
  if (--slab->live > 0) return;
  if (slab == open_slab) open_slab = nullptr;
  ::munmap(slab->base, kSlab);
  delete slab;
}

// The next `bytes` of the open slab, or of a new one; null where the system has no memory.
std::byte* take_small(size_t bytes, Slab*& from) {
  const std::lock_guard lock(slab_mutex);
  if (open_slab == nullptr || open_slab->used + bytes > kSlab) {
    std::byte* const base = map_pages(kSlab);
    if (base == nullptr) return nullptr;
    open_slab = new Slab{base, 0, 0};
  }
  std::byte* const pointer = open_slab->base + open_slab->used;
  open_slab->used += round_up(bytes, kLine);
  ++open_slab->live;
  from = open_slab;
  return pointer;
}

}  // namespace

Buffer Buffer::adopt(std::byte* pointer, const detail::Release& release) {
  Buffer buffer;
  buffer.data_ = {pointer, release};
  buffer.size_ = release.bytes;
  return buffer;
}

Result<Buffer> Buffer::allocate(size_t bytes, std::string_view what) {
  if (bytes == 0) return Buffer();
  Slab* slab = nullptr;
  // A size that is no size at all would come out small when it is rounded up.
  const bool possible = bytes < SIZE_MAX / 2;
  std::byte* const pointer = !possible ? nullptr : bytes <= kSmall ? take_small(bytes, slab) : map_pages(bytes);
  if (pointer == nullptr) {
    return Error{"cannot allocate " + std::to_string(bytes >> 20) + " MiB for " + std::string(what) +
                 ": use a smaller model, context or pool, or a machine with more memory"};
  }
  const auto unmap = [](void*, std::byte* p, size_t size) { ::munmap(p, size); };
  return adopt(pointer,
               slab != nullptr ? detail::Release{release_small, slab, bytes} : detail::Release{unmap, nullptr, bytes});
}

}  // namespace eadem
