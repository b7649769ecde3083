#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/cli/report/html_page.hpp>
#include <mailgrad/cli/report/pictures.hpp>
#include <mailgrad/cli/report/report_file.hpp>
#include <mailgrad/cli/run_inputs.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
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

/// A heading and the pictures below it.
struct page_section {
  std::string title;
  std::vector<picture> pictures;
};

/// The pictures of these runs, as the page shows them.
std::vector<page_section> sections_of(std::span<const report_file> runs);

/// One HTML page with the figures of these runs side by side, their pictures and their switches of policy. It
/// loads nothing from elsewhere, runs no script, and holds every text of a report as text.
///
/// Errors  as draw().
std::string page_of(std::span<const report_file> runs, std::span<const page_section> sections);

namespace {

/// The names of all facts, in the order of the first run that has them.
std::vector<std::string> rows_of(std::span<const report_file> runs) {
  std::vector<std::string> rows;
  for (const report_file& run : runs)
    for (const auto& [name, text] : run.facts)
      if (std::ranges::find(rows, name) == rows.end()) rows.push_back(name);
  return rows;
}

std::string table_of(std::span<const report_file> runs) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th></th>";
  for (std::size_t i = 0; i < runs.size(); ++i)
    html += fmt::format("<th scope=\"col\">{}</th>", as_html(label_of(runs, i)));
  html += "</tr></thead>\n<tbody>\n";
  for (const std::string& row : rows_of(runs)) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", as_html(row));
    for (const report_file& run : runs) {
      const auto found = std::ranges::find(run.facts, row, [](const auto& fact) { return fact.first; });
      html += fmt::format("<td>{}</td>", found == run.facts.end() ? "" : as_html(found->second));
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string switches_of(std::span<const report_file> runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const policy_switch& s : runs[i].report.switches)
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                          as_html(label_of(runs, i)), s.step, as_html(s.from), as_html(s.to), as_html(s.why));
  if (rows.empty()) return "<p class=\"note\">The policy never changed in mid-run.</p>\n";
  return "<div "
         "class=\"wide\"><table>\n<thead><tr><th>run</th><th>step</th><th>from</th><th>to</th><th>why</th></"
         "tr></thead>\n"
         "<tbody>\n" +
         rows + "</tbody>\n</table></div>\n";
}

std::string times_table(std::span<const report_file> runs) {
  const std::vector<worker_times> all = times_of_workers(runs);
  if (all.empty()) return {};
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th>run</th><th>worker</th>";
  for (const char* part : worker_time_parts) html += fmt::format("<th>{} [%]</th>", part);
  html += "</tr></thead>\n<tbody>\n";
  for (const worker_times& t : all) {
    html += fmt::format("<tr><td>{}</td><td>{}</td>", as_html(label_of(runs, t.run)), t.worker);
    for (const double share : t.shares) html += fmt::format("<td>{:.2f}</td>", share);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

} // namespace

std::vector<page_section> sections_of(std::span<const report_file> runs) {
  std::vector<page_section> sections{{"Loss", loss_pictures(runs)}, {"Staleness", {}}, {"Time", {}}};
  for (std::size_t i = 0; i < runs.size(); ++i) sections[1].pictures.push_back(staleness_picture(runs, i));
  for (picture& p : sample_pictures(runs)) sections[1].pictures.push_back(std::move(p));
  sections[2].pictures = {worker_time_picture(runs), gradient_time_picture(runs)};
  return sections;
}

std::string page_of(std::span<const report_file> runs, std::span<const page_section> sections) {
  std::string html =
      html_begin("Mailgrad: " + (runs.size() == 1 ? runs[0].path : std::to_string(runs.size()) + " runs"),
                 runs.size() == 1 ? "A run of Mailgrad" : "Runs of Mailgrad, side by side");
  html += table_of(runs);
  html += "<h2>Switches of policy</h2>\n" + switches_of(runs);
  for (const page_section& s : sections) {
    html += fmt::format("<h2>{}</h2>\n", as_html(s.title));
    for (const picture& p : s.pictures) html += html_figure(p);
  }
  html += times_table(runs);
  return html + html_end();
}

namespace {

struct report_words {
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
  explicit prepared_files(const report_words& w) {
    for (const std::string& r : w.reports) inputs_.push_back({"a report", r});
  }

  void add(const char* option, const std::string& path, std::string content) {
    require_no_input(option, path, inputs_);
    files_.push_back({output_file("picture or page", path), std::move(content)});
  }

  void add_pictures(const char* option, const std::string& folder, picture_format format,
                    const std::vector<page_section>& sections) {
    if (folder.empty()) return;
    require_folder(option, folder);
    for (const page_section& s : sections)
      for (const picture& p : s.pictures)
        if (!p.script.empty())
          add(option,
              (std::filesystem::path(folder) / (p.name + (format == picture_format::svg ? ".svg" : ".png")))
                  .string(),
              draw(p, format));
  }

  void write() const {
    for (const prepared_file& f : files_) f.to.write([&](std::ostream& out) { out << f.content; });
  }

private:
  std::vector<input_file> inputs_;
  std::vector<prepared_file> files_;
};

int report(const report_words& w) {
  if (w.reports.size() > most_runs)
    throw std::invalid_argument(fmt::format("report: {} runs; at most {} can be told apart in one picture",
                                            w.reports.size(), most_runs));
  std::vector<report_file> runs;
  for (const std::string& file : w.reports) runs.push_back(read_report(file));
  const std::vector<page_section> sections = sections_of(runs);
  prepared_files files(w);
  const bool only_pictures = w.page.empty() && !(w.svg.empty() && w.png.empty());
  if (!only_pictures) files.add("--out", w.page.empty() ? "report.html" : w.page, page_of(runs, sections));
  files.add_pictures("--svg", w.svg, picture_format::svg, sections);
  files.add_pictures("--png", w.png, picture_format::png, sections);
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
  auto words = std::make_shared<report_words>();
  parser
      ->add_option(
          "REPORT", words->reports,
          fmt::format(
              "Reports that 'mailgrad train --report' has written; up to {}, which are shown side by side",
              most_runs))
      ->check(file_name())
      ->type_name("FILE")
      ->required();
  parser
      ->add_option(
          "--out", words->page,
          "The page to write, report.html unless told; -: to standard output. It needs no network and "
          "no other file")
      ->check(file_name())
      ->type_name("FILE");
  parser
      ->add_option("--svg", words->svg,
                   "Write each picture into this folder as SVG; no page unless --out is given")
      ->check(file_name())
      ->type_name("DIR");
  parser->add_option("--png", words->png, "The same as PNG")->check(file_name())->type_name("DIR");
  parser->footer("The program gnuplot draws the pictures (Debian: gnuplot-nox).\n"
                 "Example:\n"
                 "  mailgrad report async.json sync.json --out both.html");
  return {parser, [words] { return report(*words); }};
}

} // namespace mailgrad
