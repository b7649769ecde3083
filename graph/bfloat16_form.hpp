#pragma once

#include <mailgrad/graph/operation.hpp>
#include <mailgrad/tensor/numbers.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// What the kernels of an operation can do with values in bfloat16, on a card whose products are computed so.
/// An executable that derives from this is asked when its program is compiled, and told before it runs.
class bfloat16_form {
public:
  virtual ~bfloat16_form() = default;

  /// Whether operand `i` has to be bfloat16, since it is multiplied. This may depend on what was told so far
  /// of results.
  virtual bool needs(std::size_t i) const = 0;
  /// Whether operand `i` may be bfloat16.
  virtual bool may_read(std::size_t i) const { return needs(i); }
  /// Whether result `i` may be bfloat16.
  virtual bool may_write([[maybe_unused]] std::size_t i) const { return false; }

  /// From now on the operand, or the result, is bfloat16.
  void read_rounded(std::size_t i) { read_ |= 1U << i; }
  void write_rounded(std::size_t i) { written_ |= 1U << i; }

protected:
  read_numbers operand(const call& c, std::size_t i) const {
    if (reads_rounded(i)) return c.in<bfloat16>(i);
    return c.in(i);
  }
  written_numbers result(const call& c, std::size_t i) const {
    if (writes_rounded(i)) return c.out<bfloat16>(i);
    return c.out(i);
  }
  bool reads_rounded(std::size_t i) const { return (read_ >> i & 1U) != 0; }
  bool writes_rounded(std::size_t i) const { return (written_ >> i & 1U) != 0; }

private:
  std::uint32_t read_ = 0, written_ = 0;
};

} // namespace mailgrad
