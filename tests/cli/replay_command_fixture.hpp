#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <zlib.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// Runs of the tool, recorded on a table of sixty rows.
class ReplayCommand : public ::testing::Test {
protected:
  std::vector<std::string> record(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"train",  "--model", "softmax",  "--batch",  "4",        "--quiet",
                                 "--data", data_,     "--record", recording_, "--report", report_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  nlohmann::ordered_json report() const { return nlohmann::ordered_json::parse(std::ifstream(report_)); }
  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(recording_, std::ios::binary).rdbuf();
    return text.str();
  }

  /// Writes the recording anew, `from` replaced by `to`, which is as long, under a checksum that is right.
  void forge(const std::string& from, const std::string& to) const {
    std::string text = bytes();
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    const std::size_t body = text.size() - 12;
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), body);
    for (std::size_t i = 0; i < 4; ++i) text[body + i] = static_cast<char>(checksum >> (8 * i) & 0xff);
    folder_.write("run.rec", text);
  }

  const scratch_folder folder_;
  const std::string data_ = MAILGRAD_SMALL_CSV;
  const std::string recording_ = (folder_.path() / "run.rec").string();
  const std::string report_ = (folder_.path() / "run.json").string();
};

} // namespace mailgrad::testing
