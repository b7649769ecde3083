#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Every policy against the loop of its paper, gradient by gradient: what becomes of each, which version it
// meets, and who starts when. Workers are uneven, and two of them leave. The loops call nothing of the code
// under test.

namespace mailgrad {
namespace {

/// A worker as a server sees it.
struct worker_state {
  bool present = true;
  bool computes = true;
  std::uint64_t steps = 0; ///< gradients that it has sent and that were not refused
  std::uint64_t version_read = 0;
};

/// What a server knows, and what all its policies share.
struct server {
  std::uint64_t version = 0;
  std::vector<worker_state> workers;
  std::vector<std::size_t> batch; ///< who sent the gradients in it

  std::size_t present() const {
    return static_cast<std::size_t>(std::ranges::count(workers, true, &worker_state::present));
  }
  bool in_batch(std::size_t w) const { return std::ranges::find(batch, w) != batch.end(); }
  /// Workers of whom a batch has a gradient or may still get one.
  std::size_t possible() const {
    std::size_t n = 0;
    for (std::size_t w = 0; w < workers.size(); ++w) n += workers[w].present || in_batch(w) ? 1 : 0;
    return n;
  }
  std::uint64_t slowest() const {
    std::uint64_t least = ~std::uint64_t{0};
    for (const worker_state& w : workers)
      if (w.present) least = std::min(least, w.steps);
    return least;
  }
};

/// What a paper says: whether a gradient of a delay is taken, after how many an update is made, who may
/// start.
struct rule {
  const char* text;
  std::function<bool(std::uint64_t delay)> takes = [](std::uint64_t) { return true; };
  std::function<bool(const server&)> complete{}; ///< empty: each gradient is an update
  std::function<bool(const server&, std::size_t worker)> starts = [](const server&, std::size_t) {
    return true;
  };
  std::size_t of_batch = 0; ///< how many of the first in the batch an update takes; 0: all
};

bool is_fresh(std::uint64_t delay) { return delay == 0; }

bool has_no_gradient_waiting(const server& s, std::size_t w) { return !s.in_batch(w); }

std::function<bool(const server&)> all_but(std::size_t missing) {
  return [=](const server& s) { return s.batch.size() + missing >= std::max(s.possible(), missing + 1); };
}

std::function<bool(const server&)> distinct(std::size_t k) {
  return [=](const server& s) { return s.batch.size() >= std::min(k, s.possible()); };
}

std::function<bool(const server&)> any(std::size_t k) {
  return [=](const server& s) { return s.batch.size() == k || s.present() == 0; };
}

std::function<bool(const server&)> more_than(std::size_t q) {
  return [=](const server& s) { return s.batch.size() > q || s.present() == 0; };
}

/// Malenia SGD: some gradient of every worker that is there, and a harmonic mean of S / n.
std::function<bool(const server&)> harmonic(double s) {
  return [=](const server& at) {
    double n = 0, sum = 0;
    for (std::size_t w = 0; w < at.workers.size(); ++w) {
      const auto b = static_cast<double>(std::ranges::count(at.batch, w));
      if (b == 0 && at.workers[w].present) return false;
      n += b > 0 ? 1 : 0;
      sum += b > 0 ? 1 / b : 0;
    }
    return at.present() == 0 || n / sum > s / n - 1e-9;
  };
}

std::function<bool(const server&, std::size_t)> at_most_ahead(std::uint64_t bound) {
  return [=](const server& s, std::size_t w) { return s.workers[w].steps - s.slowest() <= bound; };
}

const auto everything = [](std::uint64_t) { return true; };
const auto everybody = [](const server&, std::size_t) { return true; };

std::vector<rule> every_policy_rule() {
  return {
      {"async"},
      {"sync", everything, all_but(0), has_no_gradient_waiting},
      {"backup:1", is_fresh, all_but(1), has_no_gradient_waiting},
      {"backup:2", is_fresh, all_but(2), has_no_gradient_waiting},
      {"k-async:1", everything, distinct(1), has_no_gradient_waiting},
      {"k-async:3", everything, distinct(3), has_no_gradient_waiting},
      {"k-async:5", everything, distinct(5), has_no_gradient_waiting},
      {"k-batch-async:1", everything, any(1), everybody},
      {"k-batch-async:4", everything, any(4), everybody},
      {"quorum:3", everything, distinct(3), has_no_gradient_waiting},
      {"quorum:5", everything, distinct(5), has_no_gradient_waiting},
      {"queue:1,5", everything, more_than(5), everybody, 1},
      {"queue:3,4", everything, more_than(4), everybody, 3},
      {"k-batch-sync:3", is_fresh, any(3), everybody},
      {"rennala:6", is_fresh, any(6), everybody},
      {"malenia:1", is_fresh, harmonic(1), everybody},
      {"malenia:12", is_fresh, harmonic(12), everybody},
      {"ringmaster:1", [](std::uint64_t delay) { return delay < 1; }},
      {"ringmaster:3", [](std::uint64_t delay) { return delay < 3; }},
      {"ssp:0", everything, nullptr, at_most_ahead(0)},
      {"ssp:1", everything, nullptr, at_most_ahead(1)},
      {"ssp:3", everything, nullptr, at_most_ahead(3)},
      // Equal bounds leave nothing to predict.
      {"dssp:2,2", everything, nullptr, at_most_ahead(2)},
  };
}

/// The server by the paper, and the policy beside it that is asked the same.
class both {
public:
  both(const rule& r, std::uint32_t workers) : rule_(r), policy_(make_policy(r.text, workers)) {
    s_.workers.resize(workers);
    for (std::uint32_t w = 0; w < workers; ++w) policy_->join({w});
  }

