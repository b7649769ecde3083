#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/support/held_messages.hpp>
#include <mailgrad/tests/support/interleavings.hpp>

#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <sstream>

// Small runs in every order in which their messages can arrive. schedules_test.cpp samples larger ones.

namespace mailgrad::testing {
namespace {

/// Two who at their birth send two messages each to a third, which is silent.
class two_lines final : public explored_actors {
public:
  enum class matters : std::uint8_t { the_order, nothing };

  explicit two_lines(matters what) : what_(what) {}

  std::size_t count() const override { return 3; }
  std::string name(place actor) const override { return std::to_string(actor); }
  std::unique_ptr<stepped_run> start() const override { return std::make_unique<run>(); }
  std::optional<experience> remembered(place, const history& so_far, experience heard) const override {
    if (what_ == matters::the_order) heard.text += std::to_string(so_far.size());
    return heard;
  }
  bool goes_first(place, const history&, const std::string&) const override { return false; }
  void check_end(const std::vector<std::string>& told) const override { EXPECT_TRUE(told.empty()); }

private:
  struct run final : stepped_run {
    std::vector<posted> begin() override {
      return {{{0, 2}, "a"}, {{0, 2}, "b"}, {{1, 2}, "a"}, {{1, 2}, "b"}};
    }
    std::vector<posted> deliver(line) override { return {}; }
    bool has_ended(place) const override { return false; }
  };

