// Which tile the wgmma kernels take: a function of the shape, the rows and the number of processors.
#pragma once

namespace eadem::kernels::cuda {

struct WgmmaPlan {
  int columns = 0;     // outputs of a tile
  bool split = false;  // two blocks of a cluster take half of the shards each
  int rows = 128;      // of a tile: 128, or 64
};

WgmmaPlan plan_wgmma(int n, int rows, int shards, int processors);

}  // namespace eadem::kernels::cuda
