#pragma once

#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

namespace mailgrad::net {

/// Does something on the thread of a loop and waits for the result; at once, if this is that thread. `loop`
/// has post(), which any thread may call.
/// Errors  those of `work`.
template <class Loop, class Work>
std::invoke_result_t<Work> call_on(const std::thread& thread, Loop& loop, Work work) {
  if (std::this_thread::get_id() == thread.get_id()) return work();
  const auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
  auto result = task->get_future();
  loop.post([task] { (*task)(); });
  return result.get();
}

} // namespace mailgrad::net
