#include <mailgrad/lab/links/gradient_wire.hpp>

#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/encoded_rows.hpp>

#include <bit>
#include <span>
#include <string_view>
#include <utility>

namespace mailgrad::lab {

namespace {

std::string_view text_of(const wire_message& m) {
  return {reinterpret_cast<const char*>(m->data()), m->size()};
}

} // namespace

gradient_wire::gradient_wire(const wire_terms& terms, std::shared_ptr<const parameter_layout> layout)
    : terms_(terms), layout_(std::move(layout)), gradients_([of = layout_] { return make_gradient(*of); }) {
  if (is_lossy(terms_.format)) encoder_.emplace(terms_.format, layout_);
}

std::size_t gradient_wire::carry(std::uint32_t shard, push_gradient& x) {
  if (encoder_ && !terms_.feedback) encoder_.emplace(terms_.format, layout_); // remembers nothing
  if (!x.payload.values) return encoded_bytes({}, remote::dense_range_of(*layout_, shard).size());
  const auto sent = encoder_ ? encoder_->encode(shard, x) : std::nullopt;
  if (!sent) return exact_bytes(shard, *x.payload.values);
  std::size_t bytes = sent->dense->size();
  for (const auto& [variable, message] : sent->tables) bytes += message->size();
  x.payload.values = decoded(shard, *sent);
  x.header.scale_bits = std::bit_cast<std::uint32_t>(1.0F); // it has been multiplied in
  return bytes;
}

void gradient_wire::answered(std::uint32_t shard, step_number discarded) {
  if (encoder_) encoder_->answered(shard, discarded);
}

std::size_t gradient_wire::weight_bytes(std::uint32_t shard) const {
  return encoded_bytes({}, layout_->shard(shard).size());
}

std::size_t gradient_wire::exact_bytes(std::uint32_t shard, const gradient& g) const {
  std::size_t bytes = encoded_bytes({}, remote::dense_range_of(*layout_, shard).size());
  for (const gradient_rows& part : g.sparse)
    bytes += encoded_row_bytes({}, remote::rows_in(*layout_, part, shard).rows.size(), part.width);
  return bytes;
}

std::shared_ptr<const gradient> gradient_wire::decoded(std::uint32_t shard,
                                                       const remote::gradient_encoder::messages& m) {
  const auto into = gradients_.take();
  into->sparse.clear();
  into->held.clear();
  const shard_range range = remote::dense_range_of(*layout_, shard);
  decode_numbers(terms_.format, *m.dense, into->dense.on_host<float>().subspan(range.begin, range.size()));
  for (const auto& [variable, rows] : m.tables)
    remote::decode_table(terms_.format, *layout_, variable, text_of(rows), *into);
  return into;
}

} // namespace mailgrad::lab
