#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/instructions.hpp>

#include <numeric>

// How the threads of a block run. Of kernels that lack a barrier or a wait, or have one too many, the
// simulated GPU finds each.
namespace mailgrad {
namespace {

using simulated_gpu::all_schedules, simulated_gpu::reach;
using testing::AllOf, testing::Contains, testing::Each, testing::ElementsAre, testing::HasSubstr,
    testing::IsNan, testing::at_line, testing::counted, testing::gpu_array, testing::stream_of;

/// Each thread notes when its turn came, before and after a barrier of its warp.
__global__ void note_turns(unsigned* turn, unsigned* before, unsigned* after) {
  before[cuda::grid_thread()] = atomicAdd(turn, 1U);
  __syncwarp();
  after[cuda::grid_thread()] = atomicAdd(turn, 1U);
}

class Schedules : public testing::simulator_test {
protected:
  struct turns {
    std::vector<unsigned> before, after;
  };
  static turns turns_in(const simulated_gpu::schedule& order) {
    run_in(order);
    cuda::gpu_queue queue(0);
    const gpu_array<unsigned> turn(queue, std::vector<unsigned>{0}), before(queue, 64), after(queue, 64);
    cuda::launch(stream_of(queue), "turns", 1, 64, 0, note_turns, turn.data(), before.data(), after.data());
    return {before.read(), after.read()};
  }
};

std::vector<unsigned> counted_from(unsigned first) {
  std::vector<unsigned> all(64);
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST_F(Schedules, RunEveryThreadToItsBarrierBeforeOneGoesOn) {
  using enum simulated_gpu::thread_order;
  const turns forwards = turns_in({forward, reach::breadth_first});
  EXPECT_EQ(forwards.before, counted_from(0));
  EXPECT_EQ(forwards.after, counted_from(64));
  const turns backwards = turns_in({backward, reach::breadth_first});
  EXPECT_EQ(backwards.before[63], 0U);
  EXPECT_EQ(backwards.before[0], 63U);
}

TEST_F(Schedules, OrRunOneWarpAsFarAsItGets) {
  using enum simulated_gpu::thread_order;
  const turns forwards = turns_in({forward, reach::one_warp_far});
  EXPECT_EQ(forwards.before[31], 31U);
  EXPECT_EQ(forwards.after[31], 63U);
  EXPECT_EQ(forwards.before[32], 64U);
  const turns backwards = turns_in({backward, reach::one_warp_far});
  EXPECT_EQ(backwards.before[63], 0U);
  EXPECT_EQ(backwards.after[32], 63U);
  EXPECT_EQ(backwards.before[31], 64U);
}

TEST_F(Schedules, ShuffleByASeed) {
  using enum simulated_gpu::thread_order;
  const auto shuffled_by = [](unsigned seed) {
    return turns_in({shuffled, reach::breadth_first, seed}).before;
  };
  EXPECT_EQ(shuffled_by(1), shuffled_by(1));
  EXPECT_NE(shuffled_by(1), shuffled_by(2));
  EXPECT_NE(shuffled_by(1), counted_from(0));
}

__global__ void note_block(unsigned* turn, unsigned* turns) { turns[blockIdx.x] = atomicAdd(turn, 1U); }

TEST_F(Schedules, OrderBlocksToo) {
  run_in({simulated_gpu::thread_order::backward, reach::breadth_first});
  cuda::gpu_queue queue(0);
  const gpu_array<unsigned> turn(queue, std::vector<unsigned>{0}), noted(queue, 4);
  cuda::launch(stream_of(queue), "blocks", 4, 1, 0, note_block, turn.data(), noted.data());
  EXPECT_THAT(noted.read(), ElementsAre(3, 2, 1, 0));
}

class Warps : public testing::simulator_test {
protected:
  /// What each thread of a block writes.
  static std::vector<unsigned> values_of(void (*kernel)(unsigned*), unsigned threads = 64) {
    cuda::gpu_queue queue(0);
    const gpu_array<unsigned> y(queue, threads);
    cuda::launch(stream_of(queue), "warps", 1, threads, 0, kernel, y.data());
    return y.read();
  }
};

__global__ void shuffle_up_and_down(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __shfl_up_sync(all, t, 1) + 100 * __shfl_down_sync(all, t, 1) + 10000 * __shfl_xor_sync(all, t, 16);
}

TEST_F(Warps, ShuffleUpDownAndAcross) {
  for (const auto& order : all_schedules) {
    run_in(order);
    const auto y = values_of(shuffle_up_and_down);
    for (unsigned t = 0; t < y.size(); ++t) {
      const unsigned up = t % 32 == 0 ? t : t - 1, down = t % 32 == 31 ? t : t + 1;
      EXPECT_EQ(y[t], up + 100 * down + 10000 * (t ^ 16U)) << t;
    }
  }
}

__global__ void shuffle_in_eights(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __shfl_sync(all, t, 3, 8) + 100 * __shfl_down_sync(all, t, 4, 8);
}

TEST_F(Warps, ShuffleWithinAWidth) {
  const auto y = values_of(shuffle_in_eights);
  for (unsigned t = 0; t < y.size(); ++t) EXPECT_EQ(y[t], t / 8 * 8 + 3 + 100 * (t % 8 < 4 ? t + 4 : t)) << t;
}

__global__ void vote(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __ballot_sync(all, t % 32 < 3);
  y[t] += 100U * static_cast<unsigned>(__any_sync(all, t == 40)) +
          1000U * static_cast<unsigned>(__all_sync(all, t < 32));
}

TEST_F(Warps, Vote) {
  const auto y = values_of(vote);
  EXPECT_EQ(y[0], 7U + 1000U);
  EXPECT_EQ(y[63], 7U + 100U);
}

__global__ void halves_apart(unsigned* y) {
  const unsigned t = threadIdx.x, mask = t % 32 < 16 ? 0x0000ffffU : 0xffff0000U;
  if (t % 32 < 16)
    y[t] = __shfl_xor_sync(mask, t, 8);
  else
    y[t] = __shfl_xor_sync(mask, t, 1);
}

TEST_F(Warps, MeetInPartsThatNameThemselves) {
  for (const auto& order : all_schedules) {
    run_in(order);
    const auto y = values_of(halves_apart);
    for (unsigned t = 0; t < y.size(); ++t) EXPECT_EQ(y[t], t % 32 < 16 ? t ^ 8U : t ^ 1U) << t;
  }
}

constexpr unsigned half_line = __LINE__ + 2;
__global__ void half_comes(unsigned* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffU, threadIdx.x, 1);
}

TEST_F(Warps, NameWhoWaitsForLanesThatHaveEnded) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(refusal([] { values_of(half_comes); }),
                AllOf(HasSubstr("kernel warps: thread ("), HasSubstr(at_line(half_line))));
  }
}

