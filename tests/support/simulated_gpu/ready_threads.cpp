#include "ready_threads.hpp"

#include <algorithm>
#include <utility>

namespace mailgrad::simulated_gpu {

namespace {

template <class T>
void arrange(std::vector<T>& items, thread_order order, drawn_numbers& drawn) {
  if (order == thread_order::backward) std::ranges::reverse(items);
  if (order != thread_order::shuffled) return;
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[drawn.below(i)]);
}

} // namespace

std::uint64_t drawn_numbers::below(std::uint64_t limit) {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return (z ^ z >> 31) % limit;
}

thread_numbers first_numbers(std::size_t n) {
  thread_numbers all;
  all.reserve(n);
  for (std::size_t i = 0; i < n; ++i) all.push_back({i});
  return all;
}

void ready_threads::add(thread_numbers& threads) {
  const bool far = order_.far == reach::one_warp_far;
  if (far && threads.front().value / warp != threads.back().value / warp)
    arrange_by_warps(threads);
  else
    arrange(threads, order_.order, drawn_);
  waiting_.insert(far ? waiting_.begin() : waiting_.end(), threads.begin(), threads.end());
}

void ready_threads::arrange_by_warps(thread_numbers& threads) {
  std::vector<thread_numbers> warps;
  for (const thread_number t : threads) {
    if (warps.empty() || warps.back().front().value / warp != t.value / warp) warps.emplace_back();
    warps.back().push_back(t);
  }
  arrange(warps, order_.order, drawn_);
  threads.clear();
  for (auto& lanes : warps) {
    arrange(lanes, order_.order, drawn_);
    threads.insert(threads.end(), lanes.begin(), lanes.end());
  }
}

thread_numbers arranged_blocks(const schedule& order, std::uint64_t number, std::size_t n) {
  thread_numbers blocks = first_numbers(n);
  drawn_numbers drawn(order.seed * 104729 + number);
  arrange(blocks, order.order, drawn);
  return blocks;
}

} // namespace mailgrad::simulated_gpu
