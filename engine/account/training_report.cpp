#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <sys/utsname.h>

#include <tuple>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> state_names{"joined", "done", "left", "lost"};
json counts_of(const std::vector<run_member>& members) {
  json all = json::object();
  for (const member_counts& c : counted(members))
    for (std::size_t s = 0; s < state_names.size(); ++s) all[c.role][std::string(state_names[s])] = c.in[s];
  return all;
}

/// Whether an operator must look at `a` before `b`. Of those that are gone, the last may tell what goes on.
bool is_more_urgent(const run_member& a, const run_member& b) {
  if (a.is != b.is) return a.is > b.is;
  return a.is == run_member::state::joined ? a.heard.value_or(0) > b.heard.value_or(0) : a.since < b.since;
}

bool comes_first(const run_member& a, const run_member& b) {
  // Workers are more than parameter hosts, and an operator knows their numbers.
  return std::tuple(a.role != "worker", a.role, a.number) < std::tuple(b.role != "worker", b.role, b.number);
}

/// The first "model name" of /proc/cpuinfo; not every kernel has one.
std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

} // namespace

std::string_view to_string(run_member::state s) noexcept { return state_names[static_cast<std::size_t>(s)]; }

std::vector<member_counts> counted(const std::vector<run_member>& members) {
  std::vector<member_counts> all;
  for (const run_member& m : members) {
    auto of_role = std::ranges::find(all, m.role, &member_counts::role);
    if (of_role == all.end()) of_role = all.insert(all.end(), {m.role});
    ++of_role->in[static_cast<std::size_t>(m.is)];
    of_role->losses += m.losses;
  }
  return all;
}

std::string to_json(std::vector<run_member> members) {
  json all{{"counts", counts_of(members)}, {"listed", json::array()}};
  std::ranges::stable_sort(members, is_more_urgent);
  members.resize(std::min(members.size(), most_members_listed));
  std::ranges::sort(members, comes_first);
  for (const run_member& m : members) all["listed"].push_back(object_of(figures_of(m)));
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string format_early_end(const recording_account& r) {
  std::string text = fmt::format("ended early, after {:.1f} s with {}: {}", r.seconds,
                                 byte_count(r.bytes).text(), r.failure);
  if (r.removed) text += "; it was removed to make room for other files";
  if (!r.kept.empty() && r.kept_bytes == r.bytes) text += fmt::format("; all of that is in '{}'", r.kept);
  if (!r.kept.empty() && r.kept_bytes < r.bytes)
    text += fmt::format("; its first {} are in '{}', the rest made room for other files",
                        byte_count(r.kept_bytes).text(), r.kept);
  return text;
}

std::string format_recording(const recording_account& r) {
  return fmt::format("recording '{}' {}", r.file, format_early_end(r));
}

provenance this_program() {
  provenance p;
  p.version = MAILGRAD_VERSION;
  p.compiler = MAILGRAD_COMPILER;
  p.processor = model_name();
  utsname system{};
  if (uname(&system) != 0) return p;
  p.host = system.nodename;
  if (p.processor.empty()) p.processor = system.machine;
  return p;
}

void training_report::add_reason(std::string_view clause) {
  if (!why.empty()) why += "; ";
  why += clause;
}

bool training_report::knows_ledger() const {
  const auto told = [](const late_figures& x) { return x.seconds_old.has_value(); };
  return late.empty() || late.size() < shards || std::ranges::any_of(late, told);
}

std::string to_json(const training_report& r) {
  return object_of(figures_of(r)).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string staleness_csv(const training_report& r) {
  std::string text = "shard,worker,gap,count\n";
  for (const exchange_figures& x : r.exchanges) {
    const std::string whose = (x.shard ? std::to_string(*x.shard) : "") + ',' + std::to_string(x.worker);
    for (const auto& [gap, count] : x.gaps.buckets())
      text.append(whose + ',' + std::to_string(gap) + ',' + std::to_string(count) + '\n');
  }
  return text;
}

staleness_histogram staleness_of(const training_report& r, std::uint32_t worker) {
  staleness_histogram all;
  for (const exchange_figures& x : r.exchanges)
    if (x.worker == worker) all.merge(x.gaps);
  return all;
}

} // namespace mailgrad
