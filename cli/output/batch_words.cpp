#include <mailgrad/cli/output/batch_words.hpp>

#include <mailgrad/cli/output/worker_words.hpp>
#include <mailgrad/tensor/byte_count.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

namespace {

/// "3 sent to worker 1 and lost with it"
std::vector<std::string> lost_in_words(const std::vector<batch_origins>& batches) {
  std::vector<std::string> each;
  std::uint64_t all = 0;
  for (std::size_t w = 0; w < batches.size(); ++w) {
    if (batches[w].lost == 0) continue;
    all += batches[w].lost;
    each.push_back(fmt::format("{} sent to worker {} and lost with it", batches[w].lost, w));
  }
  if (each.size() <= most_workers_named) return each;
  return {fmt::format("{} sent to {} workers and lost with them", all, each.size())};
}

} // namespace

std::string origins_in_words(const std::vector<batch_origins>& batches) {
  std::vector<std::size_t> by_own, by_sent; // workers
  batch_origins all;
  for (std::size_t w = 0; w < batches.size(); ++w) {
    if (batches[w].own > 0) by_own.push_back(w);
    if (batches[w].sent > 0) by_sent.push_back(w);
    all.own += batches[w].own;
    all.sent += batches[w].sent;
    all.spared_bytes += batches[w].spared_bytes;
  }
  const auto told = [](std::uint64_t count, const char* whence, const std::vector<std::size_t>& workers) {
    const std::string whose =
        workers.size() > most_workers_named
            ? fmt::format("{} workers", workers.size())
            : fmt::format("worker{} {}", workers.size() == 1 ? "" : "s", fmt::join(workers, ", "));
    return fmt::format("{} batch{} {} {}", count, count == 1 ? "" : "es", whence, whose);
  };
  std::string text;
  if (all.own > 0)
    text += fmt::format("{}, {} not sent", told(all.own, "from the own disk of", by_own),
                        byte_count(all.spared_bytes).text());
  if (all.sent > 0) text += (text.empty() ? "" : "; ") + told(all.sent, "sent to", by_sent);
  for (const std::string& lost : lost_in_words(batches)) text += (text.empty() ? "" : "; ") + lost;
  return text.empty() ? "none was trained" : text;
}

} // namespace mailgrad
