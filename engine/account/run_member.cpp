#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/engine/account/run_member.hpp>

#include <algorithm>
#include <array>
#include <string>
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

} // namespace mailgrad
