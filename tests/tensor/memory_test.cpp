#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/memory.hpp>
#include <mailgrad/tests/tensor/late_queue.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::IsEmpty, testing::SizeIs;

/// Where nobody may look on the host.
memory gpu_memory(std::uint32_t gpu, int* freed = nullptr) {
  static float somewhere;
  return memory(device_block({device_kind::cuda, gpu}, &somewhere, sizeof(float), [freed](void*) {
    if (freed) ++*freed;
  }));
}

auto is_refused(const char* words) { return testing::ThrowsMessage<device_error>(words); }

TEST(Memory, OfTheHostIsReadByTheHostAndItsKernels) {
  memory m(block(2 * sizeof(float)));
  m.on_host<float>()[1] = 3;
  EXPECT_TRUE(m.is_on_host());
  EXPECT_EQ(m.bytes(), 8U);
  EXPECT_THAT(m.on<float>(host_stream{}), ElementsAre(0, 3));
  EXPECT_THAT(std::as_const(m).on_host<float>(), ElementsAre(0, 3));
}

TEST(Memory, OfADeviceIsForThatDevicesKernelsAlone) {
  const memory m = gpu_memory(1);
  EXPECT_FALSE(m.is_on_host());
  const char* const on_host = "memory of cuda:1 cannot be read on the host; copy it there first";
  EXPECT_THAT(m.on<float>(cuda_stream{.device = 1}), SizeIs(1));
  EXPECT_THAT([&] { m.on_host<float>(); }, is_refused(on_host));
  EXPECT_THAT([&] { m.on<float>(host_stream{}); }, is_refused(on_host));
  EXPECT_THAT([&] { m.on<float>(cuda_stream{.device = 0}); },
              is_refused("memory of cuda:1 cannot be read by a kernel on cuda:0"));
}

TEST(Memory, OfTheHostIsRefusedToKernelsOfADevice) {
  const memory m(block(8));
  EXPECT_THAT([&] { m.on<float>(cuda_stream{}); },
              is_refused("memory of the host cannot be read by a kernel on cuda:0"));
}

TEST(Memory, OfADeviceIsFreedOnce) {
  int freed = 0;
  {
    memory first = gpu_memory(0, &freed);
    memory second = std::move(first);
    memory third;
    third = std::move(second);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
}

TEST(Snapshot, IsReadableOnceItsEventHasPassed) {
  testing::late_queue queue;
  auto values = std::make_shared<memory>(queue.allocate(sizeof(float)));
  const snapshot s(values, queue.record());
  EXPECT_THAT([&] { s.on_host(); }, is_refused("a snapshot was to be read before it was written"));
  EXPECT_THAT(s.on(queue.where()), SizeIs(1)) << "kernels are queued behind the event";
  queue.run();
  EXPECT_THAT(s.on_host(), ElementsAre(0));
}

TEST(Snapshot, IsNothingByDefault) {
  const snapshot none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_THAT(none.on_host(), IsEmpty());
  EXPECT_THAT(none.on(host_stream{}), IsEmpty());
  EXPECT_TRUE(none.ready().passed());
}

TEST(Snapshot, IsTheSameAsAnotherOfTheSameMemory) {
  const auto values = std::make_shared<const memory>(block(4));
  const snapshot a(values);
  snapshot b = a;
  EXPECT_EQ(a, b);
  b.reset();
  EXPECT_NE(a, b);
}

TEST(HostQueue, RefusesToQueueBehindAnEventThatHasNotPassed) {
  testing::late_queue late;
  const device_event not_yet = late.record();
  host_queue queue;
  EXPECT_THAT([&] { queue.wait_for(not_yet); },
              is_refused("the host waits for no event; hold the work back until it has passed"));
  late.run();
  EXPECT_NO_THROW(queue.wait_for(not_yet));
  EXPECT_NO_THROW(queue.wait_for(device_event()));
}

TEST(HostQueue, HasFinishedWhatItRecords) {
  host_queue queue;
  memory m = queue.allocate(2 * sizeof(float));
  queue.write(std::vector<float>{1, 2}, m);
  EXPECT_TRUE(queue.record().passed());
  EXPECT_THAT(m.on_host<float>(), ElementsAre(1, 2));
}

} // namespace
} // namespace mailgrad
