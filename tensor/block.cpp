#include <mailgrad/tensor/block.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace mailgrad {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

} // namespace

void block::free_memory::operator()(std::byte* memory) const noexcept { std::free(memory); }

block::block(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool large = bytes >= 2 * huge_page;
  const std::size_t unit = large ? huge_page : alignment;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded < bytes) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, rounded)));
  if (!data_) throw std::bad_alloc();
  if (large) madvise(data_.get(), rounded, MADV_HUGEPAGE); // advice: nothing is lost if it is not taken
  std::memset(data_.get(), 0, rounded);
}

} // namespace mailgrad
