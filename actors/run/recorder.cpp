#include <mailgrad/actors/run/recorder.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <utility>

namespace mailgrad {
using messaging::on, messaging::send, messaging::watch;

caf::behavior recorder::make_behavior() {
  return {
      on(self_,
         [this](const order_noted& x) {
           options_.file->add_turns(x.shard.value, x.turns);
           options_.file->add_deals(x.deals);
         }),
      on(self_, [this](const switch_noted& x) { options_.file->add_switch(*x.what); }),
      on(self_, [this](const end_recording& x) { on_end(x); }),
      on(self_,
         [this](const feeder_lost&) {
           end_with("the recording is not complete: the feeder was lost before its end");
         }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void recorder::on_end(const end_recording& x) {
  if (!x.feeder) return end(*x.what);
  watch(self_, x.feeder, feeder_lost{});
  send(self_, x.feeder, x);
}

void recorder::end(const recording_end& e) {
  std::string why;
  try {
    options_.file->end(e);
  } catch (const std::exception& failure) {
    why = failure.what();
  }
  end_with(why);
}

void recorder::end_with(const std::string& why) {
  options_.on_end(why);
  self_->quit();
}

} // namespace mailgrad
