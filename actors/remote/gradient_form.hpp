#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/admission.hpp>
#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/actors/remote/message_table.hpp>

namespace mailgrad::remote {

/// How long gradients and their answers are on the wire, both ways together, by shard:
///
///     (answer received - gradient sent) - (answer sent - gradient arrived)
///
/// Each difference is of one clock, so the clocks of the two machines need not agree, and the sum is exact.
/// How it is shared between the two ways cannot be known.
/// Threads any.
class exchange_clock {
public:
  explicit exchange_clock(std::size_t shards) : of_(shards) {}

  /// A gradient was sent, or has arrived.
  void begin(std::size_t shard, instant now) {
    const std::lock_guard lock(mutex_);
    of_[shard].since = now;
  }
  /// How long that was ago; none if there was no gradient since the last call.
  std::optional<instant> end(std::size_t shard, instant now) {
    const std::lock_guard lock(mutex_);
    std::optional<instant>& since = of_[shard].since;
    if (!since) return std::nullopt;
    const instant span = now - *since;
    since.reset();
    return span;
  }
  /// Notes the time on the wire of the last exchange.
  void note(std::size_t shard, instant on_wire) {
    const std::lock_guard lock(mutex_);
    of_[shard].last = on_wire;
  }
  /// Takes that time; each is taken once.
  std::optional<instant> take(std::size_t shard) {
    const std::lock_guard lock(mutex_);
    std::optional<instant> last = of_[shard].last;
    of_[shard].last.reset();
    return last;
  }

private:
  struct line {
    std::optional<instant> since, last;
  };

  std::mutex mutex_;
  std::vector<line> of_;
};

/// What both processes of a channel know of the values that go between them.
struct exchange_terms {
  run_id run{};
  rank worker{};
  incarnation_number incarnation{};
  std::shared_ptr<const parameter_layout> layout;
  std::shared_ptr<const time_source> time;
  std::shared_ptr<exchange_clock> clock =
      layout ? std::make_shared<exchange_clock>(layout->shard_count()) : nullptr;
  wire_format wire{};                          ///< how gradients travel
  std::uint32_t devices = 1;                   ///< of the worker, each of which may add to a gradient
  std::shared_ptr<gradient_encoder> encoder{}; ///< of a worker whose gradients travel in a lossy format
  bool all_reduce = false;   ///< every gradient is part of a sum, whose values one of them carries
  admission_bounds bounds{}; ///< of a process with shards
  std::uint64_t session = 0; ///< that of the worker, for its credit
};

/// Gradients as bytes. A shard gets its own range; a gradient whose values another worker carries has none.
///
/// As float32, a dense range lies in the message as it lies in memory and is not copied; rows of tables,
/// ranges that are covered in part, addends of further devices, and weights for a sampled gap make an
/// archive. In a lossy format the factor of clipping is multiplied in before, and a dense range alone is the
/// bytes of the format; a gradient with numbers that are not finite goes as float32.
///
/// A dense range that the worker lends is read where the worker has written it. Otherwise the shard gets a
/// gradient of gradient_buffers.
class gradient_form final : public body_form {
public:
  explicit gradient_form(exchange_terms terms) : terms_(std::move(terms)) {
    if (!terms_.bounds.buffers) terms_.bounds.buffers = std::make_shared<gradient_buffers>(terms_.layout);
  }

  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;

private:
  /// How the values of a gradient lie beside its fields. The numbers stand on the wire.
  enum class packing : std::uint8_t { floats = 0, archive = 1, encoded = 2, encoded_archive = 3, none = 4 };

  packing packing_of(const push_gradient& x, bool encoded) const;
  attached pack(const push_gradient& x, std::uint32_t shard,
                const std::optional<gradient_encoder::messages>& encoded) const;
  /// Nothing if the gradient travels as it is: the format is exact, or cannot say what it holds.
  std::optional<gradient_encoder::messages> encode(const push_gradient& x, std::uint32_t shard) const {
    return terms_.encoder ? terms_.encoder->encode(shard, x) : std::nullopt;
  }
  /// What a gradient holds from its first byte on.
  struct held {
    net::admission::units credit{}, room{};
  };

  arriving unpacked_later(const gradient_header& header, std::uint32_t shard, std::shared_ptr<gradient> into,
                          bool encoded, std::uint64_t size) const;
  held held_by(std::uint32_t shard, std::uint64_t bytes = 0) const;
  void unpack(const std::string& bytes, std::uint32_t shard, bool encoded, gradient& into,
              snapshot& read) const;
  std::shared_ptr<const gradient> where_it_lies(const net::borrowed& lent, std::uint32_t shard) const;
  void require_ours(const gradient_header& header, packing how, std::uint32_t shard) const;
  caf::message arrive(const gradient_header& header, std::uint32_t shard,
                      std::shared_ptr<const gradient> values, snapshot read, held what) const;

  exchange_terms terms_;
};

/// Weights as bytes. They go from the memory of the shard, which does not write to it while they are sent,
/// and arrive in memory of the worker.
class weights_form final : public body_form {
public:
  explicit weights_form(exchange_terms terms);

  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;

private:
  exchange_terms terms_;
  std::vector<object_pool<memory>> weights_; ///< by shard
};

/// Mini-batches as bytes: the shapes of their tensors, then the elements of all of them.
class batch_form final : public body_form {
public:
  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;
};

} // namespace mailgrad::remote
