#pragma once

#include <mailgrad/actors/remote/gradient_form.hpp>

namespace mailgrad::remote {

/// Weights as bytes. They go from the memory of the shard, which does not write to it while they are sent,
/// and arrive in memory of the worker.
class weights_form final : public body_form {
public:
  explicit weights_form(exchange_terms terms);

  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;

private:
  exchange_terms terms_;
  std::vector<object_pool<memory>> weights_; ///< by shard
};

} // namespace mailgrad::remote
