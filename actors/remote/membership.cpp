#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <thread>

namespace mailgrad::remote {

namespace {

void require_devices(const std::vector<device>& devices) {
  if (devices.empty()) throw std::invalid_argument("join: expected a device or several, found none");
  for (auto d = devices.begin(); d != devices.end(); ++d) {
    if (d->kind == device_kind::cuda) require_here(*d);
    if (std::find(devices.begin(), d, *d) != d)
      throw std::invalid_argument(fmt::format(
          "join: the worker would have {} twice; a model spans different devices", to_string(*d)));
  }
}

/// "cpu:0,cpu:1"
std::string names_of(const std::vector<device>& devices) {
  std::string names;
  for (const device d : devices) names.append(names.empty() ? "" : ",").append(to_string(d));
  return names;
}

/// Says of the worker what fits into a greeting.
void say(net::features& says, std::string_view name, const std::string& value) {
  if (!value.empty() && value.size() <= net::most_feature_value_bytes) says[std::string(name)] = value;
}

join_options checked_join(const std::string& address, join_options o) {
  if (o.rejoin.count() < 0)
    throw std::invalid_argument("join: expected a time of rejoining of 0 or more, found a negative one");
  require_devices(o.devices);
  if (!o.network) o.network = net::usual_network(address);
  return o;
}

std::string name_in(const net::welcome& terms) {
  return fmt::format("{} (incarnation {})", to_string(terms.you), terms.incarnation);
}

std::string words_of_failure(const net::ending& last_try) {
  if (last_try.reason == net::end_reason::absent)
    return "; the server is gone: nobody listens there any more";
  return "; cannot come back: " + last_try.words;
}

std::string words_of_return(const net::welcome& before, const net::welcome& now) {
  return before.you == now.you
             ? fmt::format("{} is back as incarnation {}", to_string(now.you), now.incarnation)
             : fmt::format("{} is back as {}", to_string(before.you), name_in(now));
}

} // namespace

struct membership::implementation {
  implementation(const std::string& address, join_options options)
      : address_(address), options_(checked_join(address, std::move(options))),
        computer_(computer_of(options_.devices)), plan_(options_.rejoin), home_(options_.devices) {
    const auto first = new_incarnation({.number = options_.number}, false);
    incarnation_ = first;
    try {
      first->begin();
      if (const auto failed = first->wait_until_in()) throw join_error(*failed);
    } catch (...) {
      first->cut("it was not taken in");
      home_.wait();
      throw;
    }
    take_in(first);
    keeper_ = std::thread([this] { keep(); });
  }
  ~implementation() {
    leave();
    if (!wait_for(most_farewell)) cut();
    keeper_.join();
    incarnation_.reset();
    home_.wait();
  }

