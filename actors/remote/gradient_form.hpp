#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/body_form.hpp>
#include <mailgrad/actors/remote/exchange_clock.hpp>
#include <mailgrad/actors/remote/gradient_credit.hpp>
#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/actors/remote/gradient_rooms.hpp>
#include <mailgrad/actors/remote/transit.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad::remote {

/// What both processes of a link know of the values that go between them.
struct exchange_terms {
  run_id run{};
  rank worker{};
  incarnation life{};
  std::shared_ptr<const parameter_layout> layout;
  std::shared_ptr<const time_source> time;
  std::shared_ptr<exchange_clock> clock;
  wire_format wire{};                          ///< how gradients travel
  std::uint32_t devices = 1;                   ///< of the worker, each of which may add to a gradient
  std::shared_ptr<gradient_encoder> encoder{}; ///< of a worker whose gradients travel in a lossy format
  bool all_reduce = false; ///< every gradient is part of a sum, whose values one of them carries
  std::shared_ptr<gradient_rooms> rooms{}; ///< where gradients arrive; null: the link has its own
  std::shared_ptr<transit> on_way{};       ///< of a process with shards: counts what comes and goes; or null
  std::shared_ptr<gradient_credit> credit{}; ///< of such a process, if workers share it
  std::uint64_t session = 0;                 ///< that of the worker, for its credit
};

/// Gradients as bytes. A shard gets its own range.
///
/// As float32, a dense range lies in the message as it lies in memory and is not copied; rows of tables,
/// ranges that are covered in part, addends of further devices, and weights for a sampled gap make an
/// archive. In a lossy format the
/// factor of clipping is multiplied in before, and a dense range alone is the bytes of the format; a gradient
/// with numbers that are not finite goes as float32.
///
/// A gradient whose values another worker carries has no bytes.
///
/// A dense range that the worker lends is read where the worker has written it. Otherwise
/// the shard gets a gradient of the size of the model, of which only its range has pages in memory
/// (gradient_rooms).
class gradient_form final : public body_form {
public:
  explicit gradient_form(exchange_terms terms);

  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;

private:
  /// How the values of a gradient lie beside its fields. The numbers stand on the wire.
  enum class packing : std::uint8_t { floats = 0, archive = 1, encoded = 2, encoded_archive = 3, none = 4 };

  packing packing_of(const push_gradient& x, bool encoded) const;
  attached pack(const push_gradient& x, std::uint32_t shard) const;
  std::optional<gradient_encoder::messages> encode(const push_gradient& x, std::uint32_t shard) const;
  attached pack(const push_gradient& x, const gradient_encoder::messages& encoded) const;
  /// What a gradient holds from its first byte on.
  struct held {
    std::shared_ptr<const void> credit{};
    std::shared_ptr<const void> room{};
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

} // namespace mailgrad::remote
