#include <mailgrad/cli/report/gnuplot.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

extern char** environ;

namespace mailgrad {

namespace {

struct closes {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using temporary_file = std::unique_ptr<std::FILE, closes>;

temporary_file make_temporary() {
  temporary_file file(std::tmpfile());
  if (!file)
    throw std::runtime_error("no temporary file for gnuplot: " + std::generic_category().message(errno));
  return file;
}

std::string content_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  std::array<char, 4096> part;
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), file)) text.append(part.data(), n);
  return text;
}

/// Starts gnuplot without the user's own settings; returns its exit status.
int run_gnuplot(std::FILE* in, std::FILE* out, std::FILE* errors) {
  std::array<std::string, 2> words{"gnuplot", "--default-settings"};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO);
  pid_t process = 0;
  const int failure = posix_spawnp(&process, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT)
    throw std::runtime_error(
        "the program gnuplot draws the pictures, and it is not installed (Debian: gnuplot-nox)");
  if (failure != 0)
    throw std::runtime_error("gnuplot cannot be started: " + std::generic_category().message(failure));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// What gnuplot complains of, as one line.
std::string complaint_in(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= ' ';
    if (!space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

std::string terminal(const picture& p, picture_format format) {
  if (format == picture_format::svg)
    return fmt::format(
        "set terminal svg size {},{} dynamic noenhanced font 'sans-serif,13' background '#ffffff'\n", p.width,
        p.height);
  return fmt::format("set terminal pngcairo size {},{} noenhanced font 'Sans,10' background '#ffffff'\n",
                     p.width, p.height);
}

} // namespace

std::string draw(const picture& p, picture_format format) {
  const temporary_file in = make_temporary(), out = make_temporary(), errors = make_temporary();
  const std::string script = "set encoding utf8\n" + terminal(p, format) + p.script;
  if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() || std::fflush(in.get()) != 0)
    throw std::runtime_error("no room for the data of gnuplot: " + std::generic_category().message(errno));
  std::rewind(in.get());
  const int status = run_gnuplot(in.get(), out.get(), errors.get());
  std::string drawn = content_of(out.get());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || drawn.empty())
    throw std::runtime_error("gnuplot failed at '" + p.name + "': " + complaint_in(content_of(errors.get())));
  return drawn;
}

std::string gnuplot_text(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      result += ' ';
    else if (c == '\'')
      result += "''";
    else
      result += c;
  }
  return result + '\'';
}

namespace {

/// 1500 as "1.5k".
std::string in_thousands(double count) {
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (count < 1000) break;
    count /= 1000;
    unit = larger;
  }
  return fmt::format("{:.10g}{}", count, unit);
}

} // namespace

double distance_of_marks(double range) {
  for (double ten = 1;; ten *= 10)
    for (const double step : {ten, 2 * ten, 5 * ten})
      if (range / step <= 6) return step;
}

std::string axis_of_counts(double least, double most) {
  const double step = distance_of_marks(most > least ? most - least : most);
  const double first = std::floor(least / step);
  const double last = std::max(std::ceil(most / step), first + 1);
  std::vector<std::string> marks;
  for (double mark = first; mark <= last; ++mark)
    marks.push_back(fmt::format("'{}' {:.15g}", in_thousands(mark * step), mark * step));
  return fmt::format("set xrange [{:.15g}:{:.15g}]\nset xtics ({})\n", first * step, last * step,
                     fmt::join(marks, ", "));
}

} // namespace mailgrad
