#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// Whole runs of the tool, on a table of sixty rows.
class TrainCommand : public ::testing::Test {
protected:
  /// `words` after those that choose model, data and report.
  std::vector<std::string> train(std::vector<std::string> words) const {
    std::vector<std::string> all{"train",   "--model", "softmax",  "--data", MAILGRAD_SMALL_CSV,
                                 "--batch", "4",       "--report", report_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  nlohmann::ordered_json report() const { return nlohmann::ordered_json::parse(std::ifstream(report_)); }

  static std::uint64_t fates(const nlohmann::ordered_json& ledger) {
    std::uint64_t sum = 0;
    for (const char* fate : {"applied", "merged", "lost"}) sum += ledger[fate].get<std::uint64_t>();
    for (const auto& [reason, count] : ledger["discarded"].items()) sum += count.get<std::uint64_t>();
    return sum;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& f : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(f.path().filename());
    return names;
  }

  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
};

} // namespace mailgrad::testing