  bool computes(std::size_t w) const { return s_.workers[w].present && s_.workers[w].computes; }
  bool idle() const {
    return std::ranges::none_of(s_.workers, [](const worker_state& w) { return w.present && w.computes; });
  }

  void gradient_of(std::uint32_t w, std::int64_t now) {
    worker_state& sender = s_.workers[w];
    sender.computes = false;
    const std::uint64_t delay = s_.version - sender.version_read;
    const bool taken = rule_.takes(delay);
    const verdict expected = !taken ? verdict::discard : rule_.complete ? verdict::merge : verdict::apply;
    ASSERT_EQ(policy_->judge({{w}, sender.steps + 1, sender.version_read, s_.version, now}).what, expected)
        << "worker " << w << ", delay " << delay;
    ASSERT_EQ(taken, !policy_->most_stale() || delay <= *policy_->most_stale()) << "as predicted";
    if (taken) ++sender.steps;
    if (taken && rule_.complete) s_.batch.push_back(w);
    if (taken && !rule_.complete) ++s_.version;
    end_of_event();
  }

  void leaves(std::uint32_t w) {
    s_.workers[w].present = false;
    policy_->leave({w});
    end_of_event();
  }

  std::uint64_t version() const { return s_.version; }

private:
  void end_of_event() {
    for (bool complete = true; complete;) {
      complete = rule_.complete && !s_.batch.empty() && rule_.complete(s_);
      ASSERT_EQ(policy_->batch_complete(), complete) << s_.batch.size() << " in the batch";
      if (!complete) break;
      const std::size_t taken = rule_.of_batch == 0 ? s_.batch.size() : rule_.of_batch;
      s_.batch.erase(s_.batch.begin(),
                     s_.batch.begin() + static_cast<std::ptrdiff_t>(std::min(taken, s_.batch.size())));
      ++s_.version;
      policy_->batch_applied();
    }
    for (std::uint32_t w = 0; w < s_.workers.size(); ++w) {
      worker_state& x = s_.workers[w];
      if (!x.present || x.computes) continue;
      const bool starts = rule_.starts(s_, w);
      ASSERT_EQ(policy_->may_start({w}), starts) << "worker " << w;
      if (!starts) continue;
      x.computes = true;
      x.version_read = s_.version;
    }
  }

  const rule& rule_;
  std::unique_ptr<policy> policy_;
  server s_;
};

/// The worker whose turn it is: 0 comes far more often than 4.
std::uint32_t drawn(std::uint64_t& seed) {
  constexpr std::uint32_t often[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4};
  seed = seed * 6364136223846793005U + 1442695040888963407U;
  return often[(seed >> 33) % std::size(often)];
}

TEST(PolicyOracles, EveryPolicyDecidesAsItsPaperSays) {
  for (const rule& r : every_policy_rule()) {
    SCOPED_TRACE(r.text);
    both server_and_policy(r, 5);
    std::uint64_t seed = 3;
    for (std::int64_t event = 1; event <= 1200; ++event) {
      SCOPED_TRACE("event " + std::to_string(event));
      std::uint32_t w = drawn(seed);
      for (int tries = 0; tries < 100 && !server_and_policy.computes(w); ++tries) w = drawn(seed);
      if (event == 360) server_and_policy.leaves(4);
      if (event == 680) server_and_policy.leaves(0);
      if (server_and_policy.computes(w)) server_and_policy.gradient_of(w, event * 1000);
      if (HasFatalFailure()) return;
      ASSERT_FALSE(server_and_policy.idle()) << "nobody computes, so nothing would ever happen";
    }
    for (const std::uint32_t w : {2U, 1U, 3U}) server_and_policy.leaves(w); // what lies in a batch is applied
    if (HasFatalFailure()) return;
    EXPECT_GT(server_and_policy.version(), 30U);
  }
}

// Shards may judge by themselves if every gradient is applied, or waits for one of each worker.
TEST(PolicyOracles, EveryPolicySaysWhatItsShardsMustKnow) {
  for (const rule& r : every_policy_rule()) {
    const auto p = make_policy(r.text, 5);
    const bool drops = !r.takes(1000);
    const bool waits_for_all = r.text == std::string_view("sync");
    EXPECT_EQ(p->takes_first(), r.of_batch) << r.text;
    EXPECT_EQ(p->makes_batches(), static_cast<bool>(r.complete)) << r.text;
    EXPECT_EQ(p->shards_agree(), drops || (r.complete && !waits_for_all)) << r.text;
    if (drops == static_cast<bool>(r.complete)) {
      EXPECT_EQ(p->always_fresh(), drops) << r.text;
    }
  }
}

} // namespace
} // namespace mailgrad
