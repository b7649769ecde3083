#pragma once

#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// A process of the tool that trains until it is stopped, and shows itself at a free port.
class shown_run {
public:
  explicit shown_run(const std::vector<std::string>& more = {"--live=127.0.0.1:0"}) : tool_(words(more)) {
    if (!tool_.says("live page: http://") || !tool_.says("; Ctrl-C")) throw std::runtime_error(tool_.said());
    const std::string& said = tool_.said();
    const std::size_t at = said.find("http://");
    url_ = said.substr(at, said.find(';', at) - at);
    const std::size_t colon = url_.find(':', 7);
    port_ = static_cast<std::uint16_t>(std::stoul(url_.substr(colon + 1)));
    if (const std::size_t mark = url_.find("?token="); mark != std::string::npos)
      token_ = url_.substr(mark + 7);
  }

  tool& process() { return tool_; }
  const std::string& url() const { return url_; }
  std::uint16_t port() const { return port_; }
  const std::string& token() const { return token_; }
  std::string get(const std::string& target, const std::string& fields = {}) const {
    return got(port_, target, fields);
  }
  /// A POST as the page would send it, but with these fields.
  std::string post(const std::string& target, const std::string& body, const std::string& fields) const {
    return answer_to(port_, "POST " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
                                "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                                "\r\n" + fields + "\r\n" + body);
  }
  /// The key with which the page may change the run.
  std::string key() const {
    http_client viewer(port_);
    viewer.say("GET /events?token=" + token_ + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
               "\r\n\r\n");
    if (!viewer.hears("\"keeps_checkpoints\"")) throw std::runtime_error(viewer.heard());
    const std::string& heard = viewer.heard();
    const std::size_t at = heard.find("\"key\":\"") + 7;
    return heard.substr(at, heard.find('"', at) - at);
  }

private:
  static std::vector<std::string> words(const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "--data=" MAILGRAD_SMALL_CSV, "--batch=4", "--steps=1000000000",
                                 "--metrics-every=500"};
    if (std::ranges::none_of(more, [](const std::string& word) { return word.starts_with("--model="); }))
      all.emplace_back("--model=mlp:hidden=8");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  tool tool_;
  std::string url_;
  std::uint16_t port_ = 0;
  std::string token_;
};

/// A served run whose two workers are processes, which shows itself at a free port.
class shown_members {
public:
  shown_members() {
    if (!server_.says(" for 2 workers")) throw std::runtime_error(server_.said());
    const std::size_t at = server_.said().find("listening on ") + 13;
    address_ = server_.said().substr(at, server_.said().find(' ', at) - at);
    join(0);
    join(1);
    if (!server_.says("live page: http://") || !server_.says("; Ctrl-C"))
      throw std::runtime_error(server_.said());
    const std::size_t page = server_.said().find("http://");
    url_ = server_.said().substr(page, server_.said().find(';', page) - page);
    port_ = static_cast<std::uint16_t>(std::stoul(url_.substr(url_.find(':', 7) + 1)));
  }

  tool& server() { return server_; }
  const std::string& url() const { return url_; }
  const std::string& address() const { return address_; }
  std::string get(const std::string& target) const { return got(port_, target); }
  void join(std::size_t number) {
    workers_[number] = std::make_unique<tool>(
        std::vector<std::string>{"join", address_, "--number", std::to_string(number)});
  }
  void kill(std::size_t number) { workers_[number].reset(); }

private:
  tool server_{{"serve", "--listen", "127.0.0.1:0", "--workers", "2", "--data", MAILGRAD_SMALL_CSV, "--model",
                "mlp:hidden=5", "--batch", "4", "--epochs", "1000000", "--live=127.0.0.1:0"}};
  std::string address_, url_;
  std::uint16_t port_ = 0;
  std::array<std::unique_ptr<tool>, 2> workers_;
};

} // namespace mailgrad::testing
