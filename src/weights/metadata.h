// What a model file says about itself, as a flat map from key to value: GGUF's key-value pairs, or config.json with
// nested objects joined by dots ("rope_scaling.factor"). Every getter that fails names the key and the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/result.h"

namespace eadem::weights {

// Many strings in two allocations: a vocabulary has hundreds of thousands.
class StringList {
 public:
  void push_back(std::string_view text) {
    characters_ += text;
    ends_.push_back(characters_.size());
  }
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(characters_).substr(begin, ends_[i] - begin);
  }
  bool operator==(const StringList&) const = default;

 private:
  std::string characters_;
  std::vector<size_t> ends_;
};

class Metadata {
 public:
  // Integers are int64_t; uint64_t holds only those beyond its range. An empty array has no element type, and fits
  // every array.
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<bool>, std::vector<int64_t>,
                             std::vector<double>, StringList>;
  using Map = std::map<std::string, Value, std::less<>>;

  Metadata() = default;
  // `file` is the path that messages name.
  explicit Metadata(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  const Map& values() const { return values_; }
  bool empty() const { return values_.empty(); }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  // Whether any key lies below `group`: has_group("rope_scaling") where there is a "rope_scaling.factor".
  bool has_group(std::string_view group) const;

  // The value of a key as T: bool, int64_t, double (an integer fits), std::string, std::vector<bool>,
  // std::vector<int64_t>, std::vector<double> (integers fit) or StringList. A scalar fits an array as its only element
  // ("eos_token_id" may be either). An absent key and another type are errors.
  template <class T>
  Result<T> get(std::string_view key) const;
  // As get, but `otherwise` where the key is absent. A value of another type is still an error.
  template <class T>
  Result<T> get_or(std::string_view key, T otherwise) const {
    if (!has(key)) return otherwise;
    return get<T>(key);
  }
  // The strings of an array without a copy, or null where the key is absent or holds something else.
  const StringList* strings(std::string_view key) const;

  // False where the key exists already.
  bool add(std::string key, Value value) { return values_.emplace(std::move(key), std::move(value)).second; }

 private:
  std::string file_;
  Map values_;
};

}  // namespace eadem::weights
