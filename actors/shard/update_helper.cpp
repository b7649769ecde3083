#include <mailgrad/actors/shard/update_helper.hpp>

namespace mailgrad {

caf::behavior update_helper::make_behavior() {
  return {
      on([this](const help_update& x) { help(x); }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

void update_helper::help(const help_update& x) {
  parallel_update::progress done{};
  try {
    done = x.work->compute_part();
  } catch (const std::exception& e) {
    return send(x.shard, update_failed{e.what()});
  }
  if (done == parallel_update::progress::computed)
    send(myself(), x);
  else if (done == parallel_update::progress::complete)
    send(x.shard, update_helped{});
}

} // namespace mailgrad
