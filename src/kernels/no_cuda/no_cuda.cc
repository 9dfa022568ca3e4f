// What a build without CUDA has in place of the backend.
#include "kernels/device.h"

namespace eadem::kernels {

std::string cuda_support() { return std::string("none: ") + EADEM_CUDA_STATE; }

std::string cuda_free_order() { return cuda_support(); }

Result<std::unique_ptr<Device>> open_cuda_device(int, SumOrder) {
  return Error{std::string("this program has no CUDA backend: ") + EADEM_CUDA_STATE};
}

}  // namespace eadem::kernels
