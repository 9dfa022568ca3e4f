// Zero-filled memory aligned to 64 bytes (a cache line, a 512-bit vector). Allocation failure is an Error, not an
// abort: a model or a KV pool may simply be too large for the machine.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/result.h"

namespace eadem {
namespace detail {

// Gives memory back to whoever it came from: the system's pages, or a device (kernels/device.h).
struct Release {
  void (*release)(void* owner, std::byte* pointer, size_t bytes) = nullptr;
  void* owner = nullptr;
  size_t bytes = 0;
  void operator()(std::byte* pointer) const { release(owner, pointer, bytes); }
};

}  // namespace detail

class Buffer {
 public:
  Buffer() = default;
  // `what` names the memory in the error message, e.g. "the KV pool".
  static Result<Buffer> allocate(size_t bytes, std::string_view what);
  // Takes over memory of another kind, which may not be readable from here (a device's).
  static Buffer adopt(std::byte* pointer, const detail::Release& release);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte, detail::Release> data_;
  size_t size_ = 0;
};

}  // namespace eadem
