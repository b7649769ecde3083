#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <zlib.h>

#include <iostream>
#include <limits>
#include <random>

// A replay in another order must come to the same weights, ledgers and histograms, and record the same again.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using entry_kind = order_entry::kind;

constexpr std::uint64_t recorded_orders = 150;
/// So many that something rare happens in some of them.
const bool many_orders = drawn_orders(recorded_orders).count() == recorded_orders;

class Replay : public RecordedRun, public ::testing::WithParamInterface<const char*> {
protected:
  static assembly small_run() { return {.policy = GetParam()}; }
};

TEST_P(Replay, ComesToTheSameWeightsInAnyOrder) {
  for (const std::uint32_t shards : {1U, 3U})
    for (const drawn_order& order : drawn_orders(recorded_orders)) {
      const assembly a{.policy = GetParam(), .shards = shards, .batches = 15}; // more than an epoch
      finish_and_repeat(a, order.seed());
    }
}

/// Of policies under which a gradient is stale once; for others a run with a cure is refused.
class ReplayOfStaleGradients : public Replay {};

TEST_P(ReplayOfStaleGradients, RepeatsACure) {
  for (const drawn_order& order : drawn_orders(recorded_orders))
    finish_and_repeat({.policy = GetParam(), .cure = "dynsgd"}, order.seed());
}

TEST_F(RecordedRun, IsRepeatedWithEveryCureAndLocalSteps) {
  for (const treated_run& t : treated_runs)
    for (const drawn_order& order : drawn_orders((recorded_orders + 4) / 5))
      finish_and_repeat(treated(t), order.seed());
}

/// Also where a worker has ended before the switch, or makes no step after it.
TEST_P(Replay, RepeatsSwitchesThatCameAtAnyMoment) {
  const std::vector<std::string> wanted{"ssp:1", "backup:1", "sync", "async", "k-batch-async:2", "dssp:0,2"};
  std::size_t switched = 0;
  std::size_t with_one_gone = 0;
  for (drawn_order& order : drawn_orders(3 * recorded_orders)) {
    const auto was = finish_and_repeat(small_run(), order, [&](const assembled_run& run) {
      for (std::uint64_t i = 0; i <= order.seed() % 3; ++i) {
        deliver(order, order.below(120));
        send_anonymously(run.coordinator_actor,
                         request_switch{wanted[order.below(wanted.size())], "by hand"});
      }
    });
    for (const recorded_switch& s : was.order.end.switches) {
      ++switched;
      if (std::ranges::count(s.present, 0) > 0) ++with_one_gone;
    }
  }
  if (!many_orders) return;
  EXPECT_GT(switched, recorded_orders);
  EXPECT_GT(with_one_gone, 0U) << "the orders should have tried it";
}

TEST_P(Replay, RepeatsARunThatSomebodyStopped) {
  std::size_t stopped = 0;
  for (drawn_order& order : drawn_orders(recorded_orders)) {
    const auto was = finish_and_repeat(small_run(), order, [&](const assembled_run& run) {
      deliver(order, order.below(150));
      if (order.seed() % 3 == 0) send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
      send_anonymously(run.coordinator_actor, stop_training{"enough"});
    });
    stopped += was.report.ledger.produced < 12 ? 1U : 0U;
  }
  EXPECT_TRUE(!many_orders || stopped > recorded_orders / 4) << stopped;
}

TEST_P(Replay, RepeatsARunThatDiverged) {
  data_split split = *small_data();
  auto features = std::get<float_features>(split.train.features());
  // Its logits, or those after its gradient, are beyond what a float holds.
  std::fill_n(features.values.begin() + 20 * small_features, small_features,
              std::numeric_limits<float>::max());
  split.train = dataset(features, {split.train.labels().begin(), split.train.labels().end()}, 3);
  data_ = std::make_shared<data_split>(std::move(split));
  assembly a{.policy = GetParam()};
  a.model = [](graph& g, const model_request& r) { return build_classifier(g, {dense_layer{}}, r); };
  a.batches = 20; // whoever drops the gradient that is no number may never diverge
  std::size_t diverged = 0;
  for (const drawn_order& order : drawn_orders(recorded_orders))
    diverged += finish_and_repeat(a, order.seed()).report.ended == "diverged" ? 1U : 0U;
  EXPECT_TRUE(!many_orders || diverged > 0);
}

void expect_equal(const running_stat& was, const running_stat& is) {
  EXPECT_EQ(std::tuple(was.count(), was.mean(), was.least(), was.greatest()),
            std::tuple(is.count(), is.mean(), is.least(), is.greatest()));
}