__global__ void short_warp(unsigned* y) { y[threadIdx.x] = __shfl_down_sync(0xffffffffU, threadIdx.x, 8); }

TEST_F(Warps, NameWhoReadsFromALaneThatIsNotThere) {
  EXPECT_THAT(refusal([] { values_of(short_warp, 40); }), HasSubstr("from lane 8, which it has not met"));
  run_in({});
  EXPECT_EQ(refusal([] { values_of(short_warp, 64); }), "");
}

__global__ void some_at_a_barrier(unsigned* y) {
  if (threadIdx.x == 0)
    __syncwarp();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

TEST_F(Warps, NameWhoWaitsForEver) {
  EXPECT_THAT(refusal([] { values_of(some_at_a_barrier); }),
              AllOf(HasSubstr("thread (0, 0, 0) of block (0, 0, 0) waits for ever at "),
                    HasSubstr(", thread (1, 0, 0) of block (0, 0, 0) waits for ever at ")));
}

class Barriers : public testing::simulator_test {
protected:
  static constexpr unsigned threads = 64;

  /// What the kernel writes for so many rows, with shared memory for one.
  static std::vector<float> result_of(void (*kernel)(const float*, float*), std::size_t rows) {
    cuda::gpu_queue queue(0);
    const gpu_array<float> from(queue, counted(rows * threads)), to(queue, rows * threads);
    cuda::launch(stream_of(queue), "rows", 1, threads, threads * sizeof(float), kernel, from.data(),
                 to.data());
    return to.read();
  }
  static std::string complaint_about(void (*kernel)(float*)) {
    return refusal([&] {
      cuda::gpu_queue queue(0);
      const gpu_array<float> y(queue, threads);
      cuda::launch(stream_of(queue), "wrong", 1, threads, 0, kernel, y.data());
      queue.finish();
    });
  }
  /// So many rows of counted numbers, each turned around.
  static std::vector<float> reversed(unsigned rows) {
    std::vector<float> all = counted(rows * threads);
    for (auto row = all.begin(); row != all.end(); row += threads) std::reverse(row, row + threads);
    return all;
  }
  static std::vector<float> summed_rows() {
    std::vector<float> sums(threads, 64 * 31.5F);
    sums.insert(sums.end(), threads, 64 * (64 + 31.5F));
    return sums;
  }
};

/// Turns the values of a block around.
template <bool with_barrier>
__global__ void reverse(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  workspace[threadIdx.x] = x[threadIdx.x];
  if constexpr (with_barrier) __syncthreads();
  y[threadIdx.x] = workspace[blockDim.x - 1 - threadIdx.x];
}

/// Sums two rows, one after the other, in the same shared memory.
template <bool with_barrier>
__global__ void sum_two(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  for (unsigned row = 0; row < 2; ++row) {
    const float part = cuda::warp_sum(x[row * blockDim.x + threadIdx.x]);
    if constexpr (with_barrier) __syncthreads();
    if (threadIdx.x % 32 == 0) workspace[threadIdx.x / 32] = part;
    __syncthreads();
    y[row * blockDim.x + threadIdx.x] = workspace[0] + workspace[1];
  }
}

TEST_F(Barriers, LetRightKernelsBeRightInEverySchedule) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(reverse<true>, 1), reversed(1));
    EXPECT_EQ(result_of(sum_two<true>, 2), summed_rows());
  }
}

