#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/report/pictures.hpp>

#include <system_error>

namespace mailgrad {

namespace {

struct report_args {
  std::vector<std::string> reports;
  std::string page;
  std::string svg, png; ///< folders
};

void require_folder(const char* option, const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directory(folder, why);
  if (!std::filesystem::is_directory(folder))
    reject("{}: '{}' is no folder, and none can be made: {}", option, folder,
           why ? why.message() : "there is a file of that name");
}

/// Draws everything before it writes the first file: if gnuplot is missing or fails, nothing was replaced.
int report(const report_args& w) {
  if (w.reports.size() > most_runs)
    reject("report: {} runs; at most {} can be told apart in one picture", w.reports.size(), most_runs);
  std::vector<report_file> runs;
  for (const std::string& file : w.reports) runs.push_back(read_report(file));
  std::vector<input_file> inputs;
  for (const std::string& file : w.reports) inputs.push_back({"a report", file});
  std::vector<std::pair<output_file, std::string>> files;
  const auto add = [&](const char* option, const std::string& path, std::string content) {
    require_no_input(option, path, inputs);
    files.emplace_back(output_file("picture or page", path), std::move(content));
  };
  const auto add_pictures = [&](const char* option, const std::string& folder, picture_format format) {
    if (folder.empty()) return;
    require_folder(option, folder);
    for (const picture& p : pictures_of(runs)) {
      const std::string name = p.name + (format == picture_format::svg ? ".svg" : ".png");
      add(option, (std::filesystem::path(folder) / name).string(), draw(p, format));
    }
  };
  const bool only_pictures = w.page.empty() && !(w.svg.empty() && w.png.empty());
  const std::string page = w.page.empty() ? "report.html" : w.page;
  if (!only_pictures) add("--out", page, kept_page(runs));
  add_pictures("--svg", w.svg, picture_format::svg);
  add_pictures("--png", w.png, picture_format::png);
  for (const auto& [to, content] : files) to.write([&](std::ostream& out) { out << content; });
  if (!only_pictures && page != output_file::standard_output) say_line("wrote " + page);
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
  t.add("REPORT", words->reports, path("FILE"), required,
        fmt::format(
            "Reports that 'mailgrad train --report' has written; up to {}, which are shown side by side",
            most_runs));
  t.add("--out", words->page, path("FILE"),
        "The page to write, report.html unless told; -: to standard output. It needs no network and no other "
        "file");
  t.add("--svg", words->svg, path("DIR"),
        "Write each picture into this folder as SVG; no page unless --out is given");
  t.add("--png", words->png, path("DIR"), "The same as PNG");
  parser->footer("The page draws in the browser. The program gnuplot draws files (Debian: gnuplot-nox).\n"
                 "Example:\n"
                 "  mailgrad report async.json sync.json --out both.html");
  return {parser, [words] { return report(*words); }};
}

} // namespace mailgrad
