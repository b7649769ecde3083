#pragma once

#include <mailgrad/tensor/device.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace mailgrad::test {

inline constexpr device cpu0{device_kind::cpu, 0};
inline constexpr device cpu1{device_kind::cpu, 1};

/// Fixture of tests that place a model on two devices. They are skipped on a machine that lacks the second,
/// because a device scope requires that its device exists.
class on_two_devices : public testing::Test {
protected:
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  const std::vector<device> two{cpu0, cpu1};
};

} // namespace mailgrad::test
