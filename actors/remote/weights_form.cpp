#include <mailgrad/actors/remote/weights_form.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace mailgrad::remote {

namespace {

/// Weights and those that were met, one behind the other.
attached joined(const snapshot& values, const snapshot& met) {
  const auto both = std::make_shared<std::vector<float>>();
  for (const snapshot& part : {values, met})
    both->insert(both->end(), part.on_host().begin(), part.on_host().end());
  return {std::as_bytes(std::span(*both)), both};
}

bool is_block(net::byte_view bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % block::alignment == 0;
}

/// Nobody writes to a snapshot.
block block_of(const net::borrowed& lent) {
  return block::in_memory_of(lent.keeps, {const_cast<std::byte*>(lent.bytes.data()), lent.bytes.size()});
}

snapshot copy_of(std::span<const std::byte> bytes) {
  block copy = block::for_overwrite(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return snapshot(std::make_shared<memory>(std::move(copy)));
}

} // namespace

weights_form::weights_form(exchange_terms terms) : terms_(std::move(terms)) {
  for (std::size_t s = 0; s < terms_.layout->shard_count(); ++s)
    weights_.emplace_back([bytes = terms_.layout->shard(s).size() * sizeof(float)] {
      return std::make_shared<memory>(block(bytes));
    });
}

attached weights_form::write(const caf::message& m, const actor_address&, field_inspector& fields) {
  const auto& x = m.get_as<shard_weights>(0);
  weights_header header = x.header;
  bool has_met = static_cast<bool>(x.payload.met);
  std::optional<instant> held = terms_.clock->end(header.shard.value, terms_.time->now());
  if (!header.stay) held.reset();
  fields.field("header", header);
  fields.field("has met", has_met);
  fields.field("held", held);
  attached leaves = has_met ? joined(x.payload.values, x.payload.met)
                            : attached{std::as_bytes(x.payload.values.on_host()), x.payload.values.owner()};
  if (terms_.on_way)
    leaves.keeps = terms_.on_way->leaving(terms_.worker, std::move(leaves.keeps), leaves.bytes.size());
  return leaves;
}

arriving weights_form::begin(field_inspector& fields, const actor_address& from, const actor_address&,
                             const announced& values) {
  weights_header header;
  bool has_met = false;
  std::optional<instant> held;
  fields.field("header", header);
  fields.field("has met", has_met);
  fields.field("held", held);
  const std::uint32_t shard = header.shard.value;
  if (shard >= weights_.size())
    throw archive_error(
        fmt::format("weights: expected a shard from 0 to {}, found {}", weights_.size() - 1, shard));
  if (from != actor_address{duty::shard, shard})
    throw archive_error(fmt::format("weights: expected those of {}, which sent them, found those of shard {}",
                                    to_string(from), shard));
  const std::size_t one = terms_.layout->shard(shard).size() * sizeof(float);
  if (values.bytes != (has_met ? 2 * one : one))
    throw archive_error(fmt::format("weights of shard {}: expected {} bytes, found {}", shard,
                                    has_met ? 2 * one : one, values.bytes));
  const bool stays = values.lent && !has_met && is_block(values.lent->bytes);
  const auto into = stays     ? std::make_shared<memory>(block_of(*values.lent))
                    : has_met ? std::make_shared<memory>(block::for_overwrite(values.bytes))
                              : weights_[shard].take();
  const std::span<std::byte> place = std::as_writable_bytes(into->on_host<float>());
  return {stays ? std::span<std::byte>() : place,
          [this, header, held, has_met, into, place, one]() -> caf::message {
            const instant now = terms_.time->now();
            const std::size_t of = header.shard.value;
            if (terms_.encoder) terms_.encoder->answered(header.shard.value, header.discarded);
            if (const auto whole = terms_.clock->end(of, now); whole && held)
              terms_.clock->note(of, *whole - *held);
            if (!has_met) return caf::make_message(shard_weights{header, {snapshot(into), {}, now}});
            return caf::make_message(
                shard_weights{header, {copy_of(place.first(one)), copy_of(place.subspan(one)), now}});
          }};
}

} // namespace mailgrad::remote
