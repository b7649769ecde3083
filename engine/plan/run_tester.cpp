#include <mailgrad/engine/plan/run_tester.hpp>

#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

std::optional<device> card_for_tests(const training_options& o) {
  if (o.elsewhere) return std::nullopt;
  for (const std::vector<device>* all : {&o.parameters, &o.devices})
    if (const auto card = std::ranges::find(*all, device_kind::cuda, &device::kind); card != all->end())
      return device{device_kind::cuda, card->index};
  return std::nullopt;
}

run_tester::run_tester(model_function build, model_request request,
                       std::shared_ptr<const parameter_layout> layout, std::optional<device> card)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)), card_(card) {}

tested_model& run_tester::here() {
  if (!model_) model_ = std::make_unique<tested_model>(build_, request_, *layout_, card_.value_or(device{}));
  return *model_;
}

bool run_tester::try_with_model(const std::function<void(tested_model&)>& test) {
  try {
    test(here());
    return true;
  } catch (const device_error& e) {
    if (!leave_card(e.what())) throw;
  } catch (const graph_error& e) {
    if (!leave_card(e.what())) throw;
  }
  return false;
}

void run_tester::with_model(const std::function<void(tested_model&)>& test) {
  if (!try_with_model(test)) try_with_model(test);
}

bool run_tester::leave_card(const char* why) {
  if (!card_) return false;
  why_on_host_ = why;
  card_.reset();
  model_.reset();
  return true;
}

} // namespace mailgrad
