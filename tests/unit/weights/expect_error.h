// What every refusal must be: an error whose message is one line and has the expected words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace eadem::test {

template <class R>
void expect_error(const R& result, const std::vector<std::string_view>& words) {
  ASSERT_FALSE(result.ok()) << "no error; expected one with '" << (words.empty() ? "" : words[0]) << "'";
  const std::string& message = result.error().message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
  for (const std::string_view word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
}

}  // namespace eadem::test
