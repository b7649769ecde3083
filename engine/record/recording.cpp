#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/text.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace mailgrad::recording_file {

namespace {

/// Parses a recording whose last checksum is right, or one of a killed run as far as those of its parts are.
class parser {
public:
  parser(std::string_view bytes, const std::string& name) : all_(bytes), rest_(bytes), name_(name) {}

  recording parse() {
    return guarded([this] {
      take_header();
      while (take_part()) {
      }
      if (!rest_.empty()) fail(fmt::format("goes on after its end, by {} bytes", rest_.size()));
    });
  }

  recording parse_killed() {
    return guarded([this] {
      r_.killed = true;
      const std::size_t head = first_word.size() + 8;
      if (rest_.size() < head || !is_whole(head + number_in<4>(rest_.substr(head - 4))))
        fail("has no whole header: its run was killed before it had written one");
      take_header();
      while (part_is_whole()) take_part();
    });
  }

private:
  [[noreturn]] void fail(const std::string& why) const { refuse(name_, why); }

  template <class Steps>
  recording guarded(Steps steps) {
    r_.name = name_;
    try {
      steps();
    } catch (const json::exception& e) {
      fail("holds a text that cannot be read: " + std::string(e.what()));
    }
    return std::move(r_);
  }

  void take_header() {
    take(first_word.size() + 4);
    r_.header = header_from(parsed(take(take_number())));
    take(checksum_bytes);
    size_lists();
  }

  /// Whether so many bytes follow, and then the right checksum of all bytes before it.
  bool is_whole(std::size_t bytes) {
    if (rest_.size() < bytes + checksum_bytes) return false;
    const std::size_t end = all_.size() - rest_.size() + bytes;
    checksum_ = crc(checksum_, all_.substr(summed_, end - summed_));
    summed_ = end;
    return number_in<4>(all_.substr(end)) == checksum_;
  }
  /// Whether a whole part follows. An end does not count, because the recording of a killed run has none.
  bool part_is_whole() {
    if (rest_.size() < 8) return false;
    const auto source = static_cast<std::uint32_t>(number_in<4>(rest_));
    const std::size_t count = number_in<4>(rest_.substr(4));
    return source != end_source && is_whole(8 + count * bytes_of_entry(source));
  }
  static std::size_t bytes_of_entry(std::uint32_t source) {
    if (source == switch_source || source == end_source) return 1;
    return is_of_feeder(source) ? deal_bytes : entry_bytes;
  }
  static bool is_of_feeder(std::uint32_t source) {
    return source == feeder_source || source == begun_source || source == returned_source;
  }

