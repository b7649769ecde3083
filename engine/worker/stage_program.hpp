#pragma once

#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <map>

namespace mailgrad {

/// Memory for the lists of sparse gradients, one block for each. It is kept from step to step and only grows.
struct row_memory {
  std::vector<memory> blocks;
  std::size_t used = 0;         ///< blocks that this step has taken
  std::vector<memory> outgrown; ///< of a GPU, which would be waited for to free it
  /// On the host.
  std::byte* take(std::size_t bytes) {
    host_queue here;
    return take(bytes, here);
  }
  /// For kernels of this queue, which is the same or of the same device in each call.
  std::byte* take(std::size_t bytes, device_queue& at);
};

/// The rows of one table's gradient that one segment computes of one micro-batch.
struct stage_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t micro_batch = 0;
  std::size_t segment = 0; ///< the one that computed them
  std::size_t width = 0;
  std::span<const std::int32_t> rows; ///< a negative one ends the list
  std::span<float> values;
  bool rows_in_batch = false; ///< `rows` lie in the batch, on the host
};

/// Puts lists in the order of tables, of micro-batches, then of segments, however the stages were scheduled.
void sort_lists(std::vector<stage_rows>& lists);

/// Joins the lists of each table into one, because a rule with state must see every repeat of a row at once.
///
/// The order is that of sort_lists(). Several lists of a table are copied to `memory`.
std::vector<gradient_rows> joined(std::vector<stage_rows> lists, row_memory& memory);

namespace cuda {
struct fault_word; // kernels/cuda/stream_status.hpp
}

/// The values that a segment computed of one micro-batch for others, in the order of segment::exports.
struct value_set {
  std::vector<memory> values;
  std::vector<memory> on_host{}; ///< the same, if they lie on a GPU and a reader is not there
  device where{};                ///< whose memory `values` are; any core is the host
  device_event ready{};          ///< passes when they are there
};

/// What a stage contributes to the gradient of a step.
struct stage_sum {
  std::shared_ptr<const coverage> covered; ///< by the dense parts of all stages
  /// The gradient that takes the dense parts of all stages. For each variable one stage writes to its dense
  /// block; a further stage that also differentiates the variable writes to an addend of its own.
  std::shared_ptr<gradient> into;
  std::size_t own_addend = 0;         ///< the addend of this stage in `into`, if it has one
  std::vector<char> begun;            ///< by variable: whether a micro-batch has written its part
  std::vector<stage_rows> rows;       ///< the sparse parts
  std::shared_ptr<row_memory> memory; ///< `rows` points into this memory
  float loss = 0;                     ///< mean over the samples; 0 if another stage computes the loss
};

class stage_place;

struct micro_batch {
  std::shared_ptr<const batch> samples;
  float share = 1;          ///< its fraction of the step's samples
  bool only = true;         ///< whether the step has no other micro-batch
  std::size_t place = 0;    ///< index among the micro-batches of the step
  std::uint64_t number = 0; ///< seeds random operations
};

/// The part of a model that one of its devices computes, compiled for one size of micro-batch.
///
/// Every stage builds the same graph, so that all agree on its segments, and compiles only its own ones.
/// Errors  graph_error from the model function.
class stage_program {
public:
  struct part {
    std::size_t number;             ///< in the order of all segments
    std::vector<std::size_t> reads; ///< the segments whose values it needs
    std::vector<device> readers;    ///< the other devices that need its values
  };

  /// The dense gradient of a variable, or this device's addend of it.
  struct delivery {
    std::size_t variable;
    bool further; ///< another device delivers the first addend

    auto operator<=>(const delivery&) const = default;
  };

  /// With `sums_apart`, a gradient that is a sum over several devices is delivered as its addends.
  stage_program(const model_function& build, const model_request& request, const parameter_layout& layout,
                device where, bool sums_apart = false);
  /// The same for a queue of `where`, which outlives the program.
  stage_program(const model_function& build, const model_request& request, const parameter_layout& layout,
                device where, device_queue& at, bool sums_apart = false);
  ~stage_program();

  std::span<const part> parts() const noexcept { return parts_; }
  const std::shared_ptr<const coverage>& covered() const noexcept { return covered_; }
  /// What the further addends of this device cover; nothing without `sums_apart`.
  const std::shared_ptr<const coverage>& added() const noexcept { return added_; }
  std::size_t readers_of(std::size_t segment) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        parts_, [&](const part& p) { return std::ranges::find(p.reads, segment) != p.reads.end(); }));
  }
  const std::vector<delivery>& delivered() const noexcept { return delivered_; }
  /// The same as ranges of the flat vector, ascending; of weights that it may read whole, and tables by rows.
  const std::vector<shard_range>& delivered_ranges() const noexcept { return delivered_ranges_; }
  const std::vector<shard_range>& weights_read() const noexcept { return weights_read_; }
  const std::vector<shard_range>& tables_read() const noexcept { return tables_read_; }
  device maker_of(std::size_t segment) const { return segments_.at(segment).where; }
  std::shared_ptr<value_set> make_values(std::size_t i) const;
  /// Computes part `i` from the values in `read`, which are in the order of part::reads. Values for other
  /// segments go to `made`; the part's gradients and loss are added to `sum`.
  void run(std::size_t i, const micro_batch& m, const weight_addresses& weights,
           std::span<const value_set* const> read, value_set& made, stage_sum& sum);
  /// Computes it, or queues it on a GPU, with what `with` has there. On a GPU, loss_of() is not added.
  void run(std::size_t i, const micro_batch& m, stage_place& with, std::span<const value_set* const> read,
           value_set& made, stage_sum& sum);
  /// Where part `i` writes the loss of a micro-batch; null if it computes none.
  const float* loss_of(std::size_t i) const;
  /// Throws what program::raise() says of a fault that part `i` has found.
  void raise(std::size_t i, const cuda::fault_word& fault) const;

