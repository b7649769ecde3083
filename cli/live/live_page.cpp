#include <mailgrad/cli/live/live_page.hpp>

#include <mailgrad/cli/report/pictures.hpp>
#include <mailgrad/engine/account/figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

using label = std::pair<std::string_view, std::string>;

/// The upper ends of buckets, in versions.
constexpr std::array<std::uint64_t, 14> ends{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    c == '\n' ? result += "\\n" : result += c;
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

using json = nlohmann::ordered_json;

std::string one_line(const json& x) { return x.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Of many workers it is told for the first ones, which the page shows.
json expected_in(const training_report& r, const std::string& policy) {
  constexpr std::size_t most_workers = 1024, first_of_more = 64;
  json all = json::array();
  for (const expected_staleness& x :
       expected_of(r, policy, r.workers > most_workers ? first_of_more : r.workers))
    all.push_back({{"mean", x.mean ? json(*x.mean) : json()},
                   {"at_most", x.at_most},
                   {"geometric", x.geometric ? json(*x.geometric) : json()},
                   {"in_words", x.in_words}});
  return all;
}

json late_in(const training_report& r) {
  json all = json::array();
  for (const late_figures& x : r.late) all.push_back(object_of(figures_of(x)));
  return all;
}

/// What the page is told of a report that was written as JSON before, with what this policy lets expect.
json state_of(const training_report& r, const std::string& policy, json report,
              const std::vector<std::string>& waits) {
  const std::uint64_t accounted = r.ledger.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, accounted);
  return {{"report", std::move(report)},
          {"expected", expected_in(r, policy)},
          {"under_way", r.knows_ledger() ? json(under_way) : json()},
          {"late", late_in(r)},
          {"waits", waits}};
}

/// What a server tells of such a run at its end. What an older report lacks is empty.
json told_of(std::span<const report_file> runs, std::size_t which) {
  const report_file& run = runs[which];
  json report = object_of(figures_of(training_report{}));
  report.update(run.fields);
  report.erase("curve");
  json curve = json::array();
  for (const metrics_line& line : run.report.curve) curve.push_back(object_of(figures_of(line)));
  return {{"label", label_of(runs, which)},
          {"file", run.path},
          {"model", run.report.model},
          {"curve", std::move(curve)},
          {"state", state_of(run.report, run.report.policy, std::move(report), {})}};
}

/// No text of a report ends the script that holds it.
std::string in_script(const json& x) {
  std::string text;
  for (const char c : x.dump(-1, ' ', true, json::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  return text;
}

/// Puts `by` in the place of a part that the page has.
void replace(std::string& page, std::string_view part, const std::string& by) {
  const std::size_t at = page.find(part);
  if (at == std::string::npos) throw std::logic_error("the page has no " + std::string(part));
  page.replace(at, part.size(), by);
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

/// The page has the lines of the curve, and planned switches are still to come.
std::string state_event(training_report r, const std::vector<std::string>& waits) {
  r.curve.clear();
  return one_line(state_of(r, r.present_policy, object_of(figures_of(r)), waits));
}

std::string begin_event(const live_beginning& x) {
  json curve = json::array();
  for (const metrics_line& line : x.curve) curve.push_back(object_of(figures_of(line)));
  return one_line({{"model", x.model},
                   {"total_steps", x.total_steps},
                   {"curve", std::move(curve)},
                   {"state", x.state.empty() ? json() : json::parse(x.state)},
                   {"key", x.key},
                   {"keeps_checkpoints", x.keeps_checkpoints}});
}

std::string kept_page(std::span<const report_file> runs) {
  json told{{"loss_words", format_loss(runs)}, {"runs", json::array()}};
  for (std::size_t i = 0; i < runs.size(); ++i) told["runs"].push_back(told_of(runs, i));
  std::string scripts =
      "<script type=\"application/json\" id=\"kept-runs\">" + in_script(told) + "</script>\n";
  std::string page(embedded::page_html);
  for (const auto& [name, script] : {std::pair("chart", &embedded::chart_js),
                                     {"pictures", &embedded::pictures_js},
                                     {"tables", &embedded::tables_js},
                                     {"live", &embedded::live_js}}) {
    replace(page, "<script src=\"/" + std::string(name) + ".js\" defer></script>\n", "");
    scripts += "<script>" + std::string(*script) + "</script>\n";
  }
  const std::string title = runs.size() == 1 ? runs[0].path : std::to_string(runs.size()) + " runs";
  replace(page, "<html lang=\"en\">", "<html lang=\"en\" class=\"kept\">");
  replace(page, "<title>Mailgrad</title>",
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
          "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
          "'none'\">\n<title>Mailgrad: " +
              as_html(title) + "</title>");
  replace(page, "<link rel=\"stylesheet\" href=\"/page.css\">",
          "<style>\n" + std::string(embedded::page_css) + "</style>");
  replace(page, "</body>", scripts + "</body>");
  return page;
}

} // namespace mailgrad
