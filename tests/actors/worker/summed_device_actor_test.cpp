#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A device actor that adds its gradients to those of worker 2. Workers 0 and 1 have left the sums.
class SummedDeviceActor : public DeviceActor {
protected:
  SummedDeviceActor() {
    for (const std::size_t gone : {0, 1}) all_.join(gone).reset();
    sums_ = all_.join(3);
  }

  void let_the_other_add() {
    numbers_.resize(layout_->dense_size());
    other_->add(numbers_, {}, [](const auto&) {});
    run();
  }
  std::uint64_t sums_made() const { return all_.rounds(); }

private:
  net::played_sums all_{4};
  std::shared_ptr<net::all_reduce> other_ = all_.join(2);
  std::vector<float> numbers_;
};

TEST_F(SummedDeviceActor, PushesAndGoesOnWhenTheSumOfAllWorkersIsThere) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  let_the_other_add();
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_EQ(pushed_to(0)[0].header.sum->carrier, rank{2});
  EXPECT_EQ(sums_made(), 1U);
  give_all_weights(1);
  let_the_other_add();
  EXPECT_THAT(pushed_to(0), SizeIs(2));
}

TEST_F(SummedDeviceActor, LeavesTheSumOfAllWorkersAtOnceWhenItGivesUp) {
  late_.emplace(1);
  begin();
  give_all_weights(0);
  give_batch();
  let_the_other_add();
  EXPECT_EQ(sums_made(), 0U);
  tell(device_, give_up{});
  EXPECT_EQ(sums_made(), 1U) << "others need not wait until its step has ended";
  end_a_late_step();
}

} // namespace
} // namespace mailgrad
