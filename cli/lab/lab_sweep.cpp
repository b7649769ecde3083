#include <mailgrad/cli/lab/lab_sweep.hpp>

#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/lab/lab_experiment.hpp>
#include <mailgrad/cli/lab/lab_run.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/virtual_run.hpp>
#include <mailgrad/tensor/device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

/// The cells of a sweep as runs of `mailgrad lab run`. Cells with the same data share them in memory.
///
/// Threads run(): several at once; the rest: one.
class sweep_cells {
public:
  /// Parses and plans every cell. `stop` ends that early.
  ///
  /// Errors  std::invalid_argument, file_error in one line that names the key: what `mailgrad lab run` would
  ///         refuse.
  sweep_cells(const lab::sweep& s, const std::function<bool()>& stop);

  /// The steps that a cell takes.
  std::uint64_t steps_of(std::size_t cell) const { return steps_[cell]; }

  /// Runs a cell. None if `stop` ended it. A failure is an outcome, too.
  std::optional<lab::cell_outcome> run(std::size_t cell,
                                       const std::function<void(const training_progress&)>& shown,
                                       const std::function<bool()>& stop);

  /// The SHA-256 of all that the cells read, as add_content() has it.
  const std::map<std::string, std::string>& content() const noexcept { return content_; }
  /// The remarks on the data that were read, each once.
  const std::vector<std::string>& remarks() const noexcept { return remarks_; }

private:
  train_args words_of(std::size_t cell) const;
  std::shared_ptr<const data_split> data_of(std::size_t cell, const train_args& w);
  std::string data_key_of(std::size_t cell, const train_args& w) const;
  void plan(std::size_t cell);
  lab::cell_terms terms_of(std::size_t cell);

  const lab::sweep& sweep_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::string> remarks_;
  std::map<std::string, std::string> content_;
  std::mutex mutex_; ///< guards the data below
  std::map<std::string, std::weak_ptr<const data_split>> data_;
  std::deque<std::shared_ptr<const data_split>> recent_; ///< kept for the next cells
};

namespace fs = std::filesystem;

/// Of several files, whose names are told from `home` on.
std::string sum_of(std::vector<fs::path> files, const fs::path& home) {
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files)
    text += file.lexically_relative(home).string() + ' ' + sha256_of(file) + '\n';
  return sha256(std::as_bytes(std::span(text)));
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

std::string sum_of(const std::vector<fs::path>& named) {
  if (named.size() == 1 && fs::is_regular_file(named[0])) return sha256_of(named[0]);
  std::vector<fs::path> files;
  for (const fs::path& path : named) {
    const std::vector<fs::path> more = fs::is_directory(path) ? files_below(path) : std::vector{path};
    files.insert(files.end(), more.begin(), more.end());
  }
  return sum_of(std::move(files), named[0].parent_path());
}

/// By their keys, those of the words whose value is a file or a data set.
std::map<std::string, std::vector<fs::path>> named_by(const run_inputs& in) {
  std::map<std::string, std::vector<fs::path>> named;
  for (const input_file& file : files_of(in)) {
    std::error_code none;
    const bool is_data = file.option == "--data";
    if (!is_data && !fs::is_regular_file(file.path, none)) continue; // empty, or the content of a model file
    named[file.option.substr(2) + '=' + (is_data ? in.data : file.path)].emplace_back(file.path);
  }
  return named;
}

/// Adds the SHA-256 of what the words of a run name: data, a model file, weights to begin with, plug-ins. The
/// key is "data=ratings.csv"; what has one is not read again. Of a data set in several files or of a folder
/// it is the sum of their names and sums.
///
/// Errors  file_error: there is no such data set; std::system_error: a file cannot be read.
void add_content(const train_args& w, std::map<std::string, std::string>& sums) {
  run_inputs in = inputs_of(w);
  if (built_in_model(w.model)) in.model.clear(); // a file of that name is not read
  if (sums.contains("data=" + w.data)) in.data.clear();
  for (const auto& [key, files] : named_by(in))
    if (!sums.contains(key)) sums[key] = sum_of(files);
}

/// Every cell would write the same file.
constexpr std::array<std::string_view, 6> own_outputs{"report", "save",  "staleness-csv",
                                                      "trace",  "quiet", "help"};

