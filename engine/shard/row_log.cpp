#include <mailgrad/engine/shard/row_log.hpp>

namespace mailgrad {

bool row_log::catch_up(std::uint64_t version, std::span<const float> from, std::span<float> to) const {
  if (version > last_ || last_ - version > known_) return false;
  for (std::uint64_t v = version + 1; v <= last_; ++v)
    for (const written& w : updates_[v % depth])
      std::copy_n(from.data() + w.first, w.width, to.data() + w.first);
  return true;
}

namespace {

/// A growing_buffer has less than twice as many bytes as it needs, and has outgrown fewer than these.
constexpr std::size_t room_for_each = 4;

} // namespace

bool gpu_row_log::lists_rows(std::size_t named, std::size_t floats) noexcept {
  return named * depth * room_for_each <= floats;
}

void gpu_row_log::note(std::size_t t, std::size_t floats, std::span<const row_gradient> lists) {
  std::size_t named = 0;
  for (const row_gradient& g : lists) named += g.rows.size();
  if (!lists_rows(named, floats)) return newest().lists.push_back({t, row_copy::all, nullptr});
  for (const row_gradient& g : lists)
    if (!g.rows.empty()) newest().lists.push_back({t, g.rows.size(), g.rows.data()});
}

/// One launch copies all lists, each as a row of numbers, which are as wide as floats.
void gpu_row_log::end() {
  static_assert(sizeof(float) == sizeof(std::int32_t));
  std::size_t count = 0;
  for (const written& w : newest().lists) count += w.numbers ? w.count : 0;
  if (count == 0) return;
  auto* to = static_cast<std::int32_t*>(newest().numbers.of(count * sizeof(std::int32_t)));
  copies_.clear();
  for (written& w : newest().lists) {
    if (!w.numbers) continue;
    copies_.push_back(
        {reinterpret_cast<const float*>(w.numbers), reinterpret_cast<float*>(to), w.count, 0, 1});
    w.numbers = std::exchange(to, to + w.count);
  }
  copy_rows(at_->where(), copies_);
}

/// Whether the updates behind `version` name at least as many rows of a table as it has.
bool gpu_row_log::is_whole_cheaper(std::uint64_t version, std::size_t t, std::size_t height) const {
  std::size_t named = 0;
  for (std::uint64_t v = version + 1; v <= last_; ++v)
    for (const written& w : updates_[v % depth].lists)
      if (w.table == t) named += w.numbers ? w.count : height;
  return named >= height;
}

bool gpu_row_log::catch_up(std::uint64_t version, std::span<const row_copy> whole,
                           std::vector<row_copy>& copies) const {
  if (version > last_ || last_ - version > known_) return false;
  for (std::size_t t = 0; t < whole.size(); ++t) {
    if (is_whole_cheaper(version, t, whole[t].height())) {
      copies.push_back(whole[t]);
      continue;
    }
    for (std::uint64_t v = version + 1; v <= last_; ++v)
      for (const written& w : updates_[v % depth].lists)
        if (w.table == t) {
          row_copy& some = copies.emplace_back(whole[t]);
          some.count = w.count;
          some.numbers = w.numbers;
        }
  }
  return true;
}

} // namespace mailgrad
