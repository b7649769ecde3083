#include <mailgrad/files/digests.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

namespace mailgrad::cuda {
namespace {

/// "mailgrad::functors::relu"
std::string name_of(elementwise_function f) {
  return with_functor(f, []<class Functor>(Functor) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(Functor).name(), nullptr, nullptr, &status), &std::free);
    if (!name) throw std::bad_alloc();
    return std::string(name.get());
  });
}

bool is_full(const elementwise_chain& chain, std::size_t input) {
  return chain.inputs[input] == elementwise_chain::extent::full;
}

bool is_read(const elementwise_chain& chain, std::size_t operand) {
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    if (step.a == operand || (!is_unary(step.function) && step.b == operand)) return true;
  }
  return false;
}

std::string operand_list(const elementwise_chain& chain) {
  std::string names;
  const std::size_t count = std::size_t{chain.input_count} + chain.step_count;
  for (std::size_t i = 0; i < count; ++i) names += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
  return names;
}

std::string loads(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.input_count; ++i)
    if (is_read(chain, i))
      lines += fmt::format("        o.x{0} = {1}(arrays.inputs[{0}]);\n", i,
                           is_full(chain, i) ? "elements.load" : "repeated");
  return lines;
}

std::string steps(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    const std::string second = is_unary(step.function) ? "" : fmt::format(", o.x{}", step.b);
    lines += fmt::format("          o.x{} = of_each({}{{}}, o.x{}{});\n", chain.input_count + i,
                         name_of(step.function), step.a, second);
  }
  return lines;
}

std::string stores(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.step_count; ++i)
    if (chain.steps[i].output >= 0)
      lines += fmt::format("        elements.store(arrays.outputs[{}], o.x{});\n", chain.steps[i].output,
                           chain.input_count + i);
  return lines;
}

constexpr const char* kernel_name = "chain";

std::string text_of(const elementwise_chain& chain) {
  return std::string(chain_preamble()) + chain_kernel_text(chain, kernel_name);
}

gpu_architecture architecture_of(std::uint32_t gpu) {
  const runtime::found_gpus found = runtime::find_gpus();
  if (gpu >= found.gpus.size()) fail_with(world_errc::no_such_device, "there is no cuda:{}", gpu);
  return {found.gpus[gpu].major, found.gpus[gpu].minor};
}

std::atomic<chains> chains_now = chains::generated;

elementwise_chain smallest_chain() {
  elementwise_chain chain;
  chain.input_count = 1;
  chain.step_count = 2;
  chain.steps[0] = {elementwise_function::exp, 0, 0, -1};
  chain.steps[1] = {elementwise_function::negate, 1, 1, 0};
  return chain;
}

} // namespace

std::string_view chain_preamble() noexcept {
  return "#include <mailgrad/kernels/cuda/elements.hpp>\n"
         "#include <mailgrad/kernels/functors/binary.hpp>\n"
         "#include <mailgrad/kernels/functors/unary.hpp>\n"
         "\n"
         "using namespace mailgrad::cuda;\n";
}

// Each kernel has its operands in a namespace of its own, so that several fit in one text.
std::string chain_kernel_text(const elementwise_chain& chain, std::string_view name) {
  return fmt::format("\nnamespace operands_of_{0} {{\n"
                     "struct operands {{\n"
                     "  float_pack {1};\n"
                     "}};\n"
                     "}} // namespace operands_of_{0}\n"
                     "\n"
                     "extern \"C\" __global__ void {0}(chain_arrays arrays, element_range range) {{\n"
                     "  for_packs<{2}>(\n"
                     "      range,\n"
                     "      [&](auto elements) {{\n"
                     "        operands_of_{0}::operands o{{}};\n"
                     "{3}"
                     "        return o;\n"
                     "      }},\n"
                     "      [&](auto& loaded) {{\n"
                     "#pragma unroll\n"
                     "        for (auto& o : loaded) {{\n"
                     "{4}"
                     "        }}\n"
                     "      }},\n"
                     "      [&](auto elements, const auto& o) {{\n"
                     "{5}"
                     "      }});\n"
                     "}}\n",
                     name, operand_list(chain), packs_of(chain), loads(chain), steps(chain), stores(chain));
}

unsigned packs_of(const elementwise_chain& chain) noexcept {
  std::size_t arrays = 0;
  for (std::size_t i = 0; i < chain.input_count; ++i)
    arrays += is_full(chain, i) && is_read(chain, i) ? 1 : 0;
  for (std::size_t i = 0; i < chain.step_count; ++i) arrays += chain.steps[i].output >= 0 ? 1 : 0;
  return arrays > 3 ? 1 : 2;
}

chain_kernels& chain_kernels::of_process() {
  static chain_kernels all(open_kernel_compiler, kernel_cache(kernel_cache::usual_folder()));
  return all;
}

chain_kernels::key chain_kernels::key_of(const elementwise_chain& chain, std::uint32_t gpu) {
  key made{};
  auto* to = made.data();
  *to++ = chain.input_count;
  *to++ = chain.step_count;
  for (std::size_t i = 0; i < elementwise_chain::max_inputs; ++i, ++to)
    if (i < chain.input_count) *to = static_cast<std::uint8_t>(chain.inputs[i]);
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    *to++ = static_cast<std::uint8_t>(step.function);
    *to++ = step.a;
    *to++ = step.b;
    *to++ = static_cast<std::uint8_t>(step.output);
  }
  for (unsigned i = 0; i < 4; ++i) made[made.size() - 4 + i] = static_cast<std::uint8_t>(gpu >> 8 * i);
  return made;
}

