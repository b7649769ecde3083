#include <mailgrad/cli/live/prometheus_text.hpp>
#include <mailgrad/engine/account/figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

using label = std::pair<std::string_view, std::string>;

/// The upper ends of buckets, in versions.
constexpr std::array<std::uint64_t, 14> ends{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

std::string in_digits(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class metrics_text {
public:
  /// Begins a metric, unless the lines before are of it; its lines follow.
  metrics_text& metric(std::string_view name, std::string_view type, std::string_view help) {
    const std::string named = fmt::format("mailgrad_{}", name);
    if (named != std::exchange(name_, named))
      text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
    return *this;
  }
  metrics_text& line(double value, const std::vector<label>& labels = {}, std::string_view suffix = {}) {
    std::string pairs;
    for (const auto& [key, text] : labels)
      pairs += fmt::format("{}{}=\"{}\"", pairs.empty() ? "" : ",", key, escaped(text));
    text_ +=
        fmt::format("{}{}{} {}\n", name_, suffix, pairs.empty() ? "" : "{" + pairs + "}", in_digits(value));
    return *this;
  }
  metrics_text& line(std::uint64_t value, const std::vector<label>& labels = {},
                     std::string_view suffix = {}) {
    return line(static_cast<double>(value), labels, suffix);
  }
  /// The known figures of these books that are metrics, counters first. Those of tests are another matter.
  template <class Books>
  void add(const Books& books, const std::vector<label>& labels = {}, bool of_tests = false) {
    for (const std::string_view type : {"counter", "gauge"})
      for (const figure& f : figures_of(books))
        if (f.elsewhere.metric && type_of(f.elsewhere.metric) == type && f.elsewhere.of_tests == of_tests)
          add(f, labels);
  }
  std::string take() { return std::move(text_); }

private:
  static std::string_view type_of(std::string_view metric) {
    return metric.ends_with("_total") ? "counter" : "gauge";
  }
  void add(const figure& f, std::vector<label> labels) {
    const figure_elsewhere& told = f.elsewhere;
    const std::optional<double> value = f.number();
    if (!value) return;
    if (told.label) labels.emplace_back(told.label, told.of_label);
    metric(told.metric, type_of(told.metric), told.help).line(*value, labels);
  }

  std::string name_;
  std::string text_;
};

void add_progress(metrics_text& to, const training_report& r, const std::string& model) {
  to.metric("run_info", "gauge", "What is trained, in its labels; the value is 1.")
      .line(1.0, {{"version", r.origin.version},
                  {"model", model},
                  {"data", r.data},
                  {"policy", r.present_policy},
                  {"cure", r.cure},
                  {"optimizer", r.optimizer},
                  {"workers", std::to_string(r.workers)},
                  {"shards", std::to_string(r.shards)}});
  to.metric("running", "gauge", "1 while the run goes on, 0 when it has ended.")
      .line(r.ended == "running" ? 1.0 : 0.0);
  to.add(r);
}

/// The last test may be some lines ago.
void add_tests(metrics_text& to, const training_report& r) {
  const auto last = std::ranges::find_if(r.curve.rbegin(), r.curve.rend(), &metrics_line::tested);
  if (last != r.curve.rend()) to.add(*last, {}, true);
}

void add_ledger(metrics_text& to, const gradient_ledger& l) {
  to.add(l);
  for (const auto& [reason, count] : l.discarded) to.line(count, {{"fate", "discarded"}, {"reason", reason}});
  to.metric("gradients_under_way", "gauge", "Gradients that are produced and not yet accounted for.")
      .line(l.produced - std::min(l.produced, l.accounted_for()));
}

void add_staleness(metrics_text& to, const training_report& r) {
  to.metric("staleness_versions", "histogram", "Version gap of each gradient, on each shard.");
  for (std::uint32_t worker = 0; worker < r.workers; ++worker) {
    const staleness_histogram gaps = staleness_of(r, worker);
    const std::string rank = std::to_string(worker);
    double sum = 0;
    std::array<std::uint64_t, ends.size()> counts{};
    for (const auto& [gap, count] : gaps.buckets()) {
      sum += static_cast<double>(gap) * static_cast<double>(count);
      for (std::size_t i = 0; i < ends.size(); ++i)
        if (gap <= ends[i]) counts[i] += count;
    }
    for (std::size_t i = 0; i < ends.size(); ++i)
      to.line(counts[i], {{"worker", rank}, {"le", std::to_string(ends[i])}}, "_bucket");
    to.line(gaps.total(), {{"worker", rank}, {"le", "+Inf"}}, "_bucket");
    to.line(sum, {{"worker", rank}}, "_sum").line(gaps.total(), {{"worker", rank}}, "_count");
  }
}

/// A run of one process has none.
void add_members(metrics_text& to, const training_report& r) {
  if (r.members.empty()) return;
  to.metric("members", "gauge", "Workers and parameter hosts of other processes, by how they stand.");
  const std::vector<member_counts> counts = counted(r.members);
  for (const member_counts& c : counts)
    for (std::size_t s = 0; s < c.in.size(); ++s)
      to.line(c.in[s],
              {{"role", c.role}, {"state", std::string(to_string(static_cast<run_member::state>(s)))}});
  to.metric("member_losses_total", "counter", "How often members were lost, those that came back included.");
  for (const member_counts& c : counts) to.line(c.losses, {{"role", c.role}});
}

/// A shard that has told nothing yet has no line.
void add_late(metrics_text& to, const training_report& r) {
  for (const late_figures& x : r.late)
    if (x.seconds_old)
      to.metric("late_shard_seconds", "gauge",
                "How old the figures of a shard are that has not answered; else it has no line.")
          .line(*x.seconds_old, {{"shard", std::to_string(x.shard)}});
}

void add_times(metrics_text& to, const training_report& r) {
  for (std::size_t worker = 0; worker < r.worker_waits.size(); ++worker)
    to.add(r.worker_waits[worker], {{"worker", std::to_string(worker)}});
  to.metric("gradient_seconds_total", "counter", "Time of gradients, by the part of their way.");
  for (const figure& part : figures_of(r.times))
    if (!part.value.is_null()) to.line(part.value.at("seconds").get<double>(), {{"part", part.name}});
}

} // namespace

std::string prometheus_text(const training_report& r, const std::optional<metrics_line>& last,
                            const std::string& model) {
  metrics_text text;
  add_progress(text, r, model);
  if (last) text.add(*last);
  add_tests(text, r);
  if (r.knows_ledger()) add_ledger(text, r.ledger);
  if (r.knows_ledger()) add_staleness(text, r);
  add_late(text, r);
  add_members(text, r);
  add_times(text, r);
  text.metric("policy_switches_total", "counter", "Changes of policy.")
      .line(std::uint64_t{r.switches.size()});
  if (r.checkpoints) text.add(*r.checkpoints);
  return text.take();
}

} // namespace mailgrad
