#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace mailgrad::testing {

/// Words that the tool gets as they are.
struct as_typed {
  std::vector<std::string> words;
};

/// The words of a command, in which a new run states its rule and its device: sgd and one core, unless the
/// words name others. What a run takes by default is adam and all cores, whose order is another each time.
inline as_typed stated(std::vector<std::string> words) {
  const auto has = [&](std::string_view option) {
    return std::ranges::any_of(words, [&](const std::string& word) {
      return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
    });
  };
  const auto is = [&](std::string_view command) { return std::ranges::find(words, command) != words.end(); };
  const bool trains = is("train"), is_new = (trains || is("serve") || is("launch")) && !has("--resume");
  if (is_new && !has("--optimizer")) words.insert(words.end(), {"--optimizer", "sgd"});
  if (is_new && trains && !has("--devices")) words.insert(words.end(), {"--devices", "cpu:0"});
  return {std::move(words)};
}

/// A process of the tool mailgrad, started with some arguments. Its output is captured.
class tool {
public:
  /// Starts it with stated() words. If `out` is given, standard output goes to this file and is not captured.
  /// If `columns` is given, standard error is a terminal of that width; a width of 0 means that the terminal
  /// does not tell its width. `program` is another one to start, by which the tool is started in turn; it is
  /// looked up in PATH.
  explicit tool(const std::vector<std::string>& words, const char* out = nullptr,
                std::optional<unsigned short> columns = {}, const char* program = MAILGRAD_TOOL)
      : tool(stated(words), out, columns, program) {}
  explicit tool(const as_typed& command, const char* out = nullptr,
                std::optional<unsigned short> columns = {}, const char* program = MAILGRAD_TOOL)
      : out_(out ? std::fopen(out, "w") : std::tmpfile()) {
    int ends[2];
    const bool open = columns ? open_terminal(ends, *columns) : pipe2(ends, O_CLOEXEC) == 0;
    if (!out_ || !open) throw std::runtime_error("no pipe for the test");
    errors_ = ends[0];
    std::vector<std::string> texts{program};
    texts.insert(texts.end(), command.words.begin(), command.words.end());
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(out_.get()), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    const int failure = posix_spawnp(&process_, program, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failure != 0) throw std::runtime_error("the tool does not start");
  }
  ~tool() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(errors_);
  }
  tool(const tool&) = delete;
  tool& operator=(const tool&) = delete;

  /// Reads standard error until it contains `text`. Returns false if the tool ends before that.
  bool says(std::string_view text) {
    while (err_.find(text) == std::string::npos)
      if (!read_more()) return false;
    return true;
  }
  /// What standard error has said so far.
  const std::string& said() const { return err_; }
  void signal(int number) const { kill(process_, number); }
  /// Whether the process has not ended yet.
  bool runs() const {
    siginfo_t ended{};
    const auto id = static_cast<id_t>(process_);
    return process_ > 0 && waitid(P_PID, id, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  }

  /// Waits for the end of the process. Returns the exit code, or minus the signal that ended it.
  int code() {
    if (process_ > 0) {
      while (read_more()) {
      }
      int status = 0;
      waitpid(process_, &status, 0);
      process_ = 0;
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return code_;
  }
  /// Waits for the end, and returns the standard output; err() does the same for standard error.
  std::string out() {
    code();
    std::string text;
    std::rewind(out_.get());
    char part[4096];
    while (const std::size_t n = std::fread(part, 1, sizeof part, out_.get())) text.append(part, n);
    return text;
  }
  const std::string& err() {
    code();
    return err_;
  }

private:
  struct closes {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };

  /// Opens a terminal in place of pipe2(): `ends` are its read end and its write end.
  static bool open_terminal(int (&ends)[2], unsigned short columns) {
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0) return false;
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    return ends[1] >= 0 && ioctl(ends[1], TIOCSWINSZ, &size) == 0;
  }

  /// Reads more of standard error; false at its end. At the end of a terminal, read() fails.
  bool read_more() {
    char part[4096];
    const ssize_t n = read(errors_, part, sizeof part);
    if (n > 0) err_.append(part, static_cast<std::size_t>(n));
    return n > 0;
  }

  std::unique_ptr<std::FILE, closes> out_;
  int errors_ = -1;
  pid_t process_ = 0;
  int code_ = 0;
  std::string err_;
};

} // namespace mailgrad::testing
