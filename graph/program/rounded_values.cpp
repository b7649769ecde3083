#include <mailgrad/graph/program/rounded_values.hpp>

#include <mailgrad/graph/bfloat16_form.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/kernels/round_floats.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace mailgrad {

namespace {

/// Rounds a value for the products that read it.
class round_executable : public executable {
public:
  explicit round_executable(std::size_t n) : n_(n) {}
  void run(const stream& s, const call& c) override { round_floats(s, {c.in(0), n_}, c.out<bfloat16>()); }

private:
  std::size_t n_;
};

bfloat16_form* form_of(const planned_step& s) { return dynamic_cast<bfloat16_form*>(s.work.get()); }

/// An operand or a result of a step.
struct place_in_step {
  bfloat16_form* form;
  std::size_t number;
};

/// Who makes a value and who reads it.
struct value_users {
  std::optional<place_in_step> maker;
  std::vector<place_in_step> readers;

  bool may_be_rounded() const {
    const auto may_read = [](const place_in_step& r) { return r.form && r.form->may_read(r.number); };
    return maker && maker->form && maker->form->may_write(maker->number) && !readers.empty() &&
           std::ranges::all_of(readers, may_read);
  }
};

std::vector<value_users> users_of(const program_plan& plan) {
  std::vector<value_users> users(plan.storages.size());
  for (const planned_step& s : plan.steps) {
    for (std::size_t i = 0; i < s.outputs.size(); ++i) users[s.outputs[i]].maker = {form_of(s), i};
    for (std::size_t i = 0; i < s.inputs.size(); ++i) users[s.inputs[i]].readers.push_back({form_of(s), i});
  }
  return users;
}

/// Rounds those values that need no float32 at all. Returns which they are.
std::vector<char> round_where_made(program_plan& plan) {
  std::vector<char> rounded(plan.storages.size());
  const std::vector<value_users> users = users_of(plan);
  for (std::size_t v = 0; v < users.size(); ++v) {
    storage& s = plan.storages[v];
    if (s.where != storage::place::arena || s.fetch != storage::none || s.kept) continue;
    if (!users[v].may_be_rounded()) continue;
    users[v].maker->form->write_rounded(users[v].maker->number);
    for (const place_in_step& r : users[v].readers) r.form->read_rounded(r.number);
    s.bytes = s.bytes / sizeof(float) * sizeof(bfloat16);
    rounded[v] = 1;
  }
  return rounded;
}

/// Makes the steps of a plan anew, with copies of the values that are still to be rounded.
class copies_of_values {
public:
  copies_of_values(program_plan& plan, std::vector<char> rounded)
      : plan_(plan), rounded_(std::move(rounded)) {}

  void make() {
    for (planned_step& s : std::exchange(plan_.steps, {})) {
      if (bfloat16_form* const form = form_of(s))
        for (std::size_t i = 0; i < s.inputs.size(); ++i)
          if (form->needs(i) && !rounded_[s.inputs[i]]) {
            form->read_rounded(i);
            s.inputs[i] = copy_of(s.inputs[i], s.words);
          }
      plan_.steps.push_back(std::move(s));
    }
    tell_lifetimes();
  }

private:
  std::size_t copy_of(std::size_t from, const std::string& words) {
    const auto known = copies_.find(from);
    if (known != copies_.end()) return known->second;
    const std::size_t n = plan_.storages[from].bytes / sizeof(float);
    storage copy;
    copy.bytes = n * sizeof(bfloat16);
    plan_.storages.push_back(std::move(copy));
    rounded_.push_back(1);
    planned_step made{std::make_unique<round_executable>(n)};
    made.inputs = {from};
    made.outputs = {plan_.storages.size() - 1};
    made.words = words + " of a rounded operand";
    plan_.steps.push_back(std::move(made));
    return copies_[from] = plan_.storages.size() - 1;
  }

  /// The steps have moved. What is fetched lives to the end.
  void tell_lifetimes() {
    std::vector<char> seen(plan_.storages.size());
    const auto use = [&](std::size_t v, std::size_t step) {
      storage& s = plan_.storages[v];
      if (!std::exchange(seen[v], 1)) s.first = step;
      s.last = step;
    };
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      for (const std::size_t v : plan_.steps[i].inputs) use(v, i);
      for (const std::size_t v : plan_.steps[i].outputs) use(v, i);
    }
    for (const std::size_t v : plan_.fetches) plan_.storages[v].last = plan_.steps.size();
  }

  program_plan& plan_;
  std::vector<char> rounded_;                 ///< by storage
  std::map<std::size_t, std::size_t> copies_; ///< by the storage of the value
};

} // namespace

void round_products(program_plan& plan) { copies_of_values(plan, round_where_made(plan)).make(); }

} // namespace mailgrad
