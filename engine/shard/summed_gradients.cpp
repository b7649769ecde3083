#include <mailgrad/engine/shard/summed_gradients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// "the sum of step 5 that worker 0 carries"
std::string in_words(const gradient_header& x) {
  if (!x.sum) return fmt::format("no sum at step {}", x.id.step.value);
  return fmt::format("the sum of {} gradients of step {} that worker {} carries", x.sum->gradients,
                     x.id.step.value, x.sum->carrier.value);
}

bool is_of_one_sum(const gradient_header& a, const gradient_header& b) {
  return a.sum && b.sum && a.id.step == b.id.step && a.sum->carrier == b.sum->carrier &&
         a.sum->gradients == b.sum->gradients;
}

} // namespace

void require_one_sum(std::span<const gradient_header> of_update) {
  if (std::ranges::none_of(of_update, [](const gradient_header& x) { return x.sum.has_value(); })) return;
  const gradient_header& first = of_update.front();
  for (const gradient_header& x : of_update)
    if (!is_of_one_sum(first, x))
      throw std::runtime_error(
          fmt::format("worker {}: expected its gradient in {}, as that of worker {}, found {}",
                      x.id.worker.value, in_words(first), first.id.worker.value, in_words(x)));
  if (std::ranges::none_of(of_update,
                           [&](const gradient_header& x) { return x.id.worker == first.sum->carrier; }))
    throw std::runtime_error(fmt::format("worker {}: expected {}, found no gradient of that worker",
                                         first.sum->carrier.value, in_words(first)));
  if (of_update.size() != first.sum->gradients)
    throw std::runtime_error(fmt::format("worker {}: expected {}, found {} gradients for this update",
                                         first.sum->carrier.value, in_words(first), of_update.size()));
}

} // namespace mailgrad