/// Data sets that are kept although no cell uses them at this moment, since the next one may.
constexpr std::size_t most_recent = 4;

bool is_among(std::string_view key, const auto& names) {
  return std::ranges::find(names, key) != names.end();
}

/// A word of a command line for a shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=:,./+@%-";
  if (word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + '\'';
}

std::vector<std::string> words_of(const std::vector<lab::sweep_setting>& settings) {
  std::vector<std::string> words{"mailgrad", "lab", "run"};
  for (const lab::sweep_setting& s : settings) words.push_back(fmt::format("--{}={}", s.key, s.value));
  return with_present_names(std::move(words));
}

/// By the parser of `mailgrad lab run`.
train_args parsed(const std::vector<lab::sweep_setting>& settings) {
  for (const lab::sweep_setting& s : settings)
    if (is_among(s.key, own_outputs))
      throw std::invalid_argument(fmt::format("'{}': a sweep has outputs of its own; leave it out", s.key));
  train_args w = lab_args();
  CLI::App app("", "mailgrad");
  option_table run(*app.add_subcommand("lab", "")->add_subcommand("run", ""));
  add_lab_run(run, w);
  const std::vector<std::string> words = words_of(settings);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& e) {
    throw std::invalid_argument(explain(app, e));
  }
  return w;
}

training_options options_of(const train_args& w) {
  training_options o = with_first_weights(w);
  o.text.length = 0;
  return o;
}

/// "policy=ssp:3 lr=0.1: "
std::string place_of(const lab::sweep& s, std::size_t cell) {
  const std::vector<std::string> values = s.values_of(cell);
  std::string text;
  for (std::size_t a = 0; a < s.grid.size(); ++a)
    text += fmt::format("{}{}={}", a == 0 ? "" : " ", s.grid[a].key, values[a]);
  return text + ": ";
}

/// The command that repeats a cell alone.
std::string command_of(const lab::sweep& s, std::size_t cell) {
  std::string command;
  for (const std::string& word : words_of(s.settings_of(cell)))
    command += (command.empty() ? "" : " ") + quoted(word);
  return command;
}

sweep_cells::sweep_cells(const lab::sweep& s, const std::function<bool()>& stop)
    : sweep_(s), steps_(s.cells()) {
  std::multimap<std::string, std::size_t> by_data; // so that each data set is read once
  for (const std::size_t cell : s.kept_cells())
    if (!stop()) by_data.emplace(data_key_of(cell, words_of(cell)), cell);
  for (const auto& [key, cell] : by_data)
    if (!stop()) plan(cell);
}

void sweep_cells::plan(std::size_t cell) {
  const train_args w = words_of(cell);
  try {
    const training_options o = options_of(w);
    add_content(w, content_);
    const auto data = data_of(cell, w);
    steps_[cell] = lab::virtual_run::plan(find_model(w.model), data, o, simulated_workers(w));
  } catch (const std::invalid_argument& why) {
    throw std::invalid_argument(place_of(sweep_, cell) + why.what());
  }
}

train_args sweep_cells::words_of(std::size_t cell) const { return parsed(sweep_.settings_of(cell)); }

/// The seed makes a difference to data only if a part of them is drawn for the test.
std::string sweep_cells::data_key_of(std::size_t cell, const train_args& w) const {
  const bool has_test = !find_files(w.data, opened_as(w).files).test.empty();
  std::string key;
  for (const lab::sweep_setting& s : sweep_.settings_of(cell))
    if (is_of("--" + s.key, of_data) && !(has_test && s.key == lab::seed_key))
      key += s.key + '=' + s.value + '\n';
  return key;
}

std::shared_ptr<const data_split> sweep_cells::data_of(std::size_t cell, const train_args& w) {
  const std::string key = data_key_of(cell, w);
  const std::lock_guard guard(mutex_);
  if (auto held = data_[key].lock()) return held;
  auto read = std::make_shared<const data_split>(open_data(w.data, opened_as(w)));
  data_[key] = read;
  recent_.push_back(read);
  if (recent_.size() > most_recent) recent_.pop_front();
  for (const std::string& remark : read->remarks)
    if (!is_among(remark, remarks_)) remarks_.push_back(remark);
  return read;
}

