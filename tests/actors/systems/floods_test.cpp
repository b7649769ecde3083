#include <mailgrad/tests/actors/remote/blank_message.hpp>
#include <mailgrad/tests/actors/systems/processes.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/actors/run/planned_run.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>

// Each role says each message without end to whoever it can reach. The receiver takes it without growing, or
// ends the session in words, and the others train on.

namespace mailgrad::systems {
namespace {

using namespace std::chrono_literals;
using remote::blank_message, remote::duty, remote::message_kind, remote::name_of;

/// Bytes that are in use; 0 where a sanitizer has the heap.
std::size_t bytes_in_use() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  return mallinfo2().uordblks;
#endif
}

/// Processes of one network, which do all that they can.
class played_processes {
public:
  played_processes() = default;
  ~played_processes() {
    while (!all_.empty()) bury(*all_.back());
    EXPECT_EQ(wires_->left_over, "");
  }
  played_processes(const played_processes&) = delete;
  played_processes& operator=(const played_processes&) = delete;

  template <class Process, class... Args>
  Process& add(std::string name, Args&&... args) {
    auto made = std::make_unique<Process>(std::move(name), wires_, std::forward<Args>(args)...);
    Process& one = *made;
    all_.push_back(std::move(made));
    return one;
  }
  void bury(process& one) {
    one.kill();
    std::erase_if(all_, [&](const auto& p) { return p.get() == &one; });
  }
  void run_for(net::instant span) {
    run_until(span, [] { return false; });
  }
  /// False: it has not come true within this time.
  bool run_until(net::instant span, const std::function<bool()>& enough) {
    const net::instant end = wires_->network.now() + span;
    for (;;) {
      settle();
      if (enough()) return true;
      const net::instant now = wires_->network.now();
      if (now >= end) return false;
      net::instant next = std::min(end, std::max(now, wires_->network.next_event()));
      for (const auto& p : all_) next = std::min(next, std::max(now, p->next_wish()));
      wires_->run_until(next);
      for (const auto& p : all_) p->let_pass(next - now);
    }
  }

private:
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (const auto& p : all_) {
        for (int n = 0; n < 4 && p->deliver(random_); ++n) any = true;
        p->look();
      }
      if (wires_->network.next_event() > wires_->network.now()) continue;
      wires_->run_until(wires_->network.now());
      any = true;
    }
  }

  std::mt19937_64 random_{1};
  std::shared_ptr<wires> wires_ = std::make_shared<wires>(1, net::weather{});
  std::vector<std::unique_ptr<process>> all_; ///< the server first
};

const std::string at = "10.0.0.1:7000";

/// A run of two workers and perhaps a parameter host. The first worker, or the host, misbehaves.
struct flooded_run : played_processes {
  explicit flooded_run(std::uint32_t hosts) : server(add<server_process>("server", setup(hosts))) {
    if (hosts > 0) host = &add<host_process>("host", at, "10.0.1.1:7000");
    for (std::uint32_t r = 0; r < 2; ++r)
      workers.push_back(&add<worker_process>(fmt::format("worker {}", r), worker_setup{at, r, 0ms}));
    run_for(500ms);
  }
  static server_setup setup(std::uint32_t hosts) {
    return {at, {.optimizer = parse_optimizer("sgd"), .batch = 4, .steps = steps, .seed = 3}, 2, hosts, 1};
  }

  static constexpr std::uint64_t steps = 4000;
  server_process& server;
  host_process* host = nullptr;
  std::vector<worker_process*> workers;
};

constexpr std::size_t most_growth = 1 << 17;

/// With long texts.
caf::message long_message(message_kind kind, const caf::actor& me) {
  return blank_message(kind, me, std::string(2000, 'x'));
}

/// The words of a receiver that does not take what it got.
void expect_refusal(const std::string& words) { EXPECT_NE(words.find("expected"), words.npos) << words; }

/// Has `say` called so often that whatever keeps messages is seen, while the session stands.
void flood(played_processes& of, const std::function<void()>& say, const std::function<bool()>& stands) {
  constexpr int rounds = 40, messages = 48;
  std::size_t before = 0;
  for (int round = 0; round < rounds && stands(); ++round) {
    if (round == rounds / 2) before = bytes_in_use();
    for (int i = 0; i < messages && stands(); ++i) say();
    of.run_for(5ms);
  }
  if (before == 0 || !stands()) return;
  const std::size_t grown = std::max(bytes_in_use(), before) - before;
  if (std::getenv("MAILGRAD_TELL_FLOODS")) fmt::print("grown by {} KiB\n", grown >> 10);
  EXPECT_LT(grown, most_growth) << "bytes while " << rounds / 2 * messages << " messages came";
}