  matters what_;
};

TEST(Explorer, TriesEveryOrderThatKeepsEachLine) {
  const exploration found = interleavings(two_lines(two_lines::matters::the_order)).explore();
  EXPECT_EQ(found.runs, 6); // two of four places for the first line
  EXPECT_EQ(found.ends, 6U);
  EXPECT_EQ(found.states, 19U); // 1 + 2 + 4 + 6 + 6
  EXPECT_EQ(found.merged, 0U);
}

TEST(Explorer, CountsOrdersOfMergedStates) {
  const exploration found = interleavings(two_lines(two_lines::matters::nothing)).explore();
  EXPECT_EQ(found.runs, 6);
  EXPECT_EQ(found.ends, 1U);
  EXPECT_EQ(found.states, 9U); // how far each line is, 0 to 2
  EXPECT_EQ(found.merged, 4U);
}

// ---- runs of real actors, which wait until they are told which message arrives next

/// The content of `m` if it has this type, otherwise null.
template <class Message>
const Message* as(const caf::mailbox_element& m) {
  const auto& content = m.content();
  return content.match_elements<Message>() ? &content.get_as<Message>(0) : nullptr;
}

/// Writes a message in words, with all fields that its receiver's decisions depend on. The other fields are
/// left out, so that runs that differ only in these count as the same. Left out are times, since the clock
/// stands still, and without `with_values` also the samples and the values computed from them.
class message_texts {
public:
  explicit message_texts(bool with_values) : with_values_(with_values) {}
  /// Errors  std::logic_error for a message of an unknown type.
  std::string operator()(const caf::mailbox_element& m) const {
    std::optional<std::string> text = of_training(m);
    if (!text) text = of_a_switch(m);
    if (!text) text = of_the_end(m);
    if (!text) throw std::logic_error("message_texts: no words for " + to_string(m.content()));
    return *text;
  }

private:
  /// The number in a value of a type of identity.hpp; any other value as it is.
  static const auto& number_in(const auto& x) {
    if constexpr (requires { x.value; })
      return x.value;
    else
      return x;
  }
  template <class... Parts>
  static std::string joined(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << number_in(parts));
    return out.str();
  }
  static std::string list(const auto& numbers) {
    std::string text;
    for (const auto n : numbers) text += ' ' + std::to_string(number_in(n));
    return text;
  }
  std::string bytes(std::string_view of) const {
    return with_values_ ? joined(", values ", std::hash<std::string_view>{}(of)) : std::string{};
  }
  std::string values_of(const snapshot& b) const {
    const auto values = b.on_host();
    return bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  std::optional<std::string> of_training(const caf::mailbox_element& m) const {
    if (as<worker_joined>(m)) return "worker_joined";
    if (as<join_shard>(m)) return "join_shard";
    if (const auto* x = as<push_gradient>(m))
      return joined("push_gradient step ", x->header.id.step, ", read version ", x->header.version_read,
                    " of epoch ", x->header.epoch);
    if (const auto* x = as<shard_weights>(m))
      return joined("shard_weights version ", x->header.version, " of epoch ", x->header.epoch,
                    values_of(x->payload.values));
    if (const auto* x = as<worker_left>(m)) return joined("worker_left ", x->worker);
    if (const auto* x = as<order_entry>(m))
      return joined("order_entry ", static_cast<int>(x->what), " of worker ", x->worker, ", step ", x->step,
                    ", late by ", x->gap);
    if (as<next_batch>(m)) return "next_batch";
    if (const auto* x = as<dealt_batch>(m))
      return joined("dealt_batch of ", x->values->size,
                    with_values_ ? joined(", number ", x->values->number) : std::string{});
    if (as<data_exhausted>(m)) return "data_exhausted";
    return std::nullopt;
  }

  std::optional<std::string> of_a_switch(const caf::mailbox_element& m) const {
    if (as<watch_holds>(m)) return "watch_holds";
    if (const auto* x = as<step_reached>(m)) return joined("step_reached ", x->step);
    if (const auto* x = as<pause_worker>(m)) return joined("pause_worker for epoch ", x->epoch);
    if (const auto* x = as<worker_paused>(m))
      return joined("worker_paused for epoch ", x->epoch, " after step ", x->step);
    if (const auto* x = as<switch_policy>(m))
      return joined("switch_policy to ", x->policy, ", epoch ", x->epoch, ", after steps", list(x->steps),
                    ", present", list(x->present));
    if (const auto* x = as<policy_switched>(m)) return joined("policy_switched, epoch ", x->epoch);
    if (const auto* x = as<go_on_dealing>(m))
      return joined("go_on_dealing by_rank ", x->by_rank, ", held at ", x->held_at);
    return std::nullopt;
  }

  std::optional<std::string> of_the_end(const caf::mailbox_element& m) const {
    if (const auto* x = as<worker_finished>(m))
      return joined("worker_finished, produced ", x->report.produced, ", samples ", x->report.samples,
                    bytes({reinterpret_cast<const char*>(&x->report.loss_bits), sizeof(std::uint32_t)}));
    if (as<report_shard>(m)) return "report_shard";
    const auto* x = as<shard_report>(m);
    if (!x) return std::nullopt;
    std::string text = joined("shard_report version ", x->version, values_of(x->values));
    for (const worker_account& account : x->workers) {
      text += joined("; last step ", account.last_step, ", ", to_string(account.ledger), ", gaps");
      for (const auto& [gap, count] : account.gaps.buckets()) text += joined(' ', gap, 'x', count);
    }
    return text;
  }

  bool with_values_;
};

/// Sees all messages that one shard receives and sends. It keeps its own account by the definitions of the
/// policies, and expects the shard to agree with it. It knows async, ssp:S, sync and switches between them.
class shard_witness {
public:
  shard_witness(std::vector<std::string> policies, std::uint32_t workers)
      : policies_(std::move(policies)), notes_(workers), present_(workers, true) {}
  /// Checks a gradient that the shard receives. At a barrier, a version is made of one gradient of each
  /// worker, all computed from the version before; otherwise each gradient makes its own version.
  void hears(const push_gradient& x) {
    exchange_notes& with = notes_[x.header.id.worker.value];
    ASSERT_FALSE(with.versions_read.empty()) << "worker " << x.header.id.worker.value << " has read nothing";
    EXPECT_EQ(x.header.version_read.value, with.versions_read.back())
        << "worker " << x.header.id.worker.value;
    EXPECT_EQ(x.header.epoch.value, epoch_) << "a gradient of another policy came through the fence";
    with.steps_pushed.push_back(x.header.id.step.value);
    if (!at_barrier()) {
      ++version_;
      return;
    }
    EXPECT_EQ(x.header.version_read.value, version_)
        << "a barrier lets in worker " << x.header.id.worker.value << " from another round";
    EXPECT_EQ(std::ranges::count(round_, x.header.id.worker.value), 0) << "twice in a round";
    round_.push_back(x.header.id.worker.value);
    close_round_if_complete();
  }

  void hears(const worker_left& x) {
    present_[x.worker.value] = false;
    close_round_if_complete();
  }

