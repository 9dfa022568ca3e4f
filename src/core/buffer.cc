#include "core/buffer.h"

#include <sys/mman.h>

#include <string>

namespace eadem {

Buffer Buffer::adopt(std::byte* pointer, const detail::Release& release) {
  Buffer buffer;
  buffer.data_ = {pointer, release};
  buffer.size_ = release.bytes;
  return buffer;
}

Result<Buffer> Buffer::allocate(size_t bytes, std::string_view what) {
  if (bytes == 0) return Buffer();
  // Anonymous pages arrive zero-filled and take no memory until they are written.
  void* pointer = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) {
    return Error{"cannot allocate " + std::to_string(bytes >> 20) + " MiB for " + std::string(what) +
                 ": use a smaller model, context or pool, or a machine with more memory"};
  }
  ::madvise(pointer, bytes, MADV_HUGEPAGE);  // a hint; refused harmlessly where huge pages are off
  const auto unmap = [](void*, std::byte* p, size_t size) { ::munmap(p, size); };
  return adopt(static_cast<std::byte*>(pointer), {unmap, nullptr, bytes});
}

}  // namespace eadem
