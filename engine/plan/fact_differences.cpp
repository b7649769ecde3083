#include <mailgrad/engine/plan/fact_differences.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

/// 0.1 for 0.10000000000000001, and 1e-8 for 1e-08. What is no number, or a whole one, stays as it is.
std::string shortest(std::string_view word) {
  double number = 0;
  const auto [rest, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = word.find_first_of(".e") == word.npos;
  if (is_whole || wrong != std::errc() || rest != word.data() + word.size()) return std::string(word);
  std::string text = fmt::format("{}", number);
  for (const std::string_view zero : {"e-0", "e+0"})
    if (const std::size_t at = text.find(zero); at != text.npos) text.erase(at + 2, 1);
  return text;
}

std::string with_short_numbers(std::string_view value) {
  constexpr std::string_view between = " ,=:@";
  std::string text;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find_first_of(between, begin), value.size());
    text += shortest(value.substr(begin, end - begin));
    if (end < value.size()) text += value[end];
    begin = end + 1;
  }
  return text;
}

/// The words between spaces. Those in quotes may have spaces, and lose the quotes.
std::vector<std::string> words_of(std::string_view value) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : value) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

/// "nesterov=yes" for the word "nesterov" that run_fingerprint has of muon, and "beta1=0.9" for 0.9.
std::string setting_as_typed(std::string_view name, const std::string& word) {
  if (name == "nesterov") return word == name ? "nesterov=yes" : "nesterov=no";
  return fmt::format("{}={}", name, shortest(word));
}

} // namespace

std::string fact_as_typed(std::string_view fact, const std::string& value) {
  if (fact != "optimizer" && fact != "outer optimizer") return with_short_numbers(value);
  const std::vector<std::string> words = words_of(value);
  const std::vector<std::string_view> names = optimizer_setting_names(words[0]);
  if (words.size() != names.size() + 1) return with_short_numbers(value);
  std::string text = words[0];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const std::string& word = words[i + 1]; !word.empty())
      text += (text.find(':') == text.npos ? ':' : ',') + setting_as_typed(names[i], word);
  return text;
}

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
