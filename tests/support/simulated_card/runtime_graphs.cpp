#include "card_machine.hpp"

#include <mailgrad/kernels/cuda/missing_card.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

// The part of kernels/cuda/runtime.hpp that keeps work as a graph, and what it says of the machine.
namespace mailgrad::cuda::runtime {

using simulated_card::card_machine;
using simulated_card::graph_state;
using simulated_card::refuse;
using simulated_card::stream_state;

found_cards find_cards() {
  card_machine& all = card_machine::of_process();
  const std::lock_guard held(all.lock);
  using simulated_card::machine;
  switch (all.set.has) {
  case machine::without_driver:
    return {.cards = {}, .driver = {}, .why_none = in_words(missing_card{.built_for = 13000})};
  case machine::with_old_driver:
    return {.cards = {},
            .driver = "CUDA 11.4",
            .why_none = in_words(missing_card{.driver = 11040, .built_for = 13000})};
  case machine::without_card:
    return {.cards = {},
            .driver = "CUDA 13.0",
            .why_none = in_words(missing_card{.driver = 13000, .built_for = 13000})};
  case machine::complete:
    break;
  }
  const card one{.name = "simulated card",
                 .memory_bytes = all.set.memory_bytes,
                 .major = all.set.capability_major,
                 .minor = 0,
                 .multiprocessors = 132,
                 .why_unknown = {}};
  std::vector<card> cards(all.set.cards, one);
  for (std::size_t i = 0; i < std::min(cards.size(), all.set.names.size()); ++i)
    cards[i].name = all.set.names[i];
  if (const auto silent = all.set.fail.silent_card) {
    cards.at(*silent) = {};
    cards.at(*silent).why_unknown = "unknown error";
  }
  return {.cards = std::move(cards), .driver = "CUDA 13.0", .why_none = {}};
}

void begin_capture(void* stream) {
  card_machine& all = card_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaStreamBeginCapture", s.card);
  if (s.captured) refuse("cudaStreamBeginCapture", "invalid argument");
  s.captured.emplace().by = std::this_thread::get_id();
}

void* end_capture(void* stream) {
  card_machine& all = card_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaStreamEndCapture", s.card);
  if (!s.captured) refuse("cudaStreamEndCapture", "invalid argument");
  if (s.captured->by != std::this_thread::get_id())
    refuse("cudaStreamEndCapture",
           "attempt to terminate a thread-local capture sequence from another thread");
  auto made = std::make_unique<graph_state>();
  const auto ended = std::exchange(s.captured, std::nullopt);
  if (ended->broken)
    refuse("cudaStreamEndCapture",
           fmt::format("operation failed due to a previous error during capture ({})", *ended->broken));
  all.begin_making("cudaGraphInstantiate", s.card);
  made->nodes = ended->nodes;
  return made.release();
}

void launch_graph(void* graph, void* stream) {
  card_machine& all = card_machine::of_process();
  const std::lock_guard held(all.lock);
  stream_state& s = all.stream(stream);
  all.begin_call("cudaGraphLaunch", s.card);
  ++all.counted.launches;
  auto* const made = static_cast<graph_state*>(graph);
  all.queue(s, {.body = [made]() -> std::optional<std::string> {
              for (const auto& node : made->nodes)
                if (auto failure = node.body()) return failure;
              made->order.left();
              return std::nullopt;
            }});
}

void destroy_graph(void* graph) noexcept {
  if (graph == nullptr) return;
  card_machine& all = card_machine::of_process();
  const std::lock_guard held(all.lock);
  auto* const made = static_cast<graph_state*>(graph);
  for (std::uint32_t card = 0; card < all.set.cards; ++card) all.finish_card(card);
  made->order.passed();
  delete made;
}

} // namespace mailgrad::cuda::runtime