  void says(rank to, const shard_weights& x) {
    exchange_notes& with = notes_[to.value];
    EXPECT_EQ(x.header.epoch.value, epoch_);
    EXPECT_EQ(x.header.version.value, version_) << "not every gradient made its share of one version";
    EXPECT_FALSE(at_barrier() && std::ranges::count(round_, to.value) > 0) << "before its barrier opened";
    EXPECT_TRUE(!policy().starts_with("ssp:") || lead_of(to) <= std::stoul(policy().substr(4)))
        << "it lacks steps of the slowest";
    with.versions_read.push_back(x.header.version.value);
    with.epochs_read.push_back(x.header.epoch.value);
  }
  /// A switch of policy closes a batch that is not complete.
  void says(const policy_switched& x) {
    if (!round_.empty()) close_round();
    epoch_ = x.epoch.value;
  }

  void says(const shard_report& x) const {
    EXPECT_EQ(x.version.value, version_);
    EXPECT_EQ(epoch_ + 1, policies_.size()) << "a switch is missing";
    for (std::size_t r = 0; r < notes_.size(); ++r) {
      expect_each_step_once(x.workers[r], notes_[r]);
      EXPECT_TRUE(policies_.size() > 1 || !at_barrier() || x.workers[r].gaps.max() == 0);
    }
    std::vector<const exchange_notes*> of_workers;
    for (const exchange_notes& n : notes_) of_workers.push_back(&n);
    if (policies_.size() == 1 && policies_[0] == "async") expect_staleness_conserved(x, of_workers);
    expect_epochs_begin_at_one_version(of_workers);
  }

  std::uint64_t epoch() const { return epoch_; }

private:
  const std::string& policy() const { return policies_[epoch_]; }
  bool at_barrier() const { return policy() == "sync"; }
  /// How many steps a worker is ahead of the slowest worker that has not left.
  std::size_t lead_of(rank worker) const {
    const std::size_t steps = notes_[worker.value].steps_pushed.size();
    std::size_t slowest = steps;
    for (std::size_t r = 0; r < notes_.size(); ++r)
      if (present_[r]) slowest = std::min(slowest, notes_[r].steps_pushed.size());
    return steps - slowest;
  }
  void close_round_if_complete() {
    if (round_.empty()) return;
    for (std::uint32_t r = 0; r < present_.size(); ++r)
      if (present_[r] && std::ranges::count(round_, r) == 0) return;
    close_round();
  }
  void close_round() {
    round_.clear();
    ++version_;
  }

  std::vector<std::string> policies_; ///< by epoch
  std::vector<exchange_notes> notes_; ///< by rank
  std::vector<bool> present_;         ///< by rank
  std::vector<std::uint32_t> round_;  ///< ranks of the workers whose gradients wait at the barrier
  std::uint64_t version_ = 0;
  std::uint64_t epoch_ = 0;
};

/// The numbers that the explorer has for the actors of a training run.
struct roles {
  std::uint32_t workers = 0;
  std::uint32_t shards = 0;

  place feeder() const { return static_cast<place>(workers + shards); }
  place coordinator() const { return static_cast<place>(workers + shards + 1); }
  std::size_t count() const { return workers + shards + 2; }
  bool is_worker(place p) const { return p < workers; }
  bool is_shard(place p) const { return p >= workers && p < workers + shards; }

  std::string name(place p) const {
    if (is_worker(p)) return "worker " + std::to_string(p);
    if (is_shard(p)) return "shard " + std::to_string(p - workers);
    if (p == feeder()) return "feeder";
    return p == coordinator() ? "coordinator" : "outside";
  }
};

/// A training run that waits until it is told which message arrives next. A witness watches every shard.
class stepped_training final : public stepped_run {
public:
  stepped_training(deterministic_system& system, const assembly& a,
                   const std::shared_ptr<const data_split>& data, const message_texts& in_words)
      : system_(system), roles_{a.workers, a.shards}, in_words_(in_words),
        run_(std::make_unique<assembled_run>(system.actors(), a, data, std::make_shared<manual_time>())),
        messages_(std::make_unique<held_messages>(system, actors(), decides_nothing)) {
    std::vector<std::string> policies;
    for (const scheduled_policy& p : parse_policy_schedule(a.policy, a.workers))
      policies.push_back(p.policy.text());
    witnesses_.assign(a.shards, {policies, a.workers});
  }
  ~stepped_training() override {
    messages_.reset();
    run_.reset();
    system_.run();
  }

