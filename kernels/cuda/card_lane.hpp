#pragma once

#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

/// A lane of a card: a stream with the handle, the words and the scratch memory that kernels on it need.
///
/// Errors  device_error, with the driver's reason.
/// Threads one caller at a time.
class card_lane final : public lane {
public:
  /// Memory that a kernel may use while it runs, enough for the partial sums of any kernel.
  static constexpr std::size_t scratch_bytes = std::size_t{8} << 20;

  explicit card_lane(std::uint32_t card, product_precision p = product_precision::float32,
                     runtime::urgency when = runtime::urgency::usual);
  ~card_lane() override;

  const stream& where() const noexcept override { return where_; }
  memory allocate(std::size_t bytes) override;
  /// Waits for nothing: the values go by way of pinned memory, which the lane keeps until they are there.
  void write(std::span<const float> from, memory& to) override;
  /// Pinned memory, which the lane keeps, since the driver may wait for the card when it gets or frees some.
  /// What nobody has wanted for twice as many calls as the lane has blocks, and 16 more, goes back.
  memory lend_on_host(std::size_t bytes) override;
  /// How many blocks of pinned memory the lane keeps to lend, those included that are lent.
  std::size_t kept_on_host() const noexcept { return lent_.size(); }
  void copy_to_host(const memory& from, std::size_t first, memory& to) override;
  void wait_for(const mark& m) override;
  mark record() override;
  /// Records the end of a step, whose record, behind which nothing is queued, tells the host by this ticket.
  mark record(std::shared_ptr<const step_record> told_by, std::uint64_t ticket);

  /// Copies memory of the card to the host, and waits until it is there.
  void read(const memory& from, std::span<std::byte> to);
  /// Waits until everything queued has run. The waiting thread sleeps or spins, so no actor may call this.
  void finish() override;
  /// Waits as finish() does, then takes the fault that a kernel has noted since the last call, if there is
  /// one.
  std::optional<fault_word> take_fault();

private:
  /// Pinned memory for copies from the card; free if nobody else has it.
  struct lent_block {
    std::shared_ptr<pinned_block> memory;
    std::uint64_t last = 0; ///< the number of the call that lent it

    bool is_free() const noexcept { return memory.use_count() == 1; }
  };

  void forget_written();
  void forget_unwanted();
  const cuda_stream& stream_of_card() const noexcept { return std::get<cuda_stream>(where_); }

  /// Pinned memory that a copy to the card still reads.
  struct write_under_way {
    pinned_block values;
    mark done;
  };

  chain_kernels_user kernels_;
  owned_stream stream_;
  stream_marks marks_;
  std::unique_ptr<products> products_;
  device_block words_, scratch_;
  pinned_block seen_; ///< the words as they were last read
  std::vector<write_under_way> writes_;
  std::vector<lent_block> lent_;
  std::uint64_t lendings_ = 0;
  stream where_;
};

/// A block of pinned memory of the host, which copies from and to a card do not have to wait for.
///
/// Errors  device_error.
block pinned_memory(std::size_t bytes);

/// Throws what `fault` means, in the words that the kernel on the host would have used.
///
/// Errors  std::out_of_range, unless the fault is none.
void raise(const fault_word& fault);

} // namespace mailgrad::cuda
