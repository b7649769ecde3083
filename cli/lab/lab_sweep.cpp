#include <mailgrad/cli/lab/lab_sweep.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/lab/experiment_pictures.hpp>
#include <mailgrad/cli/lab/sweep_cells.hpp>
#include <mailgrad/cli/lab/sweep_page.hpp>
#include <mailgrad/cli/lab/sweep_progress.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/cli/version.hpp>

#include <mailgrad/engine/account/provenance.hpp>
#include <mailgrad/files/sha256.hpp>
#include <mailgrad/lab/sweep/sweep_figures.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/sweep/sweep_threads.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace mailgrad {

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
void require_other_file(const sweep_words& w) {
  std::error_code nothing_there;
  if (std::filesystem::equivalent(w.file, std::filesystem::path(w.folder) / "sweep.json", nothing_there))
    throw std::invalid_argument(
        fmt::format("--out '{}' would replace '{}'; name another folder", w.folder, w.file));
}

std::string command_of(const sweep_words& w) {
  return fmt::format("mailgrad lab sweep {} --out DIR", w.file);
}

/// Builds of one commit differ if something is changed that is not committed.
std::string program_in_words() {
  const std::string commit = build_commit;
  std::string words = fmt::format("Mailgrad {}, commit {}", this_program().version, commit);
  if (commit.ends_with("-dirty") || commit == "unknown")
    words += fmt::format(", SHA-256 {}", sha256_of("/proc/self/exe"));
  return words;
}

lab::sweep_folder open_folder(const sweep_words& w, const lab::sweep& s, const sweep_cells& cells) {
  const lab::sweep_origin origin{program_in_words(), cells.content()};
  try {
    return {w.folder, s, origin, w.restart ? lab::old_rows::set_aside : lab::old_rows::go_on};
  } catch (const lab::rows_of_another& why) {
    throw std::invalid_argument(std::string(why.what()) + "; --restart sets them aside");
  }
}

/// Runs cells on several threads, and keeps what each has come to.
class sweep_run {
public:
  sweep_run(const sweep_words& w, sweep_cells& cells, lab::sweep_folder& folder, const interrupt& ctrl_c)
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
    const std::optional<sweep_cells::outcome> made = cells_.run(cell, show, stop);
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
  sweep_results(const sweep_words& w, const lab::sweep& s, const lab::sweep_folder& folder)
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
std::string part_in_words(const lab::sweep& s, const lab::sweep_folder& folder) {
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

int run_sweep(const sweep_words& w) {
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
  std::cout << part_in_words(*s, folder) << results.in_words() << ending_of(*s, folder);
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  return any_failed(folder) ? exit_code::failed : exit_code::done;
}

} // namespace mailgrad