  std::string_view take(std::size_t bytes) {
    if (rest_.size() < bytes)
      fail(fmt::format("is damaged: expected {} bytes more, found {}", bytes, rest_.size()));
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  json parsed(std::string_view text) const {
    if (is_too_deep(text)) fail("holds a text that is nested too deep");
    return json::parse(whole_json(text));
  }
  std::uint32_t take_number() { return static_cast<std::uint32_t>(number_in<4>(take(4))); }

  void size_lists() {
    if (r_.header.workers == 0 || r_.header.ranks() > most_workers || r_.header.shards == 0 ||
        r_.header.shards > most_workers)
      fail(fmt::format("is of {} workers and {} shards; expected 1 to 65536 of each", r_.header.workers,
                       r_.header.shards));
    r_.batches.resize(r_.header.ranks());
    r_.incarnations.resize(r_.header.ranks());
    r_.entries.resize(r_.header.shards);
  }

  bool take_part() {
    const std::uint32_t source = take_number();
    const std::size_t count = take_number();
    if (source == end_source)
      r_.end = end_from(parsed(take(count)), std::move(r_.end.switches));
    else if (source == switch_source)
      r_.end.switches.push_back(switch_from(parsed(take(count))));
    else if (is_of_feeder(source))
      take_deals(source, count);
    else
      take_entries(source, count);
    take(checksum_bytes);
    return source != end_source;
  }

  rank known(std::uint64_t worker) const {
    if (worker >= r_.header.ranks()) fail(fmt::format("names worker {} of {}", worker, r_.header.ranks()));
    return {static_cast<std::uint32_t>(worker)};
  }

  void take_deals(std::uint32_t source, std::size_t count) {
    for (std::string_view all = take(count * deal_bytes); !all.empty(); all.remove_prefix(deal_bytes)) {
      const rank worker = known(number_in<2>(all));
      const std::uint64_t number = number_in<6>(all.substr(2));
      if (source == begun_source)
        begin_incarnation(worker, number);
      else if (source == returned_source)
        take_back(worker, number);
      else
        r_.batches[worker.value].push_back(number);
    }
  }

  void begin_incarnation(rank worker, std::uint64_t incarnation) {
    std::vector<dealt_incarnation>& incarnations = r_.incarnations[worker.value];
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    if (incarnation > most)
      fail(fmt::format("lets worker {} begin as incarnation {}; expected at most {}", worker.value,
                       incarnation, most));
    if (!incarnations.empty() && incarnation <= incarnations.back().incarnation.value)
      fail(fmt::format("lets worker {} begin as incarnation {} after {}", worker.value, incarnation,
                       incarnations.back().incarnation.value));
    incarnations.push_back({{static_cast<std::uint32_t>(incarnation)}, r_.batches[worker.value].size()});
  }

  /// What a worker has not trained is as if it had not been dealt it.
  void take_back(rank worker, std::uint64_t number) {
    std::vector<std::uint64_t>& batches = r_.batches[worker.value];
    std::vector<dealt_incarnation>& incarnations = r_.incarnations[worker.value];
    const auto last = std::ranges::find(batches.rbegin(), batches.rend(), number);
    if (last == batches.rend())
      fail(fmt::format("takes batch {} back from worker {}, which it was not dealt", number, worker.value));
    const auto at = static_cast<std::size_t>(batches.rend() - last) - 1;
    if (incarnations.empty() || incarnations.front().first > at)
      incarnations.insert(incarnations.begin(), dealt_incarnation{});
    for (dealt_incarnation& one : incarnations)
      if (one.first > at) --one.first;
    std::ranges::find_if(incarnations.rbegin(), incarnations.rend(), [&](const dealt_incarnation& one) {
      return one.first <= at;
    })->cut = true;
    batches.erase(batches.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void take_entries(std::uint32_t shard, std::size_t count) {
    if (shard >= r_.header.shards) fail(fmt::format("names shard {} of {}", shard, r_.header.shards));
    for (std::string_view all = take(count * entry_bytes); !all.empty(); all.remove_prefix(entry_bytes)) {
      const auto kind = static_cast<unsigned char>(all[0]);
      if (kind > static_cast<unsigned char>(order_entry::kind::switched) &&
          kind != static_cast<unsigned char>(order_entry::kind::missed) &&
          kind != static_cast<unsigned char>(order_entry::kind::closed))
        fail(fmt::format("holds a turn of kind {}; expected 0 to 3, 5 or 6", kind));
      const auto arrived = number_in<8>(all.substr(8));
      if (arrived > latest_time)
        fail(fmt::format("holds a turn at {} ns; expected at most {}", arrived, latest_time));
      r_.entries[shard].push_back({static_cast<order_entry::kind>(kind),
                                   known(number_in<2>(all.substr(1))),
                                   {number_in<5>(all.substr(3))},
                                   {},
                                   static_cast<std::int64_t>(arrived)});
    }
  }

  std::string_view all_;
  std::string_view rest_;
  const std::string& name_;
  unsigned long checksum_ = 0; ///< of the first `summed_` bytes
  std::size_t summed_ = 0;
  recording r_;
};

void require_known(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(first_word)) refuse(name, "is no recording: it does not begin with 'mgradrec'");
  if (bytes.size() < first_word.size() + 4) refuse(name, "is cut short: it has no format");
  const std::uint64_t format = number_in<4>(bytes.substr(first_word.size()));
  if (format != known_format)
    refuse(name, fmt::format("has format {}; this version reads format {}", format, known_format));
}

std::string hint_at_partial(const std::string& path) {
  const std::string partial = replaced_file::partial(path);
  return std::filesystem::exists(partial)
             ? " (a run that was killed, or has not ended, left '" + partial + "')"
             : "";
}

bool is_of_killed(const std::string& path) {
  return path.ends_with(replaced_file::partial("")) || path.ends_with(killed_suffix) ||
         path.ends_with(before_suffix);
}

class shard_check {
public:
  shard_check(const recording& r, const recorded_incarnations& incarnations, std::size_t shard)
      : r_(r), incarnations_(incarnations), shard_(shard), workers_(incarnations.ranks()) {}

  /// Checks all entries. Returns the last step that the shard took of each worker that was not cut short.
  std::vector<std::uint64_t> last_steps() {
    for (const order_entry& t : r_.entries[shard_]) check(t);
    if (r_.killed ? switches_ > r_.end.switches.size() : switches_ != r_.end.switches.size())
      refuse(r_.name,
             fmt::format("has {} switches; shard {} made {}", r_.end.switches.size(), shard_, switches_));
    std::vector<std::uint64_t> steps(workers_.size());
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (incarnations_.of(w).empty() || incarnations_.of(w).back().cut) continue;
      const bool joined = workers_[w].incarnation == incarnations_.of(w).back().incarnation;
      if (!r_.killed && (!joined || !workers_[w].left))
        refuse(r_.name, fmt::format("lacks a turn: worker {} never {} shard {}", w,
                                    joined ? "leaves" : "joins", shard_));
      steps[w] = workers_[w].step;
    }
    return steps;
  }

private:
  struct worker {
    std::optional<incarnation_number> incarnation{}; ///< that joined last
    bool left = false;
    std::uint64_t step = 0;
    std::optional<incarnation_number> counted{}; ///< as present by the last switch, but was lost
  };

  void check(const order_entry& t) {
    ++entry_;
    if (t.what == order_entry::kind::switched) return begin_policy();
    if (t.what == order_entry::kind::closed) return; // of no worker
    worker& w = workers_[t.worker.value];
    if (t.what == order_entry::kind::joined) {
      if (w.incarnation && (!w.left || t.incarnation() <= *w.incarnation)) refuse_entry(t, "joins again");
      w = {t.incarnation()};
    } else if (t.what == order_entry::kind::left && is_expected(w, t)) {
      let_go(w, t.incarnation());
    } else if (!w.incarnation || w.left) {
      refuse_entry(t, w.left ? "comes after it has left" : "comes before it joins");
    } else if (t.what == order_entry::kind::left) {
      w.left = true;
    } else if (t.step.value != w.step + 1) {
      refuse_entry(t, fmt::format("has step {}; expected step {}", t.step.value, w.step + 1));
    } else {
      w.step = t.step.value;
    }
  }

  void begin_policy() {
    for (std::size_t w = 0; w < workers_.size() && switches_ < r_.end.switches.size(); ++w) {
      const bool present = r_.end.switches[switches_].present[w] != 0;
      const recorded_incarnation* there = present ? incarnations_.before_switch(w, switches_) : nullptr;
      workers_[w].counted = there != nullptr && there->cut ? std::optional(there->incarnation) : std::nullopt;
    }
    ++switches_;
  }

  static void let_go(worker& w, incarnation_number incarnation) {
    if (!w.incarnation || *w.incarnation < incarnation) w = {incarnation};
    w.left = true;
    w.counted.reset();
  }

  /// A worker that the run began with may leave without having come. So may one that a switch counts as
  /// present although it was lost meanwhile, and it leaves once more if the shard had known that.
  bool is_expected(const worker& w, const order_entry& t) const {
    if (w.counted == t.incarnation()) return true;
    const bool of_the_beginning =
        t.worker.value < r_.header.workers && t.incarnation() == incarnation_number{};
    return !w.incarnation && !w.left && of_the_beginning && incarnations_.of(t.worker.value).front().cut;
  }

  [[noreturn]] void refuse_entry(const order_entry& t, const std::string& why) const {
    refuse(r_.name, fmt::format("has turns of worker {} out of order: turn {} of shard {} {}", t.worker.value,
                                entry_, shard_, why));
  }

  const recording& r_;
  const recorded_incarnations& incarnations_;
  std::size_t shard_;
  std::vector<worker> workers_;
  std::size_t switches_ = 0;
  std::size_t entry_ = 0; ///< counted from 1
};

/// Sorts the deals by number, so that a batch dealt twice makes two equal neighbours.
void require_each_batch_once(const recording& r) {
  std::vector<std::pair<std::uint64_t, std::size_t>> deals;
  for (std::size_t w = 0; w < r.batches.size(); ++w)
    for (const std::uint64_t number : r.batches[w]) deals.emplace_back(number, w);
  std::ranges::sort(deals);
  const auto twice = std::ranges::adjacent_find(deals, {}, &std::pair<std::uint64_t, std::size_t>::first);
  if (twice != deals.end())
    refuse(r.name, fmt::format("deals batch {} twice: to worker {} and to worker {}", twice->first,
                               twice->second, std::next(twice)->second));
}

void require_whole(const recording& r, const recorded_incarnations& incarnations) {
  if (r.end.ended == "failed")
    refuse(r.name, "is of a run that failed (" + r.end.why + "): it cannot be repeated");
  if (r.killed && incarnations.any_change())
    refuse(r.name, "was not completed, and workers had come or gone: it cannot be repeated");
}

/// Refuses an unknown policy, and hogwild, which has no order to repeat.
void require_policy_of(const recording& r, const recorded_switch& s) {
  try {
    make_policy(s.policy, r.header.ranks());
  } catch (const std::invalid_argument& e) {
    refuse(r.name, "has a switch that cannot be: " + std::string(e.what()));
  }
}

void require_right_switches(const recording& r, const recorded_incarnations& incarnations) {
  std::vector<std::uint64_t> before(r.header.ranks());
  for (std::size_t i = 0; i < r.end.switches.size(); ++i) {
    const recorded_switch& s = r.end.switches[i];
    require_policy_of(r, s);
    const bool fits = s.batches.size() == r.header.ranks() && s.present.size() == r.header.ranks();
    if (!fits || std::ranges::count(s.present, 0) == r.header.ranks())
      refuse(r.name, "has a switch to '" + s.policy + "' without its workers");
    for (std::size_t w = 0; w < before.size(); ++w) {
      if (s.present[w] == 0) continue;
      const std::uint64_t most =
          r.killed ? std::numeric_limits<std::uint64_t>::max() : r.batches[w].size(); // deals may be missing
      const std::uint64_t trained = incarnations.batches_before(s, i, w);
      if (trained < before[w] || trained > most)
        refuse(r.name, fmt::format("switches worker {} after batch {}; expected {}{}", w, trained, before[w],
                                   r.killed ? " or more" : fmt::format(" to {}", most)));
      before[w] = trained;
    }
  }
}

std::string part(std::uint32_t source, std::size_t count) {
  std::string bytes;
  append_number<4>(bytes, source);
  append_number<4>(bytes, count);
  return bytes;
}

std::uint32_t source_of(recorded_deal::kind what) {
  switch (what) {
  case recorded_deal::kind::begun:
    return begun_source;
  case recorded_deal::kind::returned:
    return returned_source;
  case recorded_deal::kind::dealt:
    break;
  }
  return feeder_source;
}

/// Renames the recording of a killed run, as a script may start the next run before a user has looked at it;
/// else the next run is refused. If an older one is kept already, the newer one is overwritten.
void keep_killed(const std::string& path) {
  const std::string real = replaced_file::without_links(path);
  const std::string partial = replaced_file::partial(real), kept = real + std::string(killed_suffix);
  std::string begin(first_word.size(), '\0');
  std::ifstream(partial, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (begin != first_word || std::filesystem::exists(kept)) return;
  if (replaced_file::move_abandoned(partial, kept) || replaced_file::is_being_written(partial)) return;
  refuse(partial, "was left by a run that was killed, and cannot be renamed to '" + kept + "'; move it away");
}

void require_numbers(const std::string& path, const recording_header& header) {
  if (header.ranks() > most_workers || header.shards > most_workers)
    refuse(path, fmt::format("can number 65536 workers and shards, not {}",
                             std::max(header.ranks(), header.shards)));
}

/// What a recording may do with its file, which must live as long.
recording_writer::file_calls calls_of(replaced_file* file, const std::string& path) {
  recording_writer::file_calls calls{[file] { return file->keep(); }, [file] { return file->sync(); }};
  if (!replaced_file::can_replace(path)) return calls;
  calls.leave = [file](std::uint64_t bytes) { return file->leave(bytes); };
  calls.room = [path] {
    std::error_code unknown;
    const auto folder = std::filesystem::path(replaced_file::without_links(path)).parent_path();
    const auto disk = std::filesystem::space(folder.empty() ? "." : folder, unknown);
    return unknown ? 0 : disk.available;
  };
  return calls;
}

std::unique_ptr<recording_writer> open_recording(const std::string& path, const recording_header& header) {
  auto file = std::make_unique<replaced_file>(path, replaced_file::if_taken::fail);
  if (!file->is_open() && errno == EWOULDBLOCK)
    refuse(path, fmt::format("cannot be written: another run is recording into it{}; name another "
                             "file, or wait for its end",
                             format_lock_holder(replaced_file::partial(replaced_file::without_links(path)))));
  const auto require = [&path](bool holds) {
    const int why = errno != 0 ? errno : EIO;
    if (!holds)
      throw std::system_error(why, std::generic_category(), "recording '" + path + "' cannot be written");
  };
  require(file->is_open());
  const recording_writer::file_calls calls = calls_of(file.get(), path); // the writer owns the file
  auto writer = std::make_unique<recording_writer>(std::move(file), path, header, calls);
  require(!writer->failed());
  return writer;
}

/// As open_recording(). The run that goes on may do so without a recording, if it is told why.
std::unique_ptr<recording_writer> open_to_go_on(const std::string& path, const recording_header& header) {
  try {
    return open_recording(path, header);
  } catch (const std::system_error& e) {
    throw recording_error(e.what());
  }
}

} // namespace

} // namespace mailgrad::recording_file

namespace mailgrad {

recording parse_recording(std::string_view bytes, const std::string& name) {
  constexpr std::size_t tail = recording_file::checksum_bytes + recording_file::last_word.size();
  recording_file::require_known(bytes, name);
  if (bytes.size() < recording_file::first_word.size() + 8 + tail ||
      !bytes.ends_with(recording_file::last_word))
    recording_file::refuse(name,
                           "is cut short, or has more behind its end: expected 'recorded' as its last word");
  const std::string_view body = bytes.substr(0, bytes.size() - tail);
  const std::uint64_t expected = number_in<4>(bytes.substr(body.size()));
  const std::uint64_t found = recording_file::crc(0, body);
  if (expected != found)
    recording_file::refuse(name, fmt::format("is damaged: expected checksum {}, found {}", expected, found));
  return recording_file::parser(bytes.substr(0, bytes.size() - recording_file::last_word.size()), name)
      .parse();
}

recording parse_killed_recording(std::string_view bytes, const std::string& name) {
  recording_file::require_known(bytes, name);
  return recording_file::parser(bytes, name).parse_killed();
}

recording read_recording(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(recording_file::first_word.size() + 4, '\0');
  if (file.is_open())
    bytes.resize(static_cast<std::size_t>(file.read(bytes.data(), std::ssize(bytes)).gcount()));
  if (file.is_open() && !file.bad())
    recording_file::require_known(bytes, path); // before the whole file is read
  if (file.good()) bytes.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  const int why = errno;
  if (!file.is_open() || file.bad())
    throw std::system_error(why != 0 ? why : EIO, std::generic_category(),
                            "recording '" + path + "' cannot be read" +
                                recording_file::hint_at_partial(path));
  if (recording_file::is_of_killed(path) && !bytes.ends_with(recording_file::last_word)) {
    if (replaced_file::is_being_written(path))
      recording_file::refuse(path,
                             "is being written by a run" + format_lock_holder(path) + "; wait for its end");
    return parse_killed_recording(bytes, path);
  }
  return parse_recording(bytes, path);
}

void require_repeatable(const recording& r) {
  const recorded_incarnations incarnations(r);
  recording_file::require_whole(r, incarnations);
  recording_file::require_right_switches(r, incarnations);
  recording_file::require_each_batch_once(r);
  const std::vector<std::uint64_t> first = recording_file::shard_check(r, incarnations, 0).last_steps();
  for (std::size_t s = 1; s < r.entries.size(); ++s) {
    const std::vector<std::uint64_t> steps = recording_file::shard_check(r, incarnations, s).last_steps();
    const auto [here, there] = std::ranges::mismatch(steps, first);
    if (!r.killed && there != first.end())
      recording_file::refuse(
          r.name,
          fmt::format("has other gradients on shard {} than on shard 0: of worker {} up to step {}, there "
                      "up to {}",
                      s, there - first.begin(), *here, *there));
  }
}

recording_writer::recording_writer(std::unique_ptr<std::ostream> out, std::string name,
                                   const recording_header& header, file_calls file)
    : out_(std::move(out)), name_(std::move(name)), file_(std::move(file)) {
  write_header(header);
}

void recording_writer::begin_again(const recording_header& header) {
  checksum_ = 0;
  whole_ = 0;
  ends_.clear();
  out_->seekp(0);
  write_header(header);
}

void recording_writer::write_header(const recording_header& header) {
  using namespace recording_file;
  const std::string text = text_of(header);
  std::string bytes(first_word);
  append_number<4>(bytes, known_format);
  append_number<4>(bytes, text.size());
  write(bytes + text);
  header_ = whole_;
}

void recording_writer::write(std::string bytes, std::string_view last) {
  if (failure_ != 0) return;
  checksum_ = recording_file::crc(checksum_, bytes);
  const std::size_t summed = bytes.size();
  append_number<recording_file::checksum_bytes>(bytes, checksum_);
  checksum_ = recording_file::crc(checksum_, std::string_view(bytes).substr(summed));
  bytes += last;
  errno = 0;
  out_->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out_->flush()) failure_ = errno ? errno : EIO;
  if (failure_ != 0) return;
  whole_ += bytes.size();
  note_end_of_part();
}

/// A long recording has too many parts to note the end of each.
void recording_writer::note_end_of_part() {
  constexpr std::size_t most = 4096;
  if (!ends_.empty() && whole_ - ends_.back() < apart_) return;
  ends_.push_back(whole_);
  if (ends_.size() < most) return;
  for (std::size_t i = 0; i < most / 2; ++i) ends_[i] = ends_[2 * i];
  ends_.resize(most / 2);
  apart_ = whole_ / ends_.size();
}

/// 0 if no part is whole before that. A header alone has nothing to repeat.
std::uint64_t recording_writer::end_of_part_before(std::uint64_t bytes) const {
  if (bytes >= whole_) return whole_ > header_ ? whole_ : 0;
  const auto after = std::ranges::upper_bound(ends_, bytes);
  return after == ends_.begin() || *std::prev(after) <= header_ ? 0 : *std::prev(after);
}

void recording_writer::add_entries(std::uint32_t shard, std::span<const order_entry> entries) {
  if (entries.empty() || failed()) return;
  std::string bytes = recording_file::part(shard, entries.size());
  bytes.reserve(bytes.size() + entries.size() * recording_file::entry_bytes);
  for (const order_entry& t : entries) {
    append_number<1>(bytes, static_cast<std::uint64_t>(t.what));
    append_number<2>(bytes, t.worker.value);
    append_number<5>(bytes, t.step.value);
    append_number<8>(bytes, static_cast<std::uint64_t>(t.arrived));
  }
  write(std::move(bytes));
}

/// A part for each run of deals of one kind, so that their order is kept.
void recording_writer::add_deals(std::span<const recorded_deal> deals) {
  while (!deals.empty()) {
    const auto next =
        std::ranges::find_if(deals, [&](const recorded_deal& d) { return d.what != deals.front().what; });
    const auto count = static_cast<std::size_t>(next - deals.begin());
    add_alike(deals.first(count));
    deals = deals.subspan(count);
  }
}

void recording_writer::add_alike(std::span<const recorded_deal> deals) {
  std::string bytes = recording_file::part(recording_file::source_of(deals.front().what), deals.size());
  bytes.reserve(bytes.size() + deals.size() * recording_file::deal_bytes);
  for (const recorded_deal& d : deals) {
    append_number<2>(bytes, d.worker.value);
    append_number<6>(bytes, d.number);
  }
  write(std::move(bytes));
}

void recording_writer::add_switch(const recorded_switch& s) {
  const std::string text = recording_file::text_of(s);
  write(recording_file::part(recording_file::switch_source, text.size()) + text);
}

void recording_writer::sync() {
  if (failure_ == 0 && file_.sync) failure_ = file_.sync();
}

recording_writer::~recording_writer() {
  if (stays_ && !over_ && file_.leave) file_.leave(whole_);
}

recording_account recording_writer::give_up(std::uint64_t room) {
  over_ = true;
  recording_account what{.file = name_, .bytes = whole_, .failure = why_failed()};
  if (!file_.leave) return what;
  const std::uint64_t there = file_.room ? file_.room() : room;
  const std::uint64_t lacking = std::min(whole_, room - std::min(room, there));
  what.kept_bytes = end_of_part_before(whole_ - lacking);
  what.removed = what.kept_bytes == 0;
  what.kept = file_.leave(what.kept_bytes);
  if (what.kept.empty()) what.kept_bytes = 0;
  return what;
}

void recording_writer::end(const recording_end& e) {
  over_ = true;
  const std::string text = recording_file::text_of(e);
  write(recording_file::part(recording_file::end_source, text.size()) + text, recording_file::last_word);
  if (failure_ == 0 && file_.keep) failure_ = file_.keep();
  if (failure_ != 0) throw std::runtime_error("recording '" + name_ + "' cannot be written: " + why_failed());
}

std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header) {
  recording_file::require_numbers(path, header);
  if (replaced_file::can_replace(path)) recording_file::keep_killed(path);
  return recording_file::open_recording(path, header);
}

std::unique_ptr<recording_writer> continue_recording(const std::string& path, const recording_header& header,
                                                     const recording& before) {
  recording_file::require_numbers(path, header);
  const std::string real = replaced_file::without_links(path);
  const std::string partial = replaced_file::partial(real);
  const std::string kept = real + std::string(recording_file::before_suffix);
  if (before.name == partial && !replaced_file::move_abandoned(partial, kept))
    recording_file::refuse(partial, fmt::format("is being written by a run{}, or cannot be renamed to '{}'",
                                                format_lock_holder(partial), kept));
  if (before.name != partial && before.name != kept && replaced_file::can_replace(path))
    recording_file::keep_killed(path);
  auto again = recording_file::open_to_go_on(path, header);
  write_again(*again, before);
  again->sync(); // before the only other copy goes
  if (again->failed())
    recording_file::refuse(
        path, fmt::format("cannot be written with what lies before the checkpoint: {}", again->why_failed()));
  std::error_code ignored;
  std::filesystem::remove(kept, ignored);
  again->keep_if_abandoned();
  return again;
}

} // namespace mailgrad
