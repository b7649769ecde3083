#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

using launch_text = std::vector<std::string>;

inline launch_text joined(launch_text all, const launch_text& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Variables of this process while the object lives, which processes that it starts inherit.
class variables {
public:
  explicit variables(std::vector<std::pair<std::string, std::string>> all) : all_(std::move(all)) {
    for (const auto& [name, value] : all_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~variables() {
    for (const auto& [name, value] : all_) unsetenv(name.c_str());
  }
  variables(const variables&) = delete;
  variables& operator=(const variables&) = delete;

private:
  std::vector<std::pair<std::string, std::string>> all_;
};

/// A folder by which ranks find each other, and in which rank 0 leaves its report.
struct launched_run : ::testing::Test {
  scratch_folder folder;

  /// Variables of a launcher that runs these tests are none of theirs.
  launched_run() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "SLURM_STEP_ID"})
      unsetenv(name);
  }

  std::string file(const std::string& name) const { return (folder.path() / name).string(); }
  nlohmann::json report(const std::string& name) const {
    std::ifstream in(folder.path() / name);
    return nlohmann::json::parse(in);
  }
  /// The command line of each rank.
  launch_text launch(const launch_text& more = {}, const std::string& model = "mlp:hidden=5") const {
    return joined({"launch", "--rendezvous", folder.path().string(), "--model", model, "--data",
                   MAILGRAD_SMALL_CSV, "--batch", "4", "--optimizer", "momentum", "--seed", "3", "--policy",
                   "sync"},
                  more);
  }
  /// The digest of the weights that one process makes of the same with so many workers.
  std::string weights_of_one_process(const std::string& devices,
                                     const std::string& model = "mlp:hidden=5") const {
    tool here({"train", "--model", model, "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--optimizer",
               "momentum", "--seed", "3", "--policy", "sync", "--devices", devices, "--report",
               file("here")});
    EXPECT_EQ(here.code(), 0) << here.err();
    return report("here")["parameters_sha256"];
  }
  /// Nothing but these files lies in the folder.
  void expect_files(std::size_t count) const {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}),
              static_cast<std::ptrdiff_t>(count));
  }
};

} // namespace mailgrad::testing
