#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

namespace mailgrad {

/// The coordinator's part in telling where a run stands. It asks shards and devices for copies of their
/// books, keeps the newest copy of each, and tells them when all have answered or the owner will wait no
/// longer. run_messages.hpp draws the protocol.
///
/// Guarantees  at most one question is under way to each actor, however often the owner asks, so no mailbox
///             grows while a step takes long. An actor that has ended is not waited for.
class book_keeper : messaging::actor_part {
public:
  /// Called with the number of a request and the books so far. Must not block.
  using teller = std::function<void(std::uint64_t request, const run_outcome& books)>;
  using switches = std::vector<policy_switch>;

  /// Shards that have not answered a request when it is told, or are lost, are told of as late, by `time`.
  /// `shards` may be empty if they tell no books. Without a teller, nothing is asked.
  /// Ranks from `workers` to `slots` - 1 have not joined yet, and are not told of before. `before` are the
  /// books, by rank, with which the others go on; empty: they begin.
  book_keeper(caf::event_based_actor* self, std::uint32_t workers, std::uint32_t slots,
              const std::vector<caf::actor>& shards, const std::vector<worker_report>& before, teller tell,
              std::shared_ptr<const time_source> time);

  void on_joined(rank worker, const caf::actor& device);
  /// A worker has ended or died. Its last report is its copy from now on, unless it is lost.
  void on_gone(const worker_report& report, bool lost, const switches& done);
  /// The newest copy of a worker that has joined or is expected.
  const worker_report& copy_of(rank worker) const { return books_.workers[worker.value]; }
  /// It has become known what a lost worker did.
  void on_counted(const worker_report& known) { books_.workers[known.worker.value] = known; }
  void on_shard_lost(shard_index shard, const switches& done);
  /// A shard has given its last report, which is its copy from now on, whatever becomes of it.
  void on_reported(const shard_report& x, const switches& done);

  /// Asks every actor that has no question to answer yet. `done` are the switches of policy so far, as in all
  /// others.
  void gather(std::uint64_t request, const switches& done);
  /// Tells the newest copies at once.
  void tell(std::uint64_t request, const switches& done) const;
  void take(const worker_books& x, const switches& done);
  void take(const shard_books& x, const switches& done);

private:
  /// An actor that keeps books.
  struct teller_of_books {
    caf::actor who; ///< null: it has not joined or has ended
    bool asked = false;
    std::uint64_t request = 0;  ///< the last one that the answer to come is for
    std::uint64_t answered = 0; ///< the last one that it has answered
    bool has_reported = false;  ///< a copy that comes now is older than its report
    std::optional<instant> told_at{};
  };

  /// A question that is under way serves this request as well.
  void ask(teller_of_books& whom) {
    if (!whom.who) return;
    whom.request = request_;
    if (!std::exchange(whom.asked, true)) send(whom.who, copy_books{});
  }
  static void note_answer(teller_of_books& from) {
    from.asked = false;
    from.answered = from.request;
  }
  void tell_if_all_answered(const switches& done);
  std::vector<late_figures> late_for(std::uint64_t request) const;

  teller tell_;
  std::shared_ptr<const time_source> time_;
  std::vector<teller_of_books> devices_; ///< by rank
  std::vector<teller_of_books> shards_;  ///< by index
  std::vector<shard_report> copies_;     ///< by index; of a shard that has told nothing without workers
  run_outcome books_;                    ///< of the workers that have joined or are expected
  std::uint64_t request_ = 0;            ///< the last one
  std::uint64_t told_ = 0;               ///< the last one that every actor had answered
};

} // namespace mailgrad
