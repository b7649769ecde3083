#include <mailgrad/net/memory/shared_heap.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/memory/peer_memory.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

byte_view view_of(const block& b) { return {b.data(), b.bytes()}; }

descriptor memory_of(const shared_heap& heap) { return descriptor(fcntl(heap.memory(), F_DUPFD_CLOEXEC, 0)); }

bool is_of(const block& b, float value) {
  return std::ranges::all_of(b.as<float>(), [value](float f) { return f == value; });
}

TEST(SharedHeap, GivesZeroedBlocksOfWholeCacheLines) {
  shared_heap heap;
  for (int round = 0; round < 2; ++round) { // the second takes what the first has given back
    block b = heap.allocate(4096 * sizeof(float));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % block::alignment, 0U);
    EXPECT_TRUE(is_of(b, 0));
    std::ranges::fill(b.as<float>(), 7.0F);
  }
  EXPECT_EQ(heap.allocate(0).bytes(), 0U);
}

TEST(SharedHeap, LetsAPeerReadWhatItLends) {
  shared_heap heap;
  const block other = heap.allocate(100);
  block b = heap.allocate(64 * sizeof(float));
  b.as<float>()[5] = 3.5F;
  const auto lent = heap.lend(view_of(b).subspan(5 * sizeof(float), sizeof(float)));
  ASSERT_TRUE(lent);
  far_heap far(memory_of(heap));
  const borrowed found = far.view(lent->what);
  EXPECT_EQ(*reinterpret_cast<const float*>(found.bytes.data()), 3.5F);
  EXPECT_EQ(found.block.size(), b.bytes());
  EXPECT_EQ(found.bytes.data() - found.block.data(), std::ptrdiff_t{5 * sizeof(float)});
  b.as<float>()[5] = 4.5F;
  EXPECT_EQ(*reinterpret_cast<const float*>(found.bytes.data()), 4.5F) << "it is the same memory";
}

TEST(SharedHeap, StaysReadableWhenItIsGone) {
  std::optional<shared_heap> heap(std::in_place);
  std::optional<block> b = heap->allocate(sizeof(float));
  b->as<float>()[0] = 2.5F;
  const auto lent = heap->lend(view_of(*b));
  far_heap far(memory_of(*heap));
  const borrowed found = far.view(lent->what);
  heap.reset();
  b.reset();
  EXPECT_EQ(*reinterpret_cast<const float*>(found.bytes.data()), 2.5F);
}

/// Bytes around `at` that the system has in the view of this process.
std::size_t resident_at(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      is_here = begin <= reinterpret_cast<std::uintptr_t>(at) && reinterpret_cast<std::uintptr_t>(at) < end;
    std::size_t kib = 0;
    if (is_here && std::sscanf(line.c_str(), "Rss: %zu kB", &kib) == 1) return kib << 10;
  }
  return 0;
}

TEST(SharedHeap, LeavesTheViewOfAPeerThatSeesMuchOfOthers) {
  constexpr std::size_t size = 1 << 20;
  shared_heap heap;
  block b = heap.allocate(size);
  std::ranges::fill(b.as<float>(), 3.0F);
  const auto lent = heap.lend(view_of(b));
  ASSERT_TRUE(lent);
  for (const std::uint64_t most : {size, size - 1}) {
    far_heap far(memory_of(heap), std::make_shared<far_pages>(most));
    std::optional<borrowed> found = far.view(lent->what);
    const byte_view bytes = found->bytes;
    const auto is_right = [&] { return std::memcmp(bytes.data(), b.data(), size) == 0; };
    EXPECT_TRUE(is_right());
    EXPECT_GE(resident_at(bytes.data()), size);
    found.reset();
    if (most >= size)
      EXPECT_GE(resident_at(bytes.data()), size) << "a few peers cost nothing";
    else
      EXPECT_LT(resident_at(bytes.data()), size / 2);
    EXPECT_TRUE(is_right()) << "it comes back";
  }
}

TEST(SharedHeap, IsFollowedByAPeerWhenItGrows) {
  shared_heap heap;
  const block small = heap.allocate(8);
  far_heap far(memory_of(heap));
  const borrowed before = far.view(heap.lend(view_of(small))->what);
  block large = heap.allocate(8 << 20);
  large.as<float>().back() = 1.5F;
  const borrowed after = far.view(heap.lend(view_of(large))->what);
  EXPECT_EQ(reinterpret_cast<const float*>(after.bytes.data() + after.bytes.size())[-1], 1.5F);
  EXPECT_EQ(before.bytes.front(), std::byte{0}) << "what was mapped before is still there";
}

/// The system may map a block where another thread has just given one back.
TEST(SharedHeap, KnowsItsBlocksWhileOthersAreGivenBack) {
  shared_heap heap({.most_lent = 1 << 30});
  std::atomic<int> unknown{0};
  const auto take_and_give = [&] {
    for (int i = 0; i < 20'000; ++i) {
      const block b = heap.allocate(100);
      unknown += heap.lend(view_of(b)) ? 0 : 1;
    }
  };
  std::thread other(take_and_give);
  take_and_give();
  other.join();
  EXPECT_EQ(unknown, 0);
}

