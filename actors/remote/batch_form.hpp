#pragma once

#include <mailgrad/actors/remote/body_form.hpp>

namespace mailgrad::remote {

/// Mini-batches as bytes: the shapes of their tensors, then the elements of all of them.
class batch_form final : public body_form {
public:
  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;
};

} // namespace mailgrad::remote
