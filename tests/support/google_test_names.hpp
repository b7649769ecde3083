#pragma once

#include <gmock/gmock.h>

/// mailgrad::testing has helpers of these tests. Within mailgrad, testing::Each is then that of GoogleTest
/// all the same, also where several tests are compiled as one and some of them include such helpers.
namespace mailgrad::testing {
using namespace ::testing;
}
