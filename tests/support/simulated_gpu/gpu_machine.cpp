#include "gpu_machine.hpp"

#include "language/launch.hpp"
#include "waiting_threads.hpp"

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <new>
#include <sstream>
#include <stdexcept>

namespace mailgrad::simulated_gpu {

namespace {

constexpr std::size_t alignment = 256; // of cudaMalloc
constexpr std::size_t margin = 4096;
constexpr std::size_t watched = 256; ///< bytes of a margin that are compared
constexpr unsigned char untouched = 0xa5;

/// What is asked of the heap for so many bytes of a GPU.
std::size_t with_margins(std::size_t bytes) {
  return (2 * margin + bytes + alignment - 1) / alignment * alignment;
}

void* aligned(std::size_t bytes) {
  void* made = nullptr;
  if (posix_memalign(&made, alignment, bytes) != 0) throw std::bad_alloc();
  return made;
}

void write(unsigned char* from, std::size_t bytes, unsigned char value) {
  for (std::size_t i = 0; i < bytes; ++i) from[i] = value; // no memset: ThreadSanitizer would see that one
}

bool holds(const unsigned char* from, std::size_t bytes) {
  return std::all_of(from, from + bytes, [](unsigned char c) { return c == untouched; });
}

std::set<std::thread::id> waiting; ///< guarded by the machine's lock

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

/// A word of the environment, of which what ends with a sign has a value behind it.
struct known_word {
  std::string_view begin;
  void (*apply)(settings&, const std::string& word);

  bool is(const std::string& word) const {
    return begin.ends_with('=') ? word.starts_with(begin) : word == begin;
  }
};
constexpr known_word known_words[] = {
    {"forward", [](settings& s, const std::string&) { s.order.order = thread_order::forward; }},
    {"backward", [](settings& s, const std::string&) { s.order.order = thread_order::backward; }},
    {"shuffled", [](settings& s, const std::string&) { s.order.order = thread_order::shuffled; }},
    {"far", [](settings& s, const std::string&) { s.order.far = reach::one_warp_far; }},
    {"late", [](settings& s, const std::string&) { s.when = timing::late; }},
    {"seed=", [](settings& s, const std::string& w) { s.order.seed = number_in(w); }},
    {"gpus=", [](settings& s, const std::string& w) { s.gpus = static_cast<unsigned>(number_in(w)); }},
    {"names=", [](settings& s, const std::string& w) { s.names = names_in(w); }},
    {"capability=",
     [](settings& s, const std::string& w) { s.capability_major = static_cast<unsigned>(number_in(w)); }},
    {"memory=", [](settings& s, const std::string& w) { s.memory_bytes = number_in(w); }},
    {"lost=", [](settings& s, const std::string& w) { s.fail.lost_gpu_at = number_in(w); }},
    {"fault=", [](settings& s, const std::string& w) { s.fail.launch_error_at = number_in(w); }}};

} // namespace

void* gpu_memory::allocate(std::uint32_t gpu, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto* const raw = static_cast<unsigned char*>(aligned(with_margins(bytes)));
  unsigned char* const made = raw + margin;
  write(made - watched, watched, untouched);
  write(made + bytes, watched, untouched);
  write(made, bytes, 0xff);
  forbid(raw, with_margins(bytes));
  all_.emplace(reinterpret_cast<std::uintptr_t>(made), allocation{bytes, gpu, false});
  return made;
}

void* gpu_memory::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const made = aligned(bytes);
  all_.emplace(reinterpret_cast<std::uintptr_t>(made), allocation{bytes, 0, true});
  return made;
}

bool gpu_memory::release(void* address) {
  const auto found = all_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == all_.end()) return false;
  auto* raw = static_cast<unsigned char*>(address);
  if (!found->second.pinned) {
    raw -= margin;
    allow(raw, with_margins(found->second.bytes));
  }
  all_.erase(found);
  std::free(raw);
  return true;
}

const std::pair<const std::uintptr_t, gpu_memory::allocation>* gpu_memory::around(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = all_.upper_bound(at);
  if (next == all_.begin()) return nullptr;
  --next;
  return at <= next->first + next->second.bytes ? &*next : nullptr;
}

