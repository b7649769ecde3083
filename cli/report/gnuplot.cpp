#include <mailgrad/cli/report/gnuplot.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
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
  for (const char c : text)
    if (static_cast<unsigned char>(c) > ' ')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
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

constexpr std::string_view style =
    "body{font:16px/1.5 sans-serif;color:#111;background:#fff;max-width:60rem;margin:2rem auto;padding:0 "
    "1rem}h1,h2{line-height:1.2}figure{margin:1.5rem 0}figure "
    "svg{max-width:100%;height:auto}figcaption,p.note{color:#444;font-size:.9rem}div.wide{overflow-x:auto}"
    "table{border-collapse:collapse}th,td{border-bottom:1px solid #bbb;padding:.2rem .8rem .2rem "
    "0;text-align:left;vertical-align:top;overflow-wrap:anywhere}thead th{border-bottom:2px solid "
    "#111;overflow-wrap:break-word}th[scope=row]{font-weight:normal;color:#444;white-space:nowrap}@media "
    "print{h2{break-after:avoid}figure{break-inside:avoid}}";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// A drawn picture as part of a page: without the head of a file, with names that no other picture has.
std::string inlined(const picture& p) {
  std::string svg = draw(p, picture_format::svg);
  svg.erase(0, std::min(svg.find("<svg"), svg.size()));
  svg.insert(std::min<std::size_t>(4, svg.size()),
             fmt::format(" role=\"img\" aria-label=\"{}\"", as_html(p.title)));
  replace_all(svg, "<title>Gnuplot</title>", "<title>" + as_html(p.title) + "</title>");
  for (const char* use : {"id='", "id=\"", "href='#", "url(#"}) replace_all(svg, use, use + p.name + "-");
  return svg;
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
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    result += is_control ? " " : c == '\'' ? "''" : std::string(1, c);
  }
  return result + '\'';
}

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

std::string as_html(std::string_view text) {
  static const std::map<char, std::string_view> named{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    const auto name = named.find(c);
    name == named.end() ? result += c : result += name->second;
  }
  return result;
}

std::string html_figure(const picture& p) {
  if (p.script.empty())
    return fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", as_html(p.title), as_html(p.caption));
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", inlined(p), as_html(p.caption));
}

std::string html_begin(std::string_view title, std::string_view heading) {
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
                     "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
                     as_html(title), style, as_html(heading));
}

std::string html_end() { return "</body>\n</html>\n"; }

} // namespace mailgrad
