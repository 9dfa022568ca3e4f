#include "audit/statistics/multiple.h"

#include <algorithm>
#include <numeric>

namespace eadem::audit::statistics {
namespace {

std::vector<size_t> ascending(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  return order;
}

}  // namespace

std::vector<double> holm(std::span<const double> p) {
  std::vector<double> adjusted(p.size());
  const std::vector<size_t> order = ascending(p);
  double most = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, p[order[i]] * static_cast<double>(order.size() - i)));
    adjusted[order[i]] = most;
  }
  return adjusted;
}

std::vector<double> benjamini_hochberg(std::span<const double> p) {
  std::vector<double> adjusted(p.size());
  const std::vector<size_t> order = ascending(p);
  double least = 1.0;
  for (size_t i = order.size(); i-- > 0;) {
    least = std::min(least, p[order[i]] * static_cast<double>(order.size()) / static_cast<double>(i + 1));
    adjusted[order[i]] = least;
  }
  return adjusted;
}

}  // namespace eadem::audit::statistics
