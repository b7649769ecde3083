#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation.hpp>

#include <algorithm>
#include <memory>
#include <source_location>
#include <utility>
#include <vector>

namespace mailgrad::test {

/// Copies its input to each output. It notes for each call what it was told about the next use of the output.
/// Its gradient does the same.
class noting_operation : public operation {
public:
  using notes = std::shared_ptr<std::vector<next_use>>;

  explicit noting_operation(notes into, std::size_t outputs = 1)
      : notes_(std::move(into)), outputs_(outputs) {}

  std::string_view name() const noexcept override { return "note"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    return std::vector<value_type>(outputs_, inputs[0]);
  }

  std::vector<adjoint> gradient(std::span<const value>, std::span<const value>,
                                std::span<const std::optional<value>> dy) const override {
    return {dy[0]->owner().apply_one(std::make_shared<noting_operation>(notes_), {*dy[0]},
                                     std::source_location::current())};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    struct noting : executable {
      noting(notes n, std::size_t count) : into(std::move(n)), size(count) {}
      void run(const stream&, const call& c) override {
        into->push_back(c.output_use);
        for (std::size_t i = 0; i < c.outputs.size(); ++i) std::copy_n(c.in(0), size, c.out(i));
      }
      notes into;
      std::size_t size;
    };
    return std::make_unique<noting>(notes_, inputs[0].dims.size());
  }

private:
  notes notes_;
  std::size_t outputs_;
};

} // namespace mailgrad::test
