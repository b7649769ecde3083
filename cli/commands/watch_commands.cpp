#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/remote_args.hpp>
#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/actors/remote/watcher.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

// What is asked of a run of another process: how it is, another policy, its end.

namespace mailgrad {

namespace {

struct watch_args {
  std::string address;
  std::string argument;
  std::string keys;
  bool json = false;
};

/// A run is asked where it is said to be: there is nothing to wait for where nobody listens.
constexpr std::chrono::milliseconds at_once{0};

void add_address(option_table& t, watch_args& w) {
  t.add("ADDRESS", w.address, "Where 'mailgrad serve' listens, as HOST:PORT or memory:NAME", required);
  add_keys(t, w.keys);
  t.title();
}

std::string asked(const watch_args& w, const std::string& what) {
  return remote::watcher(w.address, network_with(w.address, w.keys, side::worker, at_once))
      .ask(what, w.argument);
}

} // namespace

command make_status_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("status", "Show how a run of another process stands");
  auto words = std::make_shared<watch_args>();
  option_table t(*parser);
  add_address(t, *words);
  t.add("--json", words->json, "Print the whole state as a JSON object", overridable);
  parser->footer("Example:\n  mailgrad status 10.0.0.1:7000");
  return {parser, [words] {
            const std::string state = asked(*words, "status");
            std::cout << (words->json ? state + '\n' : printable(format_status(state)));
            return exit_code::done;
          }};
}

command make_switch_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("switch", "Let a run of another process go on under another policy");
  auto words = std::make_shared<watch_args>();
  option_table t(*parser);
  add_address(t, *words);
  t.add("POLICY", words->argument,
        "One policy, such as ssp:2; it begins as soon as every worker has finished its step", required);
  parser->footer("Example:\n  mailgrad switch 10.0.0.1:7000 ssp:2");
  return {parser, [words] {
            std::cout << printable(asked(*words, "switch")) << '\n';
            return exit_code::done;
          }};
}

command make_stop_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("stop", "End a run of another process in good order");
  auto words = std::make_shared<watch_args>();
  option_table t(*parser);
  add_address(t, *words);
  t.add("WHY", words->argument, "A reason for the report");
  parser->footer("Example:\n  mailgrad stop 10.0.0.1:7000 \"good enough\"");
  return {parser, [words] {
            std::cout << printable(asked(*words, "stop")) << '\n';
            return exit_code::done;
          }};
}

} // namespace mailgrad