private:
  struct compiled_part;

  part described(std::size_t number) const;
  std::unique_ptr<compiled_part> compiled(std::size_t number, const parameter_layout& layout,
                                          const model_request& request) const;

  void find_ranges(const parameter_layout& layout);

  device_queue* at_;
  device where_;
  std::unique_ptr<graph> graph_;
  training_fetches wanted_;
  std::shared_ptr<const coverage> covered_;
  std::shared_ptr<const coverage> added_;
  std::vector<segment> segments_;
  std::vector<part> parts_;
  std::vector<delivery> delivered_; ///< ascending
  std::vector<shard_range> delivered_ranges_, weights_read_, tables_read_;
  std::vector<std::unique_ptr<compiled_part>> compiled_;
};

/// The fetches as values to deliver. The segment that computes rows also gives their numbers.
std::vector<wanted_value> wanted_values(const training_fetches& fetches);

/// Where the parts of a stage find what they read on its device, and where they write.
class stage_place {
public:
  virtual ~stage_place() = default;
  /// A part of a micro-batch, for kernels of the stage.
  virtual const void* part_of(const micro_batch& m, const tensor& part) = 0;
  virtual const float* weights_of(std::size_t variable) const = 0;
  /// Brings the rows of tables that a program reads for a micro-batch, unless they lie at weights_of().
  virtual void bring_rows([[maybe_unused]] const micro_batch& m, [[maybe_unused]] const weight_reads& reads) {
  }
  /// The dense gradient of the model, float32[parameter_layout::dense_size()].
  virtual float* dense_of(const stage_sum& sum) = 0;
  /// Memory for the rows of a table's gradient, of which `sum` keeps what is pushed.
  virtual std::byte* room_for_rows(std::size_t bytes, stage_sum& sum) = 0;
  /// The row numbers that lie in the batch, where the worker finds those of this stage.
  virtual std::span<const std::int32_t> rows_of(const micro_batch& m, const tensor& part, stage_sum& sum) = 0;
};

/// Decides which part of which micro-batch a stage computes next. A plain class: the actor only moves values.
///
/// A part may run when the values it reads have arrived, it has run for all earlier micro-batches, and each
/// stage that reads its values still gives credit for them. Of several such parts the one latest in the order
/// of segments runs first: backward goes before forward, which frees values early.
/// Source  Narayanan et al., PipeDream, SOSP 2019, section 3.2: one forward, one backward; Huang et al.,
///         GPipe, NeurIPS 2019: all micro-batches of a step read one version of the weights.
/// Never   waits for ever, if `credits` is at least 1. Take the earliest unfinished micro-batch and the first
///         segment that it lacks: all values that this segment reads have arrived, and its readers have
///         returned all credit for earlier micro-batches.
class stage_schedule {
public:
  struct part {
    std::size_t number;               ///< in the order of all segments
    std::vector<std::size_t> reads;   ///< the numbers of the segments whose values it needs
    std::vector<std::size_t> readers; ///< the other stages that read its values
  };
  struct turn {
    std::size_t micro_batch;
    std::size_t part; ///< index among the parts of this micro-batch

    friend bool operator==(const turn&, const turn&) = default;
  };

  /// `parts` are those of each micro-batch. `credits` is how many micro-batches a reader may be behind.
  stage_schedule(std::vector<std::vector<part>> parts, std::size_t credits);
  /// Notes that the values of a segment have arrived, from another stage or from this one.
  void arrive(std::size_t micro_batch, std::size_t segment) { arrived_.at(micro_batch).push_back(segment); }
  /// Notes that a reader has used the values of a segment of one micro-batch.
  void credit(std::size_t segment, std::size_t reader) { --owed_.at({segment, reader}); }
  /// The part to run next, or none while all must wait.
  std::optional<turn> next() const { return first(true); }
  /// Notes that a part has run. It costs a credit of each of its readers.
  void ran(const turn& t);

  bool finished() const noexcept { return left_ == 0; }
  /// Whether only missing credit holds the stage up. If not, one without a next() turn waits for values.
  bool waits_for_credit() const { return !first(true) && first(false); }

private:
  /// The turns of one part, in the order of micro-batches, in which they run.
  struct line {
    std::vector<turn> turns;
    std::size_t ran = 0; ///< turns that have run
  };

  const part& part_of(const turn& t) const { return parts_[t.micro_batch][t.part]; }
  bool has_values(const turn& t) const;
  bool has_credit(const turn& t) const;
  std::optional<turn> first(bool with_credit) const;

  std::vector<std::vector<part>> parts_; ///< by micro-batch
  std::size_t credits_;
  std::map<std::size_t, line, std::greater<>> lines_; ///< by number of the segment, the latest first
  std::vector<std::vector<std::size_t>> arrived_;     ///< segments whose values are here, by micro-batch
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> owed_; ///< micro-batches, by segment and reader
  std::size_t left_ = 0;                                            ///< turns that have not run
};

} // namespace mailgrad
