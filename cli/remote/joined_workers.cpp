#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/remote/joined_workers.hpp>

#include <condition_variable>
#include <cstdlib>
#include <iostream>

namespace mailgrad {

namespace {

constexpr std::chrono::milliseconds pause_of_watch{20};
constexpr std::chrono::seconds before_words{1};

/// "cpu:1, cpu:2 take no part: the run at 10.0.0.1:7000 has no place for them: ..."
std::string format_left_out(std::span<const std::vector<device>> workers, const std::string& address,
                            const std::string& why) {
  std::vector<device> all;
  for (const auto& devices : workers) all.insert(all.end(), devices.begin(), devices.end());
  const bool one = all.size() == 1;
  return fmt::format("{} take{} no part: the run at {} has no place for {}: {}", names_of(all, ", "),
                     one ? "s" : "", address, one ? "it" : "them", why);
}

} // namespace

std::jthread watch_connecting(const interrupt& ctrl_c, std::string address, bool quiet) {
  return std::jthread([&ctrl_c, address = std::move(address), quiet](const std::stop_token& over) {
    const auto speaks = std::chrono::steady_clock::now() + before_words;
    bool has_spoken = quiet;
    std::mutex mutex;
    std::condition_variable_any pause;
    std::unique_lock lock(mutex);
    while (true) {
      pause.wait_for(lock, over, pause_of_watch, [] { return false; });
      if (over.stop_requested()) return;
      if (ctrl_c.requested()) {
        say_failure(fmt::format("ended by {} before it had joined the run at {}",
                                signal_name(ctrl_c.signal()), address));
        std::_Exit(exit_code::of_signal(ctrl_c.signal()));
      }
      if (has_spoken || std::chrono::steady_clock::now() < speaks) continue;
      has_spoken = true;
      say_line(fmt::format("waits for a server at {}; Ctrl-C ends it", address));
    }
  });
}

void say_end(const std::string& name, const net::ending& end, bool quiet) {
  const std::string words = name + ": " + end.words;
  if (!is_in_order(end.reason))
    say_failure(words);
  else if (!quiet)
    say_line(words);
}

joined_workers::joined_workers(const std::string& address, const std::vector<std::vector<device>>& workers,
                               joining how)
    : quiet_(how.quiet), told_elsewhere_(how.told_elsewhere) {
  if (!quiet_) how.each.on_event = [this](const std::string& words) { news_.add(words); };
  how.each.on_streamed = [this](const std::string& why) {
    news_.add(why + "; the server sends the batches");
  };
  for (std::size_t i = 0; i < workers.size(); ++i) {
    how.each.devices = workers[i];
    try {
      members_.push_back(std::make_unique<remote::membership>(address, how.each));
    } catch (const remote::join_error& e) {
      if (members_.empty() || !e.is_for_its_place()) throw;
      say_failure(format_left_out(std::span(workers).subspan(i), address, e.what()));
      return;
    }
    how.until_joined = {};
    how.each.on_streamed = nullptr; // the others would say the same
    if (how.each.number) ++*how.each.number;
    if (!quiet_) say_line(members_.back()->name() + " has joined the run at " + address);
  }
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
  say_end(member.name(), end, quiet_);
  return told_elsewhere_ && is_in_order(end.reason) ? exit_code::done : exit_code_of(end);
}

/// The thread that waits prints, so that lines stay whole.
void joined_workers::print_news() {
  for (const std::string& line : news_.take()) say_failure(line);
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
      reject("--workers {}: expected a multiple of so many --devices, found {}", workers, devices.size());
  } else if (devices.size() > 1) {
    each = remote::watcher(address, network).devices_per_worker();
    if (devices.size() % each != 0)
      reject("--devices: expected {} or a multiple, since each worker of the run at {} has so many, found {}",
             each, address, devices.size());
  }
  std::vector<std::vector<device>> lists;
  for (auto d = devices.begin(); d != devices.end(); d += static_cast<std::ptrdiff_t>(each))
    lists.emplace_back(d, d + static_cast<std::ptrdiff_t>(each));
  return lists;
}

} // namespace mailgrad
