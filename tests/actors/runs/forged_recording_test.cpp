#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

// Recordings that nobody wrote: real ones, changed at random. Each is refused in one line, or repeated to an
// end. The environment's MAILGRAD_FORGED_FILES says how many; else it is a slice of 10,000.

namespace mailgrad {
namespace {

using testing::assembled_run;
using testing::assembly;
using testing::finished_run;
using testing::RecordedRun;
using testing::terms_of;
using kind = order_entry::kind;

/// Their seeds.
testing::slice forged_files() {
  const auto wanted = testing::asked_number("MAILGRAD_FORGED_FILES");
  return wanted ? testing::slice(0, *wanted) : testing::slice_of(10'000);
}

/// A recording as its bytes are.
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

/// Changes recordings.
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
    switch (below(6)) {
    case 0:
      bytes[at] = static_cast<char>(random_());
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 2:
      bytes.erase(at, some);
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, some));
      break;
    case 4:
      bytes.resize(at);
      break;
    default:
      for (std::size_t i = at; i < at + std::min<std::size_t>(some, 4); ++i) bytes[i] = '\xff';
    }
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
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return change_entries(r.entries[below(r.entries.size())]);
    case 4:
      return change_deals(r);
    case 5:
      return change_switches(r);
    case 6:
      r.end.ended = std::array{"diverged", "stopped", "completed", "failed", "lost\n"}[below(5)];
      return;
    default:
      if (below(4) == 0) r.entries.resize(1 + below(3));
      if (below(4) == 0) r.header.workers = static_cast<std::uint32_t>(below(6));
      if (below(8) == 0) r.end.lost.push_back(static_cast<std::uint32_t>(below(4)));
    }
  }

  void change_entries(std::vector<order_entry>& entries) {
    if (entries.empty()) return;
    const std::size_t at = below(entries.size());
    order_entry& t = entries[at];
    switch (below(9)) {
    case 0:
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(below(entries.size())), order_entry(t));
      break;
    case 2:
    case 3:
      std::swap(t, entries[below(entries.size())]);
      break;
    case 4:
      if (at + 1 < entries.size()) std::swap(t, entries[at + 1]);
      break;
    case 5:
      t.worker = {static_cast<std::uint32_t>(below(4))};
      break;
    case 6:
      t.step.value += below(3) - 1;
      break;
    case 7:
      t.what = static_cast<kind>(below(4));
      break;
    default:
      t.arrived = static_cast<std::int64_t>(random_());
    }
  }

  void change_deals(recording& r) {
    std::vector<std::uint64_t>& mine = r.batches[below(r.batches.size())];
    std::vector<std::uint64_t>& other = r.batches[below(r.batches.size())];
    if (mine.empty()) return;
    const std::size_t at = below(mine.size());
    switch (below(5)) {
    case 0:
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      mine.push_back(mine[at]);
      break;
    case 2:
      other.push_back(mine.back());
      mine.pop_back();
      break;
    case 3:
      std::swap(mine[at], other.empty() ? mine[0] : other[below(other.size())]);
      break;
    default:
      mine[at] += below(30);
    }
  }

  void change_switches(recording& r) {
    std::vector<recorded_switch>& all = r.end.switches;
    if (all.empty() || below(6) == 0) {
      all.push_back({"sync", "forged", {1, 1, 1}, {1, 1, 1}});
      return;
    }
    recorded_switch& s = all[below(all.size())];
    switch (below(5)) {
    case 0:
      s.policy = std::array{"sync", "ssp:0", "async", "k-async:3", "backup:9", "none\n"}[below(6)];
      break;
    case 1:
      if (!s.batches.empty()) s.batches[below(s.batches.size())] = below(8);
      break;
    case 2:
      if (!s.present.empty()) s.present[below(s.present.size())] ^= 1;
      break;
    case 3:
      s.batches.resize(below(5));
      break;
    default:
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(below(all.size())));
    }
  }

  std::mt19937_64 random_;
};

struct fates {
  std::size_t refused = 0;
  std::size_t repeated = 0;
  std::size_t repeated_in_part = 0;
};

class ForgedRecording : public RecordedRun {
protected:
  static std::vector<assembly> runs() {
    std::vector<assembly> all;
    for (const char* policy : {"async", "sync", "ssp:1", "backup:1", "k-async:2", "async, sync@4, ssp:1@8"}) {
      assembly a;
      a.policy = policy;
      all.push_back(a);
    }
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
      ++fates_.refused;
      std::string why = std::string(e.what()).substr(0, 40);
      std::ranges::replace_if(
          why, [](char c) { return c >= '0' && c <= '9'; }, '#');
      ++reasons_[why];
      EXPECT_THAT(e.what(), ::testing::Not(::testing::HasSubstr("\n")));
      return;
    }
    ++(killed ? fates_.repeated_in_part : fates_.repeated);
    testing::drawn_order order(seed);
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

  fates fates_;
  std::map<std::string, std::size_t> reasons_;
};

TEST_F(ForgedRecording, IsRefusedInOneLineOrRepeatedToAnEnd) {
  const std::vector<assembly> all = runs();
  std::vector<recording> recorded;
  for (std::size_t i = 0; i < all.size(); ++i) recorded.push_back(finish(all[i], i)->order);
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
  std::cout << fates_.refused << " refused, " << fates_.repeated << " repeated, " << fates_.repeated_in_part
            << " repeated as far as they go\n";
  for (const auto& [why, count] : reasons_) std::cout << "  " << count << "  " << why << '\n';
  EXPECT_GT(fates_.refused, forged_files().size() / 4);
  EXPECT_GT(fates_.repeated, forged_files().size() / 50);
  EXPECT_GT(fates_.repeated_in_part, forged_files().size() / 50);
}

} // namespace
} // namespace mailgrad