lab::cell_terms sweep_cells::terms_of(std::size_t cell) {
  const train_args w = words_of(cell);
  lab::virtual_run_options how = simulated_workers(w);
  how.test_every = lab::steps_between_tests(steps_[cell], sweep_.tests);
  return {find_model(w.model), data_of(cell, w), options_of(w), std::move(how)};
}

std::optional<lab::cell_outcome> sweep_cells::run(std::size_t cell,
                                                  const std::function<void(const training_progress&)>& shown,
                                                  const std::function<bool()>& stop) {
  const std::string date = utc_date(std::chrono::system_clock::now());
  std::optional<lab::cell_outcome> made = lab::run_cell(sweep_, cell, [&] {
    lab::cell_terms t = terms_of(cell);
    t.how.on_progress = shown;
    t.how.stop = stop;
    return t;
  });
  if (!made) return made;
  made->row.command = command_of(sweep_, cell);
  made->row.commit = build_commit;
  made->row.date = date;
  return made;
}

/// Shows it: a bar that redraws itself on a terminal, a line every few seconds elsewhere.
///
/// Threads any.
class sweep_progress {
public:
  sweep_progress(std::ostream& out, progress_display::style how, sweep_state begin)
      : out_(out), style_(how), state_(begin) {}

  void add_steps(std::uint64_t steps);
  void add_cell(bool completed);
  void finish();

private:
  void show(bool now);

  std::mutex mutex_;
  std::ostream& out_;
  const progress_display::style style_;
  sweep_state state_;
  machine_time time_;
  const instant begun_ = time_.now();
  instant shown_{0};
  bool drawn_ = false;
};

std::string number(double x) { return std::isfinite(x) ? fmt::format("{:.4g}", x) : "-"; }

/// "0.91 (0.90 to 0.92)"; the median alone of a single run.
std::string in_words(const std::optional<lab::quartiles>& q) {
  if (!q || !std::isfinite(q->median)) return "-";
  if (q->low == q->high) return number(q->median);
  return fmt::format("{} ({} to {})", number(q->median), number(q->low), number(q->high));
}

using table = std::vector<std::vector<std::string>>;

/// A line of names, and one for each method, the best one first.
table table_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods, lab::judged_figure judged) {
  std::vector<lab::sweep_summary> ranked(methods.begin(), methods.end());
  std::ranges::stable_sort(ranked, [&](const auto& a, const auto& b) { return a.better_than(b, judged); });
  const bool speeds = std::ranges::any_of(ranked, [](const auto& m) { return m.speed_up.has_value(); });
  table lines{{"method"}};
  std::vector<std::string>& names = lines.front();
  if (!s.tune.empty()) names.push_back(s.tune);
  names.insert(names.end(), {"completed", std::string(name_of(judged)), "staleness"});
  if (s.target) names.push_back("time to target [s]");
  if (speeds) names.push_back("speed-up");
  for (const lab::sweep_summary& m : ranked) {
    std::vector<std::string> line{lab::words_of(s, m, {s.tune})};
    if (!s.tune.empty()) line.push_back(m.values[*s.axis(s.tune)]);
    line.push_back(fmt::format("{} of {}", m.completed, m.cells.size()));
    line.push_back(in_words(m.judged(judged)));
    line.push_back(in_words(m.staleness_mean));
    if (s.target) line.push_back(in_words(m.time_to_target));
    if (speeds) line.push_back(m.speed_up ? number(*m.speed_up) : "-");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string html_of(const table& lines) {
  std::string html = "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    html += i == 0 ? "<thead><tr>" : "<tr>";
    for (const std::string& text : lines[i]) html += fmt::format("<{0}>{1}</{0}>", cell, as_html(text));
    html += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string format_settings(const std::vector<lab::sweep_setting>& run) {
  std::string text;
  for (const lab::sweep_setting& setting : run)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", setting.key, setting.value);
  return text;
}

/// Where the rows come from. Several machines may have worked on one sweep, one after the other.
std::string format_origin(std::span<const lab::sweep_row> rows) {
  std::vector<std::string> processors;
  double seconds = 0;
  for (const lab::sweep_row& row : rows) {
    seconds += row.real_seconds;
    if (std::ranges::find(processors, row.processor) == processors.end()) processors.push_back(row.processor);
  }
  std::string text = fmt::format("{} runs, {:.1f} s of computing", rows.size(), seconds);
  for (const std::string& p : processors) text += ", on " + p;
  if (!rows.empty())
    text += fmt::format(", by Mailgrad {} ({}), begun {}", rows[0].version, rows[0].commit,
                        std::ranges::min(rows, {}, &lab::sweep_row::date).date);
  return text + '.';
}

} // namespace

std::string in_words(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                     lab::judged_figure judged) {
  const table lines = table_of(s, methods, judged);
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c + 1 < line.size(); ++c) text += fmt::format("{:{}}  ", line[c], widths[c]);
    text += line.back() + '\n';
  }
  return text;
}

