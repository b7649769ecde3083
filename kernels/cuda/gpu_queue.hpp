#pragma once

#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/products.hpp>

namespace mailgrad::cuda {

/// Who may ask for kernels of chains: a queue. The thread that has them compiled ends with the last queue of
/// the process, since a library may not be used while the process exits. It goes on with the next queue.
class chain_kernels_user {
public:
  chain_kernels_user();
  chain_kernels_user(const chain_kernels_user&) = delete;
  chain_kernels_user& operator=(const chain_kernels_user&) = delete;
  /// Waits for the kernel that is being compiled, if no other queue is left.
  ~chain_kernels_user();
};

/// A queue of a GPU: a stream with the handle, the status and the scratch memory that kernels on it need.
///
/// Errors  device_error, with the driver's reason.
/// Threads one caller at a time.
class gpu_queue final : public device_queue {
public:
  /// Memory that a kernel may use while it runs, enough for the partial sums of any kernel.
  static constexpr std::size_t scratch_bytes = std::size_t{8} << 20;

  explicit gpu_queue(std::uint32_t gpu, product_precision p = product_precision::float32,
                     runtime::urgency when = runtime::urgency::usual);
  ~gpu_queue() override;

  const stream& where() const noexcept override { return where_; }
  memory allocate(std::size_t bytes) override;
  /// Waits for nothing: the values go by way of pinned memory, which the queue keeps until they are there.
  void write(std::span<const float> from, memory& to) override;
  /// Pinned memory, which the queue keeps, since the driver may wait for the GPU when it gets or frees some.
  /// What nobody has wanted for twice as many calls as the queue has blocks, and 16 more, goes back.
  memory lend_on_host(std::size_t bytes) override;
  /// How many blocks of pinned memory the queue keeps to lend, those included that are lent.
  std::size_t kept_on_host() const noexcept { return lent_.size(); }
  void copy_to_host(const memory& from, std::size_t first, memory& to) override;
  void wait_for(const device_event& m) override;
  device_event record() override;
  /// Records the end of a step, whose record, behind which nothing is queued, tells the host by this ticket.
  device_event record(std::shared_ptr<const step_record> told_by, std::uint64_t ticket);

  /// Copies memory of the GPU to the host, and waits until it is there.
  void read(const memory& from, std::span<std::byte> to);
  /// Waits until everything queued has run. The waiting thread sleeps or spins, so no actor may call this.
  void finish() override;
  /// Waits as finish() does, then takes the fault that a kernel has noted since the last call, if there is
  /// one.
  std::optional<fault_word> take_fault();

private:
  /// Pinned memory for copies from the GPU; free if nobody else has it.
  struct lent_block {
    std::shared_ptr<pinned_block> memory;
    std::uint64_t last = 0; ///< the number of the call that lent it

    bool is_free() const noexcept { return memory.use_count() == 1; }
  };

  void forget_written();
  void forget_unwanted();
  const cuda_stream& stream_of_gpu() const noexcept { return std::get<cuda_stream>(where_); }

  /// Pinned memory that a copy to the GPU still reads.
  struct write_under_way {
    pinned_block values;
    device_event done;
  };

  chain_kernels_user kernels_;
  owned_stream stream_;
  stream_events events_;
  std::unique_ptr<products> products_;
  device_block status_, scratch_;
  pinned_block seen_; ///< the status as it was last read
  std::vector<write_under_way> writes_;
  std::vector<lent_block> lent_;
  std::uint64_t lendings_ = 0;
  stream where_;
};

/// A block of pinned memory of the host, which copies from and to a GPU do not have to wait for.
///
/// Errors  device_error.
block pinned_memory(std::size_t bytes);

/// Throws what `fault` means, in the words that the kernel on the host would have used.
///
/// Errors  std::out_of_range, unless the fault is none.
void raise(const fault_word& fault);

} // namespace mailgrad::cuda