/// Those to whom such a message may go, among these. The coordinator if it may go to none of them.
std::vector<duty> receivers_of(message_kind kind, std::initializer_list<duty> there) {
  std::vector<duty> all;
  std::ranges::copy_if(there, std::back_inserter(all), [kind](duty d) { return may_be_sent_to(kind, d); });
  return all.empty() ? std::vector{duty::coordinator} : all;
}

struct EachMessageWithoutEnd : ::testing::TestWithParam<message_kind> {};

/// The others train on when it is gone.
void expect_others_go_on(flooded_run& s, message_kind kind) {
  s.bury(*s.workers[0]);
  ASSERT_TRUE(s.run_until(120s, [&] { return s.server.is_over(); }));
  ASSERT_TRUE(s.server.report()) << s.server.given_up();
  static const std::set<std::string_view> final_words{"worker_finished", "loss_diverged", "worker_failed"};
  if (final_words.contains(name_of(kind))) return;
  EXPECT_EQ(s.server.report()->ended, "completed") << s.server.report()->why;
  // One that takes batches or gives them back, and lies about it, may have another trained twice or not at
  // all.
  EXPECT_NEAR(static_cast<double>(s.server.report()->steps), flooded_run::steps, 2);
}

void flood_from_worker(flooded_run& s, message_kind kind, duty to) {
  worker_process& bad = *s.workers[0];
  const auto stands = [&] { return bad.incarnation() && !bad.incarnation()->outcome(); };
  ASSERT_TRUE(stands());
  const worker_peers peers = bad.incarnation()->peers();
  const caf::actor me = bad.incarnation()->worker();
  const caf::actor whom = to == duty::feeder    ? peers.feeder
                          : to == duty::tracker ? peers.tracker
                          : to == duty::shard   ? peers.shards[0]
                                                : peers.coordinator;
  const caf::message m = long_message(kind, me);
  flood(
      s, [&] { messaging::send_as(me, whom, m); }, stands);
}

TEST_P(EachMessageWithoutEnd, OfAWorkerLeavesTheOthersAlone) {
  for (const duty to :
       receivers_of(GetParam(), {duty::coordinator, duty::feeder, duty::tracker, duty::shard})) {
    flooded_run s(0);
    flood_from_worker(s, GetParam(), to);
    expect_others_go_on(s, GetParam());
  }
}

TEST_P(EachMessageWithoutEnd, OfAWorkerLeavesAParameterHostAlone) {
  flooded_run s(1);
  flood_from_worker(s, GetParam(), duty::shard);
  expect_others_go_on(s, GetParam());
}

/// A run cannot do without its shards, so it may end with the session.
TEST_P(EachMessageWithoutEnd, OfAParameterHostEndsAtMostItsSession) {
  for (const duty to : receivers_of(GetParam(), {duty::coordinator, duty::tracker})) {
    flooded_run s(1);
    const caf::message m = long_message(GetParam(), s.workers[1]->incarnation()->worker());
    flood(
        s, [&] { s.host->way().post({to}, {}, GetParam(), m); }, [&] { return !s.host->ended(); });
    if (s.host->ended()) expect_refusal(s.host->ended()->words);
    s.server.stop("enough");
    EXPECT_TRUE(s.run_until(120s, [&] { return s.server.is_over(); }));
  }
}

/// Somebody who watches a run, and says what the test says.
class watching_process final : public process {
public:
  watching_process(std::string name, const std::shared_ptr<wires>& all)
      : process(std::move(name), all), client_(network_, net::hello{.part = net::role::watcher}, {}) {
    client_.connect(at);
  }
  ~watching_process() override { client_.close("its process has ended"); }
  void look() override {}
  bool is_over() const override { return client_.outcome().has_value(); }
  std::optional<net::ending> ended() const { return client_.outcome(); }
  remote::channel& way() const noexcept { return *client_.way(); }

private:
  remote::client_side client_;
};

/// It has no actor that a run knows, and so no words of any.
TEST_P(EachMessageWithoutEnd, OfAWatcherLeavesTheRunAlone) {
  for (const duty to : {duty::host, duty::coordinator}) {
    flooded_run s(0);
    auto& watcher = s.add<watching_process>("watcher");
    s.run_for(100ms);
    ASSERT_FALSE(watcher.is_over());
    const caf::message m = long_message(GetParam(), s.workers[1]->incarnation()->worker());
    flood(
        s, [&] { watcher.way().post({to}, {}, GetParam(), m); }, [&] { return !watcher.is_over(); });
    const bool is_question = GetParam() == remote::kind_of<run_asked>() && to == duty::host;
    if (!is_question && watcher.ended()) expect_refusal(watcher.ended()->words);
    ASSERT_TRUE(s.run_until(120s, [&] { return s.server.is_over(); }));
    ASSERT_TRUE(s.server.report());
    EXPECT_EQ(s.server.report()->ended, "completed") << s.server.report()->why;
    EXPECT_EQ(s.server.report()->steps, flooded_run::steps);
  }
}

