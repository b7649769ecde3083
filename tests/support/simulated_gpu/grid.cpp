#include "grid.hpp"

#include "block.hpp"
#include "fibre_pool.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace mailgrad::simulated_gpu {

namespace {

struct free_bytes {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using shared_block = std::unique_ptr<std::byte, free_bytes>;

/// malloc's memory begins at a multiple of 16, as shared memory does, and ends where it was asked to.
shared_block make_shared_memory(std::size_t bytes) {
  shared_block made(bytes == 0 ? nullptr : static_cast<std::byte*>(std::malloc(bytes)));
  for (std::size_t i = 0; i < bytes; ++i) made.get()[i] = std::byte{0xff};
  return made;
}

} // namespace

std::optional<std::string> refusal_of(const kernel_launch& l) {
  const std::size_t threads = std::size_t{l.block.x} * l.block.y * l.block.z;
  const std::size_t blocks = std::size_t{l.grid.x} * l.grid.y * l.grid.z;
  if (threads == 0 || threads > most_threads || l.block.z > 64)
    return fmt::format("a block of {}x{}x{} threads; a GPU runs 1 to {}", l.block.x, l.block.y, l.block.z,
                       most_threads);
  if (blocks == 0 || l.grid.x > 0x7fffffffU || l.grid.y > 65535 || l.grid.z > 65535)
    return fmt::format("a grid of {}x{}x{} blocks", l.grid.x, l.grid.y, l.grid.z);
  if (l.shared_bytes > 99 * 1024)
    return fmt::format("{} bytes of shared memory; a block has 99 KiB", l.shared_bytes);
  return std::nullopt;
}

std::optional<std::string> run_grid(const kernel_launch& l, const schedule& order, std::uint64_t number) {
  order_point begin, end;
  blockDim = l.block;
  gridDim = l.grid;
  begin.left();
  // ThreadSanitizer takes memory that was freed and given to another block for memory that both share.
  std::vector<shared_block> kept;
  std::optional<std::string> failure;
  const std::size_t blocks = std::size_t{l.grid.x} * l.grid.y * l.grid.z;
  for (const auto [b] : arranged_blocks(order, number, blocks)) {
    blockIdx = {static_cast<unsigned>(b % l.grid.x), static_cast<unsigned>(b / l.grid.x % l.grid.y),
                static_cast<unsigned>(b / l.grid.x / l.grid.y)};
    shared_block shared = make_shared_memory(l.shared_bytes);
    begin.left(); // the memory is made
    failure = block(l, order, number * blocks + b, shared.get()).run(begin, end);
    if (with_thread_sanitizer) kept.push_back(std::move(shared));
    if (failure) break;
  }
  end.passed();
  return failure;
}

void* shared_memory() { return block::now().shared(); }
void block_barrier(std::source_location where) { block::now().barrier(false, where); }
unsigned block_barrier_count(bool mine, std::source_location where) {
  return block::now().barrier(mine, where);
}
void meet_in_warp(unsigned mask, std::uint64_t value, bool ordered, std::source_location where) {
  block::now().meet(mask, value, ordered, where);
}
std::uint64_t value_of_lane(unsigned lane) { return block::now().value_of(lane); }
unsigned own_lane() { return block::now().lane(); }
void begin_copy(const later_copy& c, carry_out_copy carry_out) { block::now().begin_copy(c, carry_out); }
void finish_copies(carry_out_copy carry_out) { block::now().finish_copies(carry_out); }

unsigned ballot(unsigned mask, bool mine, std::source_location where) {
  block& now = block::now();
  now.meet(mask, mine ? 1 : 0, false, where);
  return now.bits_of_warp();
}

} // namespace mailgrad::simulated_gpu
