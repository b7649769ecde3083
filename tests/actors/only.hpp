#pragma once

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace mailgrad::testing {

/// What such a list has. Fails the test if that is more, and ends it if there is nothing.
template <class T>
const T& only(const std::vector<T>& all) {
  EXPECT_THAT(all, ::testing::SizeIs(1));
  return all.at(0);
}
template <class T>
T only(std::vector<T>&& all) {
  EXPECT_THAT(all, ::testing::SizeIs(1));
  return std::move(all.at(0));
}

} // namespace mailgrad::testing
