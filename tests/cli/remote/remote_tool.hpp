// The tool in several processes of this machine.
#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace mailgrad::testing {

using words = std::vector<std::string>;

inline words operator+(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline const words small_run{"--model", "mlp:hidden=5", "--data",   MAILGRAD_SMALL_CSV, "--batch",
                             "4",       "--optimizer",  "momentum", "--seed",           "3"};

struct RemoteTool : ::testing::Test {
  scratch_folder folder;

  std::string file(const std::string& name) const { return (folder.path() / name).string(); }
  nlohmann::json report(const std::string& name) const {
    std::ifstream in(folder.path() / name);
    return nlohmann::json::parse(in);
  }
  /// Where a server says that it listens.
  static std::string address_of(tool& server) {
    EXPECT_TRUE(server.says("\n")) << server.err();
    const std::string& said = server.said();
    const std::size_t begin = said.find("listening on ") + 13;
    return said.substr(begin, said.find(' ', begin) - begin);
  }
  static words serve(const std::string& workers, const std::string& listen = "127.0.0.1:0") {
    return words{"serve", "--listen", listen, "--workers", workers} + small_run;
  }
};

} // namespace mailgrad::testing
