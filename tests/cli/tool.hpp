#pragma once

#include <mailgrad/tests/support/google_test_names.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace mailgrad::testing {

using json = nlohmann::ordered_json;
using words = std::vector<std::string>;

/// "--policy 'async, sync@9' --quiet"_w has three words: what stands between blanks, or between single
/// quotes.
inline words operator""_w(const char* text, std::size_t size) {
  const std::string_view line(text, size);
  words all;
  for (std::size_t at = 0; (at = line.find_first_not_of(' ', at)) != line.npos;) {
    const char until = line[at] == '\'' ? line[at++] : ' ';
    const std::size_t end = std::min(line.find(until, at), size);
    all.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return all;
}
inline words operator+(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
inline words operator+(words all, const std::string& one) {
  all.push_back(one);
  return all;
}

/// A run on a table of sixty rows.
inline words train(const words& more, const std::string& model = "softmax") {
  return words{"train", "--model", model, "--data", MAILGRAD_SMALL_CSV, "--batch", "4"} + more;
}

/// Words that the tool gets as they are.
struct as_typed {
  words all;
};

/// The words of a command, in which a new run states its rule and its device: sgd and one core, unless the
/// words name others. What a run takes by default is adam and all cores, whose order is another each time.
inline as_typed stated(words given) {
  const auto has = [&](std::string_view option) {
    return std::ranges::any_of(given, [&](const std::string& word) {
      return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
    });
  };
  const auto is = [&](std::string_view command) { return std::ranges::find(given, command) != given.end(); };
  const bool trains = is("train"), is_new = (trains || is("serve") || is("launch")) && !has("--resume");
  if (is_new && !has("--optimizer")) given = given + "--optimizer sgd"_w;
  if (is_new && trains && !has("--devices")) given = given + "--devices cpu:0"_w;
  return {std::move(given)};
}

/// A process of the tool mailgrad, started with some arguments. Its output is captured.
class tool {
public:
  /// Starts it with stated() words. If `out` is given, standard output goes to this file and is not captured.
  /// If `columns` is given, standard error is a terminal of that width; a width of 0 means that the terminal
  /// does not tell its width. `program` is another one to start, by which the tool is started in turn; it is
  /// looked up in PATH.
  explicit tool(const words& given, const char* out = nullptr, std::optional<unsigned short> columns = {},
                const char* program = MAILGRAD_TOOL)
      : tool(stated(given), out, columns, program) {}
  explicit tool(const as_typed& command, const char* out = nullptr,
                std::optional<unsigned short> columns = {}, const char* program = MAILGRAD_TOOL)
      : out_(out ? std::fopen(out, "w") : std::tmpfile()) {
    int ends[2];
    const bool open = columns ? open_terminal(ends, *columns) : pipe2(ends, O_CLOEXEC) == 0;
    if (!out_ || !open) throw std::runtime_error("no pipe for the test");
    errors_ = ends[0];
    words texts = words{program} + command.all;
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

  /// Reads standard error until it contains `text`, from there on. Returns false if the tool ends before
  /// that.
  bool says(std::string_view text, std::size_t from = 0) {
    while (err_.find(text, from) == std::string::npos)
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

MATCHER(IsOneLine, "is one line that names the tool") {
  return arg.starts_with("mailgrad: ") && std::ranges::count(arg, '\n') == 1 && arg.back() == '\n';
}

struct spoken {
  std::string out, err;
};
/// What the tool says, which shall end well.
inline spoken done(const words& given) {
  tool t(given);
  EXPECT_EQ(t.code(), 0) << PrintToString(given) << t.err();
  return {t.out(), t.err()};
}
/// What the tool says on standard error, which shall end by this code.
inline std::string refusal(const words& given, int code = 2) {
  tool t(given);
  EXPECT_EQ(t.code(), code) << PrintToString(given) << t.err();
  return t.err();
}
/// Whether it has each of these texts.
template <class... Texts>
auto HasAll(const Texts&... texts) {
  return AllOf(HasSubstr(texts)...);
}
/// The tool refuses these words, and says why with these texts.
template <class... Texts>
void expect_error(const words& given, const Texts&... why) {
  EXPECT_THAT(refusal(given), HasAll(why...)) << PrintToString(given);
}
/// The tool refuses these words by one line that has these texts.
template <class... Texts>
void expect_refused(const words& given, const Texts&... why) {
  EXPECT_THAT(refusal(given), AllOf(IsOneLine(), HasSubstr(why)...)) << PrintToString(given);
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline words lines_of(const std::string& text) {
  words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Tests of the tool, with a folder for files.
struct ToolTest : Test {
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  json report(const std::string& name = "run.json") const { return json::parse(std::ifstream(path(name))); }

  const scratch_folder folder;
};

} // namespace mailgrad::testing