  std::vector<posted> begin() override { return texts_of(messages_->begin()); }

  std::vector<posted> deliver(line on) override {
    if (roles_.is_shard(on.to)) witness_hears(on, messages_->first(on));
    const std::vector<held_messages::held> sent = messages_->deliver(on);
    if (roles_.is_shard(on.to)) witness_sees(on.to, sent);
    std::vector<posted> texts = texts_of(sent);
    if (on.to == roles_.coordinator() && run_->times_ended() > ends_told_) {
      ends_told_ = run_->times_ended();
      expect_completed(*run_);
      texts.push_back({{on.to, outside}, format_outcome()});
    }
    return texts;
  }

  bool has_ended(place actor) const override { return messages_->has_ended(actor); }

private:
  std::vector<caf::actor> actors() const {
    std::vector<caf::actor> all = run_->devices;
    all.insert(all.end(), run_->shards.begin(), run_->shards.end());
    all.push_back(run_->feeder_actor);
    all.push_back(run_->coordinator_actor);
    return all;
  }
  /// Whether `m` decides nothing. One tells of the end of an actor: actors end only after their last message
  /// to the coordinator, which ignores such news. The other tells of losses, and these make sense here.
  static bool decides_nothing(const caf::mailbox_element& m) {
    if (as<worker_progress>(m)) return true;
#if CAF_MAJOR_VERSION >= 1
    return as<caf::action>(m) != nullptr; // it makes the watcher send worker_lost to itself
#else
    return as<worker_lost>(m) != nullptr;
#endif
  }

  void witness_hears(line on, const caf::mailbox_element& m) {
    shard_witness& witness = witnesses_[on.to - roles_.workers];
    if (const auto* x = as<push_gradient>(m)) witness.hears(*x);
    if (const auto* x = as<worker_left>(m)) witness.hears(*x);
  }
  /// Shows the witness what the shard sent in one step. The order of messages to different actors is not
  /// known, so weights of the next epoch are shown last.
  void witness_sees(place shard, const std::vector<held_messages::held>& sent) {
    shard_witness& witness = witnesses_[shard - roles_.workers];
    const std::uint64_t epoch = witness.epoch();
    const auto see_weights = [&](bool of_the_next) {
      for (const held_messages::held& m : sent)
        if (const auto* x = as<shard_weights>(*m.what); x && (x->header.epoch.value > epoch) == of_the_next)
          witness.says({m.on.to}, *x);
    };
    see_weights(false);
    for (const held_messages::held& m : sent) {
      if (const auto* x = as<policy_switched>(*m.what)) witness.says(*x);
      if (const auto* x = as<shard_report>(*m.what)) witness.says(*x);
    }
    see_weights(true);
  }

  std::vector<posted> texts_of(const std::vector<held_messages::held>& sent) const {
    std::vector<posted> texts;
    for (const held_messages::held& m : sent) texts.push_back({m.on, in_words_(*m.what)});
    return texts;
  }

  std::string format_outcome() const {
    const training_report report = report_of(run_->outcome());
    std::string text = "ended, " + to_string(report.ledger) + ", samples " + std::to_string(report.samples);
    for (const policy_switch& s : report.switches)
      text += ", " + s.from + " to " + s.to + " at step " + std::to_string(s.step);
    return text;
  }

  deterministic_system& system_;
  roles roles_;
  message_texts in_words_;
  std::unique_ptr<assembled_run> run_;
  std::unique_ptr<held_messages> messages_;
  std::vector<shard_witness> witnesses_; ///< by shard
  std::size_t ends_told_ = 0;
};

struct explored_run {
  std::string policy;
  std::uint64_t batches = 0;              ///< steps of both workers
  std::optional<std::uint64_t> turn = {}; ///< of one that takes seconds: a slice has one of these

  friend std::ostream& operator<<(std::ostream& out, const explored_run& r) {
    return out << r.policy << ", " << r.batches << " batches";
  }
};

constexpr std::uint64_t turns = 7;

bool is_left_to_another_slice(const explored_run& run) {
  const auto number = asked_number("MAILGRAD_SLICE");
  return number && run.turn && *run.turn != *number % turns;
}

/// Two workers and two shards.
class explored_training final : public explored_actors {
public:
  /// In full: nothing goes first.
  explicit explored_training(const explored_run& what, bool in_full = false)
      : in_full_(in_full), assembly_{.policy = what.policy,
                                     .workers = 2,
                                     .shards = 2,
                                     .batches = what.batches},
        policies_(parse_policy_schedule(what.policy, 2)) {}

