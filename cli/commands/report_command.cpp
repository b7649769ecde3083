#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/cli/report/pictures.hpp>
#include <mailgrad/cli/report/report_file.hpp>
#include <mailgrad/cli/run_inputs.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

struct report_args {
  std::vector<std::string> reports;
  std::string page;
  std::string svg, png; ///< folders
};

/// A file that is written when all pictures are drawn.
struct prepared_file {
  output_file to;
  std::string content;
};

void require_folder(const char* option, const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directory(folder, why);
  if (!std::filesystem::is_directory(folder))
    throw std::invalid_argument(fmt::format("{}: '{}' is no folder, and none can be made: {}", option, folder,
                                            why ? why.message() : "there is a file of that name"));
}

class prepared_files {
public:
  explicit prepared_files(const report_args& w) {
    for (const std::string& r : w.reports) inputs_.push_back({"a report", r});
  }

  void add(const char* option, const std::string& path, std::string content) {
    require_no_input(option, path, inputs_);
    files_.push_back({output_file("picture or page", path), std::move(content)});
  }

  void add_pictures(const char* option, const std::string& folder, picture_format format,
                    std::span<const report_file> runs) {
    if (folder.empty()) return;
    require_folder(option, folder);
    const char* const ending = format == picture_format::svg ? ".svg" : ".png";
    for (const picture& p : pictures_of(runs))
      add(option, (std::filesystem::path(folder) / (p.name + ending)).string(), draw(p, format));
  }

  void write() const {
    for (const prepared_file& f : files_) f.to.write([&](std::ostream& out) { out << f.content; });
  }

private:
  std::vector<input_file> inputs_;
  std::vector<prepared_file> files_;
};

int report(const report_args& w) {
  if (w.reports.size() > most_runs)
    throw std::invalid_argument(fmt::format("report: {} runs; at most {} can be told apart in one picture",
                                            w.reports.size(), most_runs));
  std::vector<report_file> runs;
  for (const std::string& file : w.reports) runs.push_back(read_report(file));
  prepared_files files(w);
  const bool only_pictures = w.page.empty() && !(w.svg.empty() && w.png.empty());
  if (!only_pictures) files.add("--out", w.page.empty() ? "report.html" : w.page, kept_page(runs));
  files.add_pictures("--svg", w.svg, picture_format::svg, runs);
  files.add_pictures("--png", w.png, picture_format::png, runs);
  files.write();
  if (!only_pictures && w.page != output_file::standard_output)
    say_line("wrote " + (w.page.empty() ? "report.html" : w.page));
  for (const std::string& folder : {w.svg, w.png})
    if (!folder.empty()) say_line("wrote pictures into " + folder);
  return exit_code::done;
}

} // namespace

command make_report_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("report", "Draw what runs left behind, as one HTML page or as pictures");
  auto words = std::make_shared<report_args>();
  option_table t(*parser);
  t.add("REPORT", words->reports,
        fmt::format(
            "Reports that 'mailgrad train --report' has written; up to {}, which are shown side by side",
            most_runs),
        path("FILE"), required);
  t.add("--out", words->page,
        "The page to write, report.html unless told; -: to standard output. It needs no network and no other "
        "file",
        path("FILE"));
  t.add("--svg", words->svg, "Write each picture into this folder as SVG; no page unless --out is given",
        path("DIR"));
  t.add("--png", words->png, "The same as PNG", path("DIR"));
  parser->footer("The page draws in the browser. The program gnuplot draws files (Debian: gnuplot-nox).\n"
                 "Example:\n"
                 "  mailgrad report async.json sync.json --out both.html");
  return {parser, [words] { return report(*words); }};
}

} // namespace mailgrad