void expect_same_samples(const finished_run& was, const finished_run& is) {
  expect_equal(was.report.weight_gap, is.report.weight_gap);
  expect_equal(was.report.gradient_cosine, is.report.gradient_cosine);
  ASSERT_EQ(was.report.sampled.size(), is.report.sampled.size());
  for (std::size_t i = 0; i < was.report.sampled.size(); ++i) {
    const sampled_figures &a = was.report.sampled[i], &b = is.report.sampled[i];
    EXPECT_EQ(std::tuple(a.shard, a.worker, a.step, a.lag, a.gap, a.cosine),
              std::tuple(b.shard, b.worker, b.step, b.lag, b.gap, b.cosine));
  }
  ASSERT_EQ(was.report.exchanges.size(), is.report.exchanges.size());
  for (std::size_t i = 0; i < was.report.exchanges.size(); ++i)
    expect_equal(was.report.exchanges[i].weight_gap, is.report.exchanges[i].weight_gap);
}

/// Also where a pause comes between the push of a gradient and the answers.
TEST_P(Replay, SamplesTheGapsThatItsRunHadOrWouldHaveHad) {
  for (drawn_order& order : drawn_orders(recorded_orders))
    for (const std::uint64_t sampled_in_run : {0U, 2U}) {
      assembly a{.policy = GetParam(), .sample_gap = sampled_in_run};
      const finished_run was = finish(a, order, [&](const assembled_run& run) {
        deliver(order, order.below(150));
        send_anonymously(run.coordinator_actor, request_switch{"async", "by hand"});
      });
      a.sample_gap = 2;
      a = replay_of(a, was.order);
      const finished_run first = finish(a, order.seed() * 1000 + 1);
      expect_same(was, first);
      EXPECT_FALSE(first.report.weight_gap.empty());
      if (sampled_in_run > 0) expect_same_samples(was, first);
      for (std::uint64_t i = 2; i <= replays_of_each; ++i) {
        const finished_run is = finish(a, order.seed() * 1000 + i);
        expect_same(was, is);
        expect_same_samples(first, is);
      }
    }
}

/// Of policies under which the weights depend on the order of gradients: for these a replay proves something.
class ReplayOfOrderedUpdates : public Replay {};

TEST_P(Replay, EndsInGoodOrderWheneverSomebodyStopsItOrDies) {
  for (drawn_order& order : drawn_orders(3 * recorded_orders)) {
    const auto was = finish(small_run(), order, [&](const assembled_run& run) {
      deliver(order, order.below(120));
      send_anonymously(run.coordinator_actor, request_switch{"backup:1", "by hand"});
    });
    drawn_order other(order.seed() + 1);
    const finished_run is = finish(replay_of(small_run(), was.order), other, [&](const assembled_run& run) {
      deliver(other, other.below(150));
      if (order.seed() % 2 == 0)
        send_anonymously(run.coordinator_actor, stop_training{"enough"});
      else
        kill(run.devices[other.below(3)]);
    });
    EXPECT_TRUE(is.report.ledger.balances()) << to_string(is.report.ledger);
  }
}

TEST_P(ReplayOfOrderedUpdates, IsOfARunThatOtherOrdersWouldChange) {
  const finished_run first = finish(small_run(), 0);
  for (const drawn_order& order : drawn_orders(20))
    if (finish(small_run(), order.seed()).weights != first.weights) return;
  FAIL() << "twenty orders, the same weights";
}

TEST(EveryPolicyThatCanBeReplayed, IsTried) {
  for (const policy_form& form : policy_forms()) { // a user's own are not among them
    const std::string_view name = form.text.substr(0, form.text.find(':'));
    const bool tried = std::ranges::any_of(
        ordered_policies, [&](std::string_view text) { return text.substr(0, text.find(':')) == name; });
    EXPECT_EQ(tried, name != "hogwild") << name;
  }
}

bool has_stale_gradients(const char* policy) {
  const std::vector<scheduled_policy> all = parse_policy_schedule(policy, assembly{}.workers);
  const auto is_stale = [](const scheduled_policy& p) { return !p.policy.traits().always_fresh; };
  const auto has_rounds = [](const scheduled_policy& p) { return p.policy.traits().has_rounds; };
  return std::ranges::any_of(all, is_stale) && std::ranges::none_of(all, has_rounds);
}

