#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace mailgrad {

/// The feeder's part in a checkpoint. A worker asks one batch ahead, so some of those that it was dealt
/// before its mark were not trained. These, and all that it was dealt after its mark, are to be dealt again.
///
/// Threads  those of the feeder that owns it.
class feeder_cut {
public:
  /// `trained`: of the workers that go on from a checkpoint; empty for a run that begins.
  feeder_cut(std::uint32_t workers, std::vector<std::uint64_t> trained);

  void deal(rank worker, std::uint64_t number);
  void mark(const worker_marked& x);
  /// The coordinator wants a part although no worker is left.
  void begin(std::uint64_t number, const caf::actor& collector);
  /// No mark of this worker will come.
  void leave(rank worker);
  /// The part, when no mark is missing. Returned once.
  std::optional<checkpoint_part> finished(const dealer& of, std::uint64_t switches);
  const caf::actor& collector() const noexcept { return collector_; }

private:
  struct of_worker {
    std::uint64_t dealt = 0;
    std::vector<std::uint64_t> last{}; ///< numbers of the two batches dealt last
    std::optional<std::uint64_t> mark; ///< trained at the mark, if that has come
    std::vector<std::uint64_t> again{};
    bool gone = false;
  };

  std::vector<of_worker> workers_; ///< by rank
  std::uint64_t number_ = 0;       ///< of the checkpoint under way; 0: none is
  std::uint64_t last_ = 0;         ///< that was finished
  caf::actor collector_;
};

} // namespace mailgrad