/// Remembers who was the first to write, and says nothing.
class listening_actor final : public caf::event_based_actor {
public:
  listening_actor(caf::actor_config& config, std::shared_ptr<caf::actor> first)
      : caf::event_based_actor(config) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    set_default_handler([this, first](caf::scheduled_actor*, auto&) -> caf::result<caf::message> {
      if (!*first) *first = messaging::sender_of(this);
      return caf::message{};
    });
#pragma GCC diagnostic pop
  }
  caf::behavior make_behavior() override {
    return {[](const step_ended&) {}};
  }
};

/// A server that takes workers and parameter hosts in, and then says what it likes.
class bad_server final : public process {
public:
  bad_server(std::string name, const std::shared_ptr<wires>& all, std::uint32_t hosts)
      : process(std::move(name), all),
        plan_(plan_on_threads(testing::small_model(), testing::small_data(),
                              for_workers_elsewhere(flooded_run::setup(hosts).options, 1, 1), false,
                              folder_)),
        hosts_(hosts) {
    const remote::serve_options serve{.listen = at, .shard_hosts = hosts, .network = network_};
    elsewhere_.emplace(serve, plan_, actors_->actors(),
                       [](const std::string&, const std::string&) { return remote::run_answer{"{}"}; });
    for (caf::actor* a : {&coordinator_, &feeder_, &tracker_, &shard_})
      *a = actors_->actors().spawn<listening_actor>(wrote_);
  }
  ~bad_server() override {
    elsewhere_->end("the test has ended");
    for (const caf::actor& a : {coordinator_, feeder_, tracker_, shard_}) messaging::kill(a);
    shard_ = *wrote_ = nullptr;
    drain();
  }

  void look() override {
    if (begun_ || !elsewhere_->wait_for({})) return;
    if (hosts_ > 0 && shards_.empty()) shards_ = elsewhere_->place_shards({});
    if (!elsewhere_->wait_for_shards({})) return;
    begun_ = true;
    const std::vector<caf::actor> shards = hosts_ > 0 ? shards_ : std::vector{shard_};
    elsewhere_->begin({{shards, feeder_, tracker_, coordinator_}, {}, {}}, time_);
  }
  bool is_over() const override { return false; }
  /// The stand-in for the worker, or for the shard of the parameter host.
  caf::actor whom() const { return hosts_ > 0 ? (shards_.empty() ? nullptr : shards_[0]) : *wrote_; }
  /// As one of those that may say it.
  void flood_with(message_kind kind, played_processes& of, const std::function<bool()>& stands) const {
    const caf::actor me =
        !may_be_sent_by(kind, duty::coordinator) && may_be_sent_by(kind, duty::feeder)  ? feeder_
        : !may_be_sent_by(kind, duty::coordinator) && may_be_sent_by(kind, duty::shard) ? shard_
                                                                                        : coordinator_;
    const caf::message m = long_message(kind, me);
    flood(
        of, [&] { messaging::send_as(me, whom(), m); }, stands);
  }

private:
  std::shared_ptr<const folder_lock> folder_;
  const run_plan plan_;
  std::uint32_t hosts_;
  bool begun_ = false;
  std::shared_ptr<caf::actor> wrote_ = std::make_shared<caf::actor>();
  caf::actor coordinator_, feeder_, tracker_, shard_;
  std::vector<caf::actor> shards_;
  std::optional<remote::worker_server> elsewhere_;
};

TEST_P(EachMessageWithoutEnd, OfAServerEndsAtMostAWorker) {
  played_processes s;
  auto& server = s.add<bad_server>("server", 0U);
  auto& worker = s.add<worker_process>("worker", worker_setup{at, 0, 0ms});
  s.run_for(500ms);
  ASSERT_TRUE(server.whom());
  server.flood_with(GetParam(), s, [&] { return !worker.is_over(); });
  EXPECT_TRUE(!worker.is_over() || !worker.ended()->words.empty());
}

TEST_P(EachMessageWithoutEnd, OfAServerEndsAtMostAParameterHost) {
  played_processes s;
  auto& server = s.add<bad_server>("server", 1U);
  auto& host = s.add<host_process>("host", at, "10.0.1.1:7000");
  auto& worker = s.add<worker_process>("worker", worker_setup{at, 0, 0ms});
  s.run_for(500ms);
  ASSERT_FALSE(worker.is_over());
  ASSERT_TRUE(server.whom());
  server.flood_with(GetParam(), s, [&] { return !host.is_over(); });
  EXPECT_TRUE(!host.is_over() || !host.ended()->words.empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, EachMessageWithoutEnd, ::testing::ValuesIn(remote::kinds_without_values()),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

} // namespace
} // namespace mailgrad::systems
