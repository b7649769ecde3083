#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/engine/model/object_pool.hpp>

#include <mutex>
#include <stdexcept>

namespace mailgrad {

/// Samples of this machine, which a run of another process may be training on as well. Then its workers here
/// need no batches from there. They are held in memory once, for all workers of this process.
/// Guarantees  what find() gives has the digest asked for, so batches are those of the run, bit for bit.
/// Threads     any. The first who asks opens the data, and others wait for it.
class local_samples {
public:
  /// Will open these data as the run has opened its own. Nothing is read before a run is known.
  explicit local_samples(std::string name_or_path, parsed_limit limit = {});
  /// Has samples that the program has made. `name` stands in messages.
  local_samples(std::string name, std::shared_ptr<const dataset> made)
      : name_(std::move(name)), made_(std::move(made)) {
    if (!made_) throw std::invalid_argument("local_samples: there are no samples");
  }

  /// Samples of this machine, or why they are not those of the run.
  struct answer {
    std::shared_ptr<const dataset> samples{}; ///< null: the reason follows
    std::string why{};                        ///< one line, with what was expected and found
  };
  /// Opens the data unless that has been done for the same digest. Blocks for as long as that takes.
  answer find(const data_terms& wanted);

private:
  answer look_for(const data_terms& wanted);
  /// Only what is trained on stays in memory.
  std::shared_ptr<const dataset> opened_as(const data_terms& wanted) const {
    open_options options = wanted.source ? wanted.source->options : open_options{};
    options.limit = limit_;
    return std::make_shared<const dataset>(std::move(open_data(name_, options).train));
  }

  const std::string name_;
  const parsed_limit limit_;
  const std::shared_ptr<const dataset> made_;

  std::mutex mutex_;       ///< guards the two members below
  std::string looked_for_; ///< the digest of the last answer
  answer last_;
};

/// The mini-batches of a worker that has the samples itself and is told which of them to take.
/// Guarantees  a batch has the bytes that the feeder of the run would have sent.
/// Threads     one caller at a time; users may release batches on any thread.
class local_batches {
public:
  /// `batch` is the most samples of a batch, and `nonzeros` the room for entries of a sparse set.
  /// Errors  std::invalid_argument without samples.
  local_batches(std::shared_ptr<const dataset> samples, std::size_t batch, std::size_t nonzeros);

  /// Cuts a batch. Its numbers come from another process, so they are checked first.
  /// Errors  std::invalid_argument: no samples, too many, one that is none, or rows of too many entries.
  std::shared_ptr<const batch> cut(std::uint64_t number, std::uint64_t epoch,
                                   std::span<const std::uint32_t> samples);

private:
  void require_sensible(std::uint64_t number, std::span<const std::uint32_t> samples) const;

  std::shared_ptr<const dataset> samples_;
  std::size_t batch_;
  std::size_t nonzeros_;
  object_pool<batch> batches_;
};

} // namespace mailgrad
