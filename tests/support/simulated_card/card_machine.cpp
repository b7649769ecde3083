#include "card_machine.hpp"
#include "current_card.hpp"

#include "waiting_threads.hpp"

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mailgrad::simulated_card {

namespace {

std::set<std::thread::id> waiting; ///< guarded by the machine's lock

} // namespace

std::set<std::thread::id> take_waiting_threads() {
  const std::lock_guard held(card_machine::of_process().lock);
  return std::exchange(waiting, {});
}

card_machine& card_machine::of_process() {
  static auto* const made =
      new card_machine; // never ends: blocks of other static objects may be released after it
  return *made;
}

void refuse(const char* name, std::string_view why) {
  const std::string where = current_card ? fmt::format("cuda:{}: ", *current_card) : "";
  throw device_error(world_errc::device_failure, fmt::format("{}{}: {}", where, name, why));
}

void card_machine::begin_call(const char* name, std::uint32_t card) {
  ++counted.calls;
  if (set.has != machine::complete || card >= set.cards) refuse(name, "no CUDA-capable device is detected");
  if (!current_card) refuse(name, "no card is current on this thread, and the first one would be woken");
  if (set.fail.lost_card_at == ++calls_)
    for (std::uint32_t c = 0; c < set.cards; ++c) fail(c, "the card is lost");
  if (const auto error = has_failed(card)) refuse(name, *error);
}

void card_machine::begin_making(const char* name, std::uint32_t card) {
  if (++counted.driver_objects == set.fail.driver_out_of_memory_at)
    throw out_of_memory(fmt::format("cuda:{}: out of memory: {}", card, name));
}

std::optional<std::string> card_machine::has_failed(std::uint32_t card) const {
  const between_threads quiet;
  const auto found = errors_.find(card);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

void card_machine::require_may_wait(const char* name) {
  ++counted.waits;
  waiting.insert(std::this_thread::get_id());
  if (!set.may_wait) throw std::logic_error(fmt::format("{} waits for a card where nobody may wait", name));
}

// The text was written where the kernel ran, and is read by the host.
void card_machine::fail(std::uint32_t card, std::string why) {
  const between_threads quiet;
  errors_.emplace(card, std::move(why));
}

void card_machine::forget_errors() {
  const between_threads quiet;
  errors_.clear();
  calls_ = 0;
}

std::uint64_t card_machine::next_kernel(std::uint32_t card) {
  ++counted.kernels;
  if (set.fail.launch_error_at == counted.kernels) fail(card, "an illegal memory access was encountered");
  return counted.kernels;
}

stream_state& card_machine::stream(void* handle) {
  const auto found = streams.find(handle);
  if (found == streams.end()) refuse("stream", "invalid resource handle");
  return *found->second;
}

event_state& card_machine::event(void* handle) {
  const auto found = events.find(handle);
  if (found == events.end()) refuse("event", "invalid resource handle");
  return *found->second;
}

void card_machine::queue(stream_state& s, work w) {
  if (s.captured) {
    if (w.body) s.captured->nodes.push_back(std::move(w));
    return;
  }
  s.submitted.left();
  s.queued.push_back(std::move(w));
  if (set.when == timing::eager)
    while (!s.queued.empty()) run_next(s);
}

void card_machine::run_next(stream_state& s) {
  if (s.queued.front().wait) reach(s.queued.front().wait);
  s.order.enter();
  s.submitted.passed();
  work w;
  {
    const between_threads quiet;
    w = std::move(s.queued.front());
    s.queued.pop_front();
    if (w.record) w.record->when = std::chrono::steady_clock::now();
  }
  if (w.wait) w.wait->order.passed();
  if (w.record) {
    w.record->order.left();
    w.record->where = nullptr;
  }
  if (w.body && !has_failed(s.card)) run_body(s, w);
  s.done.left();
  {
    const between_threads quiet; // the threads of the card have read its arguments
    w = {};
  }
  s.order.leave();
}

void card_machine::run_body(const stream_state& s, const work& w) {
  memory.open();
  auto failure = w.body();
  memory.close();
  if (failure) fail(s.card, std::move(*failure));
}

void card_machine::reach(const std::shared_ptr<event_point>& point) {
  while (point->where != nullptr) run_next(*point->where);
}

bool card_machine::is_idle(const stream_state& s) {
  return std::ranges::all_of(s.queued, [](const work& w) { return !w.body && (!w.wait || !w.wait->where); });
}

bool card_machine::may_go_on(const stream_state& s) {
  return !s.queued.empty() && (s.queued.front().wait == nullptr || s.queued.front().wait->where == nullptr);
}

bool card_machine::run_one(std::uint64_t drawn) {
  std::vector<stream_state*> ready;
  for (const auto& [handle, s] : streams)
    if (may_go_on(*s)) ready.push_back(s.get());
  if (ready.empty()) return false;
  std::ranges::sort(ready, {}, &stream_state::number); // their addresses differ from run to run
  run_next(*ready[drawn % ready.size()]);
  return true;
}

void card_machine::finish(stream_state& s) {
  while (!s.queued.empty()) run_next(s);
  s.done.passed();
}

void card_machine::finish_card(std::uint32_t card) {
  for (const auto& [handle, s] : streams)
    if (s->card == card) finish(*s);
}

} // namespace mailgrad::simulated_card
