#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/files/archive.hpp>

#include <algorithm>
#include <map>

namespace mailgrad {

/// Counts every gradient of a run by its fate.
struct gradient_ledger {
  std::uint64_t produced = 0;                       ///< finished by a worker
  std::uint64_t applied = 0;                        ///< made an update by itself
  std::uint64_t merged = 0;                         ///< made an update together with others
  std::map<std::string, std::uint64_t> discarded{}; ///< by reason
  std::uint64_t lost = 0; ///< with their worker or shard, or in a batch that was never complete

  std::uint64_t discarded_in_all() const;
  /// applied + merged + discarded + lost
  std::uint64_t accounted_for() const { return applied + merged + discarded_in_all() + lost; }
  bool balances() const { return produced == accounted_for(); }

  friend bool operator==(const gradient_ledger&, const gradient_ledger&) = default;

  void keep(archive& a) {
    a.fields({"produced", "applied", "merged", "discarded", "lost"}, produced, applied, merged, discarded,
             lost);
  }
};

/// "1876 produced = 1874 applied + 0 merged + 2 discarded (not finite 2) + 0 lost"
std::string to_string(const gradient_ledger& l);

/// Mean, least and greatest of a sampled figure.
class running_stat {
public:
  void add(double x) noexcept { merge({1, x, x, x}); }
  void merge(const running_stat& other) noexcept {
    if (other.empty()) return;
    least_ = empty() ? other.least_ : std::min(least_, other.least_);
    greatest_ = empty() ? other.greatest_ : std::max(greatest_, other.greatest_);
    count_ += other.count_;
    sum_ += other.sum_;
  }

  std::uint64_t count() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  /// These three are 0 if empty.
  double mean() const noexcept { return empty() ? 0 : sum_ / static_cast<double>(count_); }
  double least() const noexcept { return least_; }
  double greatest() const noexcept { return greatest_; }

  running_stat() = default;

  void keep(archive& a) { a.fields({"count", "sum", "least", "greatest"}, count_, sum_, least_, greatest_); }

private:
  running_stat(std::uint64_t count, double sum, double least, double greatest)
      : count_(count), sum_(sum), least_(least), greatest_(greatest) {}

  std::uint64_t count_ = 0;
  double sum_ = 0;
  double least_ = 0;
  double greatest_ = 0;
};

/// The durations of an activity, over all the times that it was measured.
class duration_stat {
public:
  void add(instant span) noexcept {
    ++count_;
    total_ += span;
    longest_ = std::max(longest_, span);
  }
  void merge(const duration_stat& other) noexcept {
    count_ += other.count_;
    total_ += other.total_;
    longest_ = std::max(longest_, other.longest_);
  }

  /// As a report tells it, in seconds; at most what an instant holds.
  static duration_stat of(std::uint64_t count, double total, double longest) noexcept {
    const auto span = [](double seconds) {
      return instant{static_cast<std::int64_t>(1e9 * std::min(seconds, 9e9) + 0.5)};
    };
    duration_stat t;
    t.count_ = count;
    t.total_ = span(total);
    t.longest_ = span(longest);
    return t;
  }

  std::uint64_t count() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  instant total() const noexcept { return total_; }
  instant longest() const noexcept { return longest_; }
  /// 0 if empty.
  double mean_seconds() const noexcept {
    return empty() ? 0 : in_seconds(total_) / static_cast<double>(count_);
  }

  void keep(archive& a) {
    a.field("count", count_);
    std::int64_t total = total_.count();
    std::int64_t longest = longest_.count();
    a.field("total_ns", total);
    a.field("longest_ns", longest);
    total_ = instant{total};
    longest_ = instant{longest};
  }

private:
  std::uint64_t count_ = 0;
  instant total_{0};
  instant longest_{0};
};

/// How long a worker worked on a gradient before it sent it; absent if nobody measured it.
struct gradient_times {
  std::optional<instant> read;    ///< getting the weights of this shard into the model
  std::optional<instant> compute; ///< forward, backward and clipping; of the whole model
  /// How long the worker's gradient before this one and its answer were between the processes, both together.
  std::optional<instant> wire{};
};

/// The time of gradients by activity. A part that was not measured is empty, not 0.
struct time_split {
  duration_stat read;    ///< getting the weights into the model
  duration_stat compute; ///< forward, backward and clipping
  duration_stat wire;    ///< between processes, both ways together
  duration_stat mailbox; ///< from sending until the shard takes the gradient from its mailbox
  duration_stat apply;   ///< the update; each gradient of a batch gets an equal share

  void merge(const time_split& other) noexcept {
    read.merge(other.read);
    compute.merge(other.compute);
    wire.merge(other.wire);
    mailbox.merge(other.mailbox);
    apply.merge(other.apply);
  }

  /// Adds a gradient that lay in the mailbox for `waited`, if that is known.
  void arrive(const gradient_times& times, std::optional<instant> waited) noexcept {
    if (times.read) read.add(*times.read);
    if (times.compute) compute.add(*times.compute);
    if (times.wire) wire.add(*times.wire);
    if (waited) mailbox.add(*waited);
  }

  void keep(archive& a) {
    a.fields({"read", "compute", "wire", "mailbox", "apply"}, read, compute, wire, mailbox, apply);
  }
};

} // namespace mailgrad
