#include <mailgrad/cli/remote/members_table.hpp>

#include <mailgrad/cli/output/printable.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace mailgrad {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t columns = 7;
constexpr std::array<const char*, columns> headings{"member",  "state",       "since",  "heard",
                                                    "address", "incarnation", "devices"};

/// One member: its cells, and its last words behind them.
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
std::string counts_in_words(const ordered_json& counts) {
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

std::string joined_names(const ordered_json& names) {
  std::string text;
  for (const ordered_json& name : names) text.append(text.empty() ? "" : ",").append(name.get<std::string>());
  return text;
}

/// "was lost 2 times, the last time: it was killed". An older run does not tell how often.
std::string last_words(const ordered_json& m, std::uint64_t losses) {
  std::string why = printable(m.at("why").get<std::string>());
  const bool stays = m.at("state") == "joined" || m.at("state") == "done";
  if (losses > 1 && m.at("state") != "left")
    return fmt::format("was lost {} times, the last time: {}", losses, why);
  return stays && losses == 1 ? "was lost: " + why : why;
}

table_row row_of(const ordered_json& m) {
  const auto losses = m.value("losses", std::uint64_t{0});
  const auto text = [&](const char* field) { return printable(m.at(field).get<std::string>()); };
  const ordered_json& heard = m.at("heard_seconds");
  const std::string state = m.at("state") == "joined" && losses > 0 ? "back" : text("state");
  return {{fmt::format("{} {}", text("role"), m.at("number").get<std::uint64_t>()), state,
           ago(m.at("since_seconds").get<double>()), heard.is_null() ? "unknown" : ago(heard.get<double>()),
           text("address"), std::to_string(m.at("incarnation").get<std::uint64_t>()),
           printable(joined_names(m.at("devices")))},
          last_words(m, losses)};
}

std::string line_of(const table_row& row, const std::array<std::size_t, columns>& widths) {
  std::string line = " ";
  for (std::size_t c = 0; c < columns; ++c) line += fmt::format(" {:<{}} ", row.cells[c], widths[c]);
  line += ' ' + row.why;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::uint64_t count_of(const ordered_json& counts) {
  std::uint64_t all = 0;
  for (const auto& [role, states] : counts.items())
    for (const auto& [state, number] : states.items()) all += number.get<std::uint64_t>();
  return all;
}

} // namespace

std::string members_in_words(const ordered_json& members) {
  const ordered_json& counts = members.at("counts");
  if (counts.empty()) return "";
  std::vector<table_row> rows{{}};
  std::ranges::copy(headings, rows[0].cells.begin());
  for (const ordered_json& m : members.at("listed")) rows.push_back(row_of(m));
  std::array<std::size_t, columns> widths{};
  for (const table_row& row : rows)
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row.cells[c].size());
  std::string text = fmt::format("members       {}\n", counts_in_words(counts));
  for (const table_row& row : rows) text += line_of(row, widths);
  const std::uint64_t untold = count_of(counts) - std::min<std::uint64_t>(count_of(counts), rows.size() - 1);
  if (untold > 0) text += fmt::format("  and {} more, which give less cause for concern\n", untold);
  return text;
}

} // namespace mailgrad
