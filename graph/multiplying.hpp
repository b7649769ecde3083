#pragma once

namespace mailgrad {

/// An executable that calls gemm(). A program on a card takes the memory that products work in before its
/// first run; for an executable that does not say so the first product takes it.
class multiplying {
public:
  virtual ~multiplying() = default;
};

} // namespace mailgrad
