#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::expect_refused;
using testing::small_model;

device cpu(std::uint32_t index) { return {device_kind::cpu, index}; }

training_options on(std::vector<device> devices, std::uint32_t workers = 0, std::size_t micro_batches = 1) {
  training_options o;
  o.devices = std::move(devices);
  o.workers = workers;
  o.micro_batches = micro_batches;
  return o;
}

TEST(WorkerDevices, AreOneForEachWorkerUnlessWorkersAreFewer) {
  const training_options each = on({cpu(0), cpu(1), cpu(0)});
  EXPECT_EQ(workers_of(each), 3U);
  EXPECT_THAT(devices_of(each, 2), ElementsAre(cpu(0)));
  const training_options spanning = on({cpu(0), cpu(1), cpu(2), cpu(3)}, 2);
  EXPECT_EQ(workers_of(spanning), 2U);
  EXPECT_THAT(devices_of(spanning, 0), ElementsAre(cpu(0), cpu(1)));
  EXPECT_THAT(devices_of(spanning, 1), ElementsAre(cpu(2), cpu(3)));
}

TEST(WorkerDevices, NeedAThreadForEachCore) {
  EXPECT_EQ(thread_count({cpu(0), cpu(0), cpu(3)}), 2U);
  EXPECT_EQ(thread_count({{device_kind::cuda, 0}}), 1U) << "a card is driven by a thread too";
  EXPECT_EQ(thread_count({}), 1U);
}

TEST(WorkerDevices, RefuseWhatCannotBeSharedOut) {
  const auto required = [](training_options o) { return [o] { require_worker_devices(o); }; };
  EXPECT_NO_THROW(require_worker_devices(on({cpu(0), cpu(0)})));
  EXPECT_NO_THROW(require_worker_devices(on({cpu(0), cpu(1)}, 1, 4)));
  expect_refused({
      {"no device", required(on({})), "devices: name at least one"},
      {"three for two", required(on({cpu(0), cpu(1), cpu(2)}, 2)), "3 devices cannot be shared out to 2"},
      {"more workers than devices", required(on({cpu(0)}, 2)), "1 devices cannot be shared out to 2"},
      {"one twice", required(on({cpu(0), cpu(1), cpu(2), cpu(2)}, 2)), "worker 1 would have cpu:2 twice"},
      {"no micro-batches", required(on({cpu(0), cpu(1)}, 1, 0)), "micro-batches: 0"},
      {"micro-batches of one device", required(on({cpu(0)}, 1, 2)), "each worker has one device"},
  });
}

TEST(WorkerDevices, RefuseAModelThatIsPlacedElsewhere) {
  model_request request;
  request.sample_dims = {4};
  request.classes = 3;
  request.devices = {cpu(0), cpu(1)};
  const std::vector<scheduled_policy> async = {{0, {"async", 1}}};
  EXPECT_NO_THROW(require_placed(pipelined(small_model()), request, 2, async));
  const model_function elsewhere = [](graph& g, const model_request& r) {
    model_request three = r;
    three.devices.push_back(cpu(2));
    return pipelined(small_model())(g, three);
  };
  expect_refused({"a third device", [&] { require_placed(elsewhere, request, 1, async); }, "cpu:2"});
}

} // namespace
} // namespace mailgrad