/// Under the barrier of `sync` every order makes the same weights.
bool has_ordered_updates(std::string_view policy) { return policy != "sync"; }

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Replay, ::testing::ValuesIn(ordered_policies), name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayOfStaleGradients,
                         ::testing::ValuesIn(policies_of_which(has_stale_gradients)), name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayOfOrderedUpdates,
                         ::testing::ValuesIn(policies_of_which(has_ordered_updates)), name_of_policy);

// ---- what a run leaves behind that is killed: of each shard, and of the feeder, some of what it had done, each at its
// own pace. It is repeated as far as it goes

/// A recording that nobody has ended.
recording killed(recording r) {
  r.killed = true;
  r.end = {"", "", {}, std::move(r.end.switches), ""};
  return r;
}

/// A recording as it is when its shards and feeder have told so much, in parts of a whole.
recording killed(recording r, drawn_order& order) {
  r = killed(std::move(r));
  const auto part_of = [&](std::size_t all) { return all * std::min<std::size_t>(8, order.below(16)) / 8; };
  for (auto& entries : r.entries) entries.resize(part_of(entries.size()));
  for (auto& batches : r.batches) batches.resize(part_of(batches.size()));
  return r;
}

class KilledRecording : public RecordedRun, public ::testing::WithParamInterface<treated_run> {
protected:
  /// Each shard begins with what it had told, and whatever follows is as if somebody had stopped the run.
  static void expect_begins_like(const recording& cut, const recording& was) {
    const auto of = [](const order_entry& e) { return std::tuple(e.what, e.worker, e.step); };
    for (std::size_t s = 0; s < cut.entries.size(); ++s) {
      std::size_t same = 0;
      while (same < cut.entries[s].size() && same < was.entries[s].size() &&
             of(cut.entries[s][same]) == of(was.entries[s][same]))
        ++same;
      const auto added = std::ranges::count(cut.entries[s].begin() + static_cast<std::ptrdiff_t>(same),
                                            cut.entries[s].end(), entry_kind::gradient, &order_entry::what);
      EXPECT_LE(added, std::ssize(cut.batches)) << "at most one of each worker was under way";
    }
  }
};

TEST_P(KilledRecording, IsRepeatedAsFarAsItGoes) {
  const assembly a = treated(GetParam());
  const drawn_orders tried(40);
  std::size_t repeated = 0;
  for (drawn_order& order : tried) {
    const finished_run was = finish(a, order.seed());
    const recording cut = repeatable_part(killed(was.order, order), terms_of(a));
    EXPECT_TRUE(cut.killed);
    expect_begins_like(cut, was.order);
    repeated += static_cast<std::size_t>(
        std::ranges::count(cut.entries[0], entry_kind::gradient, &order_entry::what));

    const finished_run first = finish(replay_of(a, cut), order.seed() + 100);
    EXPECT_EQ(first.report.ended, "completed");
    EXPECT_TRUE(first.report.ledger.balances()) << to_string(first.report.ledger);
    expect_same(first, finish(replay_of(a, cut), order.seed() + 200));
    expect_same_order(cut, first.order);
  }
  EXPECT_GT(repeated, 0U) << "no recording was killed late enough for a gradient to be in it";
}

