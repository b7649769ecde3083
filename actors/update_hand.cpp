#include <mailgrad/actors/update_hand.hpp>

#include <mailgrad/actors/messages.hpp>

#include <exception>

namespace mailgrad {

caf::behavior update_hand::make_behavior() {
  return {
      on(self_, [this](const help_update& x) { help(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void update_hand::help(const help_update& x) {
  divided_update::progress done{};
  try {
    done = x.work->compute_part(host_stream{});
  } catch (const std::exception& e) {
    return send(self_, x.shard, update_failed{e.what()});
  }
  if (done == divided_update::progress::computed)
    send(self_, caf::actor_cast<caf::actor>(self_), x);
  else if (done == divided_update::progress::complete)
    send(self_, x.shard, update_helped{});
}

} // namespace mailgrad