TEST(SharedHeap, LendsNothingThatLiesElsewhere) {
  shared_heap heap;
  const block b = heap.allocate(100), elsewhere(100);
  EXPECT_FALSE(heap.lend(view_of(elsewhere)));
  EXPECT_FALSE(heap.lend({b.data() - 1, 2}));
  EXPECT_FALSE(heap.lend({b.data(), 101}));
  EXPECT_FALSE(heap.lend({b.data(), 0}));
  EXPECT_TRUE(heap.lend({b.data() + 99, 1}));
}

TEST(SharedHeap, LendsNoMoreThanItsLimitButTwoBlocksAlways) {
  shared_heap heap({.most_lent = 250});
  const block a = heap.allocate(100), b = heap.allocate(100), c = heap.allocate(100);
  auto lent_a = heap.lend(view_of(a));
  const auto lent_b = heap.lend(view_of(b));
  EXPECT_TRUE(lent_a && lent_b);
  EXPECT_FALSE(heap.lend(view_of(c)));
  auto again = heap.lend(view_of(a));
  EXPECT_TRUE(again) << "what is lent already costs nothing more";
  lent_a.reset();
  EXPECT_FALSE(heap.lend(view_of(c))) << "it is still lent to another";
  again.reset();
  EXPECT_TRUE(heap.lend(view_of(c)));
  shared_heap poor({.most_lent = 0});
  const block d = poor.allocate(100), e = poor.allocate(100);
  const auto lent_d = poor.lend(view_of(d));
  EXPECT_TRUE(lent_d);
  EXPECT_TRUE(poor.lend(view_of(e)));
}

TEST(SharedHeap, KeepsWhatWasLentWhenASessionEnded) {
  shared_heap forever({.kept = std::nullopt}), for_no_time({.kept = 0ms});
  for (shared_heap* heap : {&forever, &for_no_time}) {
    const auto b = std::make_shared<block>(heap->allocate(100));
    const auto other = heap->allocate(100);
    heap->abandon(*heap->lend(view_of(*b)), b);
    EXPECT_EQ(b.use_count(), 2);
    EXPECT_TRUE(heap->lend(view_of(other)));
    EXPECT_EQ(b.use_count(), heap == &forever ? 2 : 1);
  }
  EXPECT_THROW(shared_heap({.kept = -1ms}), std::invalid_argument);
}

TEST(SharedHeap, CannotBeWrittenOrMadeShorterByAPeer) {
  shared_heap heap;
  const block b = heap.allocate(100);
  EXPECT_NE(ftruncate(heap.memory(), 0), 0);
  EXPECT_EQ(mmap(nullptr, 100, PROT_READ | PROT_WRITE, MAP_SHARED, heap.memory(), 0), MAP_FAILED);
}

struct forged_loan {
  loan what;
  const char* why;
};
class ForgedLoan : public TestWithParam<forged_loan> {};

TEST_P(ForgedLoan, IsRefused) {
  shared_heap heap;
  const block b = heap.allocate(100);
  far_heap far(memory_of(heap));
  EXPECT_THAT([&] { far.view(GetParam().what); },
              ThrowsMessage<protocol_error>(HasSubstr("lent: expected a ")))
      << GetParam().why;
}

constexpr std::uint64_t most = ~std::uint64_t{0};
INSTANTIATE_TEST_SUITE_P(All, ForgedLoan,
                         Values(forged_loan{{most, 1, 0, 1}, "begins behind the memory"},
                                forged_loan{{0, most, 0, 1}, "is longer than the memory"},
                                forged_loan{{4096, most - 4096, 0, 1}, "ends behind all numbers"},
                                forged_loan{{0, 1 << 20, 0, 1}, "leaves no room to read behind it"},
                                forged_loan{{0, 100, 101, 0}, "begins behind its block"},
                                forged_loan{{0, 100, 1, 100}, "ends behind its block"},
                                forged_loan{{0, 100, most, 2}, "ends behind all numbers"},
                                forged_loan{{4, 100, 0, 1}, "lies across cache lines"}),
                         [](const auto& named) { return "N" + std::to_string(named.index); });

TEST(FarHeap, TakesNoMemoryThatMayBecomeShorter) {
  const auto made = [] { return descriptor(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)); };
  EXPECT_THAT([&] { far_heap unsealed(made()); }, ThrowsMessage<protocol_error>(HasSubstr("sealed")));
  EXPECT_THAT([&] { far_heap none{descriptor()}; }, ThrowsMessage<protocol_error>(HasSubstr("sealed")));
}

TEST(PeerMemory, LooksForTheHeapWhenTheFirstLoanComes) {
  shared_heap heap;
  const block b = heap.allocate(100);
  const loan lent = heap.lend(view_of(b))->what;
  peer_memory here(nullptr);
  EXPECT_FALSE(here.lend(view_of(b))) << "it has no heap of its own";
  EXPECT_THAT([&] { here.borrow(lent); }, ThrowsMessage<protocol_error>(HasSubstr("found none")));
  here.ask_by([&] { here.take(memory_of(heap)); });
  EXPECT_EQ(here.borrow(lent).bytes.size(), 100U);
  here.take(descriptor()); // a second one is ignored
  EXPECT_EQ(here.borrow(lent).bytes.size(), 100U);
}

} // namespace
} // namespace mailgrad::net
