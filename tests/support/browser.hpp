#pragma once

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace mailgrad::testing {

/// Chromium without a window, told what to do by its DevTools protocol, which it speaks over two pipes: JSON
/// objects with a zero byte behind each.
/// Source  https://chromedevtools.github.io/devtools-protocol
class browser {
public:
  using json = nlohmann::json;

  /// The program; nothing if this machine has none.
  static std::optional<std::string> program() {
    for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
      if (std::filesystem::exists(path)) return path;
    return std::nullopt;
  }

  /// `profile` is an empty folder. Without a sandbox, since tests run as root in containers, too.
  browser(const std::string& program, const std::string& profile) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes for the browser");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int input = fcntl(to[0], F_DUPFD_CLOEXEC, 10); // 3 and 4 may be taken by the pipes themselves
    const int output = fcntl(from[1], F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_adddup2(&actions, input, 3);
    posix_spawn_file_actions_adddup2(&actions, output, 4);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    std::vector<std::string> words{program,
                                   "--headless=new",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--disable-dev-shm-usage",
                                   "--no-first-run",
                                   "--disable-extensions",
                                   "--disable-background-networking",
                                   "--remote-debugging-pipe",
                                   "--user-data-dir=" + profile};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failure = posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    for (const int end : {to[0], from[1], input, output}) close(end);
    to_ = to[1];
    from_ = from[0];
    if (failure != 0) throw std::runtime_error("the browser does not start");
  }
  ~browser() {
    close(to_);
    close(from_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  browser(const browser&) = delete;
  browser& operator=(const browser&) = delete;

  /// Opens a page, so wide and high in pixels.
  void open(const std::string& url, int width = 1200, int height = 900) {
    const json target = ask("Target.createTarget", {{"url", "about:blank"}});
    session_ = ask("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
                   .at("sessionId");
    ask("Emulation.setDeviceMetricsOverride",
        {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
    ask("Runtime.enable", json::object());
    ask("Log.enable", json::object());
    ask("Page.enable", json::object());
    ask("Page.navigate", {{"url", url}});
  }

  /// As if the person had asked the system for "dark" or "light"; after open().
  void prefer(const std::string& scheme) {
    ask("Emulation.setEmulatedMedia",
        {{"features", json::array({{{"name", "prefers-color-scheme"}, {"value", scheme}}})}});
  }

  /// The value of a JavaScript expression in the page; a promise is waited for.
  json value(const std::string& expression) {
    const json told = ask("Runtime.evaluate",
                          {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
    if (told.contains("exceptionDetails")) throw std::runtime_error(told["exceptionDetails"].dump());
    return told.at("result").value("value", json());
  }
  /// Waits until an expression is true in the page.
  void wait_until(const std::string& condition) {
    value("new Promise((yes) => { const look = () => { let is = false; try { is = " + condition +
          "; } catch {} if (is) yes(true); else setTimeout(look, 20); }; look(); })");
  }
  std::string text_of(const std::string& id) {
    return value("document.getElementById('" + id + "').textContent").get<std::string>();
  }
  /// What scripts threw and what the browser complained of, such as by the policy of content.
  const std::vector<std::string>& complaints() const { return complaints_; }

private:
  /// Sends a command and returns its result; events that come before it are looked at.
  json ask(const std::string& method, json parameters) {
    json command{{"id", ++last_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) command["sessionId"] = session_;
    const std::string text = command.dump() + '\0';
    if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("the browser has gone");
    while (true) {
      json told = json::parse(next());
      note(told);
      if (told.value("id", 0) != last_) continue;
      if (told.contains("error")) throw std::runtime_error(method + ": " + told["error"].dump());
      return told.at("result");
    }
  }
  void note(const json& told) {
    const std::string event = told.value("method", "");
    if (event == "Runtime.exceptionThrown") complaints_.push_back(told.at("params").dump());
    if (event == "Log.entryAdded" && told.at("params").at("entry").at("level") == "error")
      complaints_.push_back(told.at("params").dump());
  }
  std::string next() {
    std::size_t end = heard_.find('\0');
    while (end == std::string::npos) {
      char part[1 << 16];
      const ssize_t n = read(from_, part, sizeof part);
      if (n <= 0) throw std::runtime_error("the browser has gone");
      heard_.append(part, static_cast<std::size_t>(n));
      end = heard_.find('\0');
    }
    const std::string whole = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return whole;
  }

  pid_t process_ = 0;
  int to_ = -1;
  int from_ = -1;
  int last_ = 0;
  std::string session_;
  std::string heard_;
  std::vector<std::string> complaints_;
};

} // namespace mailgrad::testing
