// Prints one table from the reports of several runs: compare_policies mlp-async.json mlp-sync.json ...
// A report does not name its model, so the file does: MODEL-ANYTHING.json.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using row = std::vector<std::string>;

/// A number as the table shows it, "-" if the report has none.
std::string figure(const json& number, int digits) {
  if (number.is_null()) return "-";
  const double value = number.get<double>();
  std::string text(64, '\0');
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string model_of(const std::filesystem::path& report) {
  const std::string name = report.stem().string();
  return name.substr(0, name.find('-'));
}

/// "1876 = 1870 applied + 6 discarded"; terms that are zero are left out.
std::string ledger_of(const json& ledger) {
  std::uint64_t discarded = 0;
  for (const auto& [reason, count] : ledger.at("discarded").items()) discarded += count.get<std::uint64_t>();
  std::string terms;
  const auto add = [&terms](std::uint64_t count, const char* fate) {
    if (count == 0) return;
    terms += (terms.empty() ? "" : " + ") + std::to_string(count) + ' ' + fate;
  };
  add(ledger.at("applied").get<std::uint64_t>(), "applied");
  add(ledger.at("merged").get<std::uint64_t>(), "merged");
  add(discarded, "discarded");
  add(ledger.at("lost").get<std::uint64_t>(), "lost");
  return std::to_string(ledger.at("produced").get<std::uint64_t>()) + " = " + (terms.empty() ? "0" : terms);
}

row row_of(const std::filesystem::path& report) {
  std::ifstream file(report);
  if (!file) throw std::runtime_error("cannot be opened");
  const json run = json::parse(file);
  const json& staleness = run.at("staleness");
  const json& wait = run.at("wait_seconds");
  return {model_of(report),
          run.at("policy").get<std::string>(),
          figure(run.at("test_accuracy"), 4),
          figure(run.at("samples_per_second"), 0),
          figure(staleness.at("mean"), 2),
          figure(staleness.at("p99"), 0),
          figure(wait.at("barrier"), 2),
          figure(wait.at("feeder"), 2),
          ledger_of(run.at("ledger"))};
}

/// Prints the table with words left-aligned and figures right-aligned.
void print(const std::vector<row>& table) {
  const std::size_t last = table.front().size() - 1;
  std::vector<std::size_t> widths(last);
  for (const row& cells : table)
    for (std::size_t c = 0; c < last; ++c) widths[c] = std::max(widths[c], cells[c].size());
  for (const row& cells : table) {
    for (std::size_t c = 0; c < last; ++c)
      std::printf("%*s  ", static_cast<int>(widths[c]) * (c < 2 ? -1 : 1), cells[c].c_str());
    std::printf("%s\n", cells[last].c_str());
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: compare_policies MODEL-POLICY.json ...\n");
    return 2;
  }
  std::vector<row> table{{"model", "policy", "accuracy", "samples/s", "staleness", "its p99", "barrier s",
                          "feeder s", "gradients"}};
  for (int i = 1; i < argc; ++i) {
    try {
      table.push_back(row_of(argv[i]));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "compare_policies: %s: %s\n", argv[i], e.what());
      return 2;
    }
  }
  print(table);
}
