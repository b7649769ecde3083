#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>

namespace mailgrad {

struct waiting_gradient {
  push_gradient what;
  snapshot read;             ///< the weights it was computed from; empty unless the cure needs them
  std::uint64_t samples = 0; ///< it is of, or of as many steps as its worker took for it
};

/// Writes or reads the header of a gradient. The run and the epoch are not kept: they are those of the run
/// that goes on. Neither are its times, which a shard has counted when the gradient arrived.
void keep_header(archive& a, gradient_header& x);

/// Writes or reads a gradient as `at` needs it: of the dense part, the range of this shard. It is not copied.
/// Errors  archive_error: other lengths than the shard has.
void keep_gradient(archive& a, waiting_gradient& g, shard& at);

/// The gradients that wait at a shard in the order in which they came, each in memory of its own.
///
/// A lost gradient has an empty place, so that every shard takes those of the same workers and steps.
class gradient_queue {
public:
  bool empty() const noexcept { return places_.empty(); }
  std::size_t size() const noexcept { return present_; } ///< gradients, without the lost ones
  /// The number of gradients of `worker`.
  std::uint64_t of(rank worker) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        places_, [&](const auto& place) { return place && place->what.header.id.worker == worker; }));
  }

  void add(waiting_gradient g) {
    places_.emplace_back(std::move(g));
    ++present_;
  }
  void add_lost() { places_.emplace_back(); }
  /// Takes the first `places` off, or all if there are fewer. Returns the gradients among them.
  std::vector<waiting_gradient> take(std::size_t places);
  /// Writes or reads what waits. What is read is of `run` and of so many workers, as `at` needs it.
  /// Errors  archive_error: such a worker is not there; and those of keep_gradient().
  void keep(archive& a, run_id run, shard& at, std::size_t workers);

private:
  std::deque<std::optional<waiting_gradient>> places_;
  std::size_t present_ = 0; ///< places that are not empty
};

/// Checks that the gradients of an update, by worker, are one whole sum, if any of them is part of a sum.
/// Errors  std::runtime_error in one line that names worker and step: another carrier, another step or
///         another number of gradients than the first one says, or no gradient of the carrier.
void require_one_sum(std::span<const gradient_header> of_update);

/// The gradients that wait at a shard until it applies them in one update.
///
/// The first gradient of a worker is kept as it is. When the same worker sends another, both are added up and
/// released. A batch thus takes the memory of one gradient for each worker, however many gradients it has.
/// Where the shard has tables on a GPU, all gradients are kept as they are.
///
/// The update adds the gradients in the order of ranks, and those of one rank in the order of its steps. If
/// each worker sends one, the order of arrival does not change the bits. A policy that says whom it awaits
/// first lets those before it have their places in the sum. Where one of these is of a worker that shares
/// credit with others, all up to it are added up and released as soon as there are two, which changes no bit
/// either. A lower rank that joins after that is added behind them.
class gradient_batch {
public:
  /// Turns a gradient into a contribution to an update, with the cure. It is called once for each gradient.
  using counting = std::function<contribution(const waiting_gradient& g)>;
  /// The factor on each gradient of a worker, beside that on the whole sum; 1 for those that have places.
  using sharing = std::function<float(rank)>;
  /// Takes the contributions of an update, one for each gradient; null if another call has it in its sum.
  using taking = std::function<void(const gradient_header& x, const contribution* what)>;

  gradient_batch(std::shared_ptr<shard> weights, std::uint32_t workers);

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t samples() const noexcept { return samples_; } ///< of all its gradients
  /// The number of gradients of `worker`.
  std::uint64_t of(rank worker) const {
    const of_worker& w = workers_[worker.value];
    return w.summed.size() + w.further.size() + (w.alone ? 1 : 0) + (w.is_in_first ? 1 : 0);
  }
  std::size_t workers() const noexcept { return ranks_.size(); }

  void add(waiting_gradient g, const counting& count);
  /// The batch gets nothing more of ranks below `next`: what it has of them gets the next places in the sum.
  void give_places(rank next, const counting& count);
  /// Lets the credit go of gradients that are added up, or will be with their batch alone. Until then it is
  /// held, so that whoever gives credit can first be told whom the policy awaits now.
  void release_credit() { spent_.clear(); }
  /// Gives all gradients to `take`, scaled by shares, and empties the batch. Sums stay until the next add().
  /// Errors  those of require_one_sum().
  void hand_over(const sharing& share_of, const counting& count, const taking& take);
  /// Writes or reads the gradients that wait. When they are read, they are gradients of `run`.
  void keep(archive& a, run_id run);

private:
  struct of_worker {
    std::optional<waiting_gradient> alone; ///< the only gradient, or the first
    bool is_placed = false;                ///< this has a place
    bool is_in_first = false;              ///< one before that is added up with those of other workers
    std::vector<waiting_gradient> further; ///< where none are added up
    std::vector<gradient_header> summed;   ///< the gradients in `sum`
    std::unique_ptr<gradient_sum> sum;
  };

