#include <mailgrad/engine/shard/gradient_queue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

std::uint64_t gradient_queue::of(rank worker) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      places_, [&](const auto& place) { return place && place->what.header.id.worker == worker; }));
}

void gradient_queue::add(waiting_gradient g) {
  places_.emplace_back(std::move(g));
  ++present_;
}

std::vector<waiting_gradient> gradient_queue::take(std::size_t places) {
  std::vector<waiting_gradient> taken;
  for (std::size_t i = 0; i < places && !places_.empty(); ++i, places_.pop_front())
    if (places_.front()) taken.push_back(*std::move(places_.front()));
  present_ -= taken.size();
  return taken;
}

void gradient_queue::keep(archive& a, run_id run, shard& at, std::size_t workers) {
  std::size_t count = places_.size();
  a.field("places", count);
  for (std::size_t i = 0; i < count; ++i) {
    if (a.reads()) places_.emplace_back();
    std::optional<waiting_gradient>& place = places_[i];
    bool has_one = place.has_value();
    a.field(fmt::format("has {}", i), has_one);
    if (!has_one) continue;
    if (a.reads()) place.emplace();
    a.group(fmt::format("place {}", i), [&] { keep_gradient(a, *place, at); });
    if (!a.reads()) continue;
    if (const rank worker = place->what.header.id.worker; worker.value >= workers)
      throw archive_error(fmt::format("place {}: there is no worker {}", i, worker.value));
    place->what.header.id.run = run;
    ++present_;
  }
}

} // namespace mailgrad
