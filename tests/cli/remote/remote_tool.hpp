// The tool in several processes of this machine.
#pragma once

#include <mailgrad/tests/cli/tool.hpp>

#include <initializer_list>

namespace mailgrad::testing {

inline const words small_run =
    "--model mlp:hidden=5 --batch 4 --optimizer momentum --seed 3 --data"_w + MAILGRAD_SMALL_CSV;

struct RemoteTool : ToolTest {
  /// Where a server says that it listens.
  static std::string address_of(tool& server) {
    EXPECT_TRUE(server.says("listening on ")) << server.err();
    const std::size_t begin = server.said().find("listening on ") + 13;
    EXPECT_TRUE(server.says("\n", begin)) << server.err();
    return server.said().substr(begin, server.said().find(' ', begin) - begin);
  }
  static words serve(const std::string& workers, const std::string& listen = "127.0.0.1:0") {
    return words{"serve", "--listen", listen, "--workers", workers} + small_run;
  }
  /// Asks for the status of a run until the answer has this text, and returns it.
  static std::string await_status(const std::string& address, const std::string& text) {
    for (;;) {
      tool asks({"status", address});
      EXPECT_EQ(asks.code(), 0) << asks.err();
      if (asks.code() != 0 || asks.out().find(text) != std::string::npos) return asks.out() + asks.err();
    }
  }
  static void expect_ended(std::initializer_list<tool*> all, int code = 0) {
    for (tool* each : all) EXPECT_EQ(each->code(), code) << each->err();
  }
};

/// A server, and what others are told to come to it.
struct server_tool : tool {
  explicit server_tool(const words& given) : tool(given), address(RemoteTool::address_of(*this)) {}

  words join() const { return {"join", address}; }
  words join(const std::string& number) const { return {"join", address, "--number", number}; }
  words host() const { return {"shard", "--join", address}; }
  void stop(const std::string& why = "seen enough") const { done({"stop", address, why}); }

  const std::string address;
};

/// A worker or a parameter host that has joined a run.
struct joined_tool : tool {
  explicit joined_tool(const words& given, std::string_view told = "has joined") : tool(given) {
    EXPECT_TRUE(says(told)) << err();
  }
};

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

} // namespace mailgrad::testing
