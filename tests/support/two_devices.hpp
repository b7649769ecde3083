#pragma once

#include <mailgrad/tensor/device.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace mailgrad::test {

inline constexpr device cpu0{device_kind::cpu, 0};
inline constexpr device cpu1{device_kind::cpu, 1};

/// For tests that place something on two devices, which scopes ask the machine for.
class on_two_devices : public testing::Test {
protected:
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  const std::vector<device> two{cpu0, cpu1};
};

} // namespace mailgrad::test
