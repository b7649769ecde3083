#include <mailgrad/engine/worker/stage_rows.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace mailgrad {

namespace {

gradient_rows listed(const stage_rows& list) {
  return listed_rows({list.variable, list.width, list.rows, list.values});
}

gradient_rows copied(std::span<const stage_rows> lists, row_memory& memory) {
  const std::size_t width = lists.front().width;
  std::size_t count = 0;
  for (const stage_rows& list : lists) count += listed(list).rows.size();
  const std::span rows(reinterpret_cast<std::int32_t*>(memory.take(count * sizeof(std::int32_t))), count);
  const std::span values(reinterpret_cast<float*>(memory.take(count * width * sizeof(float))), count * width);
  std::size_t first = 0;
  for (const stage_rows& list : lists) {
    const gradient_rows used = listed(list);
    std::ranges::copy(used.rows, rows.begin() + static_cast<std::ptrdiff_t>(first));
    std::ranges::copy(used.values, values.begin() + static_cast<std::ptrdiff_t>(first * width));
    first += used.rows.size();
  }
  return {lists.front().variable, width, rows, values};
}

} // namespace

std::byte* row_memory::take(std::size_t bytes) {
  host_lane here;
  return take(bytes, here);
}

std::byte* row_memory::take(std::size_t bytes, lane& at) {
  if (used == blocks.size()) blocks.emplace_back();
  memory& m = blocks[used++];
  if (m.bytes() < std::max<std::size_t>(bytes, 1)) { // a list of no rows also has an address
    memory larger = at.allocate(std::max<std::size_t>(bytes, 1));
    std::swap(m, larger);
    if (is_on_card(at) && larger.bytes() > 0) outgrown.push_back(std::move(larger));
  }
  return m.on<std::byte>(at.where()).data();
}

void sort_lists(std::vector<stage_rows>& lists) {
  std::ranges::sort(lists, {},
                    [](const stage_rows& l) { return std::tuple(l.variable, l.micro_batch, l.segment); });
}

std::vector<gradient_rows> joined(std::vector<stage_rows> lists, row_memory& memory) {
  memory.used = 0;
  sort_lists(lists);
  std::vector<gradient_rows> all;
  for (auto begin = lists.begin(); begin != lists.end();) {
    const auto end =
        std::find_if(begin, lists.end(), [&](const stage_rows& l) { return l.variable != begin->variable; });
    if (end - begin == 1)
      all.push_back({begin->variable, begin->width, begin->rows, begin->values});
    else
      all.push_back(copied({begin, end}, memory));
    begin = end;
  }
  return all;
}

} // namespace mailgrad
