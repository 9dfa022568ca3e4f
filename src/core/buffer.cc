#include "core/buffer.h"

#include <sys/mman.h>

#include <string>

namespace eadem {

void detail::Unmap::operator()(std::byte* pointer) const { ::munmap(pointer, bytes); }

Result<Buffer> Buffer::allocate(size_t bytes, std::string_view what) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  // Anonymous pages arrive zero-filled and take no memory until they are written.
  void* pointer = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) {
    return Error{"cannot allocate " + std::to_string(bytes >> 20) + " MiB for " + std::string(what) +
                 ": use a smaller model, context or pool, or a machine with more memory"};
  }
  ::madvise(pointer, bytes, MADV_HUGEPAGE);  // a hint; refused harmlessly where huge pages are off
  buffer.data_ = {static_cast<std::byte*>(pointer), detail::Unmap{bytes}};
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace eadem
