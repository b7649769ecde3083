#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace mailgrad {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

class host_out_of_memory : public std::bad_alloc {
public:
  explicit host_out_of_memory(std::size_t bytes) {
    fmt::format_to_n(text_, sizeof text_ - 1, "out of memory: {} asked for", byte_count(bytes).text());
  }
  const char* what() const noexcept override { return text_; }

private:
  char text_[64]{};
};

} // namespace

void block::free_memory::operator()(std::byte* memory) noexcept {
  if (owner)
    owner.reset();
  else
    std::free(memory);
}

block block::in_memory_of(std::shared_ptr<const void> owner, std::span<std::byte> bytes) {
  if (!owner) throw std::invalid_argument("block: memory of somebody else has no owner");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0)
    fail_with<std::invalid_argument>("block: expected an address of whole cache lines, found {}",
                                     fmt::ptr(bytes.data()));
  block b;
  b.data_ = {bytes.data(), free_memory{std::move(owner)}};
  b.bytes_ = bytes.size();
  return b;
}

block block::for_overwrite(std::size_t bytes) {
  block b;
  if (bytes == 0) return b;
  const bool large = bytes >= 2 * huge_page;
  const std::size_t unit = large ? huge_page : alignment;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded < bytes) throw host_out_of_memory(bytes);
  b.data_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, rounded)));
  if (!b.data_) throw host_out_of_memory(bytes);
  if (large) madvise(b.data(), rounded, MADV_HUGEPAGE); // advice, which the kernel may ignore
  std::memset(b.data() + bytes, 0, rounded - bytes);    // a kernel may load a whole last vector
  b.bytes_ = bytes;
  return b;
}

block::block(std::size_t bytes) : block(for_overwrite(bytes)) {
  if (bytes > 0) std::memset(data(), 0, bytes);
}

} // namespace mailgrad
