#include <mailgrad/engine/record/recording_file.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace mailgrad {

namespace {

std::string part(std::uint32_t source, std::size_t count) {
  std::string bytes;
  append_number<4>(bytes, source);
  append_number<4>(bytes, count);
  return bytes;
}

std::uint32_t source_of(recorded_deal::kind what) {
  switch (what) {
  case recorded_deal::kind::begun:
    return recording_file::begun_source;
  case recorded_deal::kind::returned:
    return recording_file::returned_source;
  case recorded_deal::kind::dealt:
    break;
  }
  return recording_file::feeder_source;
}

/// Renames the recording of a killed run, because a script may start the next run before a user has looked at
/// it. If it cannot be renamed, the next run is refused. If an older one is kept already, that one remains
/// and the newer one is overwritten.
void keep_killed(const std::string& path) {
  const std::string real = replaced_file::without_links(path);
  const std::string partial = replaced_file::partial(real),
                    kept = real + std::string(recording_file::killed_suffix);
  std::string begin(recording_file::first_word.size(), '\0');
  std::ifstream(partial, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (begin != recording_file::first_word || std::filesystem::exists(kept)) return;
  if (replaced_file::move_abandoned(partial, kept) || replaced_file::is_being_written(partial)) return;
  recording_file::refuse(partial, "was left by a run that was killed, and cannot be renamed to '" + kept +
                                      "'; move it away");
}

} // namespace

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
  const std::string text = recording_file::text_of(header);
  std::string bytes(recording_file::first_word);
  append_number<4>(bytes, recording_file::known_format);
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

void recording_writer::add_turns(std::uint32_t shard, std::span<const order_entry> turns) {
  if (turns.empty() || failed()) return;
  std::string bytes = part(shard, turns.size());
  bytes.reserve(bytes.size() + turns.size() * recording_file::turn_bytes);
  for (const order_entry& t : turns) {
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
  std::string bytes = part(source_of(deals.front().what), deals.size());
  bytes.reserve(bytes.size() + deals.size() * recording_file::deal_bytes);
  for (const recorded_deal& d : deals) {
    append_number<2>(bytes, d.worker.value);
    append_number<6>(bytes, d.number);
  }
  write(std::move(bytes));
}

void recording_writer::add_switch(const recorded_switch& s) {
  const std::string text = recording_file::text_of(s);
  write(part(recording_file::switch_source, text.size()) + text);
}

void recording_writer::sync() {
  if (failure_ == 0 && file_.sync) failure_ = file_.sync();
}

std::string recording_writer::why_failed() const { return std::generic_category().message(failure_); }

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
  write(part(recording_file::end_source, text.size()) + text, recording_file::last_word);
  if (failure_ == 0 && file_.keep) failure_ = file_.keep();
  if (failure_ != 0) throw std::runtime_error("recording '" + name_ + "' cannot be written: " + why_failed());
}

namespace {

void require_numbers(const std::string& path, const recording_header& header) {
  if (header.ranks() > recording_file::most_workers || header.shards > recording_file::most_workers)
    recording_file::refuse(path, fmt::format("can number 65536 workers and shards, not {}",
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
    recording_file::refuse(
        path, fmt::format("cannot be written: another run is recording into it{}; name another "
                          "file, or wait for its end",
                          lock_holder_in_words(replaced_file::partial(replaced_file::without_links(path)))));
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

std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header) {
  require_numbers(path, header);
  if (replaced_file::can_replace(path)) keep_killed(path);
  return open_recording(path, header);
}

std::unique_ptr<recording_writer> continue_recording(const std::string& path, const recording_header& header,
                                                     const recording& before) {
  require_numbers(path, header);
  const std::string real = replaced_file::without_links(path);
  const std::string partial = replaced_file::partial(real);
  const std::string kept = real + std::string(recording_file::before_suffix);
  if (before.name == partial && !replaced_file::move_abandoned(partial, kept))
    recording_file::refuse(partial, fmt::format("is being written by a run{}, or cannot be renamed to '{}'",
                                                lock_holder_in_words(partial), kept));
  if (before.name != partial && before.name != kept && replaced_file::can_replace(path)) keep_killed(path);
  auto again = open_to_go_on(path, header);
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