const gpu_memory::allocation* gpu_memory::find(const void* address) const {
  const auto* const found = around(address);
  return found == nullptr ? nullptr : &found->second;
}

std::uintptr_t gpu_memory::end_of(const void* address) const {
  const auto* const found = around(address);
  return found == nullptr ? 0 : found->first + found->second.bytes;
}

std::size_t gpu_memory::bytes_of(std::uint32_t gpu) const {
  std::size_t bytes = 0;
  for (const auto& [at, a] : all_)
    if (!a.pinned && a.gpu == gpu) bytes += a.bytes;
  return bytes;
}

void gpu_memory::open() {
  for (const auto& [at, a] : all_)
    if (!a.pinned) allow(reinterpret_cast<const void*>(at), a.bytes);
}

void gpu_memory::close() {
  for (const auto& [at, a] : all_)
    if (!a.pinned) forbid(reinterpret_cast<const void*>(at), a.bytes);
}

std::optional<std::string> gpu_memory::damaged() {
  if (with_address_sanitizer) return std::nullopt; // which has said it already
  for (const auto& [at, a] : all_) {
    if (a.pinned) continue;
    auto* const begin = reinterpret_cast<unsigned char*>(at);
    const bool before = holds(begin - watched, watched), behind = holds(begin + a.bytes, watched);
    if (before && behind) continue;
    write(begin - watched, watched, untouched);
    write(begin + a.bytes, watched, untouched);
    return fmt::format("stored {} an allocation of {} bytes", before ? "behind" : "before", a.bytes);
  }
  return std::nullopt;
}

std::set<std::thread::id> take_waiting_threads() {
  const std::lock_guard held(gpu_machine::of_process().lock);
  return std::exchange(waiting, {});
}

gpu_machine& gpu_machine::of_process() {
  static auto* const made =
      new gpu_machine; // never ends: blocks of other static objects may be released after it
  return *made;
}

void refuse(const char* name, std::string_view why) {
  const std::string where = current_gpu ? fmt::format("cuda:{}: ", *current_gpu) : "";
  throw device_error(world_errc::device_failure, fmt::format("{}{}: {}", where, name, why));
}

void gpu_machine::begin_call(const char* name, std::uint32_t gpu) {
  ++counted.calls;
  if (set.has != machine::complete || gpu >= set.gpus) refuse(name, "no CUDA-capable device is detected");
  if (!current_gpu) refuse(name, "no GPU is current on this thread, and the first one would be woken");
  if (set.fail.lost_gpu_at == ++calls_)
    for (std::uint32_t c = 0; c < set.gpus; ++c) fail(c, "the GPU is lost");
  report(name, gpu);
}

void gpu_machine::begin_making(const char* name, std::uint32_t gpu) {
  if (++counted.driver_objects == set.fail.driver_out_of_memory_at)
    throw out_of_memory(fmt::format("cuda:{}: out of memory: {}", gpu, name));
}

