#include <mailgrad/actors/worker/summed_exchange.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad {
using messaging::send_anonymously;

namespace {

sum_mark mark_of(const net::all_reduce::givers& who) {
  const auto first = std::ranges::find(who, true);
  return {{static_cast<std::uint32_t>(first - who.begin())},
          static_cast<std::uint32_t>(std::ranges::count(who, true))};
}

} // namespace

summed_exchange::summed_exchange(const worker_context& of, shard_lines& lines,
                                 std::shared_ptr<net::all_reduce> sums)
    : of_(of), lines_(lines), sums_(std::move(sums)) {}

void summed_exchange::receive(const shard_weights& x) {
  const instant taken = of_.time.now();
  of_.runner.use_weights(x.header.shard.value, x.payload.values);
  lines_.note(x, taken, of_.time.now() - taken);
}

void summed_exchange::deliver(computed_gradient g) {
  if (g.values->covered || !g.values->addends.empty() || !g.values->sparse.empty())
    throw std::runtime_error("a sum over all workers needs one dense gradient of every weight, and that of "
                             "this model is none; run it without --all-reduce");
  const std::shared_ptr<gradient> values = g.values;
  summing_ = std::move(g);
  sums_->add(values->dense.on_host<float>(), values,
             [us = caf::actor_cast<caf::actor>(of_.self), step = lines_.step().value + 1](const auto& who) {
               send_anonymously(us, gradients_summed{{step}, mark_of(who)});
             });
}

void summed_exchange::take_sum(const gradients_summed& x) {
  if (!summing_ || x.step.value != lines_.step().value + 1) return;
  computed_gradient g = *std::exchange(summing_, std::nullopt);
  const instant now = of_.time.now();
  of_.report.barrier_wait += (now - g.at).count();
  if (of_.trace) of_.trace->wait(trace_kind::barrier, now);
  const bool carries = x.sum.carrier == of_.worker;
  lines_.push(carries ? std::move(g.values) : nullptr, g.scale, now, g.spent, false, {}, x.sum);
}

} // namespace mailgrad
