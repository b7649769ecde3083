#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/lab/lab_options.hpp>
#include <mailgrad/cli/lab/sweep_cells.hpp>
#include <mailgrad/cli/version.hpp>
#include <mailgrad/cli/wrong_option.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/engine/account/provenance.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

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
void add_content(const train_words& w, std::map<std::string, std::string>& sums) {
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
  return words;
}

/// By the parser of `mailgrad lab run`.
train_words parsed(const std::vector<lab::sweep_setting>& settings) {
  for (const lab::sweep_setting& s : settings)
    if (is_among(s.key, own_outputs))
      throw std::invalid_argument(fmt::format("'{}': a sweep has outputs of its own; leave it out", s.key));
  train_words w = lab_words();
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

training_options options_of(const train_words& w) {
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

void read_target(const std::optional<lab::sweep_target>& target, const std::vector<lab::curve_point>& curve,
                 lab::sweep_row& row) {
  if (!target) return;
  for (const lab::curve_point& p : curve) {
    const std::optional<double> figure = lab::figure_of(p, target->figure);
    if (!figure || !target->reached_by(*figure)) continue;
    row.time_to_target = p.time;
    row.updates_to_target = static_cast<double>(p.updates);
    return;
  }
}

void read_report(const training_report& r, lab::sweep_row& row) {
  row.ended = r.ended;
  row.why = r.why;
  row.steps = r.steps;
  row.updates = r.updates;
  row.samples = r.samples;
  row.final_loss = r.final_loss;
  row.test_loss = r.test_loss;
  row.test_accuracy = r.test_accuracy;
  row.test_rmse = r.test_rmse;
  row.virtual_seconds = r.wall_seconds;
  row.staleness_mean = r.staleness.mean();
  row.staleness_p99 = r.staleness.empty() ? 0 : r.staleness.quantile(0.99);
  row.discarded = r.ledger.discarded_in_all();
  row.parameters_sha256 = r.parameters_sha256;
}

lab::curve_point point_of(std::size_t cell, const lab::virtual_test& t) {
  return {cell,         in_seconds(t.time), t.steps,           t.updates,
          t.train_loss, t.result.loss,      t.result.accuracy, t.result.rmse};
}

lab::curve_point end_of(const lab::sweep_row& row) {
  return {row.cell,       row.virtual_seconds, row.steps,         row.updates,
          row.final_loss, row.test_loss,       row.test_accuracy, row.test_rmse};
}

} // namespace

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
  const train_words w = words_of(cell);
  try {
    const training_options o = options_of(w);
    add_content(w, content_);
    const auto data = data_of(cell, w);
    steps_[cell] = lab::virtual_run::plan(find_model(w.model), data, o, simulated_workers(w));
  } catch (const std::invalid_argument& why) {
    throw std::invalid_argument(place_of(sweep_, cell) + why.what());
  }
}

train_words sweep_cells::words_of(std::size_t cell) const { return parsed(sweep_.settings_of(cell)); }

/// The seed makes a difference to data only if a part of them is drawn for the test.
std::string sweep_cells::data_key_of(std::size_t cell, const train_words& w) const {
  const bool has_test = !find_files(w.data, opened_as(w).files).test.empty();
  std::string key;
  for (const lab::sweep_setting& s : sweep_.settings_of(cell))
    if (is_of("--" + s.key, of_data) && !(has_test && s.key == lab::seed_key))
      key += s.key + '=' + s.value + '\n';
  return key;
}

std::shared_ptr<const data_split> sweep_cells::data_of(std::size_t cell, const train_words& w) {
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

void sweep_cells::train(std::size_t cell, outcome& made,
                        const std::function<void(const training_progress&)>& shown,
                        const std::function<bool()>& stop) {
  const train_words w = words_of(cell);
  lab::virtual_run_options how = simulated_workers(w);
  how.on_progress = shown;
  how.stop = stop;
  how.test_every = lab::steps_between_tests(steps_[cell], sweep_.tests);
  how.on_test = [&](const lab::virtual_test& t) { made.curve.push_back(point_of(cell, t)); };
  lab::virtual_run run(find_model(w.model), data_of(cell, w), options_of(w), std::move(how));
  run.run();
  read_report(run.report(stop), made.row);
  if (made.row.completed() && !made.row.why.empty()) made.row.ended = "stopped"; // in the test at its end
  if (made.row.completed()) made.curve.push_back(end_of(made.row));
}

std::optional<sweep_cells::outcome>
sweep_cells::run(std::size_t cell, const std::function<void(const training_progress&)>& shown,
                 const std::function<bool()>& stop) {
  const machine_time time;
  const instant begun = time.now();
  outcome made;
  lab::sweep_row& row = made.row;
  row.cell = cell;
  row.values = sweep_.values_of(cell);
  row.command = command_of(sweep_, cell);
  const provenance here = this_program();
  row.version = here.version;
  row.processor = here.processor;
  row.commit = build_commit;
  row.date = utc_date(std::chrono::system_clock::now());
  try {
    train(cell, made, shown, stop);
  } catch (const std::exception& why) {
    row.ended = "failed";
    row.why = why.what();
  }
  if (row.ended == "stopped") return std::nullopt;
  row.real_seconds = in_seconds(time.now() - begun);
  read_target(sweep_.target, made.curve, row);
  return made;
}

} // namespace mailgrad
