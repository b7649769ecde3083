#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>
#include <mailgrad/cli/remote/remote_args.hpp>

#include <mailgrad/actors/remote/parameter_host.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

struct shard_args {
  std::string server;
  std::string listen = "127.0.0.1:0";
  std::string keys;
  std::vector<std::string> plugins;
  bool quiet = false;
};

void tell_begin(const std::vector<std::uint32_t>& shards, const std::string& address) {
  std::cerr << fmt::format("holds shard{} {} for workers that come to {}\n", shards.size() == 1 ? "" : "s",
                           fmt::join(shards, ", "), address);
}

int hold_shards(const shard_args& w) {
  const interrupt ctrl_c(
      "a second signal ends this process at once: its shards are lost, and with them the run");
  std::optional<connecting> until_joined(std::in_place, ctrl_c, w.server, w.quiet);
  remote::parameter_host_options options{.listen = w.listen,
                                         .network = network_with(w.server, w.keys, side::shard),
                                         .plugins = plugins_of(w.plugins)};
  if (!w.quiet) options.on_begin = tell_begin;
  options.on_event = [](const std::string& words) { say_line(words); };
  remote::parameter_host host(w.server, std::move(options));
  until_joined.reset();
  if (!w.quiet) say_line(host.name() + " has joined the run at " + w.server);
  bool leaving = false;
  while (!host.wait_for(std::chrono::milliseconds{50}))
    if (ctrl_c.requested() && !leaving) {
      leaving = true;
      host.leave(fmt::format("it was ended by {}", signal_name(ctrl_c.signal())));
    }
  const net::ending end = host.wait();
  const std::string last_words = host.name() + ": " + end.words;
  if (!is_in_order(end.reason))
    say_failure(last_words);
  else if (!w.quiet)
    say_line(last_words);
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  return exit_code_of(end);
}

} // namespace

command make_shard_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("shard", "Hold shards of a run of another process, as a parameter host");
  auto words = std::make_shared<shard_args>();
  option_table t(*parser);
  t.add("--join", words->server, "Where 'mailgrad serve --shard-hosts N' listens, as HOST:PORT", required,
        value_name("HOST:PORT"));
  t.add("--listen", words->listen,
        "Where workers find the shards: an address of this machine; port 0 is any that is free",
        path("HOST:PORT"), shown);
  add_plugins(t, words->plugins);
  add_keys(t, words->keys);
  t.title();
  t.add("--quiet", words->quiet, "Print nothing but failures", overridable);
  parser->footer(
      "The server tells which shards this process holds. Workers send their gradients straight to it. A run\n"
      "cannot go on without its shards: Ctrl-C here ends the run as failed.\n\n"
      "Example:\n  mailgrad shard --join 10.0.0.1:7000 --listen 10.0.0.2:0 --keys run-keys");
  return {parser, [words] { return hold_shards(*words); }};
}

} // namespace mailgrad