std::string page_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                    lab::judged_figure judged, std::span<const lab::sweep_row> rows,
                    std::span<const picture> pictures, const std::string& command) {
  std::string html = html_begin("Mailgrad: a sweep", "A sweep");
  html += fmt::format("<p>{}</p>\n", as_html(format_settings(s.settings)));
  html +=
      fmt::format("<p class=\"note\">{} Made by: {}. Times are virtual. Numbers are medians over seeds, with "
                  "quartiles in brackets; a run that did not complete counts as the worst.</p>\n",
                  as_html(format_origin(rows)), as_html(command));
  html += html_of(table_of(s, methods, judged));
  for (const picture& p : pictures) html += html_figure(p);
  return html + html_end();
}

namespace {

constexpr std::size_t bar_width = 24;

double share_done(const sweep_state& s) {
  return s.steps == 0 ? 1 : std::min(1.0, static_cast<double>(s.steps_done) / static_cast<double>(s.steps));
}

std::string format_seconds(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

} // namespace

std::string in_words(const sweep_state& s, double seconds) {
  std::string text = fmt::format("{} of {} cells", s.ended, s.cells);
  if (s.failed > 0) text += fmt::format(", {} diverged or failed", s.failed);
  const double share = share_done(s);
  if (s.ended < s.cells && share > 0)
    text += fmt::format(", {} left", format_seconds(seconds * (1 - share) / share));
  return text;
}

/// A run tells of none when it is planned, and nothing is shown before one is done.
void sweep_progress::add_steps(std::uint64_t steps) {
  if (steps == 0) return;
  const std::lock_guard guard(mutex_);
  state_.steps_done += steps;
  show(false);
}

void sweep_progress::add_cell(bool completed) {
  const std::lock_guard guard(mutex_);
  ++state_.ended;
  if (!completed) ++state_.failed;
  show(state_.ended == state_.cells);
}

void sweep_progress::show(bool now) {
  constexpr instant between_bars = std::chrono::milliseconds{200}, between_lines = std::chrono::seconds{2};
  if (style_ == progress_display::style::none) return;
  const bool bar = style_ == progress_display::style::bar;
  const instant time = time_.now() - begun_;
  if (!now && time - shown_ < (bar ? between_bars : between_lines)) return;
  shown_ = time;
  std::string text = in_words(state_, in_seconds(time));
  if (!bar) {
    out_ << text << std::endl;
    return;
  }
  const auto filled = static_cast<std::size_t>(share_done(state_) * bar_width);
  const std::string drawn = '[' + std::string(filled, '#') + std::string(bar_width - filled, ' ') + "] ";
  // Some terminals begin a new line after a letter in the last column.
  const std::size_t room = progress_display::terminal_columns() - 1;
  if (drawn.size() + text.size() <= room) text = drawn + text;
  out_ << "\r\033[K" << text.substr(0, room) << std::flush;
  drawn_ = true;
}

void sweep_progress::finish() {
  const std::lock_guard guard(mutex_);
  if (drawn_) out_ << '\n' << std::flush;
  drawn_ = false;
}

namespace {

constexpr std::size_t most_sweep_bytes = 16 << 20;

lab::sweep sweep_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(most_sweep_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size())); // a device may have no end
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad() || std::filesystem::is_directory(file))
    throw std::invalid_argument("it cannot be read");
  if (text.size() > most_sweep_bytes) throw std::invalid_argument("it is too long for a sweep");
  return lab::parse_sweep(text);
}

