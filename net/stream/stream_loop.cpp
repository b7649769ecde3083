#include <mailgrad/net/stream/stream_loop.hpp>

#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/tensor/device.hpp>

namespace mailgrad::net {

namespace {

constexpr std::size_t scratch_bytes = 64 << 10;
constexpr std::size_t most_hot = 16;        // more are left to the system, which looks at all in one call
constexpr unsigned turns_between_polls = 8; // while some are hot
constexpr std::chrono::milliseconds longest_unscheduled{1};

} // namespace

std::chrono::microseconds usual_spin() {
  return std::chrono::microseconds{cores_of_process().count() <= 2 ? 0 : 50};
}

stream_loop::stream_loop(std::chrono::microseconds spin) : spin_(spin), scratch_(scratch_bytes) {}
stream_loop::~stream_loop() = default;

void stream_loop::run() {
  while (!stops_at_ || (!leaving_.empty() && now() < *stops_at_)) {
    bool busy = run_posted();
    busy |= read_hot();
    if (hot_.empty() || ++turns_ % turns_between_polls == 0) busy |= io_.poll() > 0;
    const instant moment = now();
    if (!watched_.empty() && moment > scheduled_ + longest_unscheduled) schedule();
    if (busy)
      awake_until_ = moment + spin_;
    else if (hot_.empty() && moment >= awake_until_)
      sleep(); // and before, no yield: beside threads that compute it would cost milliseconds
  }
}

void stream_loop::post(std::function<void()> work) {
  bool wake = false;
  {
    const std::lock_guard guard(mutex_);
    posted_.push_back(std::move(work));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) asio::post(io_, [] {});
}

bool stream_loop::run_posted() {
  {
    const std::lock_guard guard(mutex_);
    doing_.swap(posted_);
  }
  if (doing_.empty()) return false;
  for (const auto& work : doing_) work();
  doing_.clear();
  return true;
}

void stream_loop::heat(const std::shared_ptr<stream_connection>& c) {
  c->hot_until = now() + spin_;
  if (std::exchange(c->is_hot, true)) return;
  if (hot_.size() == most_hot) {
    const auto coldest = std::ranges::min_element(hot_, {}, &stream_connection::hot_until);
    (*coldest)->is_hot = false;
    (*coldest)->wait_readable();
    hot_.erase(coldest);
  }
  hot_.push_back(c);
}

bool stream_loop::read_hot() {
  if (hot_.empty()) return false;
  bool any = false;
  for (std::size_t i = 0; i < hot_.size(); ++i) { // a turn may heat others
    const auto c = hot_[i];
    if (c->is_open()) any |= c->turn();
  }
  const instant moment = now();
  std::erase_if(hot_, [&](const auto& c) {
    if (c->is_open() && moment < c->hot_until) return false;
    c->is_hot = false;
    c->wait_readable();
    return true;
  });
  return any;
}

void stream_loop::schedule() {
  scheduled_ = now();
  for (stream_host* host : std::exchange(watched_, {})) host->schedule();
}

void stream_loop::sleep() {
  schedule();
  {
    const std::lock_guard guard(mutex_);
    if (!posted_.empty()) return;
    sleeping_ = true;
  }
  io_.run_one();
  const std::lock_guard guard(mutex_);
  sleeping_ = false;
  awake_until_ = now() + spin_;
}

} // namespace mailgrad::net
