// Many tests at once.
#pragma once

#include <span>
#include <vector>

namespace eadem::audit::statistics {

// Adjusted p-values that hold the probability of any false alarm (family-wise error rate) at the level they are
// compared with, whatever the tests' dependence: S. Holm, "A simple sequentially rejective multiple test procedure",
// Scandinavian Journal of Statistics 6 (1979). In the order given.
std::vector<double> holm(std::span<const double> p);

// Adjusted p-values that hold the expected share of false ones among the alarms (false discovery rate), for tests that
// are independent or positively dependent: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate",
// Journal of the Royal Statistical Society B 57 (1995); Benjamini and D. Yekutieli, Annals of Statistics 29 (2001). In
// the order given.
std::vector<double> benjamini_hochberg(std::span<const double> p);

}  // namespace eadem::audit::statistics
