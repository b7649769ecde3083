#include <mailgrad/engine/plan/training_options.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(WorkerComputers, AreCoresByTheirHost) {
  EXPECT_EQ(computer_of({{device_kind::cpu, 0}, {device_kind::cpu, 1}}),
            (worker_computer{"the host and the host", ""}));
}

TEST(WorkerComputers, AreNamedByWorkerAndMultiplyByEachVersionOnce) {
  const worker_computer host{"the host"}, old_gpu{"B100", "cuBLAS 13.0.0"}, new_gpu{"B100", "cuBLAS 13.1.0"};
  EXPECT_EQ(format_names({old_gpu, host, new_gpu}), "B100, the host, B100");
  EXPECT_EQ(format_products({old_gpu, host, new_gpu, old_gpu}), "cuBLAS 13.0.0, cuBLAS 13.1.0");
  EXPECT_EQ(format_products({host}), "none");
  EXPECT_TRUE(any_has_gpu({host, old_gpu}));
  EXPECT_FALSE(any_has_gpu({host, host}));
}

} // namespace
} // namespace mailgrad
