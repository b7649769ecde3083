#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <cstddef>
#include <cstring>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad::testing {

/// The content of `m` if it has this type, otherwise null.
template <class Message>
const Message* as(const caf::mailbox_element& m) {
  const auto& content = m.content();
  return content.match_elements<Message>() ? &content.get_as<Message>(0) : nullptr;
}

/// Writes a message in words, with all fields that its receiver's decisions depend on. The other fields are
/// left out, so that runs that differ only in these count as the same. Left out are times, since the clock
/// stands still, and without `with_values` also the samples and the values computed from them.
class message_texts {
public:
  explicit message_texts(bool with_values) : with_values_(with_values) {}

  /// Errors  std::logic_error for a message of an unknown type.
  std::string operator()(const caf::mailbox_element& m) const {
    std::optional<std::string> text = of_workers(m);
    if (!text) text = of_the_feeder(m);
    if (!text) text = of_a_switch(m);
    if (!text) text = of_the_end(m);
    if (!text) throw std::logic_error("message_texts: no words for " + to_string(m.content()));
    return *text;
  }

private:
  /// The number in a value of a type of identity.hpp; any other value is returned as it is.
  static const auto& number_in(const auto& x) {
    if constexpr (requires { x.value; })
      return x.value;
    else
      return x;
  }
  template <class... Parts>
  static std::string joined(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << number_in(parts));
    return out.str();
  }
  static std::string list(const auto& numbers) {
    std::string text;
    for (const auto n : numbers) text += ' ' + std::to_string(number_in(n));
    return text;
  }
  std::string bytes(std::string_view of) const {
    return with_values_ ? joined(", values ", std::hash<std::string_view>{}(of)) : std::string{};
  }
  std::string values_of(const snapshot& b) const {
    const auto values = b.on_host();
    return bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  std::optional<std::string> of_workers(const caf::mailbox_element& m) const {
    if (as<worker_joined>(m)) return "worker_joined";
    if (as<join_shard>(m)) return "join_shard";
    if (const auto* x = as<push_gradient>(m))
      return joined("push_gradient step ", x->header.id.step, ", read version ", x->header.version_read,
                    " of epoch ", x->header.epoch);
    if (const auto* x = as<shard_weights>(m))
      return joined("shard_weights version ", x->header.version, " of epoch ", x->header.epoch,
                    values_of(x->payload.values));
    if (const auto* x = as<worker_left>(m)) return joined("worker_left ", x->worker);
    if (const auto* x = as<order_entry>(m))
      return joined("order_entry ", static_cast<int>(x->what), " of worker ", x->worker, ", step ", x->step,
                    ", late by ", x->gap);
    return std::nullopt;
  }

  std::optional<std::string> of_the_feeder(const caf::mailbox_element& m) const {
    if (as<next_batch>(m)) return "next_batch";
    if (const auto* x = as<dealt_batch>(m))
      return joined("dealt_batch of ", x->values->size,
                    with_values_ ? joined(", number ", x->values->number) : std::string{});
    if (as<data_exhausted>(m)) return "data_exhausted";
    return std::nullopt;
  }

  std::optional<std::string> of_a_switch(const caf::mailbox_element& m) const {
    if (as<watch_holds>(m)) return "watch_holds";
    if (const auto* x = as<step_reached>(m)) return joined("step_reached ", x->step);
    if (const auto* x = as<pause_worker>(m)) return joined("pause_worker for epoch ", x->epoch);
    if (const auto* x = as<worker_paused>(m))
      return joined("worker_paused for epoch ", x->epoch, " after step ", x->step);
    if (const auto* x = as<switch_policy>(m))
      return joined("switch_policy to ", x->policy, ", epoch ", x->epoch, ", after steps", list(x->steps),
                    ", present", list(x->present));
    if (const auto* x = as<policy_switched>(m)) return joined("policy_switched, epoch ", x->epoch);
    if (const auto* x = as<go_on_dealing>(m))
      return joined("go_on_dealing by_rank ", x->by_rank, ", held at ", x->held_at);
    return std::nullopt;
  }

  std::optional<std::string> of_the_end(const caf::mailbox_element& m) const {
    if (const auto* x = as<worker_finished>(m))
      return joined("worker_finished, produced ", x->report.produced, ", samples ", x->report.samples,
                    bytes({reinterpret_cast<const char*>(&x->report.loss_bits), sizeof(std::uint32_t)}));
    if (as<report_shard>(m)) return "report_shard";
    const auto* x = as<shard_report>(m);
    if (!x) return std::nullopt;
    std::string text = joined("shard_report version ", x->version, values_of(x->values));
    for (const worker_account& account : x->workers) {
      text += joined("; last step ", account.last_step, ", ", to_string(account.ledger), ", gaps");
      for (const auto& [gap, count] : account.gaps.buckets()) text += joined(' ', gap, 'x', count);
    }
    return text;
  }

  bool with_values_;
};

} // namespace mailgrad::testing
