#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/format_report.hpp>

#include <array>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

/// With more pairs of a shard and a worker, a status leaves out the figures of single pairs, so that it stays
/// far below what a session carries. With more workers, it leaves out those of single workers, too.
constexpr std::size_t most_pairs_reported = 1024;
constexpr std::size_t most_waits_reported = 64;

constexpr std::size_t columns = 7;
constexpr std::array<const char*, columns> headings{"member",  "state",       "since",  "heard",
                                                    "address", "incarnation", "devices"};

struct table_row {
  std::array<std::string, columns> cells;
  std::string why{};
};

/// "3.2 s ago", "12 min ago", "5.0 h ago"
std::string ago(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s ago", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min ago", seconds / 60);
  return fmt::format("{:.1f} h ago", seconds / 3600);
}

/// "2 workers joined, 1 lost; 1 parameter host joined"
std::string format_counts(const json& counts) {
  std::string text;
  for (const auto& [role, states] : counts.items()) {
    std::string of_role;
    for (const auto& [state, number] : states.items()) {
      const auto n = number.get<std::uint64_t>();
      if (n == 0) continue;
      const std::string who = of_role.empty() ? fmt::format(" {}{}", role, n == 1 ? "" : "s") : "";
      of_role += fmt::format("{}{}{} {}", of_role.empty() ? "" : ", ", n, who, state);
    }
    text.append(text.empty() ? "" : "; ").append(of_role);
  }
  return text;
}

/// "was lost 2 times, the last time: it was killed". An older run does not tell how often.
std::string last_words(const json& m, std::uint64_t losses) {
  std::string why = printable(m.at("why").get<std::string>());
  const bool stays = m.at("state") == "joined" || m.at("state") == "done";
  if (losses > 1 && m.at("state") != "left")
    return fmt::format("was lost {} times, the last time: {}", losses, why);
  return stays && losses == 1 ? "was lost: " + why : why;
}

table_row row_of(const json& m) {
  const auto losses = m.value("losses", std::uint64_t{0});
  const auto text = [&](const char* field) { return printable(m.at(field).get<std::string>()); };
  const json& heard = m.at("heard_seconds");
  const std::string state = m.at("state") == "joined" && losses > 0 ? "back" : text("state");
  return {{fmt::format("{} {}", text("role"), m.at("number").get<std::uint64_t>()), state,
           ago(m.at("since_seconds").get<double>()), heard.is_null() ? "unknown" : ago(heard.get<double>()),
           text("address"), std::to_string(m.at("incarnation").get<std::uint64_t>()),
           printable(fmt::format("{}", fmt::join(m.at("devices").get<std::vector<std::string>>(), ",")))},
          last_words(m, losses)};
}

