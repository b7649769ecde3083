#include <mailgrad/cli/remote/joined_workers.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>

#include <mailgrad/actors/remote/watcher.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace mailgrad {

joined_workers::joined_workers(const std::string& address, const std::vector<std::vector<device>>& workers,
                               joining how)
    : quiet_(how.quiet) {
  const auto tell = [this](const std::string& words) {
    const std::lock_guard lock(mutex_);
    news_.push_back(words);
  };
  for (std::size_t i = 0; i < workers.size(); ++i) {
    remote::join_options options{.devices = workers[i], .network = how.network, .rejoin = how.rejoin};
    if (!quiet_) options.on_event = tell;
    options.samples = how.samples;
    options.join_sums = how.join_sums;
    options.plugins = how.plugins;
    if (i == 0) // the others would say the same
      options.on_streamed = [tell](const std::string& why) { tell(why + "; the server sends the batches"); };
    if (how.number) options.number = *how.number + static_cast<std::uint32_t>(i);
    members_.push_back(std::make_unique<remote::membership>(address, std::move(options)));
    if (!quiet_) std::cerr << members_.back()->name() << " has joined the run at " << address << '\n';
  }
}

int joined_workers::wait(const interrupt& ctrl_c, std::chrono::milliseconds for_server) {
  constexpr std::chrono::milliseconds look{50};
  std::optional<std::chrono::steady_clock::time_point> patience_ends;
  bool leaving = false;
  int code = exit_code::done;
  for (const auto& member : members_) {
    while (!member->wait_for(look)) {
      print_news();
      if (!ctrl_c.requested() || leaving) continue;
      const auto now = std::chrono::steady_clock::now();
      if (!patience_ends) patience_ends = now + for_server;
      if (now < *patience_ends) continue;
      leaving = true;
      leave(ctrl_c);
    }
    print_news();
    const net::ending end = member->wait();
    const std::string words = member->name() + ": " + end.words;
    if (end.reason != net::end_reason::left) {
      code = exit_code::failed;
      say_failure(words);
    } else if (!quiet_) {
      say_line(words);
    }
  }
  return leaving ? exit_code::of_signal(ctrl_c.signal()) : code;
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
