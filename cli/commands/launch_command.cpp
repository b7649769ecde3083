#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>

#include <mailgrad/engine/plan/checked_options.hpp>

// A run whose server and workers are started together by a launcher of a cluster.

namespace mailgrad {

namespace {

/// Launchers send a signal to all ranks. The workers let the server end the run in good order for so long
/// before they leave by themselves, and to write what it leaves behind.
constexpr std::chrono::seconds time_for_server{2};

struct args_of_launch {
  train_args train;
  launch_args launch;
};

/// Turns words of a rank into those of a server, and returns the devices that are the workers'.
std::string as_server(train_args& w, const launch_args& l, const launch_place& place) {
  if (w.workers > 0 && w.workers != place.workers())
    reject("--workers {}: {} starts {} ranks, so there are {}; leave it out", w.workers, place.launcher,
           place.size, place.workers());
  w.workers = place.workers();
  w.remote.devices = w.span.any() ? device_count(w.devices) : 1;
  w.remote.all_reduce = l.all_reduce;
  w.remote.listen = address_to_listen(l, place, !w.remote.keys.empty());
  w.remote.launch = launched{.place = place, .file = nullptr, .bound = std::chrono::seconds{l.bound_s}};
  if (!is_told(l)) w.remote.launch->file = std::make_shared<address_file>(l.folder, place);
  return std::exchange(w.devices, "cpu:0");
}

/// What ranks read from their command line alone.
std::vector<std::string> args_of_ranks(const CLI::App& parser) {
  option_args words(given_args(parser));
  words.drop_if([](std::string_view o) { return o != "--devices" && !is_of(o, of_processes); });
  return words.take();
}

int serve(const CLI::App& parser, const train_args& w) {
  const launched& with = *w.remote.launch;
  if (with.file) with.file->clear();
  const core_binding binding = binding_of_process();
  if (binding.narrow()) say_failure(binding.in_words(with.place.launcher));
  return train_as_told(parser, w);
}

constexpr std::chrono::seconds for_coming_back{60};

/// Every rank has the same words, so what rank 0 refuses of them, every rank refuses, and waits for nobody.
void require_understood(const train_args& w) {
  training_options o = understood(w);
  o.record = w.outputs.record;
  require_sums_can_be(o);
  if (o.all_reduce && !w.checkpoints.resume.empty())
    reject("--resume: expected none with --all-reduce, which takes no checkpoints: leave it away");
  if (o.all_reduce && w.remote.wire != "float32")
    reject("--wire {}: expected float32 with --all-reduce, since MPI adds numbers and no messages; leave it "
           "away",
           w.remote.wire);
}

/// Every rank has the same words, so a worker looks for the data where the server does. A rank whose GPU
/// fails stays until the run has ended, since mpirun and MPI end all ranks with the first that has failed,
/// also rank 0 that writes the report.
joining joining_of(const train_args& w, const std::string& address, std::uint32_t number,
                   std::chrono::milliseconds patience = usual_patience) {
  joining how{.quiet = true, .told_elsewhere = true};
  how.each.number = number;
  how.each.network =
      w.remote.network ? w.remote.network : network_with(address, w.remote.keys, side::worker, patience);
  how.each.rejoin = for_coming_back;
  if (!w.remote.sends_batches) how.each.samples = samples_of(w.data, w.data_limit);
  how.each.plugins = plugins_of(plugins_elsewhere(w));
  how.each.gpu_ends_run = true;
  return how;
}

/// A worker that is cut off from sums cannot come back, since the others wait for this one in the present
/// sum.
joining joining_of(const train_args& w, net::mpi_network& network, std::uint32_t number) {
  joining how = joining_of(w, w.remote.listen, number);
  if (!w.remote.all_reduce) return how;
  how.each.rejoin = {};
  how.each.join_sums = [&network](std::size_t floats) { return network.join_sums(floats); };
  return how;
}

/// Joins where the file says. It may be that of a run that was killed and is started again under the same
/// name, so a worker that finds nobody there looks whether it now says another place. While it waits for the
/// file, a signal ends the process at once; from then on the server may know it, and it leaves in order.
std::unique_ptr<joined_workers> joined_by(const address_file& file, const train_args& w,
                                          const std::vector<std::vector<device>>& worker,
                                          std::uint32_t number, std::optional<interrupt>& ctrl_c) {
  while (true) {
    const std::string address = file.wait_for(w.remote.launch->bound);
    if (!ctrl_c) ctrl_c.emplace();
    try {
      return std::make_unique<joined_workers>(address, worker, joining_of(w, address, number));
    } catch (const remote::join_error&) {
      if (file.read() == address || ctrl_c->requested()) throw;
    }
  }
}

/// `by_mpi` is null with another transport.
int work(const train_args& w, const std::string& devices, net::mpi_network* by_mpi = nullptr) {
  const launched& with = *w.remote.launch;
  require_understood(w);
  const std::vector<device> all = read_devices(devices);
  const std::uint32_t number = with.place.rank - 1;
  const std::vector<std::vector<device>> mine{w.span.any() ? all : std::vector{all[number % all.size()]}};
  std::optional<interrupt> ctrl_c;
  if (!with.file) ctrl_c.emplace();
  const auto joined =
      with.file
          ? joined_by(*with.file, w, mine, number, ctrl_c)
          : std::make_unique<joined_workers>(w.remote.listen, mine,
                                             by_mpi ? joining_of(w, *by_mpi, number)
                                                    : joining_of(w, w.remote.listen, number, with.bound));
  const int code = joined->wait(*ctrl_c, time_for_server);
  // mpirun kills all ranks as soon as one has ended after a signal, also rank 0 that writes the report.
  if (ctrl_c->requested() && with.file) with.file->wait_until_gone(time_for_server);
  return code;
}

/// MPI begins and ends with all ranks together. A rank that has failed therefore leaves it as it is, and the
/// launcher ends the others, which may wait for it.
int by_mpi(const CLI::App& parser, args_of_launch& w, const std::string& devices) {
  require_understood(w.train);
  const launch_place& place = w.train.remote.launch->place;
  const auto network = network_of_rank(w.launch, place);
  w.train.remote.network = network;
  int code = exit_code::failed;
  try {
    code = place.serves() ? serve(parser, w.train) : work(w.train, devices, network.get());
  } catch (...) {
    network->abandon();
    w.train.remote.network.reset();
    throw;
  }
  if (code == exit_code::failed || code == exit_code::diverged) network->abandon();
  w.train.remote.network.reset();
  return code;
}

int launch(const CLI::App& parser, args_of_launch& w) {
  const bool has_keys = !w.train.remote.keys.empty();
  if (w.launch.is_by_mpi() && parser.count("--when-alone") == 0)
    w.train.remote.when_alone = "end"; // nobody could come
  check_transport(w.launch, has_keys, w.train.remote.when_alone);
  const launch_place place = required_place(environment_of_process(), has_keys || w.launch.is_by_mpi());
  const std::string devices = as_server(w.train, w.launch, place);
  w.train.remote.launch->again = args_of_ranks(parser);
  if (w.launch.is_by_mpi()) return by_mpi(parser, w, devices);
  return place.serves() ? serve(parser, w.train) : work(w.train, devices);
}

} // namespace

command make_launch_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("launch", "Train a model with ranks that mpirun, srun or mpiexec has started");
  auto words = std::make_shared<args_of_launch>();
  words->train = open_args();
  words->train.devices = "cpu:0"; // each rank has a process of its own
  words->train.remote.serve = true;
  option_table table(*parser);
  add_options(table, words->train);
  add_launch(table, words->launch);
  add_patience(table, words->train.remote);
  add_keys(table, words->train.remote.keys);
  add_wire(table, words->train.remote);
  add_batches_sent(table, words->train.remote);
  parser->footer(wrapped("Rank 0 serves, as 'mailgrad serve' does, and begins when all other ranks have "
                         "joined it as workers, on --devices in turns, or each on all of them with "
                         "--replicate and --pipeline. The ranks find each other by themselves. The other "
                         "options are those of 'mailgrad train', and what they write is written by rank 0.") +
                 "\n" +
                 wrapped("mpirun ends all ranks when one dies, unless --enable-recovery is given, and binds "
                         "each of two ranks to a core, unless --bind-to none is given. srun lets the others "
                         "wait for a rank that failed at the start, unless --kill-on-bad-exit is given.") +
                 "\n\nExample:\n"
                 "  mpirun -n 4 --bind-to none mailgrad launch --model lenet --policy ssp:2\n"
                 "  mpirun -n 4 --bind-to none mailgrad launch --model lenet --policy sync --transport mpi\n"
                 "  srun -n 4 mailgrad launch --model lenet --policy ssp:2 --keys run-keys");
  return {parser, [parser, words] { return launch(*parser, *words); }};
}

} // namespace mailgrad
