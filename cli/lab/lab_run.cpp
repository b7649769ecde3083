#include <mailgrad/cli/lab/lab_commands.hpp>

#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/format_report.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>

#include <unistd.h>

namespace mailgrad {

train_args lab_args() {
  train_args w;
  w.run.delays = "exp";
  return w;
}

lab::virtual_run_options simulated_workers(const train_args& w) {
  lab::virtual_run_options lab{w.simulated};
  lab.local_samples = w.local_samples;
  lab.interrupts = w.interrupts;
  lab.links = {w.latency, w.bandwidth};
  lab.wire = {parse_wire_format(w.remote.wire), !w.loses_rest};
  if (w.loses_rest && !is_lossy(lab.wire.format))
    reject("--no-feedback: nothing is lost without a lossy --wire; name one, or leave it out");
  return lab;
}

namespace {

std::string introduction(const train_args& w, const data_split& data, const training_options& o) {
  return fmt::format("{}: {} samples to train on, {} to test on\n{}; {} with {} simulated workers, whose "
                     "steps take {}, seed {}",
                     data.name, data.train.size(), data.test.size(), w.model, o.policy, w.simulated,
                     w.run.delays, w.run.delays_seed);
}

/// "; 512 of 938 gradients computed", unless all were. `computed` are also those that were computed to
/// compare.
std::string format_computed(const training_report& r, std::uint64_t computed) {
  computed -= std::min(computed, r.gradient_cosine.count());
  if (computed >= r.steps) return {};
  return fmt::format("; {} of {} gradients computed", computed, r.steps);
}

/// "1000 s of virtual time in 0.52 s; 4 updates/s, 0.25 s for each"
std::string format_times(const training_report& r, double real_seconds) {
  return fmt::format("{:.6g} s of virtual time in {:.2f} s; {:.6g} updates/s, {:.6g} s for each",
                     r.wall_seconds, real_seconds, static_cast<double>(r.updates) / r.wall_seconds,
                     r.wall_seconds / static_cast<double>(r.updates)) +
         (r.delays->interrupts ? "; late workers are interrupted" : "");
}

bool write_results(const run_outputs& outputs, lab::virtual_run& run, const training_report& r,
                   const model_card& card) {
  const std::span<const float> weights = run.parameters();
  std::vector<std::string> failures = outputs.write(
      r, run.trace(), weights.empty() ? std::vector<named_weights>() : weights_by_name(run.layout(), weights),
      card);
  for (const std::string& why : failures) say_failure(why);
  return failures.empty();
}

int run_in_lab(const train_args& w, std::vector<std::string> given) {
  const std::string date = utc_date(std::chrono::system_clock::now());
  training_options options = with_first_weights(w);
  options.words = std::move(given);
  const run_outputs outputs(w.outputs, files_of(inputs_of(w)));
  const auto data = std::make_shared<const data_split>(open_data(w.data, opened_as(w)));
  const model_card card = card_for(model_text(w.model), *data);
  const interrupt ctrl_c;
  lab::virtual_run_options lab = simulated_workers(w);
  lab.stop = [&] { return ctrl_c.requested(); };
  std::optional<lab_progress> shown;
  lab.on_progress = [&](const training_progress& p) {
    if (shown) shown->show(p);
  };
  lab::virtual_run run(find_model(w.model), data, options, lab);
  if (!w.quiet) say_line(in_words(*data->reading));
  for (const std::string& remark : data->remarks) say_warning(remark);
  if (!w.quiet) say_line(introduction(w, *data, options));
  shown.emplace(run.total_steps(), w.quiet);
  run.run();
  shown->finish();
  const double real_seconds = shown->seconds();
  training_report r = run.report([&] { return ctrl_c.requested(); });
  r.origin.commit = build_commit;
  r.origin.date = date;
  outputs.print_summary(fmt::format("{}virtual time  {}{}\n", in_words(r), format_times(r, real_seconds),
                                    format_computed(r, run.computed())));
  if (!r.why.empty()) say_failure(r.why);
  const int code = exit_code_of(r, ctrl_c.signal());
  return write_results(outputs, run, r, card) || code == exit_code::diverged ? code : exit_code::failed;
}

} // namespace

command make_lab_run(CLI::App& parent) {
  CLI::App* run = parent.add_subcommand(
      "run", "Train with simulated workers, whose steps take as long as a law says; gradients are real");
  const auto words = std::make_shared<train_args>(lab_args());
  option_table table(*run);
  add_lab_run(table, *words);
  run->footer(delays_in_help() + '\n' + models() + policies_and_cures() + '\n' + default_learning_rates() +
              '\n' +
              wrapped("All times are virtual: the clock jumps to the end of the next step, and messages and "
                      "updates take no time. The same options give the same run, to the bit.") +
              "\n\nExample:\n"
              "  mailgrad lab run --workers 1000 --delays gamma:cv=0.1 --policy ssp:3 --model softmax \\\n"
              "    --steps 20000 --batch 8");
  return {run, [run, words] {
            option_args args_of_run(given_args(*run));
            args_of_run.drop("--quiet");
            return run_in_lab(*words, args_of_run.take());
          }};
}

} // namespace mailgrad
