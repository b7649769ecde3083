#pragma once

#include <mailgrad/kernels/cuda/kernel_cache.hpp>
#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

/// The text of kernels for element-wise chains: C++ that calls the functors which the interpreted kernel
/// calls (kernels/functors/), one after the other, with all results in registers.
///
/// The bits are those of the interpreted kernel, if both are compiled without contraction of products with
/// sums: each operation is then rounded by itself, but for the multiply_add() that functors spell.

namespace mailgrad::cuda {

/// What stands before the kernels of a text.
std::string_view chain_preamble() noexcept;

/// The kernel `name` of a chain, a function of (chain_arrays, element_range). It is launched with
/// blocks_of_packs(n, packs_of(chain)) blocks of threads_per_block threads.
std::string chain_kernel_text(const elementwise_chain& chain, std::string_view name);

/// The packs that a thread has: one is enough if the chain has many arrays.
unsigned packs_of(const elementwise_chain& chain) noexcept;

/// Kernels that were generated for chains. A thread of its own compiles them, one after the other, beside all
/// that goes on; until a chain's kernel is there, the interpreted kernel computes it. A chain whose kernel
/// cannot be made is interpreted for good. Kernels stay until the process ends.
///
/// Errors   none: why there is no kernel is told by why_none().
/// Threads  any thread may call any function. find() waits for nobody.
class chain_kernels {
public:
  using opener = std::function<std::unique_ptr<kernel_compiler>()>;

  /// `open` is called when the first chain comes, by the thread that compiles.
  chain_kernels(opener open, kernel_cache cache) : open_(std::move(open)), cache_(std::move(cache)) {}
  chain_kernels(const chain_kernels&) = delete;
  chain_kernels& operator=(const chain_kernels&) = delete;
  /// Waits for the kernel that is being compiled, and forgets those that are still to come.
  ~chain_kernels() = default;

  static chain_kernels& of_process();

  /// The kernel of a chain for a GPU; null if there is none yet. The first call asks for it.
  void* find(const elementwise_chain& chain, std::uint32_t gpu);
  /// Waits until each chain that was asked for has its kernel, or will have none. Does not wait if there is
  /// no thread to be had.
  void finish();

  /// Between both calls there is one user more: a queue. When none is left, the thread that compiles ends;
  /// what is still to come stays so until somebody asks again.
  void begin_use();
  void end_use() noexcept;

  /// How many calls of find() have returned null for a kernel that was still to come.
  std::uint64_t too_early() const noexcept { return too_early_; }
  /// How often all kernels that had been asked for have come.
  std::uint64_t arrivals() const noexcept { return arrivals_; }
  /// Why the last chain that has no kernel has none; empty if each has.
  std::string why_none() const;
  /// How many kernels there are.
  std::size_t there() const;

private:
  /// A chain and a GPU, as bytes.
  using key =
      std::array<std::uint8_t, 2 + elementwise_chain::max_inputs + 4 * elementwise_chain::max_steps + 4>;
  enum class state : std::uint8_t { to_come, there, refused };
  struct kernel {
    state now = state::to_come;
    void* code = nullptr;
  };
  struct request {
    key what;
    elementwise_chain chain;
    std::uint32_t gpu = 0;
  };

  void begin_work();
  static key key_of(const elementwise_chain& chain, std::uint32_t gpu);
  void work(const std::stop_token& stop);
  kernel make(const request& r);
  void* make_kernel(const request& r);
  void note(const request& r, kernel made);

  opener open_;
  kernel_cache cache_;
  std::unique_ptr<kernel_compiler> compiler_; ///< of the thread that compiles, as is the next
  std::map<std::uint32_t, gpu_architecture> architectures_;

  mutable std::mutex lock_;
  std::map<key, kernel> known_;
  std::deque<request> to_come_; ///< the first is being made
  bool some_came_ = false;      ///< since the last arrival
  std::string why_none_;
  std::condition_variable_any wanted_, done_;
  std::atomic<std::uint64_t> too_early_ = 0, arrivals_ = 0;
  std::mutex use_; ///< held while the thread ends
  std::size_t users_ = 0;
  std::jthread worker_; ///< from the first request on; the last member, so that it ends first
};

/// What kept graphs ask of the kernels of this process.
struct chain_kernel_counts {
  std::uint64_t too_early = 0, arrivals = 0; ///< as the members of chain_kernels of these names
};
chain_kernel_counts count_chain_kernels() noexcept;

/// What has become of the chains of this process, for people.
struct generated_kernels {
  std::size_t there = 0;  ///< chains that have their kernel
  std::string why_none{}; ///< why others have none; empty if none was refused
};
generated_kernels count_generated_kernels();

// For measurements of the kernels of this process, generated and interpreted.

/// Waits until each chain that was asked for has its kernel, or will have none. Returns why the last that has
/// none has none; empty if each has.
std::string wait_for_chain_kernels();
enum class chains : std::uint8_t { generated, interpreted };
/// How chains are computed whose kernels are there.
void compute(chains how);
bool interprets_chains() noexcept;

/// The compiler of this machine in words, or why no kernels are generated on it.
std::string format_generated_kernels();
/// The same, and what is wrong with the compiler if it makes no kernel for this GPU. It makes one, which
/// takes 0.2 s on NVRTC.
std::string format_tried_kernels(std::uint32_t gpu);

} // namespace mailgrad::cuda
