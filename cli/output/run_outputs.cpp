#include <mailgrad/cli/output/run_outputs.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

void require_metrics_apart(const output_paths& paths) {
  if (paths.metrics == output_file::standard_output)
    throw std::invalid_argument("--metrics: the lines go to a file; name one, './-' for one of that name");
  if (paths.tensorboard == output_file::standard_output)
    throw std::invalid_argument("--tensorboard: events go to a folder; name one, './-' for one of that name");
  const output_file metrics("metrics", paths.metrics);
  for (const auto& [option, path] :
       {std::pair{"--report", &paths.report}, std::pair{"--staleness-csv", &paths.staleness_csv},
        std::pair{"--trace", &paths.trace}, std::pair{"--record", &paths.record},
        std::pair{"--save", &paths.save}})
    if (metrics.same_file(output_file("output", *path)))
      throw std::invalid_argument(
          fmt::format("--metrics and {} both name '{}'; give each a file of its own", option, *path));
}

} // namespace

bool is_output_option(std::string_view option) {
  constexpr std::array<std::string_view, 7> all{"--report",  "--save",        "--staleness-csv", "--trace",
                                                "--metrics", "--tensorboard", "--record"};
  return std::ranges::find(all, option) != all.end();
}

run_outputs::run_outputs(const output_paths& paths, const std::vector<input_file>& inputs)
    : report_("report", paths.report), staleness_csv_("staleness histogram", paths.staleness_csv),
      trace_("trace", paths.trace), weights_(paths.save) {
  if (paths.record == output_file::standard_output)
    throw std::invalid_argument(
        "--record: a recording is no output for a pipe; name a file, './-' for one of that name");
  const auto require_two = [](const output_file& a, const output_file& b, const std::string& options,
                              const std::string& path) {
    if (a.same_file(b))
      throw std::invalid_argument(
          fmt::format("{} both name '{}'; give each a file of its own", options, path));
  };
  require_two(report_, staleness_csv_, "--report and --staleness-csv", paths.report);
  require_two(report_, trace_, "--report and --trace", paths.report);
  require_two(staleness_csv_, trace_, "--staleness-csv and --trace", paths.trace);
  const output_file record("recording", paths.record);
  if (!paths.record.empty() && std::filesystem::is_fifo(paths.record))
    throw std::invalid_argument(
        fmt::format("--record: '{}' is a pipe, and a recording is none; name a file", paths.record));
  require_two(report_, record, "--report and --record", paths.record);
  require_two(staleness_csv_, record, "--staleness-csv and --record", paths.record);
  require_two(trace_, record, "--trace and --record", paths.record);
  const output_file save("weights", paths.save);
  require_two(report_, save, "--report and --save", paths.report);
  require_two(staleness_csv_, save, "--staleness-csv and --save", paths.save);
  require_two(trace_, save, "--trace and --save", paths.save);
  require_two(record, save, "--record and --save", paths.save);
  require_metrics_apart(paths);
  require_no_input("--report", paths.report, inputs);
  require_no_input("--staleness-csv", paths.staleness_csv, inputs);
  require_no_input("--trace", paths.trace, inputs);
  require_no_input("--record", paths.record, inputs);
  require_no_input("--save", paths.save, inputs);
  require_no_input("--metrics", paths.metrics, inputs);
}

bool run_outputs::take_standard_output() const {
  return report_.is_standard_output() || staleness_csv_.is_standard_output() || trace_.is_standard_output();
}

std::vector<std::string> run_outputs::write(const training_report& r, const run_trace& trace,
                                            std::span<const named_weights> weights,
                                            const model_card& card) const {
  std::vector<std::string> failures;
  const auto try_to = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const std::exception& e) {
      failures.emplace_back(e.what());
    }
  };
  try_to([&] { weights_.write(weights, card, r); });
  try_to([&] { report_.write([&](std::ostream& out) { out << to_json(r) << '\n'; }); });
  try_to([&] { staleness_csv_.write([&](std::ostream& out) { out << staleness_csv(r); }); });
  try_to([&] { trace_.write([&](std::ostream& out) { write_trace(out, trace); }); });
  return failures;
}

} // namespace mailgrad