void* chain_kernels::find(const elementwise_chain& chain, std::uint32_t gpu) {
  const key asked = key_of(chain, gpu);
  const std::lock_guard held(lock_);
  const auto [found, is_new] = known_.try_emplace(asked);
  if (is_new) {
    to_come_.push_back({asked, chain, gpu});
    wanted_.notify_one();
  }
  if (found->second.now == state::to_come) {
    ++too_early_;
    begin_work();
  }
  return found->second.code;
}

/// Where the system has no thread left, the chain stays to come, and who asks next tries once more.
void chain_kernels::begin_work() {
  if (worker_.joinable()) return;
  try {
    worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error&) {
  }
}

void chain_kernels::begin_use() {
  const std::lock_guard held(use_);
  ++users_;
}

void chain_kernels::end_use() noexcept {
  const std::lock_guard held(use_);
  if (--users_ > 0) return;
  std::jthread ends; // here, without the lock that it needs
  {
    const std::lock_guard unchanged(lock_);
    ends.swap(worker_);
  }
}

void chain_kernels::finish() {
  std::unique_lock held(lock_);
  if (!to_come_.empty()) begin_work();
  done_.wait(held, [&] { return to_come_.empty() || !worker_.joinable(); });
}

std::string chain_kernels::why_none() const {
  const std::lock_guard held(lock_);
  return why_none_;
}

std::size_t chain_kernels::there() const {
  const std::lock_guard held(lock_);
  return static_cast<std::size_t>(
      std::ranges::count_if(known_, [](const auto& k) { return k.second.now == state::there; }));
}

void chain_kernels::work(const std::stop_token& stop) {
  std::unique_lock held(lock_);
  while (wanted_.wait(held, stop, [&] { return !to_come_.empty(); }) && !stop.stop_requested()) {
    const request next = to_come_.front();
    held.unlock();
    const kernel made = make(next);
    held.lock();
    note(next, made);
  }
}

/// A graph that is captured anew for each of many kernels would be captured as often.
void chain_kernels::note(const request& r, kernel made) {
  known_[r.what] = made;
  to_come_.pop_front();
  some_came_ = some_came_ || made.now == state::there;
  if (!to_come_.empty()) return;
  if (std::exchange(some_came_, false)) ++arrivals_;
  done_.notify_all();
}

chain_kernels::kernel chain_kernels::make(const request& r) {
  try {
    return {state::there, make_kernel(r)};
  } catch (const std::exception& e) {
    const std::lock_guard held(lock_);
    why_none_ = e.what();
    return {state::refused, nullptr};
  }
}

void* chain_kernels::make_kernel(const request& r) {
  if (!compiler_) compiler_ = open_();
  auto known = architectures_.find(r.gpu);
  if (known == architectures_.end()) known = architectures_.emplace(r.gpu, architecture_of(r.gpu)).first;
  const gpu_architecture where = known->second;
  const std::string text = text_of(r.chain);
  const std::string all =
      fmt::format("{}\nsm_{}{}\n{}", compiler_->identity(), where.major, where.minor, text);
  const std::string name = sha256(std::as_bytes(std::span(all)));
  if (const auto kept = cache_.find(name)) {
    try {
      return runtime::load_kernel(r.gpu, *kept, kernel_name);
    } catch (const device_error&) {
      // A driver that does not take it may take what its own compiler makes.
    }
  }
  const std::vector<std::byte> code = compiler_->compile(text, where);
  void* const made = runtime::load_kernel(r.gpu, code, kernel_name);
  cache_.keep(name, code);
  return made;
}

chain_kernels_user::chain_kernels_user() { chain_kernels::of_process().begin_use(); }
chain_kernels_user::~chain_kernels_user() { chain_kernels::of_process().end_use(); }

chain_kernel_counts count_chain_kernels() noexcept {
  if (!generates_kernels()) return {};
  const chain_kernels& all = chain_kernels::of_process();
  return {all.too_early(), all.arrivals()};
}

/// A compiler that is not wanted, or not there, says so when it is opened.
generated_kernels count_generated_kernels() {
  if (!generates_kernels()) return {0, format_generated_kernels()};
  const chain_kernels& all = chain_kernels::of_process();
  return {all.there(), all.why_none()};
}

std::string wait_for_chain_kernels() {
  if (!generates_kernels()) return format_generated_kernels();
  chain_kernels::of_process().finish();
  return chain_kernels::of_process().why_none();
}
void compute(chains how) { chains_now = how; }
bool interprets_chains() noexcept { return chains_now == chains::interpreted || !generates_kernels(); }

std::string format_generated_kernels() {
  try {
    return open_kernel_compiler()->in_words();
  } catch (const device_error& e) {
    return std::string("none: ") + e.what();
  }
}

std::string format_tried_kernels(std::uint32_t gpu) {
  std::string words = format_generated_kernels();
  try {
    const std::vector<std::byte> code =
        open_kernel_compiler()->compile(text_of(smallest_chain()), architecture_of(gpu));
    runtime::load_kernel(gpu, code, kernel_name);
  } catch (const device_error& e) {
    if (!words.starts_with("none")) words = fmt::format("none: {} fails: {}", words, e.what());
  }
  return words;
}

} // namespace mailgrad::cuda
