#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/remote/remote_words.hpp>
#include <mailgrad/cli/spanning_option.hpp>

#include <mailgrad/actors/remote/membership.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

namespace {

struct join_words {
  std::string address;
  std::string devices = "cpu:0";
  std::optional<std::uint32_t> number;
  std::string keys;
  bool quiet = false;
};

/// Waits until every worker has ended. A signal makes them leave after their present step.
int wait_for_all(std::vector<std::unique_ptr<remote::membership>>& members, const interrupt& ctrl_c,
                 bool quiet) {
  bool leaving = false;
  int code = exit_code::done;
  for (const auto& member : members) {
    while (!member->wait_for(std::chrono::milliseconds{50}))
      if (ctrl_c.requested() && !leaving) {
        leaving = true;
        if (!quiet) std::cerr << "leaving by " << signal_name(ctrl_c.signal()) << " after the present step\n";
        for (const auto& each : members) each->leave();
      }
    const net::ending end = member->wait();
    if (end.reason != net::end_reason::left) code = exit_code::failed;
    if (!quiet || end.reason != net::end_reason::left)
      std::cerr << "mailgrad: " << member->name() << ": " << end.words << '\n';
  }
  return ctrl_c.requested() ? exit_code::of_signal(ctrl_c.signal()) : code;
}

int join(const join_words& w) {
  const std::vector<device> devices = read_devices(w.devices);
  const interrupt ctrl_c;
  const auto network = network_with(w.keys, side::worker);
  std::vector<std::unique_ptr<remote::membership>> members;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    remote::join_options options{.place = devices[i], .network = network};
    if (w.number) options.number = *w.number + static_cast<std::uint32_t>(i);
    members.push_back(std::make_unique<remote::membership>(w.address, std::move(options)));
    if (!w.quiet) std::cerr << members.back()->name() << " has joined the run at " << w.address << '\n';
  }
  return wait_for_all(members, ctrl_c, w.quiet);
}

} // namespace

command make_join_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("join", "Join a run of another process as a worker");
  auto words = std::make_shared<join_words>();
  parser->add_option("ADDRESS", words->address, "Where 'mailgrad serve' listens, as HOST:PORT")->required();
  parser
      ->add_option("--devices", words->devices,
                   "The devices to compute on, with a worker on each: cpu:0,cpu:1")
      ->capture_default_str();
  parser->add_option("--number", words->number, "Be this worker of the run; by default one that is free")
      ->check(whole_number(0, std::numeric_limits<std::uint32_t>::max()));
  add_keys_option(*parser, words->keys);
  parser->add_flag("--quiet", words->quiet, "Print nothing but failures");
  parser->footer(
      "Model, policy, optimiser and data come from the server. Ctrl-C leaves after the present step;\n"
      "the run goes on without this worker.\n\n"
      "Example:\n  mailgrad join 10.0.0.1:7000 --devices cpu:0,cpu:1 --keys run-keys");
  return {parser, [words] { return join(*words); }};
}

} // namespace mailgrad
