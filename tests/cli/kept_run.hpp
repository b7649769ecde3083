#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

// Runs of the tool that keep checkpoints in a folder.

namespace mailgrad::testing {

using words = std::vector<std::string>;

class KeptRun : public ::testing::Test {
protected:
  static words train(const words& more, const std::string& steps = "20000") {
    words all{"train",   "--model", "mlp:hidden=5", "--data", MAILGRAD_SMALL_CSV, "--batch", "4",
              "--steps", steps,     "--optimizer",  "adam",   "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  words checkpointed(const words& more) const {
    words all = train({"--checkpoint", folder(), "--checkpoint-every", "100"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static words with(words all, const words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string folder() const { return (scratch_.path() / "kept").string(); }
  /// The newest checkpoint; empty if there is none.
  std::filesystem::path newest() const {
    if (!std::filesystem::is_directory(folder())) return {};
    const auto kept = checkpoints_in(folder());
    return kept.empty() ? std::filesystem::path() : kept.front();
  }
  /// Looks until the run has written another checkpoint than this one, or has ended.
  void await_newer(const tool& t, const std::filesystem::path& than = {}) const {
    while (newest() == than && t.runs()) {
    }
  }
  /// All files that runs have written, by their paths.
  std::map<std::string, std::string> written() const {
    std::map<std::string, std::string> all;
    for (const auto& file : std::filesystem::recursive_directory_iterator(scratch_.path()))
      if (file.is_regular_file()) {
        std::ifstream in(file.path(), std::ios::binary);
        all[file.path().string()] = {std::istreambuf_iterator<char>(in), {}};
      }
    return all;
  }
  nlohmann::json report(const words& run) const {
    words all = run;
    const std::string file = (scratch_.path() / "run.json").string();
    all.insert(all.end(), {"--report", file});
    tool t(all);
    EXPECT_EQ(t.code(), 0) << t.err();
    return nlohmann::json::parse(std::ifstream(file));
  }
  nlohmann::json resumed(words more = {}) const {
    words all{"train", "--same-outputs", "--resume", folder(), "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return report(all);
  }

  const scratch_folder scratch_;
};

} // namespace mailgrad::testing
