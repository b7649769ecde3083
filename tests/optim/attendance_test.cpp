#include <mailgrad/optim/policies/attendance.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

/// What a barrier waits for, found out from all workers anew at each step.
struct roll {
  std::vector<bool> present, arrived;
  std::size_t expected() const {
    std::size_t all = 0;
    for (std::size_t r = 0; r < present.size(); ++r) all += present[r] || arrived[r] ? 1 : 0;
    return all;
  }
};

TEST(Attendance, CountsAsALookAtAllWorkersWould) {
  constexpr std::uint32_t workers = 5;
  attendance a;
  roll all{std::vector<bool>(workers), std::vector<bool>(workers)};
  std::vector<bool> joins(workers);
  std::mt19937_64 random(2);
  for (int i = 0; i < 5'000; ++i) {
    const auto r = static_cast<std::uint32_t>(random() % workers);
    switch (random() % 6) {
    case 0:
      a.leave({r});
      all.present[r] = joins[r] = false;
      break;
    case 1:
      a.join({r});
      all.present[r] = true;
      break;
    case 2:
      if (a.arrived() > 0) joins[r] = true;
      if (a.arrived() == 0) all.present[r] = true;
      a.join_next_batch({r});
      break;
    case 3:
      a.batch_applied();
      for (std::uint32_t w = 0; w < workers; ++w) {
        all.present[w] = all.present[w] || joins[w];
        all.arrived[w] = joins[w] = false;
      }
      break;
    default:
      if (!a.awaited({r})) break;
      a.arrive({r});
      all.arrived[r] = true;
    }
    for (std::uint32_t w = 0; w < workers; ++w)
      ASSERT_EQ(a.awaited({w}), all.present[w] && !all.arrived[w]) << "worker " << w << " at " << i;
    ASSERT_EQ(a.expected(), all.expected()) << i;
    ASSERT_EQ(a.arrived(), static_cast<std::size_t>(std::ranges::count(all.arrived, true))) << i;
  }
}

} // namespace
} // namespace mailgrad
