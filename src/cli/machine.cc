#include "cli/machine.h"

#include "contract/machine.h"

namespace eadem::cli {

nlohmann::ordered_json describe_machine() {
  const contract::Machine machine = contract::this_machine();
  return {{"cpu", machine.cpu_model},
          {"cores", machine.cores},
          {"features", machine.features},
          {"memory_bytes", machine.memory_bytes},
          {"system", machine.os + " " + machine.kernel + " " + machine.architecture}};
}

}  // namespace eadem::cli
