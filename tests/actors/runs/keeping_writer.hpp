#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// Keeps checkpoints in memory.
class keeping_writer {
public:
  static constexpr const char* name = "mailgrad.keeping-writer";

  using kept_checkpoints = std::vector<std::shared_ptr<const checkpoint>>;

  keeping_writer(caf::event_based_actor* self, std::shared_ptr<kept_checkpoints> kept)
      : self_(self), kept_(std::move(kept)) {}

  caf::behavior make_behavior() {
    return {
        messaging::on(self_,
                      [this](const write_checkpoint& x) {
                        const std::string where = "checkpoint of step " + std::to_string(x.steps);
                        kept_->push_back(std::make_shared<const checkpoint>(checkpoint::of(x.parts, where)));
                        return checkpoint_written{x.number, x.steps, where, {}, 0, 0};
                      }),
        messaging::on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<kept_checkpoints> kept_;
};

} // namespace mailgrad::testing
