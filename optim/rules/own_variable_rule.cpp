#include <mailgrad/optim/rules/own_variable_rule.hpp>

#include <mailgrad/kernels/vectors.hpp>

namespace mailgrad {

namespace {

constexpr std::array<std::string_view, MAILGRAD_PLUGIN_MOST_STATES> names_of_states{
    "state 0", "state 1", "state 2", "state 3", "state 4", "state 5", "state 6", "state 7"};

} // namespace

own_variable_rule::own_variable_rule(const own_rule& rule, std::size_t shard_size,
                                     std::span<const shard_variable> variables)
    : rule_(rule) {
  for (const shard_variable& v : variables) places_.push_back({v, {v.dims.begin(), v.dims.end()}});
  for (const place& p : places_)
    told_.push_back({p.variable.name.c_str(), p.extents.size(), p.extents.data(), p.variable.offset});
  for (std::uint32_t i = 0; i < rule_.table->states; ++i) states_.emplace_back(shard_size * sizeof(float));
}

void own_variable_rule::update(const variable_step& work) {
  const mailgrad_variable& told = told_[work.variable];
  std::array<float*, MAILGRAD_PLUGIN_MOST_STATES> states{};
  for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].as<float>().data() + told.offset;
  if (work.decay != 0)
    scale_in_place(host_stream{}, static_cast<float>(1 - work.rate * work.decay), work.weights);
  const mailgrad_rule_step step{
      work.weights.data(), work.weights.data(), work.gradient.data(),  states.data(), work.weights.size(),
      work.step,           work.rate,           rule_.settings.data(), nullptr,       &told};
  rule_.table->update(&step);
}

std::vector<optimizer_state> own_variable_rule::state() {
  std::vector<optimizer_state> all;
  for (std::size_t i = 0; i < states_.size(); ++i)
    all.push_back({names_of_states[i], states_[i].as<float>()});
  return all;
}

} // namespace mailgrad
