#include <mailgrad/cli/remote/served_run.hpp>

#include <mailgrad/cli/remote/run_status.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <iostream>
#include <system_error>

namespace mailgrad {

namespace {

constexpr std::chrono::milliseconds patience{250}; ///< with actors that are asked for their books or waits

/// Where workers that this program starts find it: memory is faster, where there is such.
const char* here() { return net::memory_network::is_supported() ? "memory:" : "127.0.0.1:0"; }

const char* limit_of(const std::string& address, const std::string& keys) {
  if (net::is_memory_address(address)) return "; for processes of this user on this machine";
  if (net::is_mpi_address(address)) return "; for ranks of this launcher";
  return keys.empty() ? "; without --keys for processes of this machine alone" : "";
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0) throw std::system_error(errno, std::generic_category());
  return name;
}

} // namespace

served_run::served_run(const remote_args& w, worker_args local, bool quiet, const interrupt& ctrl_c,
                       std::function<void(training_report&)> add)
    : words_(w), of_local_(std::move(local)), quiet_(quiet), ctrl_c_(ctrl_c), add_(std::move(add)) {}

remote::serve_options served_run::options(std::uint32_t workers, std::uint32_t devices) {
  remote::serve_options o;
  o.workers = workers;
  o.devices = devices;
  o.wire = words_.wire;
  o.shard_hosts = words_.shard_hosts;
  o.listen = words_.serve ? words_.listen : here();
  o.patience = std::chrono::seconds{words_.wait_for_workers};
  o.times = net::timing{std::chrono::milliseconds{words_.heartbeat}};
  o.network = words_.network ? words_.network : network_with(o.listen, words_.keys, side::server);
  o.on_trouble = [this](const std::string& words) { news_.add(words); };
  o.on_event = [this](const std::string& words) {
    if (!quiet_) news_.add(words);
  };
  o.go_on_waiting = [this, workers](std::uint32_t joined) { return go_on_waiting(joined, workers); };
  o.status = [this] { return status(); };
  o.on_listening = [this, workers, devices](const std::string& address) {
    began_waiting_ = std::chrono::steady_clock::now();
    if (words_.processes > 0) return local_.start(address, words_.processes, of_local_);
    say_where(address, workers, devices);
  };
  return o;
}

void served_run::say_where(const std::string& address, std::uint32_t workers, std::uint32_t devices) const {
  const auto file = words_.launch ? words_.launch->file : nullptr;
  const std::uint32_t hosts = words_.shard_hosts;
  const std::string shards =
      hosts == 0 ? "" : fmt::format(" and {} parameter host{}", hosts, hosts == 1 ? "" : "s");
  const std::string on = devices == 1 ? "" : fmt::format(" of {} devices", devices);
  std::cerr << fmt::format("listening on {} for {} worker{}{}{}{}{}\n", address, workers,
                           workers == 1 ? "" : "s", on, shards, limit_of(address, words_.keys),
                           file ? "; other ranks find it by " + file->path().string() : "");
  if (file) file->publish(address_for_ranks(address, host_name()));
}

bool served_run::go_on_waiting(std::uint32_t joined, std::uint32_t workers) {
  tell_news();
  if (words_.launch && std::chrono::steady_clock::now() - began_waiting_ > words_.launch->bound)
    throw std::runtime_error(
        fmt::format("{}: expected {} workers within {} s, found {}: see what the other ranks say",
                    words_.launch->place.name(), workers, words_.launch->bound.count(), joined));
  if (local_.ended() > 0) throw std::runtime_error("--processes: a worker ended before the run had begun");
  if (ctrl_c_.requested())
    throw ended_by_signal(ctrl_c_.signal(),
                          fmt::format("given up by {} before the run had begun: {} of {} workers had joined",
                                      signal_name(ctrl_c_.signal()), joined, workers));
  return true;
}

std::string served_run::status() const {
  training* run = run_;
  if (!run) reject("the run begins or ends at this moment; ask again");
  training_report so_far = run->report_so_far(patience);
  add_(so_far);
  return status_of(std::move(so_far), run->list_wait_reasons(patience));
}

void served_run::end() {
  run_ = nullptr;
  tell_news();
  local_.wait();
}

bool served_run::has_time_to_test() const {
  return !(ctrl_c_.requested() && words_.launch && words_.launch->place.is_killed_soon());
}

void served_run::look_after_workers() {
  if (words_.processes > 0 && local_.ended() == words_.processes)
    if (training* run = run_) run->expect_nobody();
}

void served_run::tell_news() {
  for (const std::string& words : news_.take()) say_line(words);
}

} // namespace mailgrad
