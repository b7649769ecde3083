#include <mailgrad/actors/shard/update_helper.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <exception>

namespace mailgrad {

using messaging::on, messaging::send;

caf::behavior update_helper::make_behavior() {
  return {
      on(self_, [this](const help_update& x) { help(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void update_helper::help(const help_update& x) {
  parallel_update::progress done{};
  try {
    done = x.work->compute_part();
  } catch (const std::exception& e) {
    return send(self_, x.shard, update_failed{e.what()});
  }
  if (done == parallel_update::progress::computed)
    send(self_, caf::actor_cast<caf::actor>(self_), x);
  else if (done == parallel_update::progress::complete)
    send(self_, x.shard, update_helped{});
}

} // namespace mailgrad
