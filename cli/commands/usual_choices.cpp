#include <mailgrad/cli/commands/usual_choices.hpp>

#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

constexpr const char* rule_by_default = "adam";
constexpr const char* policy_by_default = "sync"; ///< on devices that nobody named
constexpr std::uint32_t most_in_turns = 4096;     ///< workers whose devices are written out

/// How many devices the workers have. With a model that spans devices each worker has an equal share.
std::size_t devices_wanted(const train_words& w, std::size_t there) {
  const std::size_t workers = std::max(w.workers, w.remote.processes);
  if (workers == 0 || workers > most_in_turns) return there; // what cannot be shared out is refused later
  if (!w.span.any()) return workers;
  return there < workers ? there : there / workers * workers;
}

std::string list_for(const train_words& w, const std::vector<device>& there) {
  std::string list;
  for (std::size_t d = 0; d < devices_wanted(w, there.size()); ++d)
    list += (d == 0 ? "" : ",") + to_string(there[d % there.size()]);
  return list;
}

/// "adam at 0.001 (default)", "adam (default) at 0.01", "sgd at 0.001 (its default)", "sgd at 0.1"
std::string rule_in_words(const train_words& w, const optimizer_options& o) {
  const double rate = base_learning_rate(o);
  if (w.usual_rule && o.learning_rate) return fmt::format("{} (default) at {:g}", name(o), rate);
  return fmt::format("{} at {:g}{}", name(o), rate,
                     o.learning_rate ? ""
                     : w.usual_rule  ? " (default)"
                                     : " (its default)");
}

} // namespace

train_words open_words() {
  train_words w;
  w.optimizer = rule_by_default;
  w.devices.clear();
  return w;
}

train_words with_usual_choices(train_words w, const CLI::App& parser) {
  w.usual_rule = parser.count("--optimizer") == 0;
  w.usual_batch = parser.count("--batch") == 0;
  w.usual_devices = w.devices.empty();
  if (!w.usual_devices) return w;
  w.devices = list_for(w, usual_devices(cuda::runtime::find_cards(), usable_core_devices()));
  w.usual_policy = parser.count("--policy") + parser.count("--cure") == 0;
  if (w.usual_policy) w.run.policy = policy_by_default;
  return w;
}

void fit_usual_batch(const train_words& w, training_options& o, std::size_t samples) {
  if (!w.usual_batch || samples == 0 || samples >= o.batch) return;
  o.batch =
      std::max<std::size_t>(1, samples / std::max<std::size_t>(1, o.workers ? o.workers : o.devices.size()));
  for (std::vector<std::string>* words : {&o.words, &o.words_to_resume}) {
    option_words named(std::move(*words));
    named.set(fmt::format("--batch={}", o.batch));
    *words = named.take();
  }
}

train_words with_usual_cores(train_words w) {
  w.devices = list_for(w, usable_core_devices());
  return w;
}

std::vector<device> usual_devices(const cuda::runtime::found_cards& found, std::vector<device> cores) {
  std::vector<device> cards;
  for (std::uint32_t i = 0; i < found.cards.size(); ++i)
    if (found.cards[i].why_unknown.empty() && !found.cards[i].is_too_old())
      cards.push_back({device_kind::cuda, i});
  return cards.empty() ? std::move(cores) : cards;
}

std::string choices_in_words(const train_words& w, const training_options& o) {
  std::string text = rule_in_words(w, o.optimizer);
  if (o.batch < w.run.batch) text += fmt::format(", {} samples a mini-batch since there are so few", o.batch);
  if (!w.usual_devices) return text;
  return fmt::format("{}, {}on {}", text, w.usual_policy ? w.run.policy + " (default) " : "",
                     names_card(w.devices) ? w.devices : cores_of_process().in_words());
}

} // namespace mailgrad
