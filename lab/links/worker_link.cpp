#include <mailgrad/lab/links/worker_link.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <stdexcept>
#include <string_view>

namespace mailgrad::lab {

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
    remote::decode_table(terms_.format, *layout_, variable,
                         {reinterpret_cast<const char*>(rows->data()), rows->size()}, *into);
  return into;
}

namespace {

struct amount {
  std::string_view name, unit;
  double least, most;
};

constexpr amount latency{"latency", "seconds", 0, 1e6};
constexpr amount bandwidth{"bandwidth", "bytes a second", 1, 1e15};

/// 0 for an empty text.
double amount_of(const amount& what, const std::string& text, rank worker, std::uint32_t workers) {
  if (text.empty()) return 0;
  const auto fail = [&](std::string_view why) {
    throw std::invalid_argument(fmt::format("{} '{}': {}", what.name, text, why));
  };
  double found = 0;
  try {
    found = worker_formula(text).of(worker.value, workers);
  } catch (const std::invalid_argument& e) {
    fail(e.what());
  }
  if (!(found >= what.least && found <= what.most))
    fail(fmt::format("expected {:g} to {:g} {}, found {:g} for worker {}", what.least, what.most, what.unit,
                     found, worker.value));
  return found;
}

} // namespace

link_times times_of(const link_formulas& f, rank worker, std::uint32_t workers) {
  return {amount_of(latency, f.latency, worker, workers), amount_of(bandwidth, f.bandwidth, worker, workers)};
}

using messaging::on, messaging::send, messaging::send_anonymously;

caf::behavior worker_link::make_behavior() {
  return {
      on(self_, [this](const join_shard& x) { on_join(x); }),
      on(self_, [this](const push_gradient& x) { on_gradient(x); }),
      on(self_, [this](const shard_weights& x) { on_weights(x); }),
      on(self_, [this](const predict_verdict& x) { send(self_, options_.shard, x); }),
      on(self_, [this](const verdict_predicted& x) { send(self_, device_, x); }),
      on(self_,
         [this](const worker_left& x) { carry(up_, 0, [this, x] { send(self_, options_.shard, x); }); }),
      on(self_,
         [this](const message_due&) {
           deliver_due(up_);
           deliver_due(down_);
         }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void worker_link::on_join(const join_shard& x) {
  device_ = x.device;
  carry(up_, 0, [this, worker = x.worker, incarnation = x.incarnation] {
    send(self_, options_.shard, join_shard{worker, incarnation, caf::actor_cast<caf::actor>(self_)});
  });
}

void worker_link::on_gradient(const push_gradient& x) {
  push_gradient sent = x;
  const std::size_t bytes = options_.wire->carry(options_.shard_index, sent);
  sent.header.times.wire = std::exchange(under_way_, std::nullopt);
  const instant begun = options_.time->now();
  carry(up_, bytes, [this, sent = std::move(sent), begun]() mutable {
    const instant now = options_.time->now();
    under_way_up_ = now - begun;
    sent.payload.sent = now;
    send(self_, options_.shard, std::move(sent));
  });
}

void worker_link::on_weights(const shard_weights& x) {
  options_.wire->answered(options_.shard_index, x.header.discarded);
  const instant begun = options_.time->now();
  carry(down_, options_.wire->weight_bytes(options_.shard_index), [this, told = x, begun]() mutable {
    const instant now = options_.time->now();
    if (under_way_up_) under_way_ = *under_way_up_ + (now - begun);
    under_way_up_.reset();
    told.payload.arrived = now;
    send(self_, device_, std::move(told));
  });
}

/// A year before the clock could count no further.
constexpr instant last_moment = instant::max() - std::chrono::hours{24 * 365};

void worker_link::carry(way& by, std::size_t bytes, arrival arrive) {
  const instant now = options_.time->now();
  by.free = std::max(by.free, now);
  if (options_.times.bandwidth > 0) {
    const double seconds = static_cast<double>(bytes) / options_.times.bandwidth;
    by.free = std::min(last_moment, by.free + span_of(std::min(seconds, delay_law::longest)));
  }
  const instant due = by.free + span_of(options_.times.latency);
  if (due <= now && by.under_way.empty()) return arrive();
  by.under_way.emplace_back(due, std::move(arrive));
  options_.timer->at(due,
                     [self = caf::actor_cast<caf::actor>(self_)] { send_anonymously(self, message_due{}); });
}

void worker_link::deliver_due(way& by) {
  while (!by.under_way.empty() && by.under_way.front().first <= options_.time->now()) {
    const arrival arrive = std::move(by.under_way.front().second);
    by.under_way.pop_front();
    arrive();
  }
}

} // namespace mailgrad::lab