std::string line_of(const table_row& row, const std::array<std::size_t, columns>& widths) {
  std::string line = " ";
  for (std::size_t c = 0; c < columns; ++c) line += fmt::format(" {:<{}} ", row.cells[c], widths[c]);
  line += ' ' + row.why;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::uint64_t count_of(const json& counts) {
  std::uint64_t all = 0;
  for (const auto& [role, states] : counts.items())
    for (const auto& [state, number] : states.items()) all += number.get<std::uint64_t>();
  return all;
}

/// Shards of one process whose figures are missing in the report of a run in progress, or older than it.
struct late_shards {
  std::vector<late_figures> figures; ///< of each; all are known, or none is
  const run_member* host = nullptr;  ///< the parameter host that has them; null: the server, or unknown
};

std::string format_figures(const late_shards& x) {
  std::vector<std::uint32_t> shards;
  std::optional<double> oldest;
  for (const late_figures& f : x.figures) {
    shards.push_back(f.shard);
    oldest = std::max(oldest, f.seconds_old);
  }
  const std::string whose = mailgrad::listed("shard", shards);
  if (oldest) return fmt::format("the figures of {} are of {:.1f} s ago", whose, *oldest);
  return fmt::format("{} {} told no figures yet", whose, shards.size() == 1 ? "has" : "have");
}

std::string format_host(const late_shards& x) {
  if (!x.host) return "";
  const run_member& host = *x.host;
  const bool here = host.is == run_member::state::joined;
  const std::string what =
      here ? host.heard ? fmt::format("was heard {:.1f} s ago", *host.heard) : "is silent"
      : host.is == run_member::state::lost ? fmt::format("was lost {:.1f} s ago", host.since)
                                           : fmt::format("left {:.1f} s ago", host.since);
  return fmt::format("; {} {}, which {} {}, {}", host.role, host.number, here ? "holds" : "held",
                     x.figures.size() == 1 ? "it" : "them", what);
}

/// By their hosts, and by whether they have told figures.
std::vector<late_shards> late_of(const training_report& so_far, const std::vector<run_member>& members) {
  std::vector<late_shards> all;
  for (const late_figures& x : so_far.late) {
    const auto holder = std::ranges::find_if(
        members, [&](const run_member& m) { return std::ranges::count(m.shards, x.shard) > 0; });
    const run_member* const host = holder == members.end() ? nullptr : &*holder;
    const auto known = std::ranges::find_if(all, [&](const late_shards& l) {
      return l.host == host && l.figures.front().seconds_old.has_value() == x.seconds_old.has_value();
    });
    if (known == all.end())
      all.push_back({{x}, host});
    else
      known->figures.push_back(x);
  }
  return all;
}

/// "late          the figures of shards 0, 1 are of 0.8 s ago; parameter host 0, which holds them, was heard
/// 0.8 s ago", a line for each.
std::string in_words(const std::vector<late_shards>& all) {
  std::string text;
  for (const late_shards& x : all)
    text += fmt::format("late          {}{}\n", format_figures(x), format_host(x));
  return text;
}

json to_json(const std::vector<late_shards>& all) {
  const auto known = [](const std::optional<double>& x) { return x ? json(*x) : json(); };
  json list = json::array();
  for (const late_shards& x : all)
    for (const late_figures& f : x.figures)
      list.push_back({{"shard", f.shard},
                      {"seconds_old", known(f.seconds_old)},
                      {"parameter_host", x.host ? json(x.host->number) : json()},
                      {"heard_seconds", x.host ? known(x.host->heard) : json()}});
  return list;
}

/// Without the figures of single pairs, which grow by workers times shards, and those of single workers,
/// where these are too many. Left out before they are written, since writing them takes seconds. Their sums
/// stay.
training_report shortened(training_report r) {
  if (r.exchanges.size() > most_pairs_reported) r.exchanges.clear();
  if (r.workers <= most_pairs_reported) return r;
  r.worker_waits.clear();
  r.devices.clear();
  r.stages.clear();
  batch_origins all;
  for (const batch_origins& b : r.batches) {
    all.own += b.own;
    all.sent += b.sent;
    all.lost += b.lost;
    all.spared_bytes += b.spared_bytes;
  }
  if (!r.batches.empty()) r.batches = {all};
  return r;
}

void leave_workers_out(json& all) {
  json& report = all.at("report");
  for (const char* figures : {"wait_seconds", "batches"})
    if (report.at(figures).is_object()) report.at(figures)["per_worker"] = json::array();
  all["expected"] = json::array();
}

std::vector<std::string> shortened(std::vector<std::string> waits) {
  if (waits.size() <= most_waits_reported) return waits;
  const std::size_t more = waits.size() - most_waits_reported;
  waits.resize(most_waits_reported);
  waits.push_back(fmt::format("and {} more {}", more, more == 1 ? "wait" : "waits"));
  return waits;
}

} // namespace

std::string format_members(const json& members) {
  const json& counts = members.at("counts");
  if (counts.empty()) return "";
  std::vector<table_row> rows{{}};
  std::ranges::copy(headings, rows[0].cells.begin());
  for (const json& m : members.at("listed")) rows.push_back(row_of(m));
  std::array<std::size_t, columns> widths{};
  for (const table_row& row : rows)
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row.cells[c].size());
  std::string text = fmt::format("members       {}\n", format_counts(counts));
  for (const table_row& row : rows) text += line_of(row, widths);
  const std::uint64_t unreported =
      count_of(counts) - std::min<std::uint64_t>(count_of(counts), rows.size() - 1);
  if (unreported > 0) text += fmt::format("  and {} more, which give less cause for concern\n", unreported);
  return text;
}

std::string status_of(training_report so_far, const std::vector<std::string>& waits) {
  const std::vector<run_member> members = std::exchange(so_far.members, {});
  json all = json::parse(state_event(shortened(so_far), shortened(waits)));
  if (so_far.workers > most_pairs_reported) leave_workers_out(all);
  const std::vector<late_shards> late = late_of(so_far, members);
  if (!late.empty()) all["late"] = to_json(late);
  all["report"].erase("members");
  all["members"] = json::parse(to_json(members));
  all["text"] = in_words(so_far) + in_words(late);
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string format_status(const std::string& status) {
  try {
    const json all = json::parse(status);
    const std::string members = all.contains("members") ? format_members(all.at("members")) : "";
    if (all.value("waiting", false))
      return fmt::format("waiting: {} have joined\n{}", all.at("attendance").get<std::string>(), members);
    std::string text = all.at("text").get<std::string>() + members;
    for (const json& wait : all.at("waits")) text += wait.get<std::string>() + '\n';
    return text;
  } catch (const json::exception& e) {
    throw std::runtime_error(
        fmt::format("status: expected that of a run, found another answer: {}", e.what()));
  }
}

} // namespace mailgrad
