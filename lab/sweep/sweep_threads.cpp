#include <mailgrad/lab/sweep/sweep_threads.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mailgrad::lab {

void run_on_threads(std::span<const std::size_t> cells, unsigned threads,
                    const std::function<void(std::size_t)>& run, const std::function<bool()>& stop) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr why;
  const auto work = [&] {
    while (!failed && !stop()) {
      const std::size_t at = next++;
      if (at >= cells.size()) return;
      try {
        run(cells[at]);
      } catch (...) {
        failed = true;
        const std::lock_guard guard(mutex);
        if (!why) why = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t n = std::min<std::size_t>(std::max(threads, 1U), cells.size());
    for (std::size_t i = 1; i < n; ++i) others.emplace_back(work);
    work();
  }
  if (why) std::rethrow_exception(why);
}

} // namespace mailgrad::lab
