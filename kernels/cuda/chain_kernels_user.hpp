#pragma once

namespace mailgrad::cuda {

/// Who may ask for kernels of chains: a lane. The thread that has them compiled ends with the last lane of
/// the process, since a library may not be used while the process exits. It goes on with the next lane.
class chain_kernels_user {
public:
  chain_kernels_user();
  chain_kernels_user(const chain_kernels_user&) = delete;
  chain_kernels_user& operator=(const chain_kernels_user&) = delete;
  /// Waits for the kernel that is being compiled, if no other lane is left.
  ~chain_kernels_user();
};

} // namespace mailgrad::cuda
