// Which tile the wgmma kernels take: a function of the shape, the rows and the number of processors.
#pragma once

namespace eadem::kernels::cuda {

// What two blocks of a cluster load together, half each, for both.
enum class WgmmaShare {
  kNothing,
  kWeights,  // their tiles lie one below the other
  kRows,     // their tiles lie side by side
};

struct WgmmaPlan {
  int columns = 0;     // outputs of a tile; its rows are 128
  bool split = false;  // two blocks of a cluster take half of the shards each (and share nothing)
  WgmmaShare share = WgmmaShare::kNothing;
};

WgmmaPlan plan_wgmma(int n, int rows, int shards, int processors);

}  // namespace eadem::kernels::cuda
