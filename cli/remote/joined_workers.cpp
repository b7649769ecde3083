#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <span>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::chrono::milliseconds pause_of_watch{20};
constexpr std::chrono::seconds before_words{1};

} // namespace

connecting::connecting(const interrupt& ctrl_c, std::string address, bool quiet)
    : ctrl_c_(ctrl_c), address_(std::move(address)), quiet_(quiet), watcher_([this] { watch(); }) {}

connecting::~connecting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  watcher_.join();
}

void connecting::watch() {
  const auto speaks = std::chrono::steady_clock::now() + before_words;
  bool has_spoken = quiet_;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, pause_of_watch, [this] { return over_; })) {
    if (ctrl_c_.requested()) {
      say_failure(fmt::format("ended by {} before it had joined the run at {}", signal_name(ctrl_c_.signal()),
                              address_));
      std::_Exit(exit_code::of_signal(ctrl_c_.signal()));
    }
    if (has_spoken || std::chrono::steady_clock::now() < speaks) continue;
    has_spoken = true;
    say_line(fmt::format("waits for a server at {}; Ctrl-C ends it", address_));
  }
}

namespace {

std::string names_of(const std::vector<device>& devices) {
  std::string names;
  for (const device d : devices) names.append(names.empty() ? "" : ", ").append(to_string(d));
  return names;
}

/// "cpu:1, cpu:2 take no part: the run at 10.0.0.1:7000 has no place for them: ..."
std::string format_left_out(std::span<const std::vector<device>> workers, const std::string& address,
                            const std::string& why) {
  std::vector<device> all;
  for (const auto& devices : workers) all.insert(all.end(), devices.begin(), devices.end());
  const bool one = all.size() == 1;
  return fmt::format("{} take{} no part: the run at {} has no place for {}: {}", names_of(all),
                     one ? "s" : "", address, one ? "it" : "them", why);
}

} // namespace

joined_workers::joined_workers(const std::string& address, const std::vector<std::vector<device>>& workers,
                               joining how)
    : quiet_(how.quiet), told_elsewhere_(how.told_elsewhere) {
  for (std::size_t i = 0; i < workers.size(); ++i) {
    try {
      members_.push_back(joined(address, workers[i], how, i));
    } catch (const remote::join_error& e) {
      if (members_.empty() || !e.is_for_its_place()) throw;
      say_failure(format_left_out(std::span(workers).subspan(i), address, e.what()));
      return;
    }
    how.until_joined.reset();
    if (!quiet_) say_line(members_.back()->name() + " has joined the run at " + address);
  }
}

std::unique_ptr<remote::membership> joined_workers::joined(const std::string& address,
                                                           const std::vector<device>& on, const joining& how,
                                                           std::size_t which) {
  remote::join_options options{.devices = on, .network = how.network, .rejoin = how.rejoin};
  if (!quiet_) options.on_event = [this](const std::string& words) { tell(words); };
  options.samples = how.samples;
  options.join_sums = how.join_sums;
  options.plugins = how.plugins;
  options.gpu_ends_run = how.gpu_ends_run;
  if (which == 0) // the others would say the same
    options.on_streamed = [this](const std::string& why) { tell(why + "; the server sends the batches"); };
  if (how.number) options.number = *how.number + static_cast<std::uint32_t>(which);
  return std::make_unique<remote::membership>(address, std::move(options));
}

void joined_workers::tell(const std::string& words) {
  const std::lock_guard lock(mutex_);
  news_.push_back(words);
}

int joined_workers::wait(const interrupt& ctrl_c, std::chrono::milliseconds for_server) {
  constexpr std::chrono::milliseconds look{50};
  std::optional<std::chrono::steady_clock::time_point> patience_ends;
  bool leaving = false;
  int code = exit_code::done;
  std::vector<remote::membership*> there;
  for (const auto& member : members_) there.push_back(member.get());
  while (!there.empty()) {
    there.front()->wait_for(look);
    print_news();
    std::erase_if(there, [&](remote::membership* member) {
      if (!member->wait_for({})) return false;
      print_news(); // what it told before it ended
      code = std::max(code, tell_end(*member));
      return true;
    });
    if (!ctrl_c.requested() || leaving || there.empty()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!patience_ends) patience_ends = now + for_server;
    if (now < *patience_ends) continue;
    leaving = true;
    leave(ctrl_c);
  }
  return leaving ? exit_code::of_signal(ctrl_c.signal()) : code;
}

/// At once, while others of this process may train on for long. Returns an exit code.
int joined_workers::tell_end(remote::membership& member) const {
  const net::ending end = member.wait();
  const std::string words = member.name() + ": " + end.words;
  if (!is_in_order(end.reason))
    say_failure(words);
  else if (!quiet_)
    say_line(words);
  return told_elsewhere_ && is_in_order(end.reason) ? exit_code::done : exit_code_of(end);
}

/// The thread that waits prints, so that lines stay whole.
void joined_workers::print_news() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex_);
    lines.swap(news_);
  }
  for (const std::string& line : lines) say_failure(line);
}

void joined_workers::leave(const interrupt& ctrl_c) {
  if (!quiet_) std::cerr << "leaving by " << signal_name(ctrl_c.signal()) << " after the present step\n";
  for (const auto& member : members_) member->leave();
}

std::vector<std::vector<device>> shared_out(const std::vector<device>& devices, std::uint32_t workers,
                                            const std::string& address,
                                            const std::shared_ptr<net::network>& network) {
  std::size_t each = 1;
  if (workers > 0) {
    each = devices.size() / workers;
    if (devices.size() % workers != 0)
      throw std::invalid_argument(fmt::format(
          "--workers {}: expected a multiple of so many --devices, found {}", workers, devices.size()));
  } else if (devices.size() > 1) {
    each = remote::watcher(address, network).devices_per_worker();
    if (devices.size() % each != 0)
      throw std::invalid_argument(
          fmt::format("--devices: expected {} or a multiple, since each worker of the run at {} has so many, "
                      "found {}",
                      each, address, devices.size()));
  }
  std::vector<std::vector<device>> lists;
  for (auto d = devices.begin(); d != devices.end(); d += static_cast<std::ptrdiff_t>(each))
    lists.emplace_back(d, d + static_cast<std::ptrdiff_t>(each));
  return lists;
}

} // namespace mailgrad