  /// The first of the sum, that have places.
  struct beginning {
    std::vector<rank> places{};            ///< whose gradients are not added up yet, in this order
    std::size_t credits = 0;               ///< of these
    std::vector<gradient_header> summed{}; ///< of those that are
    std::unique_ptr<gradient_sum> sum{};   ///< of these
    std::size_t searched = 0;              ///< no rank below has a gradient without a place
  };

  std::vector<gradient_header> headers() const;
  bool adds_up_next(std::size_t place) const;
  void add_up_placed(const counting& count);
  void spend(waiting_gradient& g) {
    if (auto credit = std::exchange(g.what.payload.credit, nullptr)) spent_.push_back(std::move(credit));
  }
  void keep(archive& a, of_worker& w, run_id run);
  void keep_beginning(archive& a, run_id run);
  void keep_further(archive& a, run_id run);
  /// The size of the batch is not known yet, so each gradient counts in full and the sum is scaled later. A
  /// cure that keeps state therefore sees these gradients before those of workers with one gradient.
  void add_up(of_worker& w, const waiting_gradient& g, const counting& count) {
    weights_->add_to(*w.sum, count(g));
    w.summed.push_back(g.what.header);
  }

  std::shared_ptr<shard> weights_;
  std::vector<of_worker> workers_;   ///< by rank
  std::vector<std::uint32_t> ranks_; ///< of the workers with a gradient; in no order
  beginning first_;
  std::vector<std::shared_ptr<const void>> spent_; ///< credit that is of no more use here
  std::size_t size_ = 0;
  std::uint64_t samples_ = 0;
  bool has_sums_ = false; ///< some gradient is part of a sum
};

/// The gradients that a shard keeps for all updates of a round, and beside them those of the next round.
///
/// A gradient is added to the sum of its worker at once, and released: each of the two takes the memory of
/// one for each worker. A gradient counts at its first update, for which its header waits.
/// Source  Maranjyan & Richtarik, Ringleader ASGD, ICLR 2026, arXiv:2509.22860: tables (G, b) and (G+, b+).
class gradient_table {
public:
  gradient_table(std::shared_ptr<shard> weights, std::uint32_t workers);
  /// Whether no gradient waits for its first update, in this round or in the next.
  bool nothing_waits() const noexcept { return !now_.waits && !next_.waits; }
  std::uint64_t of(rank worker) const; ///< the gradients of `worker` that wait for it
  /// Adds a gradient, which counts as `what`, to the present round or to the next one.
  void add(const push_gradient& x, const contribution& what) { add(now_, x, what); }
  void defer(const push_gradient& x, const contribution& what) { add(next_, x, what); }
  /// An update must be made, or the next round has one more, though the gradient itself is lost.
  void add_lost() { now_.waits = true; }
  void defer_lost() { next_.waits = true; }
  void drop_lost() { now_.waits = false; } ///< forgets that such a gradient waits in the present round
  /// Whether a gradient itself waits, and not only the place of one that is lost.
  bool has_waiting() const {
    const auto waits = [](const of_worker& w) { return !w.fresh.empty(); };
    return std::ranges::any_of(now_.workers, waits) || std::ranges::any_of(next_.workers, waits);
  }
  /// Calls `count` with each gradient of the present round that is in an update for the first time, by rank.
  void count_new(const std::function<void(const push_gradient&)>& count) {
    for (of_worker& w : now_.workers)
      for (const push_gradient& x : std::exchange(w.fresh, {})) count(x);
    now_.waits = false;
  }
  /// The mean of each worker's mean in the present round, (1/n) sum_i G_i / b_i, until a gradient is added.
  std::vector<contribution> means();
  /// Ends the present round. Returns at once if so many rounds are over.
  void begin_round(std::uint64_t rounds_over) {
    while (rounds_ < rounds_over) turn_over();
  }
  /// Ends the present round if all that waits is of the next one.
  void skip_to_waiting() {
    if (!now_.waits && next_.waits) turn_over();
  }
  void clear() {
    now_ = {};
    next_ = {};
    rounds_ = 0;
  }
  /// Writes or reads the sums and the gradients that wait. When they are read, they are gradients of `run`.
  void keep(archive& a, run_id run) {
    a.field("rounds", rounds_);
    a.group("now", [&] { keep(a, now_, run); });
    a.group("next", [&] { keep(a, next_, run); });
  }

private:
  struct of_worker {
    std::unique_ptr<gradient_sum> sum;
    std::uint64_t gradients = 0;      ///< in the sum
    std::vector<push_gradient> fresh; ///< those of them that are in no update yet, without their values
  };
  struct round {
    std::vector<of_worker> workers; ///< by rank; empty until there is a gradient
    bool waits = false;             ///< for an update, as a gradient or as the place of a lost one
  };

  void add(round& to, const push_gradient& x, const contribution& what);
  void turn_over();
  void keep(archive& a, round& of, run_id run);
  void keep(archive& a, of_worker& w, run_id run);

  std::shared_ptr<shard> weights_;
  std::uint32_t workers_;
  round now_, next_;
  std::uint64_t rounds_ = 0; ///< that are over
};

} // namespace mailgrad