/// The folder gets a sweep.json of its own.
void require_other_file(const sweep_args& w) {
  std::error_code nothing_there;
  if (std::filesystem::equivalent(w.file, std::filesystem::path(w.folder) / "sweep.json", nothing_there))
    throw std::invalid_argument(
        fmt::format("--out '{}' would replace '{}'; name another folder", w.folder, w.file));
}

std::string command_of(const sweep_args& w) { return fmt::format("mailgrad lab sweep {} --out DIR", w.file); }

/// Builds of one commit differ if something is changed that is not committed.
std::string format_program() {
  const std::string commit = build_commit;
  std::string words = fmt::format("Mailgrad {}, commit {}", this_program().version, commit);
  if (commit.ends_with("-dirty") || commit == "unknown")
    words += fmt::format(", SHA-256 {}", sha256_of("/proc/self/exe"));
  return words;
}

lab::sweep_folder open_folder(const sweep_args& w, const lab::sweep& s, const sweep_cells& cells) {
  const lab::sweep_origin origin{format_program(), cells.content()};
  try {
    return {w.folder, s, origin, w.restart ? lab::old_rows::set_aside : lab::old_rows::go_on};
  } catch (const lab::rows_of_another& why) {
    throw std::invalid_argument(std::string(why.what()) + "; --restart sets them aside");
  }
}

/// Runs cells on several threads, and keeps what each has come to.
class sweep_run {
public:
  sweep_run(const sweep_args& w, sweep_cells& cells, lab::sweep_folder& folder, const interrupt& ctrl_c)
      : cells_(cells), folder_(folder), ctrl_c_(ctrl_c), missing_(folder.missing()),
        progress_(std::cerr, w.quiet ? progress_display::style::none : progress_display::suitable_style(),
                  begin()),
        threads_(w.jobs > 0 ? w.jobs : static_cast<unsigned>(cores_of_process().count())) {}

  void run() {
    const auto stop = [this] { return ctrl_c_.requested(); };
    lab::run_on_threads(
        missing_, threads_, [&](std::size_t cell) { run_cell(cell, stop); }, stop);
    progress_.finish();
  }

private:
  sweep_state begin() const {
    sweep_state s{missing_.size() + folder_.rows().size(), folder_.rows().size()};
    for (const lab::sweep_row& row : folder_.rows()) s.failed += row.completed() ? 0 : 1;
    for (const std::size_t cell : missing_) s.steps += cells_.steps_of(cell);
    return s;
  }

  void run_cell(std::size_t cell, const std::function<bool()>& stop) {
    std::uint64_t told = 0;
    const auto show = [&](const training_progress& p) {
      progress_.add_steps(p.steps - std::min(p.steps, told));
      told = std::max(told, p.steps);
    };
    const std::optional<lab::cell_outcome> made = cells_.run(cell, show, stop);
    if (!made) return;
    progress_.add_steps(cells_.steps_of(cell) - std::min(cells_.steps_of(cell), told));
    {
      const std::lock_guard guard(mutex_);
      folder_.add(made->row, made->curve);
    }
    progress_.add_cell(made->row.completed());
  }

  sweep_cells& cells_;
  lab::sweep_folder& folder_; ///< guarded by the mutex while threads run
  const interrupt& ctrl_c_;
  const std::vector<std::size_t> missing_;
  sweep_progress progress_;
  const unsigned threads_;
  std::mutex mutex_;
};

/// What the rows of a sweep say, as tables and pictures.
class sweep_results {
public:
  sweep_results(const sweep_args& w, const lab::sweep& s, const lab::sweep_folder& folder)
      : command_(command_of(w)), s_(s), folder_(folder), rows_(folder.rows()), judged_(lab::judged_by(rows_)),
        methods_(lab::tuned(s, lab::summaries_of(s, rows_), judged_)) {}

  std::string in_words() const { return mailgrad::in_words(s_, methods_, judged_); }
  void write_summary() const { write_result(folder_.path() / "summary.csv", lab::summary_csv(s_, methods_)); }
  /// A picture that cannot be drawn makes no difference to what was found.
  void write_pictures() const {
    try {
      draw_all();
    } catch (const std::runtime_error& why) {
      say_failure(fmt::format("the tables are written, the page and its pictures are not: {}", why.what()));
    }
  }

private:
  void draw_all() const {
    std::vector<picture> pictures;
    for (const lab::figure& f : lab::figures_of(s_, rows_, folder_.curves()))
      pictures.push_back(picture_of(f, command_));
    write_result(folder_.path() / "sweep.html", page_of(s_, methods_, judged_, rows_, pictures, command_));
    write_drawn(folder_.path(), "", pictures);
  }

