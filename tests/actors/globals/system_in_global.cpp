#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/run/run_crew.hpp>

// An actor system in a global variable, with an actor that main() has spawned. It ends after the variables of
// the main thread.

namespace {

mailgrad::run_home home({});

class idle_actor {
public:
  static constexpr const char* name = "test.idle-actor";
  explicit idle_actor(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior() {
    return {mailgrad::messaging::on(self_, [this](const mailgrad::give_up&) { self_->quit(); })};
  }

private:
  caf::event_based_actor* self_;
};

} // namespace

int main() {
  namespace messaging = mailgrad::messaging;
  messaging::send_anonymously(messaging::spawn<idle_actor>(home.system()), mailgrad::give_up{});
}
