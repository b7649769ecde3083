#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/browser.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

// Reports, and the pages that `mailgrad report` makes of them.

namespace mailgrad::testing {

using json = nlohmann::ordered_json;

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class ReportPage : public ::testing::Test {
protected:
  void SetUp() override {
    if (std::system("gnuplot --version >/dev/null 2>&1") != 0) // NOLINT(concurrency-mt-unsafe)
      GTEST_SKIP() << "this machine has no gnuplot";
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// The report of a small run of two workers.
  json trained(const std::string& policy = "async") const {
    tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--steps", "40",
            "--devices", "cpu:0,cpu:0", "--shards", "2", "--policy", policy, "--report", path("trained.json"),
            "--quiet"});
    EXPECT_EQ(t.code(), 0) << t.err();
    json report = json::parse(content_of(path("trained.json")));
    report.erase("curve"); // each test brings its own
    return report;
  }

  static json curve() {
    json points = json::array();
    for (int i = 1; i <= 20; ++i) {
      points.push_back({{"time_s", 0.5 * i},
                        {"steps", 2 * i},
                        {"updates", 2 * i},
                        {"samples", 8 * i},
                        {"epoch", 0.1 * i},
                        {"train_loss", 2.0 / i},
                        {"learning_rate", 0.1}});
      if (i % 5 == 0) points.back().update({{"test_loss", 2.5 / i}, {"test_accuracy", 1 - 1.0 / i}});
    }
    return points;
  }

  std::string written(const std::string& name, const json& report) const {
    return folder_.write(name, report.dump()).string();
  }

  /// The page of these reports.
  std::string page(std::vector<std::string> words) const {
    words.insert(words.begin(), "report");
    words.insert(words.end(), {"--out", path("page.html")});
    tool t(words);
    EXPECT_EQ(t.code(), 0) << t.err();
    EXPECT_EQ(t.out() + t.err(), "wrote " + path("page.html") + '\n');
    return content_of(path("page.html"));
  }

  /// What the page holds of its runs.
  static json told_in(const std::string& page) {
    const std::string before = "id=\"kept-runs\">";
    const std::size_t at = page.find(before) + before.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  /// The last page in a browser; nullptr if there is none here (scripts/install-dependencies --browser).
  browser* opened() {
    const auto program = browser::program();
    if (!program) return nullptr;
    chromium_.emplace(*program, profile_.path().string());
    chromium_->open("file://" + path("page.html"));
    chromium_->wait_until("document.getElementById('facts').textContent !== ''");
    EXPECT_TRUE(chromium_->complaints().empty()) << chromium_->complaints().front();
    return &*chromium_;
  }

  const scratch_folder folder_;
  const scratch_folder profile_;
  std::optional<browser> chromium_;
};

} // namespace mailgrad::testing