  std::string command_;
  const lab::sweep& s_;
  const lab::sweep_folder& folder_;
  std::vector<lab::sweep_row> rows_;
  lab::judged_figure judged_;
  std::vector<lab::sweep_summary> methods_;
};

/// Says above a table that it is not of the whole grid; nothing if it is.
std::string format_part(const lab::sweep& s, const lab::sweep_folder& folder) {
  const std::size_t cells = s.kept_cells().size(), rows = folder.rows().size();
  if (rows == cells) return {};
  return fmt::format(
      "This is a part of the grid: {} of {} cells have ended, so medians are of fewer runs, and "
      "methods may be missing.\n",
      rows, cells);
}

/// How many rows there are, and what to do for the others.
std::string ending_of(const lab::sweep& s, const lab::sweep_folder& folder) {
  const std::vector<lab::sweep_row> rows = folder.rows();
  const std::size_t cells = s.kept_cells().size();
  const auto failed = std::ranges::count_if(rows, &lab::sweep_row::failed);
  const auto diverged = std::ranges::count_if(rows, std::not_fn(&lab::sweep_row::completed)) - failed;
  std::string text = fmt::format("{} of {} cells have a row in {}", rows.size(), cells,
                                 (folder.path() / "sweep.csv").string());
  if (diverged > 0) text += fmt::format(", {} of them diverged", diverged);
  if (failed > 0)
    text += fmt::format(", {} of them failed ({})", failed,
                        std::ranges::find_if(rows, &lab::sweep_row::failed)->why);
  if (rows.size() < cells) text += "; the same command goes on with the others";
  if (failed > 0) text += "; the same command tries those that failed again";
  return text + '\n';
}

bool any_failed(const lab::sweep_folder& folder) {
  return std::ranges::any_of(folder.rows(), &lab::sweep_row::failed);
}

} // namespace

std::string sweep_in_help() {
  return wrapped("The file has the options of 'mailgrad lab run' that are the same in all runs, and lists of "
                 "values for those that vary; 'without' leaves cells out, as [{\"policy\": \"sync\", "
                 "\"workers\": 1}] does. Of 'tune' each method takes the value with the best median over "
                 "seeds. 'target' asks for the time until a test reaches it, by test_accuracy, test_loss, "
                 "test_rmse or train_loss; 'tests' says how often a run is tested, 20 times by default. If a "
                 "cell fails, the exit status is 1, and the same command tries it again.",
                 help_width) +
         "\n\nExample of a file:\n"
         "  {\"run\": {\"model\": \"softmax\", \"epochs\": 1},\n"
         "   \"grid\": {\"policy\": [\"async\", \"sync\"], \"workers\": [1, 4, 16],\n"
         "            \"lr\": [0.05, 0.1, 0.2], \"seed\": [1, 2, 3]},\n"
         "   \"tune\": \"lr\", \"target\": {\"test_accuracy\": 0.8}}";
}

int run_sweep(const sweep_args& w) {
  const interrupt ctrl_c;
  std::optional<lab::sweep> s;
  std::optional<sweep_cells> cells;
  try {
    s = sweep_in(w.file);
    cells.emplace(*s, [&] { return ctrl_c.requested(); });
  } catch (const std::invalid_argument& why) {
    throw std::invalid_argument(fmt::format("{}: {}", w.file, why.what()));
  }
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  require_other_file(w);
  lab::sweep_folder folder = open_folder(w, *s, *cells);
  for (const std::string& remark : cells->remarks()) say_failure(remark);
  sweep_run(w, *cells, folder, ctrl_c).run();
  const sweep_results results(w, *s, folder);
  results.write_summary();
  if (!ctrl_c.requested()) results.write_pictures();
  std::cout << format_part(*s, folder) << results.in_words() << ending_of(*s, folder);
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  return any_failed(folder) ? exit_code::failed : exit_code::done;
}

} // namespace mailgrad
