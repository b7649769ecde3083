#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/lab/lab_commands.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>
#include <mailgrad/options/spelling.hpp>

#include <cmath>
#include <deque>
#include <fstream>
#include <iostream>
#include <ranges>
#include <system_error>

namespace mailgrad {

namespace {

struct sweep_args {
  std::string file;
  std::string folder;
  unsigned jobs = 0; ///< 0: as many as this process may use cores
  bool restart = false;
  bool quiet = false;
};

namespace fs = std::filesystem;

/// The sum of one file, or of the names and sums of several and of those below folders.
std::string sum_of(const std::vector<fs::path>& named) {
  if (named.size() == 1 && fs::is_regular_file(named[0])) return sha256_of(named[0]);
  std::vector<fs::path> files;
  for (const fs::path& path : named) {
    if (!fs::is_directory(path)) files.push_back(path);
    if (fs::is_directory(path))
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files)
    text += file.lexically_relative(named[0].parent_path()).string() + ' ' + sha256_of(file) + '\n';
  return sha256(std::as_bytes(std::span(text)));
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

std::vector<std::string> typed(const std::vector<lab::sweep_setting>& settings) {
  std::vector<std::string> words{"mailgrad", "lab", "run"};
  for (const lab::sweep_setting& s : settings) words.push_back(fmt::format("--{}={}", s.key, s.value));
  return with_present_names(std::move(words));
}

train_args parsed(const std::vector<lab::sweep_setting>& settings) {
  for (const lab::sweep_setting& s : settings)
    if (is_among(s.key, own_outputs)) reject("'{}': a sweep has outputs of its own; leave it out", s.key);
  train_args w = lab_args();
  CLI::App app("", "mailgrad");
  option_table run(*app.add_subcommand("lab", "")->add_subcommand("run", ""));
  add_lab_run(run, w);
  const std::vector<std::string> words = typed(settings);
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

/// The cells of a sweep as runs of `mailgrad lab run`. Cells with the same data share them in memory.
///
/// Threads run(): several at once; the rest: one.
class sweep_cells {
public:
  /// Parses and plans every cell. `stop` ends that early.
  ///
  /// Errors  std::invalid_argument, file_error in one line that names the key: what `mailgrad lab run` would
  ///         refuse.
  sweep_cells(const lab::sweep& s, const std::function<bool()>& stop) : sweep_(s), steps_(s.cells()) {
    std::multimap<std::string, std::size_t> by_data; // so that each data set is read once
    for (const std::size_t cell : s.kept_cells())
      if (!stop()) by_data.emplace(data_key_of(cell, words_of(cell)), cell);
    for (const auto& [key, cell] : by_data)
      if (!stop()) plan(cell);
  }

  std::uint64_t steps_of(std::size_t cell) const { return steps_[cell]; }

  /// Runs a cell. None if `stop` ended it. A failure is an outcome, too.
  std::optional<lab::cell_outcome> run(std::size_t cell,
                                       const std::function<void(const training_progress&)>& shown,
                                       const std::function<bool()>& stop) {
    const std::string date = utc_date(std::chrono::system_clock::now());
    std::optional<lab::cell_outcome> made = lab::run_cell(sweep_, cell, [&] {
      const train_args w = words_of(cell);
      lab::virtual_run_options how = simulated_workers(w);
      how.test_every = lab::steps_between_tests(steps_[cell], sweep_.tests);
      how.on_progress = shown;
      how.stop = stop;
      return lab::cell_terms{find_model(w.model), data_of(cell, w), options_of(w), std::move(how)};
    });
    if (!made) return made;
    const std::vector<std::string> words = typed(sweep_.settings_of(cell));
    made->row.command = fmt::format("{}", fmt::join(words | std::views::transform(shell_word), " "));
    made->row.commit = build_commit;
    made->row.date = date;
    return made;
  }

  const std::map<std::string, std::string>& content() const noexcept { return content_; }
  const std::vector<std::string>& remarks() const noexcept { return remarks_; }

private:
  train_args words_of(std::size_t cell) const { return parsed(sweep_.settings_of(cell)); }

  void plan(std::size_t cell) {
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

  /// The seed makes a difference to data only if a part of them is drawn for the test.
  std::string data_key_of(std::size_t cell, const train_args& w) const {
    const bool has_test = !find_files(w.data, opened_as(w).files).test.empty();
    std::string key;
    for (const lab::sweep_setting& s : sweep_.settings_of(cell))
      if (is_of("--" + s.key, of_data) && !(has_test && s.key == lab::seed_key))
        key += s.key + '=' + s.value + '\n';
    return key;
  }

  std::shared_ptr<const data_split> data_of(std::size_t cell, const train_args& w) {
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

  const lab::sweep& sweep_;
  std::vector<std::uint64_t> steps_; ///< that each cell takes
  std::vector<std::string> remarks_;
  std::map<std::string, std::string> content_;
  std::mutex mutex_; ///< guards the data below
  std::map<std::string, std::weak_ptr<const data_split>> data_;
  std::deque<std::shared_ptr<const data_split>> recent_; ///< kept for the next cells
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

std::string format_seconds(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

struct sweep_state {
  std::size_t cells = 0; ///< of the whole grid
  std::size_t ended = 0; ///< of these, also by an earlier command
  std::size_t failed = 0;
  std::uint64_t steps = 0;      ///< that the cells of this command take
  std::uint64_t steps_done = 0; ///< of these

  double share_done() const {
    return steps == 0 ? 1 : std::min(1.0, static_cast<double>(steps_done) / static_cast<double>(steps));
  }
  /// "12 of 48 cells, 1 diverged or failed, 35 s left"
  std::string in_words(double seconds) const {
    std::string text = fmt::format("{} of {} cells", ended, cells);
    if (failed > 0) text += fmt::format(", {} diverged or failed", failed);
    const double share = share_done();
    if (ended < cells && share > 0)
      text += fmt::format(", {} left", format_seconds(seconds * (1 - share) / share));
    return text;
  }
};

constexpr std::size_t most_sweep_bytes = 16 << 20;

lab::sweep sweep_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(most_sweep_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size())); // a device may have no end
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad() || fs::is_directory(file)) reject("it cannot be read");
  if (text.size() > most_sweep_bytes) reject("it is too long for a sweep");
  return lab::parse_sweep(text);
}

/// Builds of one commit differ if something is changed that is not committed.
std::string format_program() {
  const std::string commit = build_commit;
  std::string words = fmt::format("Mailgrad {}, commit {}", this_program().version, commit);
  if (commit.ends_with("-dirty") || commit == "unknown")
    words += fmt::format(", SHA-256 {}", sha256_of("/proc/self/exe"));
  return words;
}

lab::sweep_folder open_folder(const sweep_args& w, const lab::sweep& s, const sweep_cells& cells) {
  // The folder gets a sweep.json of its own, so the file of the sweep must not be that one.
  std::error_code nothing_there;
  if (fs::equivalent(w.file, fs::path(w.folder) / "sweep.json", nothing_there))
    reject("--out '{}' would replace '{}'; name another folder", w.folder, w.file);
  const lab::sweep_origin origin{format_program(), cells.content()};
  try {
    return {w.folder, s, origin, w.restart ? lab::old_rows::set_aside : lab::old_rows::go_on};
  } catch (const lab::rows_of_another& why) {
    throw std::invalid_argument(std::string(why.what()) + "; --restart sets them aside");
  }
}

/// Runs cells on several threads, keeps what each has come to, and shows how far they are: by a bar that
/// redraws itself on a terminal, by a line every few seconds elsewhere.
class sweep_run {
public:
  sweep_run(const sweep_args& w, sweep_cells& cells, lab::sweep_folder& folder, const interrupt& ctrl_c)
      : cells_(cells), folder_(folder), ctrl_c_(ctrl_c), missing_(folder.missing()),
        threads_(w.jobs > 0 ? w.jobs : static_cast<unsigned>(cores_of_process().count())), display_(w.quiet) {
    const std::vector<lab::sweep_row> rows = folder.rows();
    state_.cells = missing_.size() + rows.size();
    state_.ended = rows.size();
    for (const lab::sweep_row& row : rows) state_.failed += row.completed() ? 0 : 1;
    for (const std::size_t cell : missing_) state_.steps += cells_.steps_of(cell);
  }

  void run() {
    const auto stop = [this] { return ctrl_c_.requested(); };
    lab::run_on_threads(
        missing_, threads_, [&](std::size_t cell) { run_cell(cell, stop); }, stop);
    display_.finish();
  }

private:
  void run_cell(std::size_t cell, const std::function<bool()>& stop) {
    std::uint64_t told = 0;
    const auto add_steps = [&](std::uint64_t steps) {
      if (steps <= told) return; // a run tells of none when it is planned
      const std::lock_guard guard(mutex_);
      state_.steps_done += steps - std::exchange(told, steps);
      show(false);
    };
    const std::optional<lab::cell_outcome> made = cells_.run(
        cell, [&](const training_progress& p) { add_steps(p.steps); }, stop);
    if (!made) return;
    add_steps(cells_.steps_of(cell));
    const std::lock_guard guard(mutex_);
    folder_.add(made->row, made->curve);
    ++state_.ended;
    if (!made->row.completed()) ++state_.failed;
    show(state_.ended == state_.cells);
  }

  void show(bool now) {
    constexpr instant between_bars = std::chrono::milliseconds{200}, between_lines = std::chrono::seconds{2};
    constexpr std::size_t bar_width = 24;
    const instant time = time_.now() - begun_;
    if (!now && time - shown_ < (display_.is_bar() ? between_bars : between_lines)) return;
    shown_ = time;
    std::string text = state_.in_words(in_seconds(time));
    if (display_.is_bar()) {
      const std::string bar = progress_display::bar(state_.share_done(), bar_width);
      const std::size_t room = progress_display::room_for_bar();
      text = (bar.size() + text.size() <= room ? bar + text : text).substr(0, room);
    }
    display_.draw(text);
  }

  sweep_cells& cells_;
  lab::sweep_folder& folder_; ///< while threads run, mutex_ guards it, state_, shown_ and display_
  const interrupt& ctrl_c_;
  const std::vector<std::size_t> missing_;
  const unsigned threads_;
  machine_time time_;
  const instant begun_ = time_.now();
  std::mutex mutex_;
  sweep_state state_;
  instant shown_{0};
  progress_display display_;
};

class sweep_results {
public:
  sweep_results(const sweep_args& w, const lab::sweep& s, const lab::sweep_folder& folder)
      : command_(fmt::format("mailgrad lab sweep {} --out DIR", w.file)), s_(s), folder_(folder),
        rows_(folder.rows()), judged_(lab::judged_by(rows_)),
        methods_(lab::tuned(s, lab::summaries_of(s, rows_), judged_)) {}

  bool any_failed() const { return std::ranges::any_of(rows_, &lab::sweep_row::failed); }
  /// The methods as a table for a terminal, how many rows there are, and what to do for the others.
  std::string in_words() const {
    const table lines = table_of(s_, methods_, judged_);
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto& line : lines)
      for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
    std::string text;
    if (rows_.size() != s_.kept_cells().size())
      text = fmt::format("This is a part of the grid: {} of {} cells have ended, so medians are of fewer "
                         "runs, and methods may be missing.\n",
                         rows_.size(), s_.kept_cells().size());
    for (const auto& line : lines) {
      for (std::size_t c = 0; c + 1 < line.size(); ++c) text += fmt::format("{:{}}  ", line[c], widths[c]);
      text += line.back() + '\n';
    }
    return text + ending();
  }
  void write_summary() const { write_result(folder_.path() / "summary.csv", lab::summary_csv(s_, methods_)); }
  void write_pictures() const {
    write_if_drawn([this] {
      std::vector<picture> pictures;
      for (const lab::figure& f : lab::figures_of(s_, rows_, folder_.curves()))
        pictures.push_back(picture_of(f, command_));
      write_result(folder_.path() / "sweep.html", page(pictures));
      write_drawn(folder_.path(), "", pictures);
    });
  }

private:
  std::string ending() const {
    const std::size_t cells = s_.kept_cells().size();
    const auto failed = std::ranges::count_if(rows_, &lab::sweep_row::failed);
    const auto diverged = std::ranges::count_if(rows_, std::not_fn(&lab::sweep_row::completed)) - failed;
    std::string text = fmt::format("{} of {} cells have a row in {}", rows_.size(), cells,
                                   (folder_.path() / "sweep.csv").string());
    if (diverged > 0) text += fmt::format(", {} of them diverged", diverged);
    if (failed > 0)
      text += fmt::format(", {} of them failed ({})", failed,
                          std::ranges::find_if(rows_, &lab::sweep_row::failed)->why);
    if (rows_.size() < cells) text += "; the same command goes on with the others";
    if (failed > 0) text += "; the same command tries those that failed again";
    return text + '\n';
  }

  std::string page(std::span<const picture> pictures) const {
    std::string html = html_begin("Mailgrad: a sweep", "A sweep");
    const auto words = [](const lab::sweep_setting& s) { return s.key + ' ' + s.value; };
    html +=
        fmt::format("<p>{}</p>\n",
                    as_html(fmt::format("{}", fmt::join(s_.settings | std::views::transform(words), ", "))));
    html +=
        fmt::format("<p class=\"note\">{} Made by: {}. Times are virtual. Numbers are medians over seeds, "
                    "with quartiles in brackets; a run that did not complete counts as the worst.</p>\n",
                    as_html(format_origin(rows_)), as_html(command_));
    html += html_of(table_of(s_, methods_, judged_));
    for (const picture& p : pictures) html += html_figure(p);
    return html + html_end();
  }

  std::string command_; ///< that makes the same again
  const lab::sweep& s_;
  const lab::sweep_folder& folder_;
  std::vector<lab::sweep_row> rows_;
  lab::judged_figure judged_;
  std::vector<lab::sweep_summary> methods_;
};

constexpr const char* example_of_a_file =
    "\n\nExample of a file:\n"
    "  {\"run\": {\"model\": \"softmax\", \"epochs\": 1},\n"
    "   \"grid\": {\"policy\": [\"async\", \"sync\"], \"workers\": [1, 4, 16],\n"
    "            \"lr\": [0.05, 0.1, 0.2], \"seed\": [1, 2, 3]},\n"
    "   \"tune\": \"lr\", \"target\": {\"test_accuracy\": 0.8}}";

int run_sweep(const sweep_args& w) {
  const interrupt ctrl_c;
  std::optional<lab::sweep> s;
  std::optional<sweep_cells> cells;
  try {
    s = sweep_in(w.file);
    cells.emplace(*s, [&] { return ctrl_c.requested(); });
  } catch (const std::invalid_argument& why) {
    reject("{}: {}", w.file, why.what());
  }
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  lab::sweep_folder folder = open_folder(w, *s, *cells);
  for (const std::string& remark : cells->remarks()) say_failure(remark);
  sweep_run(w, *cells, folder, ctrl_c).run();
  const sweep_results results(w, *s, folder);
  results.write_summary();
  if (!ctrl_c.requested()) results.write_pictures();
  std::cout << results.in_words();
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  return results.any_failed() ? exit_code::failed : exit_code::done;
}

} // namespace

command make_lab_sweep(CLI::App& parent) {
  CLI::App* sweep = parent.add_subcommand(
      "sweep", "Run a grid of such trainings on all cores: tables, medians over seeds, pictures and a page");
  const auto words = std::make_shared<sweep_args>();
  sweep_args& w = *words;
  option_table t(*sweep);
  t.add("SWEEP", w.file, path("FILE"), required, "The grid, as JSON; see the example below");
  t.add("--out", w.folder, path("DIR"), required,
        "The folder for sweep.csv, curves.csv, summary.csv, the pictures and sweep.html; the same command "
        "goes on where an earlier one was stopped");
  t.add("--jobs", w.jobs, whole_number(1, 4096),
        "How many trainings run at once; by default as many as this process may use cores");
  t.add("--restart", w.restart, "Set rows that the folder has already aside, as NAME.old");
  t.add("--quiet", w.quiet, "Show no progress, only the results and what goes wrong");
  sweep->footer(
      wrapped("The file has the options of 'mailgrad lab run' that are the same in all runs, and lists of "
              "values for those that vary; 'without' leaves cells out, as [{\"policy\": \"sync\", "
              "\"workers\": 1}] does. Of 'tune' each method takes the value with the best median over seeds. "
              "'target' asks for the time until a test reaches it, by test_accuracy, test_loss, test_rmse or "
              "train_loss; 'tests' says how often a run is tested, 20 times by default. If a cell fails, the "
              "exit status is 1, and the same command tries it again.") +
      example_of_a_file);
  return {sweep, [words] { return run_sweep(*words); }};
}

} // namespace mailgrad