  bool wait_for(std::chrono::milliseconds span) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return ended_.has_value(); });
  }
  void leave() { last_incarnation()->leave(); }
  void cut() { last_incarnation()->cut("cut off"); }
  std::shared_ptr<member_incarnation> incarnation() const {
    const std::lock_guard lock(mutex_);
    return incarnation_;
  }
  bool is_leaving() const {
    const std::lock_guard lock(mutex_);
    return leaving_;
  }
  net::instant now() const { return options_.time->now(); }
  void tell(const std::string& words) const {
    if (options_.on_event) options_.on_event(words);
  }

  std::shared_ptr<member_incarnation> new_incarnation(net::hello says, bool tries_once) {
    say(says.says, net::feature::devices, std::to_string(options_.devices.size()));
    say(says.says, net::feature::device_names, names_of(options_.devices));
    say(says.says, net::feature::computer, computer_.name);
    say(says.says, net::feature::products, computer_.products);
    const auto begin = [this] {
      const std::lock_guard lock(mutex_);
      begun_ = true;
      changed_.notify_all();
    };
    return std::make_shared<member_incarnation>(home_.system(), address_, std::move(says), tries_once,
                                                options_, begin);
  }

  /// No other incarnation follows that one.
  std::shared_ptr<member_incarnation> last_incarnation() {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
    return incarnation_;
  }

  /// The server has taken it in.
  void take_in(const std::shared_ptr<member_incarnation>& incarnation) {
    const net::welcome terms = *incarnation->terms();
    plan_.is_in(terms, now());
    const std::lock_guard lock(mutex_);
    terms_ = terms;
  }

  /// Keeps the worker in the run until its membership ends. A thread of its own, since it waits.
  void keep() {
    for (;;) {
      const auto present = incarnation();
      net::ending why = present->wait();
      present->cut("its session has ended");
      if (comes_back(why)) continue;
      const std::lock_guard lock(mutex_);
      ended_ = std::move(why);
      changed_.notify_all();
      return;
    }
  }

  /// Tries to come back after this end. If that cannot be, `why` says how it ended in all.
  bool comes_back(net::ending& why) {
    if (!plan_.is_cut_off(why, now())) return false;
    const net::welcome before = terms_;
    tell(fmt::format("{} is cut off: {}", name_in(before), why.words));
    for (;;) {
      if (!wait_to_try()) {
        why = {net::end_reason::left, "it left while it was cut off: " + why.words};
        return false;
      }
      const std::optional<net::ending> failed = try_to_join(plan_.says());
      if (!failed) break;
      if (plan_.tries_again_after(*failed, now())) continue;
      why = {failed->reason, why.words + words_of_failure(*failed), failed->refused_for};
      return false;
    }
    tell(words_of_return(before, terms_));
    return true;
  }

  /// False if its owner wants to leave meanwhile.
  bool wait_to_try() {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, plan_.pause(), [this] { return leaving_; });
  }

  /// Returns why it failed.
  std::optional<net::ending> try_to_join(net::hello says) {
    const auto next = new_incarnation(std::move(says), true);
    {
      const std::lock_guard lock(mutex_);
      incarnation_ = next;
      begun_ = false;
    }
    try {
      next->begin();
    } catch (const std::exception& e) { // as MPI once it has failed
      next->cut("it cannot connect");
      return net::ending{net::end_reason::failed, e.what()};
    }
    if (is_leaving()) next->leave(); // the owner may have told it before it could hear
    std::optional<net::ending> failed = next->wait_until_in();
    if (!failed)
      take_in(next);
    else
      next->cut("it was not taken in");
    return failed;
  }

  const std::string address_;
  const join_options options_;
  const worker_computer computer_;
  rejoin_plan plan_; ///< of the thread that keeps
  run_home home_;

  mutable std::mutex mutex_; ///< guards the five members below
  mutable std::condition_variable changed_;
  net::welcome terms_; ///< of the last incarnation that was in
  bool begun_ = false;
  bool leaving_ = false;
  std::optional<net::ending> ended_;
  std::shared_ptr<member_incarnation> incarnation_; ///< the present or the last one

  std::thread keeper_;
};

membership::membership(const std::string& address, join_options options)
    : self_(std::make_unique<implementation>(address, std::move(options))) {}
membership::~membership() = default;

std::string membership::name() const {
  const std::lock_guard lock(self_->mutex_);
  return name_in(self_->terms_);
}
caf::actor membership::worker() const { return self_->incarnation()->worker(); }
worker_peers membership::peers() const { return self_->incarnation()->peers(); }
bool membership::wait_for_begin(std::chrono::milliseconds span) {
  std::unique_lock lock(self_->mutex_);
  return self_->changed_.wait_for(lock, span, [this] { return self_->begun_ || self_->ended_; });
}
bool membership::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
net::ending membership::wait() {
  std::unique_lock lock(self_->mutex_);
  self_->changed_.wait(lock, [this] { return self_->ended_.has_value(); });
  return *self_->ended_;
}
void membership::leave() { self_->leave(); }
void membership::cut() { self_->cut(); }

} // namespace mailgrad::remote