TEST_P(KilledRecording, IsRepeatedToTheEndIfAllOfItIsThere) {
  const assembly a = treated(GetParam());
  for (drawn_order& order : drawn_orders(20)) {
    const finished_run was = finish(a, order.seed());
    const assembly again = replay_of(a, repeatable_part(killed(was.order), terms_of(a)));
    const finished_run is = finish(again, order.seed() + 100);
    EXPECT_TRUE(a.local_steps > 0 || is.weights == was.weights);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTreatment, KilledRecording, ::testing::ValuesIn(treated_runs), name_of_treated);

INSTANTIATE_TEST_SUITE_P(EveryPolicy, KilledRecording,
                         ::testing::Values(treated_run{"none"}, plain_under("sync"), plain_under("ssp:1"),
                                           plain_under("dssp:0,2"), plain_under("backup:1"),
                                           plain_under("k-async:2"), plain_under("k-batch-async:2"),
                                           plain_under("k-batch-sync:2"), plain_under("rennala:3"),
                                           plain_under("ringmaster:2"), plain_under("malenia:4"),
                                           plain_under("ringleader"), plain_under("async, sync@4, ssp:1@8"),
                                           plain_under("sync, backup:1@3, k-async:2@7, async@10")),
                         name_of_treated);

// ---- recordings that nobody wrote: real ones, changed at random. Each is refused in one line, or repeated to an end.
// The environment's MAILGRAD_FORGED_FILES says how many; else it is a slice of 10,000

slice forged_files() {
  const auto wanted = asked_number("MAILGRAD_FORGED_FILES");
  return wanted ? slice(0, *wanted) : slice_of(10'000);
}

std::string written(const recording& r) {
  std::stringbuf bytes;
  recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", r.header);
  for (const recorded_switch& s : r.end.switches) writer.add_switch(s);
  std::vector<recorded_deal> deals;
  for (std::uint32_t w = 0; w < r.batches.size(); ++w)
    for (const std::uint64_t batch : r.batches[w]) deals.push_back({{w}, batch});
  writer.add_deals(deals);
  for (std::uint32_t s = 0; s < r.entries.size(); ++s) writer.add_entries(s, r.entries[s]);
  if (!r.killed) writer.end(r.end);
  return bytes.str();
}

class forger {
public:
  explicit forger(std::uint64_t seed) : random_(seed) {}
  /// Bytes, whatever they mean.
  std::string change_bytes(std::string bytes) {
    for (std::size_t n = 1 + below(3); n > 0 && !bytes.empty(); --n) change_some(bytes);
    if (below(4) > 0) repair_checksum(bytes);
    return bytes;
  }
  /// What bytes mean; all checksums are right.
  recording change_fields(recording r) {
    for (std::size_t n = 1 + below(3); n > 0; --n) change_one(r);
    return r;
  }

private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void change_some(std::string& bytes) {
    const std::size_t at = below(bytes.size());
    const std::size_t some = std::min(bytes.size() - at, 1 + below(40));
    const std::function<void()> changes[]{[&] { bytes[at] = static_cast<char>(random_()); },
                                          [&] { bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); },
                                          [&] { bytes.erase(at, some); },
                                          [&] { bytes.insert(at, bytes.substr(at, some)); },
                                          [&] { bytes.resize(at); },
                                          [&] {
                                            std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                                        std::min<std::size_t>(some, 4), '\xff');
                                          }};
    changes[below(6)]();
  }

  static void repair_checksum(std::string& bytes) {
    constexpr std::string_view last = "recorded";
    if (!bytes.ends_with(last)) bytes += "sum " + std::string(last);
    if (bytes.size() < last.size() + 4) return;
    bytes.resize(bytes.size() - last.size() - 4);
    const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    append_number<4>(bytes, sum);
    bytes += last;
  }

  void change_one(recording& r) {
    const std::size_t what = below(8);
    if (what < 4) return change_entries(r.entries[below(r.entries.size())]);
    if (what == 4) return change_deals(r);
    if (what == 5) return change_switches(r);
    if (what == 6) {
      r.end.ended = std::array{"diverged", "stopped", "completed", "failed", "lost\n"}[below(5)];
      return;
    }
    if (below(4) == 0) r.entries.resize(1 + below(3));
    if (below(4) == 0) r.header.workers = static_cast<std::uint32_t>(below(6));
    if (below(8) == 0) r.end.lost.push_back(static_cast<std::uint32_t>(below(4)));
  }

  void change_entries(std::vector<order_entry>& entries) {
    if (entries.empty()) return;
    const std::size_t at = below(entries.size());
    order_entry& t = entries[at];
    const auto begin = entries.begin();
    const auto swap = [&] { std::swap(t, entries[below(entries.size())]); };
    const std::function<void()> changes[]{
        [&] { entries.erase(begin + static_cast<std::ptrdiff_t>(at)); },
        [&] { entries.insert(begin + static_cast<std::ptrdiff_t>(below(entries.size())), order_entry(t)); },
        swap,
        swap,
        [&] {
          if (at + 1 < entries.size()) std::swap(t, entries[at + 1]);
        },
        [&] { t.worker = {static_cast<std::uint32_t>(below(4))}; },
        [&] { t.step.value += below(3) - 1; },
        [&] { t.what = static_cast<entry_kind>(below(4)); },
        [&] { t.arrived = static_cast<std::int64_t>(random_()); }};
    changes[below(9)]();
  }

  void change_deals(recording& r) {
    std::vector<std::uint64_t>& mine = r.batches[below(r.batches.size())];
    std::vector<std::uint64_t>& other = r.batches[below(r.batches.size())];
    if (mine.empty()) return;
    const std::size_t at = below(mine.size());
    const std::function<void()> changes[]{
        [&] { mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at)); },
        [&] { mine.push_back(mine[at]); },
        [&] {
          other.push_back(mine.back());
          mine.pop_back();
        },
        [&] { std::swap(mine[at], other.empty() ? mine[0] : other[below(other.size())]); },
        [&] { mine[at] += below(30); }};
    changes[below(5)]();
  }

  void change_switches(recording& r) {
    std::vector<recorded_switch>& all = r.end.switches;
    if (all.empty() || below(6) == 0) {
      all.push_back({"sync", "forged", {1, 1, 1}, {1, 1, 1}});
      return;
    }
    recorded_switch& s = all[below(all.size())];
    const std::function<void()> changes[]{
        [&] { s.policy = std::array{"sync", "ssp:0", "async", "k-async:3", "backup:9", "none\n"}[below(6)]; },
        [&] {
          if (!s.batches.empty()) s.batches[below(s.batches.size())] = below(8);
        },
        [&] {
          if (!s.present.empty()) s.present[below(s.present.size())] ^= 1;
        },
        [&] { s.batches.resize(below(5)); },
        [&] { all.erase(all.begin() + static_cast<std::ptrdiff_t>(below(all.size()))); }};
    changes[below(5)]();
  }

  std::mt19937_64 random_;
};

