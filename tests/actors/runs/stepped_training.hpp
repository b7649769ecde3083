#pragma once

#include <mailgrad/tests/actors/runs/message_texts.hpp>
#include <mailgrad/tests/actors/runs/shard_witness.hpp>
#include <mailgrad/tests/support/held_messages.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

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
  stepped_training(const stepped_training&) = delete;
  stepped_training& operator=(const stepped_training&) = delete;

  std::vector<posted> begin() override { return texts_of(messages_->begin()); }

  std::vector<posted> deliver(line on) override {
    if (roles_.is_shard(on.to)) witness_hears(on, messages_->first(on));
    const std::vector<held_messages::held> sent = messages_->deliver(on);
    if (roles_.is_shard(on.to)) witness_sees(on.to, sent);
    std::vector<posted> texts = texts_of(sent);
    if (on.to == roles_.coordinator() && run_->times_ended() > ends_told_) {
      ends_told_ = run_->times_ended();
      EXPECT_EQ(run_->outcome().how, run_outcome::ending::completed) << run_->outcome().why;
      expect_balanced(*run_);
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

} // namespace mailgrad::testing