std::optional<std::string> gpu_machine::has_failed(std::uint32_t gpu) const {
  const between_threads quiet;
  const auto found = errors_.find(gpu);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

void gpu_machine::report(const char* name, std::uint32_t gpu) const {
  if (const auto error = has_failed(gpu)) refuse(name, *error);
}

void gpu_machine::require_may_wait(const char* name) {
  ++counted.waits;
  waiting.insert(std::this_thread::get_id());
  if (!set.may_wait) throw std::logic_error(fmt::format("{} waits for a GPU where nobody may wait", name));
}

// The text was written where the kernel ran, and is read by the host.
void gpu_machine::fail(std::uint32_t gpu, std::string why) {
  const between_threads quiet;
  errors_.emplace(gpu, std::move(why));
}

void gpu_machine::forget_errors() {
  const between_threads quiet;
  errors_.clear();
  calls_ = 0;
}

std::uint64_t gpu_machine::next_kernel(std::uint32_t gpu) {
  ++counted.kernels;
  if (set.fail.launch_error_at == counted.kernels) fail(gpu, "an illegal memory access was encountered");
  return counted.kernels;
}

stream_state& gpu_machine::stream(void* handle, const char* call) {
  const auto found = streams.find(handle);
  if (found == streams.end()) refuse("stream", "invalid resource handle");
  begin_call(call, found->second->gpu);
  return *found->second;
}

event_state& gpu_machine::event(void* handle) {
  const auto found = events.find(handle);
  if (found == events.end()) refuse("event", "invalid resource handle");
  return *found->second;
}

void gpu_machine::queue(stream_state& s, work w) {
  if (s.captured) {
    if (w.body) s.captured->nodes.push_back(std::move(w));
    return;
  }
  s.submitted.left();
  s.queued.push_back(std::move(w));
  if (set.when == timing::eager)
    while (!s.queued.empty()) run_next(s);
}

void gpu_machine::run_next(stream_state& s) {
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
  if (w.body && !has_failed(s.gpu)) run_body(s, w);
  s.done.left();
  {
    const between_threads quiet; // the threads of the GPU have read its arguments
    w = {};
  }
  s.order.leave();
}

void gpu_machine::run_body(const stream_state& s, const work& w) {
  memory.open();
  auto failure = w.body();
  memory.close();
  if (failure) fail(s.gpu, std::move(*failure));
}

void gpu_machine::reach(const std::shared_ptr<event_point>& point) {
  while (point->where != nullptr) run_next(*point->where);
}

bool gpu_machine::is_idle(const stream_state& s) {
  return std::ranges::all_of(s.queued, [](const work& w) { return !w.body && (!w.wait || !w.wait->where); });
}

bool gpu_machine::may_go_on(const stream_state& s) {
  return !s.queued.empty() && (s.queued.front().wait == nullptr || s.queued.front().wait->where == nullptr);
}

bool gpu_machine::run_one(std::uint64_t drawn) {
  std::vector<stream_state*> ready;
  for (const auto& [handle, s] : streams)
    if (may_go_on(*s)) ready.push_back(s.get());
  if (ready.empty()) return false;
  std::ranges::sort(ready, {}, &stream_state::number); // their addresses differ from run to run
  run_next(*ready[drawn % ready.size()]);
  return true;
}

void gpu_machine::finish(stream_state& s) {
  while (!s.queued.empty()) run_next(s);
  s.done.passed();
}

void gpu_machine::finish_all() {
  for (std::uint32_t gpu = 0; gpu < set.gpus; ++gpu) finish_gpu(gpu);
}

void gpu_machine::finish_gpu(std::uint32_t gpu) {
  for (const auto& [handle, s] : streams)
    if (s->gpu == gpu) finish(*s);
}

settings default_settings() {
  settings s;
  const char* const named = std::getenv("MAILGRAD_SIMULATED_GPU");
  std::istringstream words(named == nullptr ? "" : named);
  for (std::string word; words >> word;) {
    const auto* const known =
        std::ranges::find_if(known_words, [&](const known_word& k) { return k.is(word); });
    if (known == std::end(known_words))
      throw std::invalid_argument(fmt::format(
          "MAILGRAD_SIMULATED_GPU: {}, where forward, backward, shuffled, far, late, seed=N, gpus=N, "
          "names=A,B, capability=N, memory=BYTES, lost=N (at the n-th call) or fault=N (of the n-th kernel) "
          "may stand",
          word));
    known->apply(s, word);
  }
  return s;
}

void leave_gpus() { current_gpu.reset(); }

void set_up(const settings& s) {
  const held_machine all;
  all->finish_all();
  all->forget_errors();
  all->set = s;
  const std::size_t bytes = all->counted.bytes_now;
  all->counted = {.bytes_now = bytes, .bytes_at_most = bytes};
}

/// A kernel calls it, so the lock of the machine is held.
std::uint64_t nanoseconds() {
  const between_threads quiet;
  if (const auto& clock = gpu_machine::of_process().set.clock) return clock();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool run_next(std::uint64_t drawn) {
  const held_machine all;
  return all->run_one(drawn);
}

counters count() {
  const held_machine all;
  return all->counted;
}

} // namespace mailgrad::simulated_gpu
