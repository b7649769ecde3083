#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::testing {

/// An instruction of a kernel for compute capability 8.0 or 9.0, which has 16 bytes.
struct gpu_instruction {
  std::uint64_t low, high;

  /// Without what says where its operands come from.
  unsigned operation() const { return static_cast<unsigned>(low & 0x1ff); }
  /// Of a load or a store.
  unsigned bytes() const {
    constexpr unsigned sizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
    return sizes[high >> 9 & 7];
  }
};

/// What ptxas has written: an ELF file.
/// Source  the operations are those that cuobjdump --dump-sass shows, with the bits beside them.
class cubin {
public:
  static constexpr unsigned fused = 0x023, product = 0x020, sum = 0x021, load = 0x181, store = 0x186;

  explicit cubin(std::span<const std::byte> code) : code_(code) {}

  std::vector<gpu_instruction> instructions_of(const std::string& kernel) const {
    return numbers<gpu_instruction>(section(".text." + kernel));
  }
  /// The largest stack frame of all kernels, and how many there are.
  struct frames {
    std::size_t count = 0;
    std::uint32_t largest = 0;
  };
  frames stack_frames() const {
    constexpr std::uint8_t frame_size = 0x11, with_length = 4;
    frames found;
    std::string_view rest = section(".nv.info");
    while (rest.size() >= 4) {
      const auto format = static_cast<std::uint8_t>(rest[0]), what = static_cast<std::uint8_t>(rest[1]);
      std::uint16_t length = 0;
      std::memcpy(&length, rest.data() + 2, sizeof length);
      if (format == with_length && what == frame_size) {
        std::uint32_t bytes = 0; // behind the number of the kernel
        std::memcpy(&bytes, rest.data() + 8, sizeof bytes);
        ++found.count;
        found.largest = std::max(found.largest, bytes);
      }
      rest.remove_prefix(std::min(rest.size(), std::size_t{4} + (format == with_length ? length : 0)));
    }
    return found;
  }

private:
  template <class T>
  static std::vector<T> numbers(std::string_view bytes) {
    std::vector<T> made(bytes.size() / sizeof(T));
    std::memcpy(made.data(), bytes.data(), made.size() * sizeof(T));
    return made;
  }
  std::string_view bytes(std::size_t first, std::size_t count) const {
    return std::string_view(reinterpret_cast<const char*>(code_.data()), code_.size()).substr(first, count);
  }

  std::string_view section(std::string_view name) const {
    Elf64_Ehdr header{};
    std::memcpy(&header, code_.data(), sizeof header);
    const auto all = numbers<Elf64_Shdr>(bytes(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)));
    const Elf64_Shdr& names = all.at(header.e_shstrndx);
    for (const Elf64_Shdr& s : all)
      if (bytes(names.sh_offset, names.sh_size).substr(s.sh_name).data() == name)
        return bytes(s.sh_offset, s.sh_size);
    return {};
  }

  std::span<const std::byte> code_;
};

} // namespace mailgrad::testing
