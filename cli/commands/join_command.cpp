#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>
#include <mailgrad/cli/remote/remote_args.hpp>

#include <mailgrad/options/number.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// How long `--rejoin yes` tries to come back.
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
  auto until_joined = std::make_unique<connecting>(ctrl_c, w.address, w.quiet);
  const auto network = network_with(w.address, w.keys, side::worker);
  joined_workers workers(w.address, shared_out(devices, w.workers, w.address, network),
                         {w.number,
                          network,
                          w.quiet,
                          read_rejoin(w.rejoin),
                          samples_of(w.data, w.data_limit),
                          {},
                          plugins_of(w.plugins),
                          false,
                          false,
                          std::move(until_joined)});
  return workers.wait(ctrl_c);
}

} // namespace

command make_join_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("join", "Join a run of another process as a worker");
  auto words = std::make_shared<join_args>();
  option_table t(*parser);
  t.add("ADDRESS", words->address, "Where 'mailgrad serve' listens, as HOST:PORT or memory:NAME", required);
  t.add("--devices", words->devices,
        "The devices to compute on: cpu:0,cpu:1, or streams of a GPU, cuda:0,cuda:0/1. Each is a worker, "
        "unless the model of the run spans several devices; a worker then takes as many as that needs, one "
        "after the other",
        shown);
  t.add("--workers", words->workers,
        "Share the devices out to so many workers; by default the run says how many each has",
        whole_number(1, most_joining));
  t.add("--number", words->number, "Be this worker of the run; by default one that is free",
        whole_number(0, std::numeric_limits<std::uint32_t>::max()));
  t.add("--rejoin", words->rejoin,
        "When cut off from the run, try to come back as the next incarnation: no, yes, which tries for 60 s, "
        "or for so many seconds",
        one_of_or_seconds({"no", "yes"}, most_rejoin_seconds), value_name("no|yes|SECONDS"), shown);
  add_local_data(t, words->data, words->data_limit);
  add_plugins(t, words->plugins);
  add_keys(t, words->keys);
  t.title();
  t.add("--quiet", words->quiet, "Print nothing but failures", overridable);
  parser->footer(
      "Model, policy, optimiser and data come from the server. With --data, mini-batches are cut from files\n"
      "of this machine if these hold the same samples, and only their numbers are sent. Ctrl-C leaves after\n"
      "the present step; the run goes on without this worker. A worker that stood still or whose connection\n"
      "broke comes back by itself as long as the run goes on, and what it had under way is not counted.\n\n"
      "Example:\n  mailgrad join 10.0.0.1:7000 --devices cpu:0,cpu:1 --keys run-keys");
  return {parser, [words] { return join(*words); }};
}

} // namespace mailgrad