  std::size_t count() const override { return roles_.count(); }
  std::string name(place actor) const override { return roles_.name(actor); }
  std::unique_ptr<stepped_run> start() const override {
    return std::make_unique<stepped_training>(system_, assembly_, data_, message_texts(in_step()));
  }
  /// What an actor has heard and said is its state, whatever the order, but for four things:
  ///   - the gap of a gradient that is applied at once is in the books of the shard: which one of its epoch it was;
  ///   - the coordinator writes down how many steps were made when a switch was done: who had finished then;
  ///   - once the feeder deals by rank it deals each rank its own: who had how many of those it dealt before;
  ///   - who leaves has left: whoever says so, and a second word of it is ignored.
  /// All else fills places and ticks boxes. The feeder has dealt as many batches as it sent, and holds or
  /// goes on since it said or heard so. A device has one place for the weights of each shard and one for a
  /// batch, and begins a step when all are filled; a pause empties those of the shards. A shard holds whom it
  /// has not answered; its version is in its answers, or, before them, the number of gradients; the order in
  /// a batch is that of ranks.
  std::optional<experience> remembered(place actor, const history& so_far, experience heard) const override {
    std::string& text = heard.text;
    if (leaves_no_trace(so_far, text)) return std::nullopt;
    if (is(text, "worker_left")) heard.other = actor; // whoever says so
    if (is(text, "push_gradient") && !at_barrier(text))
      text += ", number " + std::to_string(count_of(so_far, epoch_in(text)));
    if (is(text, "go_on_dealing"))
      text += ", dealt to worker 0 " + std::to_string(std::ranges::count_if(so_far, is_batch_of_worker_0));
    if (is(text, "policy_switched")) text += ", finished" + finished_in(so_far);
    return heard;
  }
  /// What fills places and ticks boxes does so in any order, and the answer comes with the last. Not so
  ///   - at a device: a pause finds a step begun or not;
  ///   - at the coordinator: as above;
  ///   - at the feeder: the last batch is for one of two who ask, unless each has its own. Who leaves asks no more;
  ///   - at a shard: weights have a version. In `async` nobody waits, so it is nothing to others that somebody leaves.
  bool goes_first(place actor, const history& so_far, const std::string& text) const override {
    if (in_full_) return false;
    if (leaves_no_trace(so_far, text)) return true;
    if (roles_.is_worker(actor)) return !switches() || count_of(so_far, "pause_worker") > 0;
    if (actor == roles_.coordinator())
      return !switches() || (!is(text, "policy_switched") && !is(text, "worker_finished"));
    if (actor == roles_.feeder()) return in_step() || is(text, "worker_left");
    return assembly_.policy == "async" && is(text, "worker_left");
  }

  void check_end(const std::vector<std::string>& told) const override {
    EXPECT_EQ(told.size(), 1U) << "somebody waits, and no message is under way";
    outcomes_.insert(told.begin(), told.end());
  }
  /// Different ones, in words.
  const std::set<std::string>& outcomes() const { return outcomes_; }

private:
  bool switches() const { return assembly_.policy.find('@') != std::string::npos; }
  /// Then the weights are the same in every order, and are a part of what is compared.
  bool in_step() const { return assembly_.policy == "sync"; }

  static bool is(const std::string& text, const char* what) { return text.starts_with(what); }
  static std::string epoch_in(const std::string& push) { return push.substr(push.find(" of epoch")); }
  bool at_barrier(const std::string& push) const {
    return policies_[std::stoul(epoch_in(push).substr(10))].policy.text() == "sync";
  }
  static bool is_batch_of_worker_0(const experience& e) {
    return !e.heard && e.other == 0 && is(e.text, "dealt_batch");
  }
  static std::ptrdiff_t count_of(const history& so_far, const std::string& what) {
    return std::ranges::count_if(
        so_far, [&](const experience& e) { return e.heard && e.text.find(what) != std::string::npos; });
  }
  static std::string finished_in(const history& so_far) {
    std::string who;
    for (const experience& e : so_far)
      if (e.heard && is(e.text, "worker_finished")) who += ' ' + std::to_string(e.other);
    return who;
  }
  static bool leaves_no_trace(const history& so_far, const std::string& text) {
    return is(text, "worker_left") && count_of(so_far, text) > 0;
  }

