#include <mailgrad/graph/name_scope.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad {

name_scope::name_scope(graph& g, std::string_view name, std::optional<sharing> share,
                       std::source_location where)
    : graph_(g), around_(g.scope_) {
  if (name.empty() || name.front() == '/' || name.back() == '/')
    throw graph_error(fmt::format("{}: name scope '{}': a name such as 'tower' or 'tower/layer' is needed",
                                  g.line_at(where), name));
  g.scope_.prefix.append(name).append(1, '/');
  if (!share) return;
  g.scope_.share = *share;
  const std::string full = g.scope_.prefix.substr(0, g.scope_.prefix.size() - 1);
  g.scope_.opened = fmt::format("name scope '{}', opened at {},", full, line_of(where));
}

name_scope::~name_scope() { graph_.scope_ = std::move(around_); }

} // namespace mailgrad
