#include <mailgrad/cli/remote/local_workers.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

extern char** environ;

namespace mailgrad {

namespace {

constexpr std::chrono::seconds most_farewell{2};

/// Starts this program with other words, in a process group of its own. It gets no descriptor of this one but
/// the standard streams: a listener that it kept would look alive to others when this process is gone.
pid_t started(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t id = 0;
  const int failed = posix_spawn(&id, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    throw std::system_error(failed, std::generic_category(), "--processes: no process could be started");
  return id;
}

} // namespace

local_workers::~local_workers() {
  for (const process& p : all_)
    if (!p.ended) kill(p.id, SIGTERM);
  wait();
}

void local_workers::start(const std::string& address, std::uint32_t workers, const worker_words& words) {
  for (std::uint32_t w = 0; w < workers; ++w) {
    std::vector<std::string> line{"mailgrad",
                                  "join",
                                  address,
                                  "--number",
                                  std::to_string(w),
                                  "--devices",
                                  words.devices[w % words.devices.size()],
                                  "--workers",
                                  "1",
                                  "--quiet"};
    for (const std::string& file : words.plugins) line.push_back("--plugin=" + file);
    if (!words.data.empty())
      line.insert(line.end(), {"--data=" + words.data, "--data-limit=" + std::to_string(words.data_limit)});
    all_.push_back({started(std::move(line))});
  }
}

void local_workers::reap() {
  for (process& p : all_)
    if (!p.ended && waitpid(p.id, nullptr, WNOHANG) != 0) p.ended = true;
}

std::size_t local_workers::ended() {
  reap();
  return static_cast<std::size_t>(std::ranges::count_if(all_, &process::ended));
}

void local_workers::wait() {
  const auto late = std::chrono::steady_clock::now() + most_farewell;
  while (ended() < all_.size() && std::chrono::steady_clock::now() < late)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  for (process& p : all_)
    if (!p.ended) {
      kill(p.id, SIGKILL);
      waitpid(p.id, nullptr, 0);
      p.ended = true;
    }
}

} // namespace mailgrad