  bool in_full_;
  roles roles_{2, 2};
  assembly assembly_;
  std::vector<scheduled_policy> policies_; ///< by epoch
  mutable deterministic_system system_;
  mutable std::set<std::string> outcomes_;
  std::shared_ptr<const data_split> data_ = small_data();
};

void tell(const exploration& found) {
  ::testing::Test::RecordProperty("states", std::to_string(found.states));
  ::testing::Test::RecordProperty("complete_runs", std::to_string(found.runs));
  ::testing::Test::RecordProperty("merged_prefixes", std::to_string(found.merged));
  std::cout << found.states << " states, " << found.runs << " complete runs to " << found.ends << " ends, "
            << found.merged << " prefixes merged; " << found.answers << " answers of real actors in "
            << found.replays << " replays\n";
}

std::string name_of(const ::testing::TestParamInfo<explored_run>& run) {
  return test_name(run.param.policy) + "_in_" + std::to_string(run.param.batches) + "_batches";
}

class Interleavings : public ::testing::TestWithParam<explored_run> {};

TEST_P(Interleavings, AllEndOnceInGoodOrder) {
  if (is_left_to_another_slice(GetParam())) GTEST_SKIP() << "another slice tries these orders";
  const explored_training training(GetParam());
  interleavings all(training);
  const exploration found = all.explore();
  if (HasFailure()) return;
  tell(found);
  EXPECT_GT(found.merged, 0U);
  EXPECT_TRUE(GetParam().policy != "sync" || found.ends == 1) << "the order shows, in weights or books";

  std::mt19937_64 random(1);
  all.confirm(random, 500);
}

class InterleavingsInFull : public ::testing::TestWithParam<explored_run> {};

/// The states between differ, and the orders; the ends do not.
TEST_P(InterleavingsInFull, EndAsThoseInWhichSomethingGoesFirst) {
  if (is_left_to_another_slice(GetParam())) GTEST_SKIP() << "another slice tries these orders";
  const explored_training reduced(GetParam());
  const explored_training in_full(GetParam(), true);
  const exploration some = interleavings(reduced).explore();
  const exploration all = interleavings(in_full).explore();
  if (HasFailure()) return;
  tell(all);
  EXPECT_LT(some.states, all.states);
  EXPECT_EQ(some.ends, all.ends);
  EXPECT_EQ(reduced.outcomes(), in_full.outcomes());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const auto explored_runs = ::testing::Values(explored_run{"sync", 2}, explored_run{"ssp:1", 2},
                                             explored_run{"async", 2}, explored_run{"async, sync@1", 2});
const auto runs_in_full = ::testing::Values(explored_run{"sync", 2});
#else
/// Those that take a minute only if MAILGRAD_LONG_INTERLEAVINGS is set, as scripts/endurance does.
std::vector<explored_run> all_explored_runs() {
  std::vector<explored_run> runs{
      {"sync", 4}, {"ssp:1", 4, 0}, {"async", 4, 1}, {"async, sync@2", 4, 2}, {"sync, async@2", 4, 3},
      {"sync", 5}, {"sync", 6}};
  if (std::getenv("MAILGRAD_LONG_INTERLEAVINGS")) // NOLINT(concurrency-mt-unsafe)
    runs.insert(runs.end(), {{"ssp:1, sync@3", 5}, {"ssp:1", 6}, {"async", 6}, {"async, sync@3", 6}});
  return runs;
}
const auto explored_runs = ::testing::ValuesIn(all_explored_runs());
const auto runs_in_full = ::testing::Values(explored_run{"sync", 4}, explored_run{"ssp:1", 2, 4},
                                            explored_run{"async", 2, 5}, explored_run{"sync, async@1", 2, 6});
#endif
INSTANTIATE_TEST_SUITE_P(TwoWorkersTwoShards, Interleavings, explored_runs, name_of);
INSTANTIATE_TEST_SUITE_P(TwoWorkersTwoShards, InterleavingsInFull, runs_in_full, name_of);

} // namespace
} // namespace mailgrad::testing
