#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <functional>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_features;
using testing::small_model;
using namespace ::testing;

device cpu(std::uint32_t index) { return {device_kind::cpu, index}; }

training_options on(std::vector<device> devices, std::uint32_t workers = 0, std::size_t micro_batches = 1,
                    std::uint32_t slots = 0) {
  return {.devices = std::move(devices), .workers = workers, .slots = slots, .micro_batches = micro_batches};
}

model_request on_two() {
  model_request request;
  request.sample_dims = {small_features};
  request.classes = testing::small_classes;
  request.devices = {cpu(0), cpu(1)};
  return request;
}

const std::vector<scheduled_policy> async = {{0, {"async", 1}}};

TEST(WorkerDevices, AreOneForEachWorkerUnlessWorkersAreFewer) {
  const training_options each = on({cpu(0), cpu(1), cpu(0)});
  EXPECT_EQ(workers_of(each), 3U);
  EXPECT_EQ(slots_of(each), 3U);
  EXPECT_THAT(devices_of(each, 2), ElementsAre(cpu(0)));
  const training_options spanning = on({cpu(0), cpu(1), cpu(2), cpu(3)}, 2);
  EXPECT_EQ(workers_of(spanning), 2U);
  EXPECT_THAT(devices_of(spanning, 0), ElementsAre(cpu(0), cpu(1)));
  EXPECT_THAT(devices_of(spanning, 1), ElementsAre(cpu(2), cpu(3)));
  const training_options later = on({cpu(0), cpu(1)}, 0, 1, 5);
  EXPECT_EQ(workers_of(later), 2U);
  EXPECT_EQ(slots_of(later), 5U);
  EXPECT_THAT(devices_of(later, 3), ElementsAre(cpu(1))) << "who joins later has those of another";
}

TEST(WorkerDevices, NeedAThreadForEachCoreAndStreamAndOneForUpdates) {
  EXPECT_EQ(thread_count({cpu(0), cpu(0), cpu(3)}), 2U);
  EXPECT_EQ(thread_count({}), 1U);
  EXPECT_EQ(thread_count(std::vector(5, cpu(0))), 1U);
  const std::size_t present = cores_of_process().count();
  const auto stream = [](std::uint32_t gpu, std::uint32_t number) {
    return device{device_kind::cuda, gpu, number};
  };
  EXPECT_EQ(thread_count({stream(0, 0)}), std::min<std::size_t>(2, present));
  EXPECT_EQ(thread_count({stream(0, 0), stream(0, 0)}), std::min<std::size_t>(2, present)) << "one stream";
  EXPECT_EQ(thread_count({stream(0, 0), stream(0, 1), stream(1, 0)}), std::min<std::size_t>(4, present));
  EXPECT_EQ(thread_count({stream(0, 0), cpu(0)}), std::min<std::size_t>(3, present));
}

TEST(WorkerDevices, RefuseWhatCannotBeSharedOut) {
  const auto required = [](const training_options& o) { return [o] { require_worker_devices(o); }; };
  EXPECT_NO_THROW(required(on({cpu(0), cpu(0)}))());
  EXPECT_NO_THROW(required(on({cpu(0), cpu(1)}, 1, 4))());
  EXPECT_NO_THROW(required(on({cpu(0), cpu(1), cpu(0), cpu(1)}, 2))()) << "two workers may share a device";
  expect_refused({
      {"no device", required(on({})), "devices: name at least one"},
      {"three for two", required(on({cpu(0), cpu(1), cpu(2)}, 2)), "3 devices cannot be shared out to 2"},
      {"more workers than devices", required(on({cpu(0)}, 2)), "1 devices cannot be shared out to 2"},
      {"one twice", required(on({cpu(0), cpu(1), cpu(2), cpu(2)}, 2)), "worker 1 would have cpu:2 twice"},
      {"one twice, for the first worker", required(on({cpu(1), cpu(0), cpu(1), cpu(0), cpu(2), cpu(3)}, 2)),
       "worker 0 would have cpu:1 twice"},
      {"fewer slots than workers", required(on({cpu(0), cpu(1)}, 0, 1, 1)), "slots: 1 for 2 workers"},
      {"no micro-batches", required(on({cpu(0), cpu(1)}, 1, 0)), "micro-batches: 0"},
      {"micro-batches of one device", required(on({cpu(0)}, 1, 2)), "each worker has one device"},
  });
}

TEST(WorkerDevices, RefuseAModelThatIsPlacedElsewhere) {
  const model_request request = on_two();
  EXPECT_NO_THROW(require_placed(pipelined(small_model()), request, 2, async));
  const model_function elsewhere = [](graph& g, const model_request& r) {
    model_request three = r;
    three.devices.push_back(cpu(2));
    return pipelined(small_model())(g, three);
  };
  expect_refused({"a third device", [&] { require_placed(elsewhere, request, 1, async); }, "cpu:2"});
}

/// A model whose first and last layer lie on the first device, and whose second layer lies on the other one.
model_outputs there_and_back(graph& g, const model_request& r) {
  value x = g.input("features", {r.batch, small_features});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  for (const std::size_t layer : {0U, 1U, 2U}) {
    const device_scope scope(g, r.devices[layer % 2]);
    x = dense(x, r.classes, "layer" + std::to_string(layer), activation::tanh);
  }
  return {x, cross_entropy(x, labels)};
}

/// A model with a variable that both devices read.
model_outputs with_a_shared_layer(graph& g, const model_request& r) {
  value x = g.input("features", {r.batch, small_features});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  for (const device d : r.devices) {
    const device_scope scope(g, d);
    x = dense(x, small_features, "shared", activation::tanh);
  }
  x = dense(x, r.classes, "last");
  return {x, cross_entropy(x, labels)};
}

TEST(WorkerDevices, RefuseAStageThatWaitsForItselfOnlyWithMicroBatches) {
  EXPECT_NO_THROW(require_placed(there_and_back, on_two(), 1, async));
  EXPECT_THROW(require_placed(there_and_back, on_two(), 2, async), graph_error);
}

TEST(WorkerDevices, RefuseAVariableOfTwoDevicesOnlyUnderHogwild) {
  const std::vector<scheduled_policy> later = {{0, {"async", 1}}, {9, {"hogwild", 1}}};
  EXPECT_NO_THROW(require_placed(with_a_shared_layer, on_two(), 2, async));
  EXPECT_THAT([&] { require_placed(with_a_shared_layer, on_two(), 1, later); },
              ThrowsMessage<graph_error>(HasSubstr("variable 'shared/weights'")));
}

} // namespace
} // namespace mailgrad
