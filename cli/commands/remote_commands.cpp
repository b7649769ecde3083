#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>
#include <mailgrad/cli/remote/run_status.hpp>
#include <mailgrad/options/number.hpp>

#include <iostream>

// A process that takes part in a run of another process, or asks about it.

namespace mailgrad {

namespace {

struct join_args {
  std::string address;
  std::string devices = "cpu:0";
  std::uint32_t workers = 0; ///< that share the devices; 0: as the run says
  std::string data;
  std::uint64_t data_limit = parsed_limit().bytes >> 30; // in GiB
  std::optional<std::uint32_t> number;
  std::string keys;
  std::vector<std::string> plugins;
  std::string rejoin = "yes";
  bool quiet = false;
};

constexpr std::chrono::seconds usual_rejoin{60};
constexpr std::uint64_t most_rejoin_seconds = 86'400;
constexpr std::uint32_t most_joining = 256;

std::chrono::milliseconds read_rejoin(const std::string& word) {
  if (word == "no") return std::chrono::milliseconds{0};
  return word == "yes" ? usual_rejoin : std::chrono::seconds{parse_whole(word).value()};
}

int join(const join_args& w) {
  const std::vector<device> devices = read_devices(w.devices);
  const interrupt ctrl_c("a second signal ends this process at once: what its workers had under way is lost");
  joining how{.quiet = w.quiet, .until_joined = watch_connecting(ctrl_c, w.address, w.quiet)};
  how.each.network = network_with(w.address, w.keys, side::worker);
  how.each.number = w.number;
  how.each.rejoin = read_rejoin(w.rejoin);
  how.each.samples = samples_of(w.data, w.data_limit);
  how.each.plugins = plugins_of(w.plugins);
  const auto workers = shared_out(devices, w.workers, w.address, how.each.network);
  return joined_workers(w.address, workers, std::move(how)).wait(ctrl_c);
}

struct shard_args {
  std::string server;
  std::string listen = "127.0.0.1:0";
  std::string keys;
  std::vector<std::string> plugins;
  bool quiet = false;
};

int hold_shards(const shard_args& w) {
  const interrupt ctrl_c(
      "a second signal ends this process at once: its shards are lost, and with them the run");
  std::jthread until_joined = watch_connecting(ctrl_c, w.server, w.quiet);
  remote::parameter_host_options options{.listen = w.listen,
                                         .network = network_with(w.server, w.keys, side::shard),
                                         .plugins = plugins_of(w.plugins)};
  if (!w.quiet)
    options.on_begin = [](const std::vector<std::uint32_t>& shards, const std::string& address) {
      std::cerr << fmt::format("holds shard{} {} for workers that come to {}\n",
                               shards.size() == 1 ? "" : "s", fmt::join(shards, ", "), address);
    };
  options.on_event = [](const std::string& words) { say_line(words); };
  remote::parameter_host host(w.server, std::move(options));
  until_joined = {};
  if (!w.quiet) say_line(host.name() + " has joined the run at " + w.server);
  bool leaving = false;
  while (!host.wait_for(std::chrono::milliseconds{50}))
    if (ctrl_c.requested() && !leaving) {
      leaving = true;
      host.leave(fmt::format("it was ended by {}", signal_name(ctrl_c.signal())));
    }
  const net::ending end = host.wait();
  say_end(host.name(), end, w.quiet);
  if (ctrl_c.requested()) return exit_code::of_signal(ctrl_c.signal());
  return exit_code_of(end);
}

struct watch_args {
  std::string address;
  std::string argument;
  std::string keys;
  bool json = false;
};

/// A run is asked where it is said to be: there is nothing to wait for where nobody listens.
constexpr std::chrono::milliseconds at_once{0};

void add_address(option_table& t, watch_args& w) {
  t.add("ADDRESS", w.address, required, "Where 'mailgrad serve' listens, as HOST:PORT or memory:NAME");
  add_keys(t, w.keys);
  t.title();
}

std::string asked(const watch_args& w, const std::string& what) {
  return remote::watcher(w.address, network_with(w.address, w.keys, side::worker, at_once))
      .ask(what, w.argument);
}

} // namespace

command make_join_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("join", "Join a run of another process as a worker");
  auto words = std::make_shared<join_args>();
  option_table t(*parser);
  t.add("ADDRESS", words->address, required, "Where 'mailgrad serve' listens, as HOST:PORT or memory:NAME");
  t.add("--devices", words->devices, shown,
        "The devices to compute on: cpu:0,cpu:1, or streams of a GPU, cuda:0,cuda:0/1. Each is a worker, "
        "unless the model of the run spans several devices; a worker then takes as many as that needs, one "
        "after the other");
  t.add("--workers", words->workers, whole_number(1, most_joining),
        "Share the devices out to so many workers; by default the run says how many each has");
  t.add("--number", words->number, whole_number(0, std::numeric_limits<std::uint32_t>::max()),
        "Be this worker of the run; by default one that is free");
  t.add("--rejoin", words->rejoin, one_of_or_seconds({"no", "yes"}, most_rejoin_seconds),
        value_name("no|yes|SECONDS"), shown,
        "When cut off from the run, try to come back as the next incarnation: no, yes, which tries for 60 s, "
        "or for so many seconds");
  add_local_data(t, words->data, words->data_limit);
  add_plugins(t, words->plugins);
  add_keys(t, words->keys);
  t.title();
  t.add("--quiet", words->quiet, overridable, "Print nothing but failures");
  parser->footer(
      "Model, policy, optimiser and data come from the server. With --data, mini-batches are cut from files\n"
      "of this machine if these hold the same samples, and only their numbers are sent. Ctrl-C leaves after\n"
      "the present step; the run goes on without this worker. A worker that stood still or whose connection\n"
      "broke comes back by itself as long as the run goes on, and what it had under way is not counted.\n\n"
      "Example:\n  mailgrad join 10.0.0.1:7000 --devices cpu:0,cpu:1 --keys run-keys");
  return {parser, [words] { return join(*words); }};
}

command make_shard_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("shard", "Hold shards of a run of another process, as a parameter host");
  auto words = std::make_shared<shard_args>();
  option_table t(*parser);
  t.add("--join", words->server, required, value_name("HOST:PORT"),
        "Where 'mailgrad serve --shard-hosts N' listens, as HOST:PORT");
  t.add("--listen", words->listen, path("HOST:PORT"), shown,
        "Where workers find the shards: an address of this machine; port 0 is any that is free");
  add_plugins(t, words->plugins);
  add_keys(t, words->keys);
  t.title();
  t.add("--quiet", words->quiet, overridable, "Print nothing but failures");
  parser->footer(
      "The server tells which shards this process holds. Workers send their gradients straight to it. A run\n"
      "cannot go on without its shards: Ctrl-C here ends the run as failed.\n\n"
      "Example:\n  mailgrad shard --join 10.0.0.1:7000 --listen 10.0.0.2:0 --keys run-keys");
  return {parser, [words] { return hold_shards(*words); }};
}

command make_status_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("status", "Show how a run of another process stands");
  auto words = std::make_shared<watch_args>();
  option_table t(*parser);
  add_address(t, *words);
  t.add("--json", words->json, overridable, "Print the whole state as a JSON object");
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
  t.add("POLICY", words->argument, required,
        "One policy, such as ssp:2; it begins as soon as every worker has finished its step");
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