TEST_F(Barriers, AreMissedInEverySchedule) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as Races show";
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(result_of(reverse<false>, 1), Contains(IsNan())) << "what nobody wrote to is not-a-number";
  }
}

/// Breadth first, all threads have read before one writes again: only these schedules show it.
TEST_F(Barriers, AreMissedBeforeReuseWhereOneWarpGetsFar) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as Races show";
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(sum_two<false>, 2) == summed_rows(), order.far == reach::breadth_first);
  }
}

constexpr unsigned divergent_line = __LINE__ + 4;
__global__ void divergent(float* y) {
  y[threadIdx.x] = 1;
  if (threadIdx.x < 32) {
    __syncthreads();
    y[threadIdx.x] = 2;
  }
}

constexpr unsigned first_line = __LINE__ + 3, second_line = first_line + 2;
__global__ void two_places(float* y) {
  if (threadIdx.x % 2 == 0) // NOLINT(bugprone-branch-clone): two barriers, not one
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

TEST_F(Barriers, InADivergentBranchAreNamedByFileAndLine) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(complaint_about(divergent),
                AllOf(HasSubstr("kernel wrong: thread ("), HasSubstr(" of block (0, 0, 0) "),
                      HasSubstr(at_line(divergent_line)), HasSubstr("ended without")));
  }
}

TEST_F(Barriers, AtTwoPlacesAreNamedBoth) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(complaint_about(two_places),
                AllOf(HasSubstr(at_line(first_line)), HasSubstr(at_line(second_line))));
  }
}

