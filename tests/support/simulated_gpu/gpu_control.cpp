#include "gpu_control.hpp"

#include "current_gpu.hpp"
#include "gpu_machine.hpp"
#include "language/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad::simulated_gpu {

namespace {

/// Behind the sign of "seed=7".
std::uint64_t number_in(const std::string& word) {
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + word.find('=') + 1, end, number);
  if (error != std::errc{} || rest != end)
    throw std::invalid_argument(fmt::format("MAILGRAD_SIMULATED_GPU: {} has no number", word));
  return number;
}

/// "A100" and "H100" of "names=A100,H100".
std::vector<std::string> names_in(const std::string& word) {
  std::istringstream list(word.substr(word.find('=') + 1));
  std::vector<std::string> names;
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

void apply_word(const std::string& word, settings& s) {
  if (word == "forward") {
    s.order.order = thread_order::forward;
  } else if (word == "backward") {
    s.order.order = thread_order::backward;
  } else if (word == "shuffled") {
    s.order.order = thread_order::shuffled;
  } else if (word == "far") {
    s.order.far = reach::one_warp_far;
  } else if (word == "late") {
    s.when = timing::late;
  } else if (word.starts_with("seed=")) {
    s.order.seed = number_in(word);
  } else if (word.starts_with("gpus=")) {
    s.gpus = static_cast<std::uint32_t>(number_in(word));
  } else if (word.starts_with("names=")) {
    s.names = names_in(word);
  } else if (word.starts_with("capability=")) {
    s.capability_major = static_cast<std::uint32_t>(number_in(word));
  } else if (word.starts_with("memory=")) {
    s.memory_bytes = number_in(word);
  } else if (word.starts_with("lost=")) {
    s.fail.lost_gpu_at = number_in(word);
  } else if (word.starts_with("fault=")) {
    s.fail.launch_error_at = number_in(word);
  } else {
    throw std::invalid_argument(fmt::format(
        "MAILGRAD_SIMULATED_GPU: {}, where forward, backward, shuffled, far, late, seed=N, gpus=N, "
        "names=A,B, capability=N, memory=BYTES, lost=N (at the n-th call) or fault=N (of the n-th kernel) "
        "may stand",
        word));
  }
}

} // namespace

settings default_settings() {
  settings s;
  const char* const named = std::getenv("MAILGRAD_SIMULATED_GPU");
  std::istringstream words(named == nullptr ? "" : named);
  for (std::string word; words >> word;) apply_word(word, s);
  return s;
}

void leave_gpus() { current_gpu.reset(); }

void set_up(const settings& s) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  for (std::uint32_t gpu = 0; gpu < all.set.gpus; ++gpu) all.finish_gpu(gpu);
  all.forget_errors();
  all.set = s;
  const std::size_t bytes = all.counted.bytes_now;
  all.counted = {.bytes_now = bytes, .bytes_at_most = bytes};
}

/// A kernel calls it, so the lock of the machine is held.
std::uint64_t nanoseconds() {
  const between_threads quiet;
  if (const auto& clock = gpu_machine::of_process().set.clock) return clock();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool run_next(std::uint64_t drawn) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  return all.run_one(drawn);
}

counters count() {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  return all.counted;
}

} // namespace mailgrad::simulated_gpu
