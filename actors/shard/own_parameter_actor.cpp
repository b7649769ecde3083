#include <mailgrad/actors/shard/own_parameter_actor.hpp>

#include <mailgrad/engine/worker/worker_devices.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <stdexcept>

namespace mailgrad {

void require_own_parameter_actor(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (!o.parameter_actor) return;
  const std::string named = "parameter actor '" + o.parameter_actor->name + "'";
  if (!o.parameter_actor->spawn) throw std::invalid_argument(named + ": there is no function that spawns it");
  if (has_hogwild(policies)) throw std::invalid_argument(named + ": hogwild has no parameter actors");
  if ((policies.size() > 1 || is_automatic(o.policy)) && !o.parameter_actor->switches)
    throw std::invalid_argument(named + " switches no policy; name one alone");
  if (cure_spec(o.cure, workers_of(o)).traits().pull)
    throw std::invalid_argument("cure '" + o.cure + "': workers would be drawn to what " + named +
                                " knows nothing of");
  if (!o.record.empty() || o.replay)
    throw std::invalid_argument("record: " + named + " does not tell the order in which it takes gradients");
}

} // namespace mailgrad