/// After such a fault every call says it, as on a GPU.
TEST_F(Barriers, ThatWentWrongFailTheGpu) {
  EXPECT_NE(complaint_about(divergent), "");
  EXPECT_THAT(refusal([] { cuda::gpu_queue queue(0); }), HasSubstr("ended without"));
  run_in({});
  EXPECT_EQ(refusal([] { cuda::gpu_queue queue(0); }), "");
}

__global__ void count_votes(int* y) {
  y[threadIdx.x] = __syncthreads_count(threadIdx.x < 7);
  y[threadIdx.x] += 100 * __syncthreads_or(threadIdx.x == 5) + 1000 * __syncthreads_and(threadIdx.x < 63);
}

TEST_F(Barriers, CountVotes) {
  cuda::gpu_queue queue(0);
  const gpu_array<int> y(queue, threads);
  cuda::launch(stream_of(queue), "votes", 1, threads, 0, count_votes, y.data());
  EXPECT_EQ(y.read(), std::vector<int>(threads, 107));
}

using LaterCopies = Barriers;

/// Turns the values of each row around, row after row in the same shared memory.
enum class fault : std::uint8_t { none, reads_too_early, copies_too_early };
template <fault f>
__global__ void reverse_two(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  for (unsigned row = 0; row < 2; ++row) {
    if (f != fault::copies_too_early) __syncthreads(); // the row before may still be read
    cuda::copy_later<4>(workspace + threadIdx.x, x + row * blockDim.x + threadIdx.x, true);
    if (f != fault::reads_too_early) cuda::wait_for_copies();
    __syncthreads();
    y[row * blockDim.x + threadIdx.x] = workspace[blockDim.x - 1 - threadIdx.x];
    if (f == fault::reads_too_early) {
      __syncthreads();
      cuda::wait_for_copies();
    }
  }
}

TEST_F(LaterCopies, ArriveWhereTheyAreWaitedFor) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(reverse_two<fault::none>, 2), reversed(2));
  }
}

TEST_F(LaterCopies, AreNotThereBefore) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far == reach::one_warp_far) continue; // in which they come at once
    run_in(order);
    EXPECT_THAT(result_of(reverse_two<fault::reads_too_early>, 2), Contains(IsNan()));
  }
}

TEST_F(LaterCopies, MayComeAtOnceOverWhatIsStillRead) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far != reach::one_warp_far) continue;
    run_in(order);
    EXPECT_NE(result_of(reverse_two<fault::copies_too_early>, 2), reversed(2));
  }
}

__global__ void copy_none(float* y) {
  float* const workspace = cuda::shared_memory<float>();
  cuda::copy_later<16>(workspace + 4 * threadIdx.x, nullptr, false);
  cuda::wait_for_copies();
  y[threadIdx.x] = workspace[4 * threadIdx.x + 3];
}

TEST_F(LaterCopies, OfNothingStoreZerosAndReadNothing) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, threads);
  cuda::launch(stream_of(queue), "none", 1, threads, 16 * threads, copy_none, y.data());
  EXPECT_THAT(y.read(), Each(0));
}

constexpr unsigned forgotten_line = __LINE__ + 2;
__global__ void forget(const float* x) {
  cuda::copy_later<4>(cuda::shared_memory<float>() + threadIdx.x, x + threadIdx.x, true);
}

TEST_F(LaterCopies, OfAThreadThatEndsAreFoundByLine) {
  const auto run = [] {
    cuda::gpu_queue queue(0);
    const gpu_array<float> x(queue, counted(threads));
    cuda::launch(stream_of(queue), "forget", 1, threads, threads * sizeof(float), forget, x.data());
    queue.finish();
  };
  EXPECT_THAT(refusal(run), AllOf(HasSubstr("kernel forget: thread ("),
                                  HasSubstr("has ended without waiting for its copy of"),
                                  HasSubstr(at_line(forgotten_line))));
}

} // namespace
} // namespace mailgrad
