#include <mailgrad/engine/plan/fact_differences.hpp>

#include <mailgrad/engine/plan/fact_as_typed.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

/// A thing that its fact gives by a digest, which tells nobody what it was.
struct named_thing {
  std::string_view fact;
  std::string_view name_fact;
  const char* was;
  const char* is;
};

constexpr std::array<named_thing, 2> named_things{{
    {samples_fact, "name of the data", "the training data were", "are"},
    {model_fact, "name of the model", "the model was", "is"},
}};

/// The option of the tool that decides on a fact. A reader who wants it as it was gives that.
struct fact_option {
  std::string_view fact;
  const char* option;
};

constexpr std::array<fact_option, 14> fact_options{{
    {"policy", "--policy"},
    {"cure", "--cure"},
    {"optimizer", "--optimizer"},
    {"learning rate", "--lr"},
    {"local steps", "--local-steps"},
    {"outer optimizer", "--outer-optimizer"},
    {"outer learning rate", "--outer-lr"},
    {"schedule", "--schedule"},
    {"weight decay", "--weight-decay"},
    {"l2", "--l2"},
    {"clip norm", "--clip-norm"},
    {batch_fact, "--batch"},
    {"number of micro-batches", "--micro-batches"},
    {"seed", "--seed"},
}};

/// "--batch", or "the arithmetic" of what no option says.
std::string subject(std::string_view fact) {
  const auto by = std::ranges::find(fact_options, fact, &fact_option::fact);
  return by == fact_options.end() ? fmt::format("the {}", fact) : by->option;
}

const std::string* find(const run_facts& facts, std::string_view what) {
  const auto found = std::ranges::find(facts, what, &run_facts::value_type::first);
  return found == facts.end() ? nullptr : &found->second;
}

/// "lenet (SHA-256 cd3456789abc...)"
std::string named(const std::string* name, const std::string& digest) {
  const std::string shortened = digest.size() > 12 ? "SHA-256 " + digest.substr(0, 12) + "..." : digest;
  return name ? fmt::format("{} ({})", *name, shortened) : shortened;
}

std::string difference(const run_facts& told, const run_facts& here, const run_facts::value_type& fact) {
  const auto& [what, is] = fact;
  const std::string was = told_fact(told, what);
  const auto thing = std::ranges::find(named_things, std::string_view(what), &named_thing::fact);
  if (thing == named_things.end())
    return fmt::format("{} was {}, and is {} here", subject(what), fact_as_typed(what, was),
                       fact_as_typed(what, is));
  return fmt::format("{} {}, and {} {} here", thing->was, named(find(told, thing->name_fact), was), thing->is,
                     named(find(here, thing->name_fact), is));
}

} // namespace

run_facts names_of(const data_split& data, const training_options& o) {
  run_facts names;
  for (const named_thing& t : named_things)
    if (const std::string& name = t.fact == model_fact ? o.model_name : data.name; !name.empty())
      names.emplace_back(t.name_fact, name);
  return names;
}

bool tells(const run_facts& facts, std::string_view what) { return find(facts, what) != nullptr; }

std::string told_fact(const run_facts& told, std::string_view what) {
  if (const std::string* const found = find(told, what)) return *found;
  if (what == computers_fact) return computer_in_words({device_kind::cpu, 0});
  if (what == precision_fact) return std::string(name(product_precision::float32));
  return what == first_weights_fact ? drawn_weights : "not told";
}

std::string differences(const run_facts& told, const run_facts& here,
                        std::span<const std::string_view> free) {
  std::string all;
  for (const auto& fact : here) {
    const bool is_name = std::ranges::find(named_things, std::string_view(fact.first),
                                           &named_thing::name_fact) != named_things.end();
    if (is_name || std::ranges::find(free, fact.first) != free.end()) continue;
    if (told_fact(told, fact.first) == fact.second) continue;
    all += (all.empty() ? "" : "; ") + difference(told, here, fact);
  }
  return all;
}

} // namespace mailgrad
