#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/tensor/fail_with.hpp>

namespace mailgrad {
namespace {

tensor copy_of(const tensor& from) {
  tensor copy(from.dims(), from.type());
  std::copy_n(from.data(), from.size() * byte_size(from.type()), copy.data());
  return copy;
}

tensor first_values(const node& n) {
  tensor made(n.outputs[0].dims);
  initialise(std::get<variable_node>(n.what).first_values, 1, n.name, made.values());
  return made;
}

void require_fitting(const feed& f) {
  const value_type given{f.values->dims(), f.values->type()};
  if (given == f.source.type()) return;
  const node& n = f.source.owner().of(f.source);
  fail_with<graph_error>("{}: '{}' is {}, and is fed with {}", line_of(n), n.name, to_string(f.source.type()),
                         to_string(given));
}

bool is_fed(const value& v, const feeds& fed) {
  return std::ranges::find(fed, v, &feed::source) != fed.end();
}

} // namespace

feed::feed(const value& what, const tensor& holds) : feed(what, copy_of(holds)) {}

trial_run::trial_run(std::span<const value> fetches, const feeds& fed)
    : fetches_(fetches.begin(), fetches.end()), program_(fetches.front().owner(), fetches) {
  graph& model = fetches.front().owner();
  for (const feed& f : fed) {
    require_fitting(f);
    held_.emplace_back(f.source, copy_of(*f.values));
  }
  for (const value& v : model.variables())
    if (!is_fed(v, fed)) held_.emplace_back(v, first_values(model.of(v)));
  for (const value& v : model.inputs())
    if (program_.needs(v) && !is_fed(v, fed))
      fail_with<graph_error>("{}: input '{}' is not fed; give it a feed", line_of(model.of(v)),
                             model.of(v).name);
  for (auto& [source, values] : held_) program_.bind(source, values.data());
}

tensor& trial_run::of(const value& source) {
  const auto found = std::ranges::find(held_, source, &std::pair<value, tensor>::first);
  if (found == held_.end()) throw graph_error("trial_run: a value that is neither a variable nor fed");
  return found->second;
}

void trial_run::run(std::uint64_t step) {
  program_.run(host_stream{}, step, [] {});
}

} // namespace mailgrad
