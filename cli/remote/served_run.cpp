#include <mailgrad/cli/remote/served_run.hpp>

#include <mailgrad/cli/remote/run_status.hpp>
#include <mailgrad/net/memory/memory_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::chrono::milliseconds patience{250}; ///< with actors that are asked for their books or waits

/// Where workers that this program starts find it: memory is faster, where there is such.
const char* here() { return net::memory_network::is_supported() ? "memory:" : "127.0.0.1:0"; }

/// Who cannot join.
const char* limit_of(const std::string& address, const std::string& keys) {
  if (net::is_memory_address(address)) return "; for processes of this user on this machine";
  return keys.empty() ? "; without --keys for processes of this machine alone" : "";
}

} // namespace

served_run::served_run(const remote_words& w, std::vector<std::string> devices, bool quiet,
                       const interrupt& ctrl_c, std::function<void(training_report&)> add)
    : words_(w), devices_(std::move(devices)), quiet_(quiet), ctrl_c_(ctrl_c), add_(std::move(add)) {}

remote::serve_options served_run::options(std::size_t workers) {
  remote::serve_options o;
  o.workers = static_cast<std::uint32_t>(workers);
  o.wire = words_.wire;
  o.shard_hosts = words_.shard_hosts;
  o.listen = words_.serve ? words_.listen : here();
  o.patience = std::chrono::seconds{words_.wait_for_workers};
  o.network = network_with(o.listen, words_.keys, side::server);
  o.on_event = [this](const std::string& words) {
    const std::lock_guard lock(mutex_);
    news_.push_back(words);
  };
  o.go_on_waiting = [this](std::uint32_t joined) { return go_on_waiting(joined); };
  o.status = [this] { return status(); };
  o.on_listening = [this, workers](const std::string& address) {
    if (words_.processes > 0) return local_.start(address, words_.processes, devices_);
    const std::uint32_t hosts = words_.shard_hosts;
    const std::string shards =
        hosts == 0 ? "" : fmt::format(" and {} parameter host{}", hosts, hosts == 1 ? "" : "s");
    std::cerr << fmt::format("listening on {} for {} worker{}{}{}\n", address, workers,
                             workers == 1 ? "" : "s", shards, limit_of(address, words_.keys));
  };
  return o;
}

bool served_run::go_on_waiting(std::uint32_t) {
  tell_news();
  if (local_.ended() > 0) throw std::runtime_error("--processes: a worker ended before the run had begun");
  return !ctrl_c_.requested();
}

std::string served_run::status() const {
  training* run = run_;
  if (!run) throw std::invalid_argument("the run begins or ends at this moment; ask again");
  training_report so_far = run->report_so_far(patience);
  add_(so_far);
  return status_of(so_far, run->name_waits(patience));
}

void served_run::end() {
  run_ = nullptr;
  tell_news();
  local_.wait();
}

bool served_run::has_news() const {
  const std::lock_guard lock(mutex_);
  return !news_.empty();
}

void served_run::tell_news() {
  std::vector<std::string> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(news_);
  }
  if (quiet_) return;
  for (const std::string& words : news) std::cerr << words << '\n';
}

} // namespace mailgrad