class ForgedRecording : public RecordedRun {
protected:
  static std::vector<assembly> runs() {
    std::vector<assembly> all;
    for (const char* policy : {"async", "sync", "ssp:1", "backup:1", "k-async:2", "async, sync@4, ssp:1@8"})
      all.push_back({.policy = policy});
    all[0].local_steps = 2;
    all.emplace_back();
    return all;
  }
  /// What can be repeated of it; nothing, and one line, if it is refused.
  static std::shared_ptr<const recording> accepted(const assembly& a, const recording& r) {
    require_repeatable(r);
    if (r.header.workers != a.workers || r.entries.size() != a.shards)
      throw recording_error("another run"); // as require_same_run() says
    if (r.killed) return std::make_shared<const recording>(repeatable_part(r, terms_of(a)));
    require_replay_ends(r, terms_of(a));
    return std::make_shared<const recording>(r);
  }

  void expect_refusal_or_end(assembly a, const std::string& bytes, bool killed, std::uint64_t seed) {
    try {
      a.replayed = accepted(a, killed ? parse_killed_recording(bytes, "x") : parse_recording(bytes, "x"));
    } catch (const recording_error& e) {
      ++refused_;
      std::string why = std::string(e.what()).substr(0, 40);
      std::ranges::replace_if(
          why, [](char c) { return c >= '0' && c <= '9'; }, '#');
      ++reasons_[why];
      EXPECT_THAT(e.what(), ::testing::Not(::testing::HasSubstr("\n")));
      return;
    }
    ++(killed ? repeated_in_part_ : repeated_);
    drawn_order order(seed);
    const assembled_run run = assemble(a);
    deliver(order);
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
    if (run.times_ended() == 1) {
      const bool did_not_diverge_again = a.replayed->end.ended == "diverged";
      EXPECT_EQ(run.outcome().how,
                did_not_diverge_again && run.outcome().how != run_outcome::ending::completed
                    ? run_outcome::ending::failed
                    : run_outcome::ending::completed)
          << run.outcome().why;
    }
  }

  std::size_t refused_ = 0, repeated_ = 0, repeated_in_part_ = 0;
  std::map<std::string, std::size_t> reasons_;
};

TEST_F(ForgedRecording, IsRefusedInOneLineOrRepeatedToAnEnd) {
  const std::vector<assembly> all = runs();
  std::vector<recording> recorded;
  for (std::size_t i = 0; i < all.size(); ++i) recorded.push_back(finish(all[i], i).order);
  for (const std::uint64_t seed : forged_files()) {
    SCOPED_TRACE("file " + std::to_string(seed));
    forger change(seed);
    const std::size_t which = seed % all.size();
    recording r = recorded[which];
    r.killed = seed % 5 == 0;
    const bool by_bytes = seed / all.size() % 2 == 0;
    const std::string bytes = by_bytes ? change.change_bytes(written(r)) : written(change.change_fields(r));
    expect_refusal_or_end(all[which], bytes, r.killed, seed);
    if (HasFailure()) return;
  }
  std::cout << refused_ << " refused, " << repeated_ << " repeated, " << repeated_in_part_
            << " repeated as far as they go\n";
  for (const auto& [why, count] : reasons_) std::cout << "  " << count << "  " << why << '\n';
  EXPECT_GT(refused_, forged_files().size() / 4);
  EXPECT_GT(repeated_, forged_files().size() / 50);
  EXPECT_GT(repeated_in_part_, forged_files().size() / 50);
}

} // namespace
} // namespace mailgrad::testing
