#include <mailgrad/actors/run/prepared_shards.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
using messaging::on, messaging::send, messaging::spawn, messaging::watch;

namespace {

/// Asks a shard for its books, which it tells as soon as it is made. Promises its last words if it ends
/// before, else no words.
class shard_question {
public:
  static constexpr const char* name = "mailgrad.shard-question";

  shard_question(caf::event_based_actor* self, caf::actor shard,
                 std::shared_ptr<std::promise<std::string>> end)
      : self_(self), shard_(std::move(shard)), end_(std::move(end)) {}

  caf::behavior make_behavior() {
    watch(self_, shard_, shard_lost{});
    send(self_, shard_, copy_books{});
    return {
        on(self_, [this](const shard_books&) { tell({}); }),
        on(self_, [this](const shard_lost& x) { tell(x.why.empty() ? "it has ended" : x.why); }),
    };
  }

private:
  void tell(const std::string& words) {
    end_->set_value(words);
    self_->quit();
  }

  caf::event_based_actor* self_;
  caf::actor shard_;
  std::shared_ptr<std::promise<std::string>> end_;
};

/// All that is left of the exception that ended an actor are its words.
[[noreturn]] void refuse(std::size_t shard, const std::string& why) {
  if (why.find("out of memory: ") != std::string::npos) throw out_of_memory(why);
  throw std::runtime_error(fmt::format("shard {}: {}", shard, why));
}

} // namespace

void wait_until_prepared(caf::actor_system& system, std::span<const caf::actor> shards) {
  std::vector<std::future<std::string>> answers;
  std::vector<caf::actor> questions; // an actor that nobody knows would end, and miss that its shard has
  for (const caf::actor& shard : shards) {
    const auto end = std::make_shared<std::promise<std::string>>();
    answers.push_back(end->get_future());
    questions.push_back(spawn<shard_question>(system, shard, end));
  }
  for (std::size_t s = 0; s < answers.size(); ++s)
    if (const std::string why = answers[s].get(); !why.empty()) refuse(s, why);
}

} // namespace mailgrad
